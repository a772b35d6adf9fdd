"""Keys of judges' scores on test sets: hashes of everything that determines the scores."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from assets.code import code_version
from assets.hashing import content_hash
from assets.sources import has_all_scored, recorded_scales, recorded_scores
from care_ops.errors import CareError, JudgeError
from judges.engines.base import Context, Ledger
from judges.engines.factory import revision_of
from judges.items import Item
from judges.spec import JudgeSpec, LanguageModel
from warehouse.items import ItemRecord
from warehouse.testsets import FilesSource, resolve

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from care_ops.scales import RescaledJudge, Scale
    from warehouse.sources.files import RecordedTable

_log = logging.getLogger(__name__)


def judge_item(record: ItemRecord) -> Item:
    """Return the part of an item that a judge may see: id and texts, but not gold."""
    return Item(record.item_id, record.prompt, record.response, record.response_2, record.reference, record.aspect)


def effective_spec(workspace: Workspace, judge: str, testset: str) -> JudgeSpec:
    """Complete a judge's specification with the test set's scale and prompt."""
    spec, declared = workspace.judge(judge), workspace.testset(testset)
    needs, engine = spec.engine.needs, spec.engine
    if isinstance(engine, LanguageModel):
        engine = engine.with_template(declared.prompt)
    scale = declared.scale if spec.scale is None and (needs.recordings or needs.template) else spec.scale
    if needs.recordings and declared.scale is not None:
        scale = declared.scale  # recorded scores were rescaled to this scale when they were read
    if engine is spec.engine and scale == spec.scale:
        return spec
    return spec.model_copy(update={"scale": scale, "engine": engine})


def scales_of_asked(workspace: Workspace, testset: str) -> tuple[RescaledJudge, ...]:
    """Return each judge whose scores must be rescaled, with the judge's scale and the test set's scale."""
    from care_ops.scales import RescaledJudge

    panel = workspace.testset(testset).scale
    return tuple(
        RescaledJudge(judge, own, panel, is_declared=True)
        for judge, own in own_scales(workspace, testset).items()
        if panel is not None and own != panel
    )


def own_scales(workspace: Workspace, testset: str) -> dict[str, Scale]:
    """Return the declared scales of a test set's judges; recorded scores have no scale of their own."""
    specs = map(workspace.judge, workspace.judges_of(testset))
    return {s.name: s.scale for s in specs if s.scale is not None and not s.engine.needs.recordings}


def engine_context(workspace: Workspace, ledger: Ledger | None = None) -> Context:
    """Return the values that a judge's engine needs in addition to the judge's specification."""
    return Context(workspace.root, ledger, workspace.data / "endpoints")


def recorded_table(workspace: Workspace, judge: str, testset: str) -> RecordedTable:
    """Read the recorded scores of a test set; raise ``JudgeError`` if the test set has no score file."""
    table = recorded_scores(workspace, testset)
    if table is None:
        raise JudgeError(
            f"judge {judge!r} has recorded scores, but test set {testset!r} has no score file; name the file under "
            "`scores` in the test set's YAML, or remove the test set from the judge's `testsets`"
        )
    return table


def keys_of_judges(workspace: Workspace, testset: str) -> dict[str, str]:
    """Return the keys of a test set's judges; leave out judges that have recorded scores or no valid key."""
    keys: dict[str, str] = {}
    for judge in workspace.judges_of(testset):
        if workspace.judge(judge).engine.recorded_as is not None:
            continue
        try:
            keys[judge] = judge_key(workspace, judge, testset)
        except CareError as error:
            _log.info("%s: cannot compute the key of judge %s (%s)", testset, judge, error)
    return keys


def judge_key(workspace: Workspace, judge: str, testset: str) -> str:
    """Return the key of a judge's scores on a test set: a hash of everything that determines the scores."""
    keys = workspace.memory.judge_keys
    if (judge, testset) not in keys:
        spec = effective_spec(workspace, judge, testset)
        keys[judge, testset] = spec.key(_revision(workspace, spec, testset))
    return keys[judge, testset]


def _revision(workspace: Workspace, spec: JudgeSpec, testset: str) -> str:
    if spec.engine.recorded_as is None:
        return revision_of(spec, engine_context(workspace))
    from judges.engines.recorded import NOTHING_RECORDED

    versions = workspace.memory.recorded_versions
    if testset not in versions:
        versions[testset] = _recorded_versions(workspace, spec.name, testset)
    return versions[testset].get(spec.engine.recorded_as, ["", NOTHING_RECORDED])[1]


def _recorded_versions(workspace: Workspace, judge: str, testset: str) -> dict[str, list[str]]:
    from care_ops.blocks import columns
    from judges.engines.recorded import fingerprints

    def versions(former: Mapping[str, list[str]]) -> dict[str, list[str]]:
        table = recorded_table(workspace, judge, testset)
        ids = hashlib.sha256("\x1f".join(table.scores.item_ids).encode("utf-8", "surrogatepass")).digest()
        by_judge = zip(table.scores.judges, columns(table.scores.values), strict=True)
        now = {j: hashlib.sha256(ids + c.tobytes()).hexdigest() for j, c in by_judge if j not in table.responses}
        same = {name: former[name] for name in now if former.get(name, [""])[0] == now[name]}
        changed = table.scores.select_judges([name for name in table.scores.judges if name not in same])
        return same | {n: [now.get(n, "?"), version] for n, version in fingerprints(changed, table.responses).items()}

    source = workspace.testset(testset).source
    if not isinstance(source, FilesSource) or source.scores is None:
        return versions({})
    declared = source.scores
    # Another release may read other values from the same file.
    read_as = [declared.columns.model_dump(), declared.reading.model_dump(), _reader_version(), "with bytes of judges"]
    read_as += [workspace.testset(testset).scale, declared.scales | recorded_scales(workspace, testset)]
    file, items = resolve(declared.path, workspace.root), resolve(source.items, workspace.root)
    hashes = workspace.file_hashes
    scored = hashes.of(
        file, [*read_as, "ids"], lambda: content_hash(recorded_table(workspace, judge, testset).scores.item_ids)
    )
    hashes.of(items, [testset, source.where, scored], lambda: has_all_scored(workspace, testset))
    return hashes.of(file, read_as, lambda: versions(hashes.former(file, read_as) or {}))


@cache
def _reader_version() -> str:
    return code_version("warehouse/sources", "warehouse/importers", "judges/engines/recorded.py", "care_ops")
