"""Metrics that compare the ranking or the values of estimates with gold labels."""

from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import NDArray

from care_ops.calibration import fill_uniformly
from care_ops.concerns import Changed
from care_ops.errors import InputError
from care_ops.records import Evaluation
from care_ops.scores import Array, correlation, ranks


def rank_correlation(x: Array, y: Array, *, at_least: int = 2) -> float:
    """Compute Spearman's rank correlation of two arrays (n,), without the entries that are NaN in either array.

    The result is NaN with fewer than ``at_least`` common entries, or if one array is constant over them.
    """
    both = ~np.isnan(x) & ~np.isnan(y)
    return correlation(ranks(x[both]), ranks(y[both]), at_least=at_least)


def changed(scores: Array, other: Array) -> Changed:
    """Compare two rankings of the same items, by the values in two arrays (n,).

    Values that differ only by rounding errors are ties; the first of tied items ranks higher. An item at the median of
    either array does not count in ``halves_changed``.
    """
    a, b = (np.round((x - np.median(x)) / (np.std(x) or 1.0), 9) for x in (scores, other))
    top = min(max(len(a) // 10, 1), len(a))
    first, second = np.argsort(-a, kind="stable")[:top], np.argsort(-b, kind="stable")[:top]
    halves_changed = int(np.sum(np.sign(a) * np.sign(b) < 0))
    return Changed(correlation(ranks(a), ranks(b)), halves_changed, top - len(np.intersect1d(first, second)), top)


def evaluate(
    estimate: Array,
    gold: Array,
    *,
    threshold: float | None,
    scale: tuple[float, float] | None,
    sd: Array | None = None,
    p_quality: Array | None = None,
) -> Evaluation:
    """Evaluate an aggregate against gold labels, on the items with an estimate and a gold label.

    Parameters
    ----------
    estimate, gold : (n,) arrays
        Estimates and gold labels, with NaN for unknown values. Gold labels that are all 0 or 1 count as binary.
    threshold : float, optional
        ``estimate > threshold`` decides Q = 1.
    scale : (low, high), optional
        Scale of the scores; needed only for ``mae_filled``.
    sd, p_quality : (n,) arrays, optional
        Standard deviation and P(Q = 1) of each estimate; without them, uncertainty is closeness to the threshold.

    Raises
    ------
    InputError
        The arrays differ in length.
    """
    if estimate.shape != gold.shape:
        raise InputError(
            f"metrics: estimate has shape {estimate.shape}, but gold has {gold.shape}; give both for each item"
        )
    measured = ~np.isnan(estimate) & ~np.isnan(gold)
    e, g = estimate[measured], gold[measured]
    n = len(g)
    if n < 2:
        return Evaluation(n)
    if not is_binary(g):
        filled = None if scale is None else float(np.mean(np.abs(fill_uniformly(e, *scale) - g)))
        area = auc(e, g) if len(np.unique(g)) == 2 else None
        return Evaluation(n, tau(e, g), area, mae=float(np.mean(np.abs(e - g))), mae_filled=filled)
    given = None if p_quality is None or np.isnan(p_quality[measured]).any() else p_quality[measured]
    order = Evaluation(
        n, tau(e, g), auc(e, g), calibration_error=None if given is None else calibration_error(given, g)
    )
    if threshold is None:
        return order
    decided, right = e > threshold, g > 0.5
    spread = np.ones(n) if sd is None else sd[measured]
    uncertainty = -np.abs(e - threshold) / np.where(spread > 0, spread, 1.0)
    return replace(
        order,
        accuracy=float(np.mean(decided == right)),
        balanced_accuracy=_balanced(decided, right),
        risk_coverage=risk_coverage_gain(uncertainty, decided != right),
    )


def is_binary(gold: Array) -> bool:
    """Return whether all gold labels are 0 or 1."""
    return bool(np.isin(gold[~np.isnan(gold)], (0.0, 1.0)).all())


def auc(estimate: Array, gold: Array) -> float | None:
    """Compute the area under the ROC curve, with ties counted as one half; None if gold has only one value."""
    positive = gold == max(gold, default=0)
    m, n = int(positive.sum()), int((~positive).sum())
    if m == 0 or n == 0:
        return None
    return float((ranks(estimate)[positive].sum() - m * (m + 1) / 2) / (m * n))


def tau(estimate: Array, gold: Array) -> float | None:
    """Compute Kendall's tau-b, which favours tied estimates if gold has few values; None if an input is constant."""
    coefficient = float(np.asarray(scipy.stats.kendalltau(estimate, gold))[0])
    return None if np.isnan(coefficient) else coefficient


def risk_coverage_gain(uncertainty: Array, wrong: NDArray[np.bool_]) -> float | None:
    """Measure how well uncertainty ranks errors: 0 for a random order, 1 if the errors are the most uncertain.

    The measure is the area under the risk-coverage curve (Geifman and El-Yaniv, 2017), rescaled to give 0 and 1 for
    these two orders. The result is None if no decision is wrong, or if all are wrong.

    Parameters
    ----------
    uncertainty : (n,) array
        Uncertainty of each decision; the measure averages over all orders of tied decisions.
    wrong : (n,) array of bool
    """
    n, errors = len(wrong), int(wrong.sum())
    if errors in (0, n):
        return None
    _, place, size = np.unique(uncertainty, return_inverse=True, return_counts=True)
    expected = (np.bincount(place, wrong.astype(np.float64)) / size)[np.sort(place)]
    answered = np.arange(1, n + 1)
    area = float(np.mean(np.cumsum(expected) / answered))
    least = float(np.mean(np.maximum(answered - (n - errors), 0) / answered))
    return (errors / n - area) / (errors / n - least)


def calibration_error(probability: Array, gold: Array, bins: int = 10) -> float:
    """Compute the expected calibration error over ``bins`` bins of equal width."""
    place = np.minimum((probability * bins).astype(int), bins - 1)
    excess = np.bincount(place, probability - gold, bins)
    return float(np.abs(excess).sum()) / len(gold)


def _balanced(decided: NDArray[np.bool_], positive: NDArray[np.bool_]) -> float | None:
    if positive.all() or not positive.any():
        return None
    return float(0.5 * (decided[positive].mean() + (~decided[~positive]).mean()))
