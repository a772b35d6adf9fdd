"""The mean label of a system's items, given a few graded labels and one score for every item.

Survey sampling's regression estimator (Cochran, Sampling Techniques, 1977, chapter 7; as "PPI++" in Angelopoulos, Duchi
and Zrnic, 2023), for each system by itself: the labels' mean moved along the slope of labels on scores to where all
items lie, with a variance from residuals that leave their own item out.
"""

from collections.abc import Sequence

import numpy as np

from care_ops.models.passing import System
from care_ops.scores import Array

_PRIOR_FREEDOM = 3
"""Degrees of freedom that a system's variance takes from that of all systems (moderated as in Smyth, Statistical
Applications in Genetics 2004): the few labels of a system may be all alike where its items are not."""


def draw_means(
    system: System, draws: int, rng: np.random.Generator, *, of_these_items: bool = True, within: float | None = None
) -> Array:
    """Posterior draws of a system's mean label, shape (draws,).

    Parameters
    ----------
    system : System
        Labels may have any value; there are at least two.
    of_these_items : bool
        The mean over the items given; otherwise over endless items of which these are a random sample.
    within : float, optional
        Variance of the labels within systems (``variance_within``), towards which this one's is moved.
    """
    slope, slope_variance, slope_freedom, residuals = _line(system)
    slopes = slope + np.sqrt(slope_variance) * rng.standard_t(slope_freedom, draws)
    left = _mean(system.labels, system.weights) - slopes * _mean(system.scores[system.labelled], system.weights)
    variance, freedom = _variance(system, residuals, of_these_items), max(len(system.labels) - 1, 1)
    if within is not None:
        alike = _variance(system, np.full(len(system.labels), within**0.5), of_these_items)
        freedom += _PRIOR_FREEDOM
        variance += (alike - variance) * _PRIOR_FREEDOM / freedom
    means = left + np.sqrt(variance) * rng.standard_t(freedom, draws) + slopes * system.scores.mean()
    if of_these_items:
        return means
    spread = float(system.scores.std()) * np.sqrt(system.alike / len(system.scores))
    return means + abs(slope) * spread * rng.standard_normal(draws)


def variance_within(systems: Sequence[System]) -> float | None:
    """Variance of the labels within the systems, on average; None of one system, which can borrow none."""
    if len(systems) < 2:
        return None
    each = [float(np.var(s.labels, ddof=1)) for s in systems]
    return float(np.average(each, weights=[len(s.labels) - 1 for s in systems]))


def _line(system: System) -> tuple[float, float, int, Array]:
    """Regression of labels on scores: slope, its variance and degrees of freedom, left-out residuals."""
    w = system.weights
    x = system.scores[system.labelled] - _mean(system.scores[system.labelled], w)
    y = system.labels - _mean(system.labels, w)
    size = float(np.sum(w * x**2))
    slope = float(np.sum(w * x * y)) / size if size else 0.0
    leverage = w / w.sum() + (w * x**2 / size if size else 0.0)
    residuals = (y - slope * x) / np.maximum(1.0 - leverage, 0.05)
    meat = float(np.sum((w * x * residuals) ** 2))
    return slope, meat / size**2 if size else 0.0, max(len(y) - 1 - (size > 0), 1), residuals


def _variance(system: System, residuals: Array, of_these_items: bool) -> float:
    """Of a system's mean residual: the jackknife's, less what is known where all items have labels."""
    share = system.weights / system.weights.sum()
    known = len(system.labels) / len(system.scores) if of_these_items else 0.0
    return float(np.sum((share * residuals) ** 2)) * (1.0 - known)


def _mean(values: Array, weights: Array) -> float:
    return float(weights @ values / weights.sum())
