"""Baselines: majority vote, plain mean, median and the best single judge."""

import numpy as np

from care_ops.aggregators.base import Array, Problem
from care_ops.errors import FitError
from care_ops.metrics import tau
from care_ops.records import Aggregate
from care_ops.sparsity import scales_are_unlike


def majority_vote(problem: Problem) -> Aggregate:
    """Return the most frequent grade or, with a threshold ``cut``, the share of scores above it (aggregator ``mv``).

    In a tie, the smallest grade is returned. With ``cut``, an item is positive if more than half of its scores exceed
    ``cut``. Raises ``FitError`` if the judges' scales are not comparable.
    """
    values = problem.scores.values
    if scales_are_unlike(values):
        raise FitError(
            "mv: scores cannot be counted as votes, because the judges use different scales; use the aggregator "
            "`care`, or convert the scores to one scale"
        )
    if problem.cut is None:
        return Aggregate("mv", modal_grade(values))
    present = ~np.isnan(values)
    count = present.sum(axis=1)
    share = (np.where(present, values, -np.inf) > problem.cut).sum(axis=1) / np.maximum(count, 1)
    return Aggregate("mv", np.where(count > 0, share, np.nan), threshold=0.5)


def average(problem: Problem) -> Aggregate:
    """Average each item's scores (aggregator ``avg``)."""
    p = problem.scores.shape[1]
    return Aggregate("avg", problem.panel_mean, threshold=problem.cut, weights=np.full(p, 1.0 / p))


def median(problem: Problem) -> Aggregate:
    """Return the median of each item's scores (aggregator ``median``)."""
    values = problem.scores.values
    ordered, count = np.sort(values, axis=1), (~np.isnan(values)).sum(axis=1)  # NaN go last
    rows, last = np.arange(len(values)), np.maximum(count - 1, 0)
    middle = 0.5 * (ordered[rows, last // 2] + ordered[rows, (last + 1) // 2])
    return Aggregate("median", np.where(count > 0, middle, np.nan), threshold=problem.cut)


def best_judge(problem: Problem) -> Aggregate:
    """Use the scores of the judge with the highest Kendall's tau with the labels (aggregator ``best_judge``).

    Scores are never reversed. Raises ``FitError`` if all labels are equal, or if no judge correlates positively with
    the labels.
    """
    rows, labels = problem.labels.rows(problem.scores.item_ids)
    agreements = [_agreement(column[rows], labels) for column in problem.scores.values.T]
    best = int(np.argmax(agreements)) if agreements else 0
    if not agreements or agreements[best] <= 0:
        raise FitError(
            f"best_judge: no judge correlates positively with the labels (n = {len(labels)}); label more items"
        )
    judge = problem.scores.judges[best]
    return Aggregate(
        "best_judge",
        problem.scores.values[:, best],
        threshold=problem.cut,
        weights=np.eye(problem.scores.shape[1])[best],
        latent=problem.standardised[:, best],
        labels_used=len(rows),
        details={"judge": judge, "tau_on_anchors": agreements[best]},
    )


def _agreement(scores: Array, labels: Array) -> float:
    scored = ~np.isnan(scores)
    return (tau(scores[scored], labels[scored]) or 0.0) if scored.sum() >= 2 else 0.0


def modal_grade(values: Array) -> Array:
    """Return the most frequent value of each row: the smallest in a tie, NaN for a row without values; shape (n,)."""
    ordered = np.sort(values, axis=1)  # NaN go last
    n, p = ordered.shape
    run, best_run = np.ones(n), np.ones(n)
    best = ordered[:, 0].copy()
    for j in range(1, p):
        run = np.where(ordered[:, j] == ordered[:, j - 1], run + 1, 1)
        better = run > best_run
        best_run = np.where(better, run, best_run)
        best = np.where(better, ordered[:, j], best)
    return best
