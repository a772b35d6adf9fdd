"""Dagster asset ``evaluation``: metrics of the aggregates against gold, if there is gold.

If a fit has used the label of an item, the evaluation leaves out all items of the same split unit.
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
    description="Metrics of every aggregate against gold: ranking (tau, AUC), errors (MAE) and accuracy.",
)
def evaluation(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Evaluate each aggregate of a test set against gold, and store the metrics."""
    return dg.MaterializeResult(metadata=evaluate_latest(workspace, context.partition_key))


def evaluate_latest(workspace: Workspace, testset: str) -> dict[str, Any]:
    """Evaluate the latest aggregates and judges against gold, store the metrics, and return metadata for Dagster."""
    import numpy as np

    from assets.fit.documents import FitDocument
    from assets.results.gold import best_judge, evaluations, held_out_gold, panel_items
    from care_ops.errors import counted
    from care_ops.records import Evaluation
    from warehouse.fit_rows import load_evaluation

    labels, scale = workspace.labels_of(testset), workspace.testset(testset).scale
    folder = workspace.fit_folder(testset)
    folder.remove(Evaluation, BEST_JUDGE)
    fit_ids = folder.read(FitDocument).by_aggregator
    columns = workspace.parts.read_gold(testset)
    gold = held_out_gold(columns, labels)
    if np.isnan(gold).all():
        return {"gold": "not evaluated: no item has held-out gold; add gold to items in split units without labels"}
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
    with_gold, evaluated = (int((~np.isnan(known)).sum()) for known in (columns.gold, gold))
    why = f"{evaluated} of {counted(with_gold, 'item')} with gold"
    if left_out := with_gold - evaluated:
        why += f"; {left_out} left out, because the fit has used a label of the item or of its split unit"
    return {"evaluated_items": evaluated, "left_out_for_labels": left_out, "why_so_many": why}
