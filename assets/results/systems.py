"""Dagster asset ``systems``: differences between systems, if the test set declares systems."""

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.workspace import Workspace
from care_ops.errors import FitError, InputError


@asset_of_testsets(
    deps=["aggregates", "gold"],
    description="Differences between systems with intervals, corrected by labels if there are enough.",
)
def systems(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Compare the test set's declared systems, using the recommended aggregate of the latest fit."""
    import numpy as np

    from assets.fit.kept import read_fitted
    from assets.results.comparison import compared_in, usable_labels
    from assets.results.documents import SystemsDocument

    testset = context.partition_key
    folder, declared = workspace.fit_folder(testset), workspace.testset(testset).systems
    panel, fit = read_fitted(folder)
    if not declared or not fit.by_aggregator:
        folder.write(SystemsDocument())
        why = "no aggregate" if declared else "the test set declares none"
        return dg.MaterializeResult(metadata={"systems": f"none: {why}"})
    try:
        compared = compared_in(workspace, testset, panel, fit.by_aggregator)
    except (FitError, InputError) as error:
        folder.write(SystemsDocument(refused=str(error)))
        return dg.MaterializeResult(metadata={"systems": f"none: {error}"})
    folder.write(compared)
    labels = workspace.labels_of(testset)
    return dg.MaterializeResult(
        metadata={
            "aggregator": compared.aggregator,
            "labels": int((~np.isnan(usable_labels(panel.item_ids, labels))).sum()),
            "labels_of_chosen_items_left_out": labels.left_out,
            "systems": len(compared.systems),
        }
    )
