"""Common factor of a sparse panel, fitted by EM to the observed scores.

    score of judge j on item i = level_j + loading_j * quality_i + noise, with noise of variance_j

Quality is standard normal. A judge with few scores is shrunk towards the average judge: the sufficient statistics of
each judge include ``prior_scores`` scores of an average judge (the mode under a conjugate prior; Dempster, Laird and
Rubin, JRSS B 1977, section 4). Time and memory are proportional to the number of observed scores.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.models.factor_analysis import MIN_UNIQUENESS
from care_ops.scores import Array

PRIOR_SCORES = 10.0
"""Number of scores of an average judge that are added to the scores of each judge."""


@dataclass(frozen=True)
class SparseFactor:
    """Fitted common factor of a sparse panel.

    Attributes
    ----------
    quality : (n,) array
        Posterior mean of each item's quality; 0 for an item without scores.
    sd : (n,) array
        Posterior standard deviation of each item's quality; 1 for an item without scores.
    level, loading, variance : (p,) arrays
        Parameters of each judge; a judge without scores gets average values.
    """

    quality: Array
    sd: Array
    level: Array
    loading: Array
    variance: Array
    iterations: int
    converged: bool


@dataclass(frozen=True)
class _Scores:
    item: NDArray[np.intp]
    judge: NDArray[np.intp]
    score: Array
    items: int
    judges: int

    def by_item(self, weights: Array) -> Array:
        return np.bincount(self.item, weights, self.items).astype(np.float64)

    def by_judge(self, weights: Array) -> Array:
        return np.bincount(self.judge, weights, self.judges).astype(np.float64)


def fit(
    values: Array, *, prior_scores: float = PRIOR_SCORES, tolerance: float = 1e-6, max_iterations: int = 2_000
) -> SparseFactor:
    """Fit levels, loadings and variances by EM, starting from the mean score of each item.

    Parameters
    ----------
    values : (n, p) array
        Scores in comparable units, with variance about one; NaN marks a missing score.
    prior_scores : float
        Weight of the prior, as a number of scores; with 0, the result maximises the likelihood.
    tolerance : float
        Largest change of a loading at which EM stops.
    """
    item, judge = np.nonzero(~np.isnan(values))
    scores = _Scores(item, judge, values[item, judge], *values.shape)
    count = scores.by_item(np.ones(len(item)))
    mean = scores.by_item(scores.score) / np.maximum(count, 1.0)
    centre = float(mean[count > 0].mean())
    quality = np.where(count > 0, mean - centre, 0.0)
    quality = quality / max(float(quality.std()), 1e-12)
    level, loading, variance = _judges(scores, quality, np.zeros(scores.items), prior_scores)
    iteration, change, spread = 0, np.inf, np.ones(scores.items)
    while change > tolerance and iteration < max_iterations:
        iteration += 1
        quality, spread = _items(scores, level, loading, variance)
        before = loading
        level, loading, variance = _judges(scores, quality, spread, prior_scores)
        change = float(np.abs(loading - before).max())
    quality, spread = _items(scores, level, loading, variance)
    return SparseFactor(quality, np.sqrt(spread), level, loading, variance, iteration, change <= tolerance)


def _items(scores: _Scores, level: Array, loading: Array, variance: Array) -> tuple[Array, Array]:
    """Return the posterior mean and variance of each item's quality (the E step)."""
    weight = (loading / variance)[scores.judge]
    precision = 1.0 + scores.by_item(weight * loading[scores.judge])
    return scores.by_item(weight * (scores.score - level[scores.judge])) / precision, 1.0 / precision


def _judges(scores: _Scores, quality: Array, spread: Array, prior_scores: float) -> tuple[Array, Array, Array]:
    """Estimate level, loading and variance of each judge by regression on quality with the prior (the M step)."""
    q, x = quality[scores.item], scores.score
    products = (np.ones(len(q)), q, q**2 + spread[scores.item], x, x * q, x**2)
    sums = [scores.by_judge(product) for product in products]
    count, q1, q2, x1, xq, x2 = (s + prior_scores * float(s.sum()) / len(q) for s in sums)
    count = np.maximum(count, 1e-12)
    across = np.maximum(q2 - q1**2 / count, 1e-12)
    loading = (xq - x1 * q1 / count) / across
    level = (x1 - loading * q1) / count
    variance = (x2 - level * x1 - loading * xq) / count
    least = MIN_UNIQUENESS * np.maximum(x2 / count - (x1 / count) ** 2, 1e-12)
    return level, loading, np.maximum(variance, least)
