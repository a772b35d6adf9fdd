"""``evaluation``: aggregates against gold, where gold exists.

Items whose label a fit has seen are left out, and with them their whole split unit, for every aggregator
alike (law 2).
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.metadata import table
from assets.workspace import Workspace

if TYPE_CHECKING:
    from care_ops.records import Evaluation

BEST_JUDGE = "best_judge"
"""The document of how the judge that follows gold best orders the items (an ``Evaluation``); none without gold."""


@asset_of_testsets(
    deps=["aggregates", "gold"],
    kinds={"duckdb"},
    pool="warehouse_writer",
    description="Order (tau, AUC) and scale (MAE, accuracy) of every aggregate against gold.",
)
def evaluation(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Evaluate, and say how well the aggregates agree with gold."""
    evaluated = evaluate_latest(workspace, context.partition_key)
    if evaluated is None:
        return dg.MaterializeResult(metadata={"gold": "none: nothing to evaluate against"})
    return dg.MaterializeResult(
        metadata={
            "evaluated_items": evaluated.items,
            "left_out_for_anchors": evaluated.left_out,
            "why_so_many": evaluated.why(),
            "table": table(
                [
                    {"aggregator": name, "labels_used": evaluated.labels[name], **asdict(record)}
                    for name, record in evaluated.records.items()
                ]
            ),
        }
    )


@dataclass(frozen=True)
class Evaluated:
    """The evaluations of a test set's latest fits, and how many labels each has seen, by aggregator.

    Attributes
    ----------
    items, left_out : int
        Items whose gold counts, and those with gold that were left out for anchors.
    before : int or None
        Items whose gold counted for the edition before; None where there is none.
    """

    records: "dict[str, Evaluation]"
    labels: dict[str, int]
    items: int
    left_out: int
    before: int | None

    def why(self) -> str:
        """Why so many items count, and what has changed since the edition before."""
        text = f"{self.items + self.left_out} items have gold"
        if self.left_out:
            text += f"; {self.left_out} are left out, because the fit has seen their label or one of their split unit"
        if self.before is not None and self.before != self.items:
            text += f". The edition before was evaluated on {self.before}, this one on {self.items}"
        return text


def evaluate_latest(workspace: Workspace, testset: str) -> Evaluated | None:
    """Read the latest aggregates and gold, evaluate them and the judges, store; None where there is no gold."""
    import numpy as np

    from assets.fit.documents import FitDocument
    from assets.results.gold import best_judge, evaluations, held_out_gold, panel_items
    from warehouse.documents import document_of
    from warehouse.fit_rows import load_fits

    anchors, scale = workspace.anchors_of(testset), workspace.testset(testset).scale
    folder = workspace.fit_folder(testset)
    folder.remove_record(BEST_JUDGE)
    fit_ids = folder.read(FitDocument).by_aggregator
    columns = workspace.parts.read_gold(testset)
    gold = held_out_gold(columns, anchors)
    if np.isnan(gold).all():
        return None
    answers = {n: workspace.fits.read_fit(testset, i).in_order(columns.item_ids) for n, i in fit_ids.items()}
    records = evaluations(answers, gold, scale)
    for name, record in records.items():
        workspace.fits.annotate(testset, fit_ids[name], record)
    with workspace.warehouse.writer() as connection:
        load_fits(connection, workspace.fits, testset, fit_ids.values())
    panel = folder.read_panel()
    best = best_judge(panel, panel_items(panel, columns, anchors).gold, scale)
    if best is not None:
        folder.write_json(BEST_JUDGE, document_of(best))
    labels = {name: answer.labels_used for name, answer in answers.items()}
    with_gold = int((~np.isnan(gold)).sum())
    left_out = int((~np.isnan(columns.gold)).sum()) - with_gold
    return Evaluated(records, labels, with_gold, left_out, _evaluated_before(workspace, testset, set(fit_ids.values())))


def _evaluated_before(workspace: Workspace, testset: str, tonight: set[str]) -> int | None:
    """Items on which the edition before tonight's was evaluated; None where there is none, or nobody evaluated it."""
    from care_ops.records import Evaluation

    for edition in reversed(workspace.fits.editions(testset)):
        if tonight & set(edition.fits.values()):
            continue
        kept = (workspace.fits.find_annotation(testset, fit_id, Evaluation) for fit_id in edition.fits.values())
        return max((record.n for record in kept if record is not None), default=None)
    return None
