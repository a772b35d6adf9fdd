"""The aggregation tables over the workspace's own test sets."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Bars, Experiment, ExperimentFindings, Table
from assets.experiments.panels import NO_PANEL, ExperimentPanel, gains_in_order, panels
from assets.workspace import Workspace
from care_ops.anchors import NO_ANCHORS, Anchors
from care_ops.config import LABEL_FREE
from care_ops.fit import fit_panel
from care_ops.metrics import evaluate, mean_ranks
from care_ops.records import Aggregate
from care_ops.selection import validation_items
from warehouse.catalog import names

LABELLED = ("care", "best_judge", "care_svd", "care_tensor")

_SHARE = 0.15


def run(workspace: Workspace, *, seeds: int, resamples: int) -> ExperimentFindings:
    """Make a table for each test set, and rank the aggregators over all of them."""
    tables, says, figures = list[Table](), list[str](), list[Bars]()
    orders: dict[str, dict[str, float]] = {}
    for panel in panels(workspace):
        rows, order = _table(panel, range(seeds), resamples)
        for labels in ("none", f"{_SHARE:.0%}"):
            rows_shown = [
                {k: v for k, v in row.items() if k != "labels" and v != ""} for row in rows if row["labels"] == labels
            ]
            tables.append(Table(f"{panel.testset}, labels: {labels}", rows_shown))
        orders[panel.testset] = order
        free = {name: value for name, value in order.items() if value == value}
        best = max(free, key=lambda name: free[name])
        place = sorted(free, key=lambda name: -free[name]).index("care") + 1 if "care" in free else None
        says.append(
            f"{panel.testset}: without labels {best} orders all items best ({free[best]:.3f})"
            + ("" if place is None else f"; care is number {place} of {len(free)} ({free['care']:.3f})")
            + f", the mean {free.get('avg', float('nan')):.3f}."
        )
    if not tables:
        return ExperimentFindings([NO_PANEL])
    if len(orders) > 1:
        ranks, difference = mean_ranks(orders)
        tables.append(Table("Mean rank by order over the test sets, 1 is best", [ranks]))
        figures.append(critical_difference(ranks, difference))
        says.append(
            f"Over {len(orders)} test sets two mean ranks must differ by {difference:.2f} to differ at 95 % (Nemenyi); "
            f"the widest difference is {max(ranks.values()) - min(ranks.values()):.2f}."
        )
    testsets = {name.lower() for name in workspace.testsets}
    absent = [name for name in names() if not any(name in known for known in testsets)]
    says.append(f"Not run, for want of scores: {', '.join(absent)}.")
    return ExperimentFindings(says, tables, figures)


def critical_difference(ranks: dict[str, float], difference: float) -> Bars:
    """Mean ranks, best first, each with half the critical difference on both sides; two that do not overlap differ."""
    names = sorted(ranks, key=lambda name: ranks[name])
    values = [ranks[name] for name in names]
    return Bars(
        "Mean ranks by order; two whose bars do not overlap differ at 95 % (Nemenyi)",
        "mean rank, 1 is best",
        names,
        values,
        [value - difference / 2 for value in values],
        [value + difference / 2 for value in values],
    )


def _table(panel: ExperimentPanel, seeds: range, resamples: int) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """A row for each aggregator and use of labels; also how well those without labels order all items."""
    free = _fit(panel, LABEL_FREE, NO_ANCHORS)
    splits = [validation_items(panel.units, _SHARE, np.random.default_rng([seed, 21])) for seed in seeds]
    measured: dict[tuple[str, str], list[dict[str, float]]] = {}
    for split in splits:
        by_item = zip(panel.scores.item_ids, panel.gold, split, strict=True)
        seen = {item: float(gold) for item, gold, taken in by_item if taken and not np.isnan(gold)}
        labelled = _fit(panel, LABELLED, Anchors(seen))
        for labels, found in (("none", free), (f"{_SHARE:.0%}", labelled)):
            for name, aggregate in found.items():
                measured.setdefault((name, labels), []).append(_measure(panel, aggregate, ~split))
    order = {name: panel.order(aggregate.estimate) for name, aggregate in free.items()}
    against = _against_mean(panel, free, resamples)
    rows: list[dict[str, Any]] = []
    for (name, labels), found in measured.items():
        row: dict[str, Any] = {"aggregator": name, "labels": labels}
        for metric in found[0]:
            values = [one[metric] for one in found]
            row[metric] = "–" if np.isnan(values).any() else f"{np.mean(values):.3f} ± {np.std(values):.3f}"
        row["order less avg's, 95 %"] = against.get(name, "–") if labels == "none" else ""
        rows.append(row)
    return rows, order


def _fit(panel: ExperimentPanel, names: tuple[str, ...], anchors: Any) -> dict[str, Aggregate]:
    return fit_panel(panel.scores, replace(panel.config, aggregators=names), anchors).aggregates


def _measure(panel: ExperimentPanel, aggregate: Aggregate, rows: NDArray[np.bool_]) -> dict[str, float]:
    evaluation = evaluate(
        aggregate.estimate[rows], panel.gold[rows], threshold=aggregate.threshold, scale=panel.config.scale
    )
    binary = {"AUC": evaluation.auc, "accuracy": evaluation.accuracy, "balanced accuracy": evaluation.balanced_accuracy}
    graded = {"tau": evaluation.tau, "MAE": evaluation.mae, "MAE, one calibration": evaluation.mae_filled}
    return {k: float("nan") if v is None else float(v) for k, v in (binary if panel.binary else graded).items()}


def _against_mean(panel: ExperimentPanel, free: dict[str, Aggregate], resamples: int) -> dict[str, str]:
    """Agreement in order less that of the mean, with an interval over split units that are resampled alike for all."""
    if "avg" not in free:
        return {}
    others = {name: aggregate.estimate for name, aggregate in free.items() if name != "avg"}
    every = np.arange(len(panel.gold))
    gains = gains_in_order(panel, free["avg"].estimate, others, every, resamples, 22)
    return {name: f"{low:+.3f} to {high:+.3f}" for name, (low, high) in gains.items()}


EXPERIMENT = Experiment(
    key="aggregation_tables",
    title="Aggregation over the workspace's test sets",
    asks="Who orders the items as gold does, and who is near it on its scale; without labels, and with 15 % of them?",
    paper="CARE-SVD has the lowest MAE on six scoring sets, CARE-Tensor or CARE-SVD the best accuracy on most others.",
    protocol=(
        "Splits by split unit; without labels one fit of all items, with labels one a split, tables of the same 85 % "
        "that no fit saw labels of; sentences, ranks and intervals are of all items. No fit sees probes. ± is the "
        "spread over splits, not an error; intervals resample split units and are paired. MAE in one calibration maps "
        "every aggregate to fill the scale evenly, so that it is order alone."
    ),
    run=run,
    small={"seeds": 2, "resamples": 100},
    full={"seeds": 5, "resamples": 1_000},
)
