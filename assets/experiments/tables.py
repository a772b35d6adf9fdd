"""The aggregation tables over the workspace's own test sets, and each factor taken for quality in turn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Bars, Experiment, Findings, Table
from assets.experiments.panels import NO_PANEL, Panel, factored, panels, resampled_units
from care_ops.config import LABEL_FREE

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from care_ops.aggregators import Aggregate

Array = NDArray[np.float64]

LABELLED = ("care", "best_judge", "care_svd", "care_tensor")
_SHARE = 0.15
_LEVEL = 0.95


def run(workspace: Workspace, *, seeds: int, resamples: int) -> Findings:
    """One table a test set, and the ranks over all of them."""
    from warehouse.catalog import names

    tables, says, figures = list[Table](), list[str](), list[Bars]()
    orders: dict[str, dict[str, float]] = {}
    for panel in panels(workspace):
        rows, order = _table(panel, range(seeds), resamples)
        for labels in ("none", f"{_SHARE:.0%}"):
            of = [
                {k: v for k, v in row.items() if k != "labels" and v != ""} for row in rows if row["labels"] == labels
            ]
            tables.append(Table(f"{panel.testset}, labels: {labels}", of))
        orders[panel.testset] = order
        free = {name: value for name, value in order.items() if value == value}
        best = max(free, key=lambda name: free[name])
        place = sorted(free, key=lambda name: -free[name]).index("care") + 1 if "care" in free else None
        says.append(
            f"{panel.testset}: without labels {best} orders best ({free[best]:.3f})"
            + ("" if place is None else f"; care is number {place} of {len(free)} ({free['care']:.3f})")
            + f", the mean {free.get('avg', float('nan')):.3f}."
        )
    if not tables:
        return Findings([NO_PANEL])
    if len(orders) > 1:
        ranks, difference = mean_ranks(orders)
        tables.append(Table("Mean rank by order over the test sets, 1 is best", [ranks]))
        figures.append(critical_difference(ranks, difference))
        says.append(
            f"Over {len(orders)} test sets two mean ranks must differ by {difference:.2f} to differ at 95 % (Nemenyi); "
            f"the widest difference is {max(ranks.values()) - min(ranks.values()):.2f}."
        )
    there = {name.lower() for name in workspace.testsets}
    absent = [name for name in names() if not any(name in known for known in there)]
    says.append(f"Not run, for want of scores: {', '.join(absent)}.")
    return Findings(says, tables, figures)


def critical_difference(ranks: dict[str, float], difference: float) -> Bars:
    """Mean ranks, best first, each with half the critical difference to both sides: two that do not meet differ."""
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


def _table(panel: Panel, seeds: range, resamples: int) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """A row an aggregator and use of labels; and the order of those without labels, over all items."""
    from care_ops.anchors import NO_ANCHORS, Anchors
    from care_ops.selection import validation_items

    free = _fit(panel, LABEL_FREE, NO_ANCHORS)
    splits = [validation_items(panel.units, _SHARE, np.random.default_rng([seed, 21])) for seed in seeds]
    known = ~np.isnan(panel.gold)
    measured: dict[tuple[str, str], list[dict[str, float]]] = {}
    for split in splits:
        ids = [item for item, taken, has in zip(panel.scores.item_ids, split, known, strict=True) if taken and has]
        gold = dict(zip(panel.scores.item_ids, panel.gold, strict=True))
        labelled = _fit(panel, LABELLED, Anchors({item: float(gold[item]) for item in ids}))
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


def _fit(panel: Panel, names: tuple[str, ...], anchors: Any) -> dict[str, Aggregate]:
    from care_ops.fit import fit_panel

    return fit_panel(panel.scores, replace(panel.config, aggregators=names), anchors).aggregates


def _measure(panel: Panel, aggregate: Aggregate, rows: NDArray[np.bool_]) -> dict[str, float]:
    from care_ops.metrics import evaluate

    found = evaluate(
        aggregate.estimate[rows], panel.gold[rows], threshold=aggregate.threshold, scale=panel.config.scale
    )
    names = ("auc", "accuracy", "balanced_accuracy") if panel.binary else ("tau", "mae", "mae_filled")
    said = {"auc": "AUC", "mae": "MAE", "mae_filled": "MAE, one calibration", "balanced_accuracy": "balanced accuracy"}
    values = {name: getattr(found, name) for name in names}
    return {said.get(n, n): float("nan") if v is None else float(v) for n, v in values.items()}


def _against_mean(panel: Panel, free: dict[str, Aggregate], resamples: int) -> dict[str, str]:
    """Order less that of the mean, with an interval over resampled split units, the same for every aggregator."""
    if "avg" not in free:
        return {}
    draws: dict[str, list[float]] = {name: [] for name in free if name != "avg"}
    every = np.ones(len(panel.gold), dtype=bool)
    for rows in resampled_units(panel, every, resamples, np.random.default_rng(22)):
        mean = panel.order(free["avg"].estimate, rows)
        for name, listed in draws.items():
            listed.append(panel.order(free[name].estimate, rows) - mean)
    tail = (1 - _LEVEL) / 2
    return {
        name: "{:+.3f} to {:+.3f}".format(*np.nanquantile(listed, (tail, 1 - tail)))
        for name, listed in draws.items()
        if not np.isnan(listed).all()
    }


def mean_ranks(orders: dict[str, dict[str, float]]) -> tuple[dict[str, float], float]:
    """Mean rank of the aggregators that answered everywhere, and Nemenyi's critical difference at 95 %.

    Demsar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006.
    """
    from scipy.stats import rankdata, studentized_range

    names = [n for n in next(iter(orders.values())) if all(o.get(n, np.nan) == o.get(n) for o in orders.values())]
    ranks = np.array([rankdata([-order[name] for name in names]) for order in orders.values()])
    k, sets = len(names), len(orders)
    quantile = float(studentized_range.ppf(_LEVEL, k, np.inf)) / np.sqrt(2)
    return dict(zip(names, map(float, ranks.mean(axis=0)), strict=True)), quantile * np.sqrt(k * (k + 1) / (6 * sets))


def factors_in_turn(workspace: Workspace) -> Findings:
    """Every factor of L as quality, signed towards the panel's mean."""
    from care_ops.errors import FitError

    tables, says = list[Table](), list[str]()
    led = there = 0
    for panel in panels(workspace):
        try:
            latent, factors = factored(panel.scores, panel.config.structure)
        except FitError as error:
            says.append(f"{panel.testset}: {error}")
            continue
        rows: list[dict[str, Any]] = [
            {
                "factor": k + 1,
                "share of tr L": float(strength / factors.strengths.sum()),
                "correlation with the mean": float(factors.agreements[k]),
                "AUC" if panel.binary else "Kendall tau": panel.order(latent[:, k]),
            }
            for k, strength in enumerate(factors.strengths)
        ]
        orders = [float(list(row.values())[-1]) for row in rows]
        best = int(np.nanargmax(orders))
        there += 1
        led += best == 0
        tables.append(Table(panel.testset, rows))
        says.append(
            f"{panel.testset}: the leading of {len(rows)} factors orders at {orders[0]:.3f}"
            + (", the best of them." if best == 0 else f"; factor {best + 1} at {orders[best]:.3f} is better.")
        )
    if not tables:
        return Findings(says or [NO_PANEL])
    says.append(
        f"The leading factor is the best one on {led} of {there} test sets; the paper has it on all six of its own."
    )
    return Findings(says, tables)


AGGREGATION = Experiment(
    key="aggregation_tables",
    title="Aggregation over the workspace's test sets",
    asks="Who orders the items as gold does, and who is near it on its scale; without labels, and with 15 % of them?",
    paper="CARE-SVD has the lowest MAE on six scoring sets, CARE-Tensor or CARE-SVD the best accuracy on most others.",
    protocol=(
        "Splits by split unit; without labels one fit of all items, with labels one a split, all measured on the same "
        "85 % that no fit saw labels of. ± is the spread over splits, not an error; intervals resample split units and "
        "are paired. MAE in one calibration maps every aggregate to fill the scale evenly, so that it is order alone."
    ),
    run=run,
    small={"seeds": 2, "resamples": 100},
    full={"seeds": 5, "resamples": 1_000},
)

FACTORS = Experiment(
    key="quality_factor",
    title="Each factor taken for quality in turn",
    asks="Is the leading factor the one that orders the items as gold does?",
    paper="The leading factor has the lowest MAE on all six scoring sets (table, quality-factor selection).",
    protocol=(
        "Every factor of L, signed towards the panel's mean, as E[factor | J]. By order, since a MAE would judge "
        "location and spread, which no factor has of its own. The best factor is named with gold at hand: a diagnosis, "
        "no method."
    ),
    run=factors_in_turn,
)
