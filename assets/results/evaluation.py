"""Dagster asset ``evaluation``: metrics of the aggregates against gold, if there is gold.

The evaluation leaves out items whose label a fit has used, together with their whole split unit.
"""

from typing import Any

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.workspace import Workspace

BEST_JUDGE = "best_judge"
"""Name of the document with the ``Evaluation`` of the judge that agrees best with gold."""


@asset_of_testsets(
    deps=["aggregates", "gold"],
    kinds={"duckdb"},
    pool="warehouse_writer",
    description="Order (tau, AUC) and scale (MAE, accuracy) of every aggregate against gold.",
)
def evaluation(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Evaluate the aggregates against gold."""
    return dg.MaterializeResult(metadata=evaluate_latest(workspace, context.partition_key))


def evaluate_latest(workspace: Workspace, testset: str) -> dict[str, Any]:
    """Evaluate the latest aggregates and judges against gold, store the metrics, and return metadata for Dagster."""
    import numpy as np

    from assets.fit.documents import FitDocument
    from assets.results.gold import best_judge, evaluations, held_out_gold, panel_items
    from care_ops.records import Evaluation
    from warehouse.fit_rows import load_evaluation

    labels, scale = workspace.labels_of(testset), workspace.testset(testset).scale
    folder = workspace.fit_folder(testset)
    folder.remove(Evaluation, BEST_JUDGE)
    fit_ids = folder.read(FitDocument).by_aggregator
    columns = workspace.parts.read_gold(testset)
    gold = held_out_gold(columns, labels)
    if np.isnan(gold).all():
        return {"gold": "none: nothing to evaluate against"}
    answers = {n: workspace.fits.read_fit(testset, i).in_order(columns.item_ids) for n, i in fit_ids.items()}
    records = evaluations(answers, gold, scale)
    with workspace.warehouse.writer() as connection:
        for name, record in records.items():
            workspace.fits.annotate(testset, fit_ids[name], record)
            load_evaluation(connection, fit_ids[name], record)
    panel = folder.read_panel()
    best = best_judge(panel, panel_items(panel, columns, labels).gold, scale)
    if best is not None:
        folder.write(best, BEST_JUDGE)
    with_gold, counted = (int((~np.isnan(known)).sum()) for known in (columns.gold, gold))
    why = f"{with_gold} items have gold"
    if left_out := with_gold - counted:
        why += f"; {left_out} are left out, because the fit has seen their label or one of their split unit"
    return {"evaluated_items": counted, "left_out_for_labels": left_out, "why_so_many": why}
