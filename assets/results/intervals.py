"""``intervals``: how far each judge's weight would move with other items, and the fit without each judge."""

from typing import TYPE_CHECKING

import dagster as dg

from assets.code import code_version
from assets.fit.made import noted
from assets.fit.stages import recommended
from assets.metadata import table
from assets.partitions import TESTSETS
from assets.workspace import Workspace
from care_ops.errors import InputError

if TYPE_CHECKING:
    from care_ops.results.drop_evidence import Dropping
    from care_ops.scores import ScoreMatrix
    from warehouse.matrix import ItemColumnsRead


@dg.asset(
    partitions_def=TESTSETS,
    deps=["aggregates", "gold"],
    group_name="results",
    kinds={"duckdb"},
    code_version=code_version(__name__, "care_ops"),
    description="Bootstrap intervals of weights and loadings, by split unit; whether labels advise to drop a judge.",
)
@noted
def intervals(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Fit resampled split units, store the intervals beside the weights; then leave each judge out."""
    from assets.fit.kept import read_answers, read_fitted, read_responses
    from assets.results.documents import DroppingDocument
    from care_ops.results.drop_evidence import NO_REFITS, Dropping
    from care_ops.results.uncertainty import weight_intervals
    from warehouse.fit_rows import load_findings
    from warehouse.matrix import read_item_columns

    testset = context.partition_key
    config = workspace.fit_config(testset)
    if config.resamples == 0:
        DroppingDocument(Dropping(refused=NO_REFITS)).write(workspace.fit_folder(testset))
        return dg.MaterializeResult(metadata={"intervals": "none: fit.resamples is 0 in care.yaml"})
    scores, fit = read_fitted(workspace.fit_folder(testset))
    fit_ids = fit.by_aggregator
    with workspace.warehouse.reader() as connection:
        columns = read_item_columns(connection, testset)
    whole = read_answers(workspace, testset, scores, fit)
    units = dict(zip(columns.item_ids, columns.split_units, strict=True))
    dropping = _dropping(workspace, testset, scores, columns, list(fit_ids))
    DroppingDocument(dropping).write(workspace.fit_folder(testset))
    try:
        intervals_by_name = weight_intervals(
            scores,
            config,
            workspace.anchors_of(testset),
            [units.get(item) for item in scores.item_ids],
            whole=whole,
            resamples=config.resamples,
            probes=read_responses(workspace.fit_folder(testset)),
        )
    except InputError as error:  # too few split units: weights stand without an interval
        return dg.MaterializeResult(metadata={"intervals": f"none: {error}"})
    for name, interval in intervals_by_name.items():
        workspace.fits.annotate(testset, fit_ids[name], interval)
    with workspace.warehouse.writer() as connection:
        load_findings(connection, workspace.fits, testset, fit_ids.values())
    rows = [
        {"aggregator": name, "judge": judge, "lo": float(lo), "hi": float(hi)}
        for name, interval in intervals_by_name.items()
        for judge, lo, hi in zip(scores.judges, interval.lo, interval.hi, strict=True)
    ]
    return dg.MaterializeResult(
        metadata={
            "resamples": table([{"aggregator": n, "resamples": i.resamples} for n, i in intervals_by_name.items()]),
            "weights": table(rows[:200]),
            "without_each_judge": dropping.refused or f"{dropping.refits} fits of at most {dropping.items} items",
        }
    )


def _dropping(
    workspace: Workspace, testset: str, scores: "ScoreMatrix", items: "ItemColumnsRead", aggregators: list[str]
) -> "Dropping":
    """What labels that the fit has not seen say of its recommended answer without each judge."""
    from assets.fit.kept import read_responses
    from assets.results.gold import aligned, held_out_gold
    from care_ops.results.dropping import leave_each_out

    anchors = workspace.anchors_of(testset)
    gold = held_out_gold(items.item_ids, items.gold, items.split_units, anchors)
    units = dict(zip(items.item_ids, items.split_units, strict=True))
    return leave_each_out(
        scores,
        workspace.fit_config(testset),
        recommended(aggregators),
        aligned(scores.item_ids, dict(zip(items.item_ids, gold.tolist(), strict=True))),
        [units.get(item) for item in scores.item_ids],
        anchors,
        probes=read_responses(workspace.fit_folder(testset)),
    )
