"""Mean label of a system's items, estimated from a few graded labels and one score for every item.

Each system gets its own regression estimate (Cochran, Sampling Techniques, 1977, chapter 7; "PPI++" in Angelopoulos,
Duchi and Zrnic, 2023): the mean label, adjusted to the mean score of all items by the slope of labels on scores. Ten
labels determine slope and variance poorly. A prior with the weight of three labels shrinks the slope towards 0, and a
second prior shrinks the residual variance towards the labels' variance. Residuals are scaled by their leverage (HC2,
MacKinnon and White, Journal of Econometrics 1985).
"""

from collections.abc import Sequence

import numpy as np

from care_ops.models.passing import System
from care_ops.scores import Array

_PRIOR_FREEDOM = 3
"""Degrees of freedom of the prior for the residual variance (Smyth, Statistical Applications in Genetics 2004). The
prior is the label variance of all systems, because a system's few labels may be equal although the items differ."""

_PRIOR_SLOPE = 3.0
"""Weight of the prior slope of 0, as a number of labels. On five recorded and four simulated panels, 90 % intervals
from ten graded labels are 1.16 times as wide as PPI++ intervals and cover .88 on average instead of .81. Without the
prior and with leave-one-out residuals, intervals were 1.40 times as wide and covered .91."""


def draw_means(
    system: System, draws: int, rng: np.random.Generator, *, of_these_items: bool = True, within: float | None = None
) -> Array:
    """Draw from the posterior of a system's mean label, shape (draws,).

    Parameters
    ----------
    system : System
        System with at least two labels, which may be any numbers.
    of_these_items : bool
        Whether to estimate the mean over the system's items; otherwise, over the population from which they were drawn.
    within : float, optional
        Variance of the labels within systems (``variance_within``); the system's variance is shrunk towards it.
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
    """Average the variances of the labels within each system; return None for a single system."""
    if len(systems) < 2:
        return None
    each = [float(np.var(s.labels, ddof=1)) for s in systems]
    return float(np.average(each, weights=[len(s.labels) - 1 for s in systems]))


def _line(system: System) -> tuple[float, Array]:
    """Regress labels on scores of unit variance; return the shrunk slope, and residuals scaled by their leverage."""
    w = system.weights
    x = system.scores[system.labelled] - _mean(system.scores[system.labelled], w)
    y = system.labels - _mean(system.labels, w)
    size = float(np.sum(w * x**2)) + _PRIOR_SLOPE
    slope = float(np.sum(w * x * y)) / size
    leverage = w / w.sum() + w * x**2 / size
    return slope, (y - slope * x) / np.sqrt(np.maximum(1.0 - leverage, 0.05))


def _variance(system: System, residuals: Array, of_these_items: bool) -> float:
    """Estimate the variance of a system's mean residual; ``of_these_items`` adds the finite population correction."""
    share = system.weights / system.weights.sum()
    known = len(system.labels) / len(system.scores) if of_these_items else 0.0
    return float(np.sum((share * residuals) ** 2)) * (1.0 - known)


def _mean(values: Array, weights: Array) -> float:
    return float(weights @ values / weights.sum())
