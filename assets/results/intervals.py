"""Dagster asset ``intervals``: bootstrap intervals of judge weights."""

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.metadata import table
from assets.workspace import Workspace
from care_ops.errors import InputError


@asset_of_testsets(
    deps=["aggregates", "gold"],
    kinds={"duckdb"},
    description="Bootstrap intervals of weights and loadings, computed by resampling split units.",
)
def intervals(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Compute bootstrap intervals of the judge weights by resampling split units, and store the intervals."""
    from assets.fit.kept import read_answers, read_fitted
    from care_ops.results.uncertainty import weight_intervals
    from warehouse.fit_rows import load_intervals
    from warehouse.items import units_of

    testset, folder = context.partition_key, workspace.fit_folder(context.partition_key)
    config, labels = workspace.fit_config(testset), workspace.labels_of(testset)
    if config.resamples == 0:
        return dg.MaterializeResult(metadata={"intervals": "none: fit.resamples is 0 in care.yaml"})
    scores, fit = read_fitted(folder)
    fit_ids = fit.by_aggregator
    whole = read_answers(workspace, testset, scores, fit)
    declared = workspace.parts.read_items_of(testset, scores.item_ids, ("split_unit",))[0]
    units = units_of(declared.to_pylist(), scores.item_ids)
    try:
        intervals_by_name = weight_intervals(scores, config, labels, units, whole=whole)
    except InputError as error:  # too few split units
        return dg.MaterializeResult(metadata={"intervals": f"none: {error}"})
    with workspace.warehouse.writer() as connection:
        for name, interval in intervals_by_name.items():
            workspace.fits.annotate(testset, fit_ids[name], interval)
            load_intervals(connection, fit_ids[name], interval)
    resamples = [{"aggregator": name, "resamples": one.resamples} for name, one in intervals_by_name.items()]
    return dg.MaterializeResult(metadata={"resamples": table(resamples)})
