"""Dagster asset ``panel``: the judges admitted to the fit of a test set, and the matrix of their scores."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.fit.stages import fit_code
from assets.hashing import content_hash
from assets.judge_keys import own_scales, scales_of_asked
from assets.metadata import table
from assets.versions import panel_version
from assets.workspace import Workspace
from care_ops.errors import InputError
from care_ops.minimum_sizes import MIN_JUDGES
from warehouse.items import numbers_in

if TYPE_CHECKING:
    from care_ops.records import JudgeCheck
    from care_ops.scales import RescaledJudge
    from care_ops.scores import Array, ScoreMatrix

_log = logging.getLogger(__name__)


@asset_of_testsets(
    deps=[dg.AssetDep("scores", partition_mapping=dg.MultiToSingleDimensionPartitionMapping("testset"))],
    kinds={"duckdb", "parquet"},
    pool="warehouse_writer",
    description="Judges admitted to the fit of a test set, with the reason for each rejected judge.",
)
def panel(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Apply the admission rule to the judges of a test set, and store the admitted scores."""
    from assets.fit.documents import PanelDocument

    testset = context.partition_key
    if wrong := workspace.contradiction(testset):
        raise dg.Failure(wrong)
    checks, admitted, slices, rescaled = admit(workspace, testset)
    features, source = _features(workspace, testset, admitted.item_ids)
    admitted, folder = replace(admitted, features=features), workspace.fit_folder(testset)
    folder.write_panel(admitted)
    settings = panel_version(workspace, testset)
    folder.write(PanelDocument(slices, settings, fit_code(), admitted.fingerprint(), source))
    rows = [asdict(check) for check in checks]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(admitted.fingerprint()[:32]),
        metadata={
            "admitted": sum(c.admitted for c in checks),
            "excluded": sum(not c.admitted for c in checks),
            "items": admitted.shape[0],
            "judges": table(rows),
            "scales": "; ".join(one.sentence for one in rescaled) or "all judges use one scale",
        },
    )


def admit(
    workspace: Workspace, testset: str
) -> "tuple[list[JudgeCheck], ScoreMatrix, dict[str, str], Sequence[RescaledJudge]]":
    """Check each judge of a test set; return the checks, the admitted scores, their versions and the rescaled judges.

    In a workspace, every judge scores every item, so a missing score is a failure unless care.yaml declares
    that such scores were never requested. Raises ``dg.Failure`` if fewer than three judges are admitted.
    """
    from care_ops.admission import check_panel
    from care_ops.results.reasons import too_few
    from care_ops.scores import canonical_order
    from warehouse.matrix import read_flags, read_scores
    from warehouse.panel_rows import declare_families, drop_slice, replace_panel, slice_versions

    judges = set(workspace.judges_of(testset))
    with workspace.warehouse.writer() as connection:
        left = connection.execute("SELECT judge FROM slices WHERE testset = ?", [testset]).fetchall()
        for (judge,) in left:
            if judge not in judges:
                drop_slice(connection, judge, testset)
        declare_families(connection, {judge: workspace.judge(judge).family for judge in judges})
        scores, rescaled = _on_one_scale(workspace, testset, read_scores(connection, testset, judges))
        outside, mismatches = read_flags(connection, testset)
        checks = check_panel(scores, workspace.admission_of(testset), out_of_range=outside, text_mismatches=mismatches)
        replace_panel(connection, testset, checks)
        slices = slice_versions(connection, testset)
    admitted = scores.select_judges([c.judge for c in checks if c.admitted])
    if admitted.shape[1] < MIN_JUDGES:
        loosen = "`panel: {admit: all}` in care.yaml admits all judges that vary"
        why = too_few(scores, checks, loosen=loosen, declare="`panel: {absent: not_asked}` in care.yaml")
        raise dg.Failure(f"test set {testset!r}: {why}")
    return checks, admitted.select_items(canonical_order(admitted.item_ids)), slices, rescaled


def _on_one_scale(
    workspace: Workspace, testset: str, scores: "ScoreMatrix"
) -> "tuple[ScoreMatrix, Sequence[RescaledJudge]]":
    """Rescale judges to the test set's scale or, without a declared scale, to the scale of most recorded judges."""
    from care_ops.scales import rescale, to_common_scale

    own = {judge: scale for judge, scale in own_scales(workspace, testset).items() if judge in scores.judges}
    if own and workspace.testset(testset).scale is None:
        try:
            return to_common_scale(scores, None, own)
        except InputError as error:  # recorded scores without limits have no common scale with grades
            _log.warning("%s: the judges use different scales (%s)", testset, error)
    rescaled = scales_of_asked(workspace, testset)
    return rescale(scores, rescaled), rescaled


def _features(workspace: Workspace, testset: str, item_ids: Sequence[str]) -> "tuple[Mapping[str, Array], str]":
    """Return the items' features and the source's version; reuse stored features of unchanged items."""
    from assets.fit.documents import PanelDocument
    from care_ops.results.interpret import check_declared
    from warehouse.artifacts import panel_of
    from warehouse.storage import find_sound

    folder, spec = workspace.fit_folder(testset), workspace.testset(testset)
    read_from = workspace.parts.items_version(testset, "source_version")
    source = content_hash([read_from, spec.features, spec.shuffled])
    before, features = folder.find(PanelDocument), None
    if before is not None and (before.code, before.source) == (fit_code(), source):
        former = find_sound(folder.panel_file, panel_of)
        if former is not None and (former.item_ids, folder.panel_summary().fingerprint) == (item_ids, before.panel):
            features = former.features
    features = _count(workspace, testset, item_ids) if features is None else features
    check_declared(spec.not_quality, features, f"test set {testset!r}")
    return features, source


def _count(workspace: Workspace, testset: str, item_ids: Sequence[str]) -> "dict[str, Array]":
    import numpy as np

    from care_ops.config import POSITION
    from care_ops.results.interpret import counted

    stored = workspace.parts.read_items_of(testset, item_ids, ("response", "response_2", "metadata"))
    features = counted(stored.column("response").to_pylist(), stored.column("response_2").to_pylist())
    named = workspace.testset(testset).features
    if named:
        metadata = [json.loads(text) if text else {} for text in stored.column("metadata").to_pylist()]
        features |= {name: numbers_in(metadata, name, f"test set {testset!r}, features") for name in named}
    if workspace.testset(testset).shuffled:
        ids = workspace.parts.read_item_columns(testset, ("item_id",))[0].to_pylist()
        row = {item: k for k, item in enumerate(ids)}
        features[POSITION] = np.array([row[item] for item in item_ids], dtype=np.float64)
    return features
