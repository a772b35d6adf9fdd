"""The mean label of a system's items, given a few graded labels and one score for every item.

Survey sampling's regression estimator (Cochran, Sampling Techniques, 1977, chapter 7; as "PPI++" in Angelopoulos, Duchi
and Zrnic, 2023), for each system by itself: the labels' mean moved along the slope of labels on scores to where all
items lie. Ten labels hardly determine slope and variance, and priors worth three labels steady both: the slope is
shrunk, and the residuals' variance is moved towards that of the labels. Residuals are scaled by their leverage (HC2,
MacKinnon and White, Journal of Econometrics 1985).
"""

from collections.abc import Sequence

import numpy as np

from care_ops.models.passing import System
from care_ops.scores import Array

_PRIOR_FREEDOM = 3
"""Degrees of freedom that the residuals' variance takes from that of the labels, of all systems where there are several
(moderated as in Smyth, Statistical Applications in Genetics 2004): the few labels of a system may be all alike where
its items are not."""

_PRIOR_SLOPE = 3.0
"""Labels that a slope of 0 counts for. With it, 90 % intervals by ten graded labels are 1.16 times as wide as PPI++'s,
on five recorded panels and four simulated ones, and cover .88 on average where PPI++'s cover .81. Without it, and with
residuals that leave their item out, they were 1.40 times as wide and covered .91."""


def draw_means(
    system: System, draws: int, rng: np.random.Generator, *, of_these_items: bool = True, within: float | None = None
) -> Array:
    """Return the posterior draws of a system's mean label, shape (draws,).

    Parameters
    ----------
    system : System
        Labels may have any value; there are at least two.
    of_these_items : bool
        The mean over the items given; otherwise over endless items of which these are a random sample.
    within : float, optional
        Variance of the labels within systems (``variance_within``), towards which this one's is moved.
    """
    slope, residuals = _line(system)
    variance, freedom = _variance(system, residuals, of_these_items), max(len(system.labels) - 1, 1)
    alike = float(np.var(system.labels, ddof=1)) if within is None else within
    prior = _variance(system, np.full(len(system.labels), alike**0.5), of_these_items)
    variance += (prior - variance) * _PRIOR_FREEDOM / (freedom + _PRIOR_FREEDOM)
    moved = slope * (float(system.scores.mean()) - _mean(system.scores[system.labelled], system.weights))
    noise = np.sqrt(variance) * rng.standard_t(freedom + _PRIOR_FREEDOM, draws)
    means = _mean(system.labels, system.weights) + moved + noise
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


def _line(system: System) -> tuple[float, Array]:
    """Regression of labels on scores of unit variance: the shrunk slope, and residuals scaled by their leverage."""
    w = system.weights
    x = system.scores[system.labelled] - _mean(system.scores[system.labelled], w)
    y = system.labels - _mean(system.labels, w)
    size = float(np.sum(w * x**2)) + _PRIOR_SLOPE
    slope = float(np.sum(w * x * y)) / size
    leverage = w / w.sum() + w * x**2 / size
    return slope, (y - slope * x) / np.sqrt(np.maximum(1.0 - leverage, 0.05))


def _variance(system: System, residuals: Array, of_these_items: bool) -> float:
    """Estimate the variance of a system's mean residual; labelled items of a finite set reduce it."""
    share = system.weights / system.weights.sum()
    known = len(system.labels) / len(system.scores) if of_these_items else 0.0
    return float(np.sum((share * residuals) ** 2)) * (1.0 - known)


def _mean(values: Array, weights: Array) -> float:
    return float(weights @ values / weights.sum())
