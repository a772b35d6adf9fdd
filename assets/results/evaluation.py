"""``evaluation``: aggregates against gold, where gold exists.

Items whose label a fit has seen are left out, and with them their whole split unit, for every aggregator
alike (law 2).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from assets.code import code_version
from assets.metadata import bars, table
from assets.partitions import TESTSETS
from assets.results.gold import aligned, held_out_gold
from assets.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dg.asset(
    partitions_def=TESTSETS,
    deps=["aggregates", "gold"],
    group_name="results",
    kinds={"duckdb"},
    pool="warehouse_writer",
    code_version=code_version(__name__, "care_ops"),
    description="Order (tau, AUC) and scale (MAE, accuracy) of every aggregate against gold.",
)
def evaluation(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Evaluate, and say how the aggregates order the items."""
    found = evaluate_latest(workspace, context.partition_key)
    if found is None:
        return dg.MaterializeResult(metadata={"gold": "none: nothing to evaluate against"})
    headline = "auc" if found.rows and found.rows[0]["auc"] is not None else "tau"
    return dg.MaterializeResult(
        metadata={
            "evaluated_items": found.items,
            "left_out_for_anchors": found.left_out,
            "table": table(found.rows),
            "order": bars(
                f"{headline} against gold",
                {str(r["aggregator"]): float(str(r[headline])) for r in found.rows if r[headline] is not None},
            ),
        },
    )


@dataclass(frozen=True)
class Evaluated:
    """A row an aggregator, how many items have gold that counts, and how many were left out for anchors."""

    rows: list[dict[str, object]]
    items: int
    left_out: int


def evaluate_latest(workspace: Workspace, testset: str) -> Evaluated | None:
    """Read the latest aggregates and gold, evaluate, store; None where there is no gold."""
    import numpy as np

    from care_ops.metrics import evaluate
    from warehouse.fits import store_evaluation
    from warehouse.matrix import read_fit, read_item_columns

    spec, anchors = workspace.testset(testset), workspace.anchors_of(testset)
    fit_ids: dict[str, str] = dict(workspace.fit_folder(testset).read_json("fit")["fit_ids"])
    rows: list[dict[str, object]] = []
    with workspace.warehouse.writer() as connection:
        columns = read_item_columns(connection, testset)
        gold = held_out_gold(columns.item_ids, columns.gold, columns.split_units, anchors)
        if np.isnan(gold).all():
            return None
        for name, fit_id in fit_ids.items():
            stored = read_fit(connection, fit_id)
            estimate = aligned(columns.item_ids, stored.estimates)
            sd, probability = (aligned(columns.item_ids, values) for values in (stored.sds, stored.p_quality))
            result = evaluate(
                estimate,
                gold,
                threshold=stored.threshold,
                scale=spec.scale,
                sd=None if np.isnan(sd).all() else sd,
                p_quality=None if np.isnan(probability).all() else probability,
            )
            found = {"labels_used": stored.labels_used, **result.as_dict()}
            workspace.fits.annotate(testset, fit_id, "evaluation", found)
            store_evaluation(connection, fit_id, found)
            rows.append({"aggregator": name, **found})
    known = int((~np.isnan(gold)).sum())
    return Evaluated(rows, known, int((~np.isnan(columns.gold)).sum()) - known)
