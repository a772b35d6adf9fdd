"""``systems``: which of two models or versions is better, where items belong to systems."""

from dataclasses import asdict, replace

import dagster as dg

from assets.code import code_version
from assets.fit.stages import recommended
from assets.metadata import bars, table
from assets.partitions import TESTSETS
from assets.workspace import Workspace


@dg.asset(
    partitions_def=TESTSETS,
    deps=["aggregates", "gold"],
    group_name="results",
    code_version=code_version(__name__, "care_ops"),
    description="Differences between systems with intervals; corrected by anchors where there are enough.",
)
def systems(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Compare the systems that the test set declares, by the recommended aggregate."""
    from assets.fit.kept import read_fitted
    from assets.results.comparison import compare
    from assets.results.documents import SystemsDocument
    from assets.results.gold import aligned
    from care_ops.errors import FitError
    from care_ops.results.systems import anchors_as_labels
    from warehouse.matrix import read_fit, read_item_columns, read_metadata

    testset = context.partition_key
    folder, spec = workspace.fit_folder(testset), workspace.testset(testset)
    panel, fit = read_fitted(folder)
    fit_ids = fit.by_aggregator
    if not spec.systems or not fit_ids:
        SystemsDocument(columns=spec.systems).write(folder)
        why = "no aggregate" if spec.systems else "the test set declares none"
        return dg.MaterializeResult(metadata={"systems": f"none: {why}"})
    name = recommended(fit_ids)
    with workspace.warehouse.reader() as connection:
        columns = read_item_columns(connection, testset)
        named = read_metadata(connection, testset, spec.systems)
        stored = read_fit(connection, fit_ids[name])
    anchors, config = workspace.anchors_of(testset), workspace.fit_config(testset)
    try:
        compared = compare(name, aligned(columns.item_ids, stored.estimates), columns, named, anchors, panel, config)
    except FitError as error:
        SystemsDocument(failure=str(error), columns=spec.systems).write(folder)
        return dg.MaterializeResult(metadata={"systems": f"none: {error}"})
    replace(compared, columns=spec.systems).write(folder)
    return dg.MaterializeResult(
        metadata={
            "aggregator": name,
            "labels": sum(label == label for label in anchors_as_labels(columns.item_ids, anchors).tolist()),
            "labels_of_chosen_items_left_out": anchors.left_out,
            "differences": table([asdict(comparison) for comparison in compared.comparisons[:200]]),
            "systems": bars("system", {system.system: system.value for system in compared.systems}),
        }
    )
