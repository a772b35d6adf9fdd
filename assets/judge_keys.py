"""A judge as it scores a test set: its specification completed, what its engine is given, and the key of its scores.

Belongs here: the one place where a key is made, by which scores are found again. Belongs elsewhere: what a judge is
(``judges.spec``), running it (``judging``).
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from assets.code import code_version
from assets.sources import recorded_scores
from care_ops.errors import CareError
from judges.engines.base import Context, Ledger, Recordings
from judges.engines.factory import revision_of
from judges.items import Item
from warehouse.testsets import FilesSource, resolve

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from judges.spec import JudgeSpec
    from warehouse.items import ItemRecord


_log = logging.getLogger(__name__)


def judge_item(record: ItemRecord) -> Item:
    """What a judge sees of an item: its texts, never its gold."""
    return Item(record.item_id, record.prompt, record.response, record.response_2, record.reference, record.aspect)


def effective_spec(workspace: Workspace, judge: str, testset: str) -> JudgeSpec:
    """The specification with the test set's scale and prompt where a judge declares none."""
    spec, declared = workspace.judge(judge), workspace.testset(testset)
    needs, engine = spec.engine.needs, spec.engine.with_template(declared.prompt)
    scale = declared.scale if spec.scale is None and (needs.recordings or needs.template) else spec.scale
    if engine is spec.engine and scale == spec.scale:
        return spec
    return spec.model_copy(update={"scale": scale, "engine": engine})


def engine_context(workspace: Workspace, judge: str, testset: str, ledger: Ledger | None = None) -> Context:
    """What a judge's engine needs beside its specification."""
    return Context(workspace.root, recordings(workspace, judge, testset), ledger)


def recordings(workspace: Workspace, judge: str, testset: str) -> Recordings | None:
    """Recorded scores of one judge; None where neither the judge nor the test set records any."""
    name = workspace.judge(judge).engine.recorded_as
    table = None if name is None else recorded_scores(workspace, testset)
    if name is None or table is None:
        return None
    from judges.engines.recorded import NOT_RECORDED

    if name not in table.scores.judges:
        return NOT_RECORDED
    values = table.scores.values[:, table.scores.judges.index(name)]
    return Recordings(table.rows, values, table.responses.get(name, {}))


def keys_of_judges(workspace: Workspace, testset: str) -> dict[str, str]:
    """The keys of the judges of a test set that make scores; recorded ones have no key beside the scores themselves.

    A judge whose file is broken is left out: it makes no scores now, and must not hold up those that do.
    """
    keys: dict[str, str] = {}
    for judge in workspace.judges_of(testset):
        if workspace.judge(judge).engine.recorded_as is not None:
            continue
        try:
            keys[judge] = judge_key(workspace, judge, testset)
        except CareError as error:
            _log.info("%s: %s has no key (%s)", testset, judge, error)
    return keys


def judge_key(workspace: Workspace, judge: str, testset: str) -> str:
    """Key of the judge's scores on a test set, by content; hashed once, since the workspace is read once."""
    keys = workspace.memory.judge_keys
    if (judge, testset) not in keys:
        spec = effective_spec(workspace, judge, testset)
        keys[judge, testset] = spec.key(_revision(workspace, spec, testset))
    return keys[judge, testset]


def _revision(workspace: Workspace, spec: JudgeSpec, testset: str) -> str:
    """Version of what a judge runs; that of a recorded one from memory, where its score file has not changed."""
    name, source = spec.engine.recorded_as, workspace.testset(testset).source
    if name is None or not isinstance(source, FilesSource) or source.scores is None:
        return revision_of(spec, engine_context(workspace, spec.name, testset))
    from judges.engines.recorded import NOT_RECORDED, fingerprint

    declared = source.scores
    read_as = [declared.columns.model_dump(), declared.layout, declared.reading.model_dump(), _reader_version()]
    file = resolve(declared.path, workspace.root)
    revisions = workspace.file_hashes.of(file, read_as, lambda: _recorded_revisions(workspace, testset))
    return revisions[name] if name in revisions else fingerprint(NOT_RECORDED)


def _recorded_revisions(workspace: Workspace, testset: str) -> dict[str, str]:
    """Version of the recordings of every judge in the score file of a test set."""
    from judges.engines.recorded import fingerprints

    table = recorded_scores(workspace, testset)
    return {} if table is None else fingerprints(table.scores, table.responses)


@cache
def _reader_version() -> str:
    """Version of the code that reads score files: another release may read other values from the same file."""
    return code_version("warehouse.sources.files", "warehouse", "judges")
