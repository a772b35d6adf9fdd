"""``intervals``: bootstrap intervals of judge weights, and the fit without each judge."""

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.fit.stages import recommended
from assets.metadata import table
from assets.workspace import Workspace
from care_ops.errors import InputError


@asset_of_testsets(
    deps=["aggregates", "gold"],
    kinds={"duckdb"},
    description="Bootstrap intervals of weights and loadings, by split unit; whether labels advise to drop a judge.",
)
def intervals(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Fit resampled split units and store the intervals of the weights; then leave each judge out."""
    from assets.fit.kept import read_answers, read_fitted
    from assets.results.documents import DroppingDocument
    from assets.results.gold import panel_items
    from care_ops.results.dropping import leave_each_out
    from care_ops.results.uncertainty import weight_intervals
    from warehouse.fit_rows import load_fits

    testset, folder = context.partition_key, workspace.fit_folder(context.partition_key)
    config, labels = workspace.fit_config(testset), workspace.labels_of(testset)
    scores, fit = read_fitted(folder)
    items = panel_items(scores, workspace.parts.read_gold(testset), labels)
    whole, units = read_answers(workspace, testset, scores, fit), items.units()
    lead = recommended(whole)
    dropping = leave_each_out(scores, config, lead, items.gold, units, labels)
    fit_ids = fit.by_aggregator
    folder.write(DroppingDocument(dropping))
    if config.resamples == 0:
        return dg.MaterializeResult(metadata={"intervals": "none: fit.resamples is 0 in care.yaml"})
    try:
        intervals_by_name = weight_intervals(scores, config, labels, units, whole=whole)
    except InputError as error:  # too few split units: weights have no interval
        return dg.MaterializeResult(metadata={"intervals": f"none: {error}"})
    for name, interval in intervals_by_name.items():
        workspace.fits.annotate(testset, fit_ids[name], interval)
    with workspace.warehouse.writer() as connection:
        load_fits(connection, workspace.fits, testset, fit_ids.values())
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
