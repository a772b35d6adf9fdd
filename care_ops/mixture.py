"""Gaussian mixture with one within-component covariance, fitted by EM from given starts.

Belongs here: expectation-maximisation and its starts. Does not: where a start comes from when it is not
the data themselves (``cp``), what the states mean (``aggregators.care_tensor``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[np.float64]

_VARIANCE_FLOOR = 1e-3


@dataclass(frozen=True)
class Mixture:
    """J | state r ~ N(mu_r, Sigma), Sigma diagonal and common to the states (paper, equation 1).

    Attributes
    ----------
    weights : (k,) array
    means : (k, p) array
    variance : (p,) array
        The diagonal of Sigma.
    log_likelihood : float
        Mean over the items.
    iterations : int
    converged : bool
    start : str
        Which start won.
    """

    weights: Array
    means: Array
    variance: Array
    log_likelihood: float
    iterations: int
    converged: bool
    start: str

    def log_joint(self, values: Array) -> Array:
        """log pi_r + log phi(J_i; mu_r, Sigma) over the scores present, shape (n, k)."""
        return _log_joint(_Data(values), self.weights, self.means, self.variance)

    def posterior(self, values: Array) -> Array:
        """P(state | J), shape (n, k)."""
        log_joint = self.log_joint(values)
        return np.exp(log_joint - log_sum(log_joint)[:, None])


class _Data:
    """Values with missing ones as zero, and the mask, so that each sum is one matrix product."""

    def __init__(self, values: Array) -> None:
        present = ~np.isnan(values)
        self.mask = present.astype(np.float64)
        self.filled = np.where(present, values, 0.0)
        self.square = self.filled**2


def expectation_maximisation(
    values: Array,
    weights: Array,
    means: Array,
    variance: Array,
    *,
    tolerance: float = 1e-7,
    max_iterations: int = 500,
    start: str = "given",
) -> Mixture:
    """EM from one start, stopped when the mean log-likelihood rises by less than ``tolerance``.

    Parameters
    ----------
    values : (n, p) array
        Scores; NaN is missing and simply leaves the likelihood.
    weights : (k,) array
    means : (k, p) array
    variance : (p,) array
    """
    data, n = _Data(values), len(values)
    weights, means, variance = weights.copy(), means.copy(), np.maximum(variance, _VARIANCE_FLOOR)
    previous, converged, iteration = -np.inf, False, 0
    while True:
        log_joint = _log_joint(data, weights, means, variance)
        evidence = log_sum(log_joint)
        current = float(evidence.mean())
        converged = current - previous < tolerance
        if converged or iteration >= max_iterations:
            break
        previous, iteration = current, iteration + 1
        r = np.exp(log_joint - evidence[:, None])
        weights = np.maximum(r.mean(axis=0), 1.0 / (10 * n))
        weights /= weights.sum()
        mass, first, second = r.T @ data.mask, r.T @ data.filled, r.T @ data.square
        means = np.where(mass > 1e-9, first / np.maximum(mass, 1e-9), means)
        scatter = (second - 2 * means * first + means**2 * mass).sum(axis=0)
        variance = np.maximum(scatter / data.mask.sum(axis=0), _VARIANCE_FLOOR)
    return Mixture(weights, means, variance, current, iteration, converged, start)


def start_near(values: Array, centres: Array) -> tuple[Array, Array, Array]:
    """Weights, means and variance of the partition by nearest centre (one k-means step)."""
    data = _Data(values)
    distance = -2 * data.filled @ centres.T + data.mask @ (centres**2).T
    label = np.argmin(distance, axis=1)
    one_hot = np.eye(len(centres))[label]
    mass = one_hot.T @ data.mask
    means = np.where(mass > 0, one_hot.T @ data.filled / np.maximum(mass, 1), centres)
    residual = (data.filled - means[label] * data.mask) ** 2
    weights = np.maximum(one_hot.mean(axis=0), 1e-3)
    return weights / weights.sum(), means, residual.sum(axis=0) / np.maximum(data.mask.sum(axis=0), 1)


def k_means_plus_plus(values: Array, k: int, rng: np.random.Generator) -> Array:
    """k spread-out items as centres (Arthur and Vassilvitskii, 2007), shape (k, p)."""
    filled = np.where(np.isnan(values), 0.0, values)
    chosen = [int(rng.integers(len(filled)))]
    nearest = np.sum((filled - filled[chosen[0]]) ** 2, axis=1)
    for _ in range(k - 1):
        total = float(nearest.sum())
        chance = nearest / total if total > 0 else np.full(len(filled), 1 / len(filled))
        chosen.append(int(rng.choice(len(filled), p=chance)))
        nearest = np.minimum(nearest, np.sum((filled - filled[chosen[-1]]) ** 2, axis=1))
    return filled[chosen]


def log_sum(log_values: Array) -> Array:
    """log sum exp over the last axis, without overflow."""
    return np.asarray(logsumexp(log_values, axis=-1), dtype=np.float64)


def _log_joint(data: _Data, weights: Array, means: Array, variance: Array) -> Array:
    scaled = means / variance
    quadratic = (data.square @ (1 / variance))[:, None] - 2 * data.filled @ scaled.T + data.mask @ (means * scaled).T
    constant = data.mask @ np.log(2 * np.pi * variance)
    return np.log(weights) - 0.5 * (quadratic + constant[:, None])
