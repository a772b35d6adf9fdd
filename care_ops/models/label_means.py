"""The mean label of a system's items, given a few graded labels and one score for every item.

Survey sampling's regression estimator (Cochran, Sampling Techniques, 1977, chapter 7; as "PPI++" in Angelopoulos, Duchi
and Zrnic, 2023): the labels' mean moved along the slope of labels on scores to where all items lie. The slope is
common to the systems. What is left to each system, its labels less slope times score, is shrunk towards what the others
have left, by the normal hierarchical model (Rubin, Journal of Educational Statistics 1981) with variances from
residuals that leave their own item out.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from care_ops.models.passing import System
from care_ops.scores import Array

_PRIOR_FREEDOM = 3
"""Degrees of freedom that a system's variance takes from that of all systems (moderated as in Smyth, Statistical
Applications in Genetics 2004): the few labels of a system may be all alike where its items are not."""

_TAUS = np.geomspace(0.02, 2.0, 12)
"""Standard deviations between systems, in those of the labels' residuals."""


def draw_means(
    systems: Sequence[System],
    draws: int,
    rng: np.random.Generator,
    *,
    of_these_items: bool = True,
    within: float | None = None,
) -> Array:
    """Posterior draws of each system's mean label.

    Parameters
    ----------
    systems : sequence of S System
        Labels may have any value; each system has at least two.
    of_these_items : bool
        The mean over the items given; otherwise over endless items of which these are a random sample.
    within : float, optional
        Variance of the labels within systems (``variance_within``), towards which that of each is moved.

    Returns
    -------
    means : (draws, S) array
        Rows are joint draws.
    """
    slope, slope_variance, slope_freedom, residuals = _line(systems)
    slopes = slope + np.sqrt(slope_variance) * rng.standard_t(slope_freedom, draws)
    label_mean = np.array([_mean(s.labels, s.weights) for s in systems])
    seen_mean = np.array([_mean(s.scores[s.labelled], s.weights) for s in systems])
    left = label_mean[None, :] - slopes[:, None] * seen_mean[None, :]
    variance = np.array([_variance(s, r, of_these_items) for s, r in zip(systems, residuals, strict=True)])
    freedom = np.array([max(len(s.labels) - 1, 1) for s in systems])
    if within is not None:
        sd = within**0.5
        alike = [_variance(s, np.full(len(s.labels), sd), of_these_items) for s in systems]
        freedom += _PRIOR_FREEDOM
        variance += (np.array(alike) - variance) * _PRIOR_FREEDOM / freedom
    if len(systems) > 1:
        left, variance = _shrunk(left, variance, np.concatenate(residuals), rng)
    left = left + np.sqrt(variance) * rng.standard_t(freedom, left.shape)
    all_mean = np.array([s.scores.mean() for s in systems])
    means = left + slopes[:, None] * all_mean[None, :]
    if of_these_items:
        return means
    spread = np.array([float(s.scores.std()) * np.sqrt(s.alike / len(s.scores)) for s in systems])
    return means + abs(slope) * spread * rng.standard_normal(means.shape)


def variance_within(systems: Sequence[System]) -> float | None:
    """Variance of the labels within the systems, on average; None of one system, which can borrow none."""
    if len(systems) < 2:
        return None
    each = [float(np.var(s.labels, ddof=1)) for s in systems]
    return float(np.average(each, weights=[len(s.labels) - 1 for s in systems]))


def _line(systems: Sequence[System]) -> tuple[float, float, int, list[Array]]:
    """Pooled regression within systems: slope, its variance and degrees of freedom, left-out residuals by system."""
    x = [s.scores[s.labelled] - _mean(s.scores[s.labelled], s.weights) for s in systems]
    y = [s.labels - _mean(s.labels, s.weights) for s in systems]
    size = float(sum(np.sum(s.weights * a**2) for s, a in zip(systems, x, strict=True)))
    slope = float(sum(np.sum(s.weights * a * b) for s, a, b in zip(systems, x, y, strict=True))) / size if size else 0.0
    count = sum(len(s.labels) for s in systems)
    freedom = max(count - len(systems) - (size > 0), 1)
    residuals = [
        (b - slope * a)
        / np.maximum(1.0 - s.weights / s.weights.sum() - (s.weights * a**2 / size if size else 0.0), 0.05)
        for s, a, b in zip(systems, x, y, strict=True)
    ]
    meat = float(sum(np.sum((s.weights * a * r) ** 2) for s, a, r in zip(systems, x, residuals, strict=True)))
    return slope, meat / size**2 if size else 0.0, freedom, residuals


def _variance(system: System, residuals: Array, of_these_items: bool) -> float:
    """Of a system's mean residual: the jackknife's, less what is known where all items have labels."""
    share = system.weights / system.weights.sum()
    known = len(system.labels) / len(system.scores) if of_these_items else 0.0
    return float(np.sum((share * residuals) ** 2)) * (1.0 - known)


def _shrunk(left: Array, variance: Array, residuals: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Posterior means (draws, S) and variances of what is left to each system, the spread between systems drawn too."""
    taus = _TAUS * max(float(residuals.std()), 1e-12)
    centre = left.mean(axis=0)
    total = variance[None, :] + taus[:, None] ** 2
    precision = 1.0 / total
    level = (precision @ centre) / precision.sum(axis=1)
    fit = -0.5 * np.sum(np.log(total) + (centre[None, :] - level[:, None]) ** 2 / total, axis=1)
    log_weight = fit - 0.5 * np.log(precision.sum(axis=1)) + np.log(np.gradient(taus)) - 0.5 * (_TAUS) ** 2
    chosen = rng.choice(len(taus), len(left), p=np.exp(log_weight - logsumexp(log_weight)))
    precision = precision[chosen]
    common = np.sum(precision * left, axis=1) / precision.sum(axis=1)
    common = common + rng.standard_normal(len(left)) / np.sqrt(precision.sum(axis=1))
    own = variance[None, :] / total[chosen]
    return own * common[:, None] + (1.0 - own) * left, variance[None, :] * (1.0 - own)


def _mean(values: Array, weights: Array) -> float:
    return float(weights @ values / weights.sum())
