"""Gaussian mixture with one covariance common to all states, fitted by EM from given starts."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from care_ops.blocks import blocks, by_rows
from care_ops.models.answers import softmax
from care_ops.scores import Array

SAME_STATES = 1e-4
"""Maximum difference of the mean log likelihood, in nats, between two fits that count as the same."""

TOLERANCE = SAME_STATES / 1_000
"""Minimum rise of the mean log likelihood, in nats, for another step of EM."""

VARIANCE_FLOOR = 1e-3
"""Minimum variance of standardised scores within states, in any direction."""

_RANKED_ITEMS, _RANKED_AFTER = 10_000, 30
"""Number of items and number of EM iterations for ranking starts; this needs less precision than a fit."""

_Step = Callable[[Array, Array, Array], tuple[float, Array, Array, Array]]


@dataclass(frozen=True)
class Mixture:
    """Mixture J | state r ~ N(mu_r, Sigma), with Sigma common to the states (paper, equation 1).

    Attributes
    ----------
    weights : (k,) array
    means : (k, p) array
    covariance : (p, p) array
        Sigma, diagonal if judges are independent given the state.
    log_likelihood : float
        Mean log likelihood of the items.
    start : str
        Name of the start from which EM reached this likelihood.
    """

    weights: Array
    means: Array
    covariance: Array
    log_likelihood: float
    converged: bool
    start: str

    def log_joint(self, values: Array) -> Array:
        """Return the log joint density of each state and the observed scores of each item, shape (n, k)."""
        return by_rows(self._log_joint, values)

    def _log_joint(self, values: Array) -> Array:
        present, variance = ~np.isnan(values), np.diag(self.covariance)
        if not (self.covariance - np.diag(variance)).any():
            filled, scaled = np.where(present, values, 0.0), self.means / variance
            squares = filled**2 @ (1.0 / variance) + present @ np.log(2 * np.pi * variance)
            squares = squares[:, None] - 2 * filled @ scaled.T + present @ (self.means * scaled).T
            return np.log(self.weights) - 0.5 * squares
        out = np.tile(np.log(self.weights), (len(values), 1))
        patterns, which = np.unique(present, axis=0, return_inverse=True)
        for number, seen in enumerate(patterns):
            rows = np.flatnonzero(which == number)
            lower = np.linalg.cholesky(self.covariance[np.ix_(seen, seen)])
            x = np.linalg.solve(lower, values[np.ix_(rows, np.flatnonzero(seen))].T)
            m = np.linalg.solve(lower, self.means[:, seen].T)
            squares = np.sum(x**2, axis=0)[:, None] - 2 * x.T @ m + np.sum(m**2, axis=0)
            out[rows] -= 0.5 * (squares + seen.sum() * np.log(2 * np.pi) + 2 * np.log(np.diag(lower)).sum())
        return out

    def posterior(self, values: Array) -> Array:
        """Return the probability of each state given the observed scores of each item, shape (n, k)."""
        return softmax(self.log_joint(values))[0]


def expectation_maximisation(
    values: Array,
    weights: Array,
    means: Array,
    variance: Array,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = 500,
    start: str = "given",
) -> Mixture:
    """Run EM with a diagonal covariance from one start until the mean log likelihood rises by less than ``tolerance``.

    Parameters
    ----------
    values : (n, p) array
        Scores; NaN marks a missing score, which does not enter the likelihood.
    weights, means, variance : (k,) array, (k, p) array and (p,) array
        Start of EM; ``variance`` is the diagonal of the covariance within states.
    """
    step, variance = _step_of(values), np.maximum(variance, VARIANCE_FLOOR)
    previous, converged, iteration = -np.inf, False, 0
    while True:
        current, next_weights, next_means, next_variance = step(weights, means, variance)
        converged = current - previous < tolerance
        if converged or iteration >= max_iterations:
            break
        previous, iteration = current, iteration + 1
        weights, means, variance = next_weights, next_means, next_variance
    return Mixture(weights, means, np.diag(variance), current, converged, start)


def _step_of(values: Array) -> _Step:
    """Return a function that performs one EM step on the given scores, ignoring missing scores.

    The variance is common to all states, so the squared scores do not depend on the state and enter only as sums.
    """
    absent, n = np.isnan(values), len(values)
    mask = (~absent).astype(np.float64) if absent.any() else None
    filled = values if mask is None else np.where(absent, 0.0, values)
    squares = np.einsum("np,np->p", filled, filled)
    count = np.full(values.shape[1], float(n)) if mask is None else mask.sum(axis=0)

    def step(weights: Array, means: Array, variance: Array) -> tuple[float, Array, Array, Array]:
        scaled = means / variance
        half, logs = 0.5 * (means * scaled), np.log(weights)[:, None]
        evidence, total = 0.0, np.zeros(len(means))
        mass, first = np.zeros(means.shape), np.zeros(means.shape)
        for rows in blocks(n):
            squared = half.sum(axis=1)[:, None] if mask is None else half @ mask[rows].T
            r, log_sum = _shares(scaled @ filled[rows].T - squared + logs)
            evidence, items = evidence + log_sum, r.sum(axis=1)
            total += items
            mass += items[:, None] if mask is None else r @ mask[rows]
            first += r @ filled[rows]
        constant = float(np.sum(squares / variance + count * np.log(2 * np.pi * variance))) / n
        share = np.maximum(total / n, 1.0 / (10 * n))
        centre = first / np.maximum(mass, 1e-9)  # a state without items moves to the mean, and may gain some there
        scatter = (squares - np.sum(mass * centre**2, axis=0)) / np.maximum(count, 1.0)
        return evidence / n - 0.5 * constant, share / share.sum(), centre, np.maximum(scatter, VARIANCE_FLOOR)

    return step


def _shares(joint: Array) -> tuple[Array, float]:
    """Overwrite log P(state, item) with P(state | item), shape (k, n); return it and the summed log-sum-exp.

    States are rows, because numpy is ten times slower if the short axis comes last.
    """
    top = joint.max(axis=0)
    joint -= top
    np.exp(joint, out=joint)
    total = joint.sum(axis=0)
    joint /= total
    return joint, float(np.log(total).sum() + top.sum())


def floored(covariance: Array) -> Array:
    """Raise the eigenvalues of a covariance to at least ``VARIANCE_FLOOR``; identical judges give eigenvalues of 0."""
    variances, directions = np.linalg.eigh(covariance)
    if variances[0] >= VARIANCE_FLOOR:
        return covariance
    return (directions * np.maximum(variances, VARIANCE_FLOOR)) @ directions.T


def start_near(values: Array, centres: Array) -> tuple[Array, Array, Array]:
    """Assign each item to the nearest centre, and return weights, means and variance of the groups (a k-means step)."""
    mask = (~np.isnan(values)).astype(np.float64)
    filled = np.where(np.isnan(values), 0.0, values)
    distance = -2 * filled @ centres.T + mask @ (centres**2).T
    label = np.argmin(distance, axis=1)
    one_hot = np.eye(len(centres))[label]
    mass = one_hot.T @ mask
    means = np.where(mass > 0, one_hot.T @ filled / np.maximum(mass, 1), centres)
    residual = (filled - means[label] * mask) ** 2
    weights = np.maximum(one_hot.mean(axis=0), 1e-3)
    return weights / weights.sum(), means, residual.sum(axis=0) / np.maximum(mask.sum(axis=0), 1)


def k_means_plus_plus(values: Array, k: int, rng: np.random.Generator) -> Array:
    """Choose k items as initial centres by k-means++ (Arthur and Vassilvitskii, 2007); shape (k, p)."""
    filled = np.where(np.isnan(values), 0.0, values)
    chosen = [int(rng.integers(len(filled)))]
    nearest = np.sum((filled - filled[chosen[0]]) ** 2, axis=1)
    for _ in range(k - 1):
        total = float(nearest.sum())
        chance = nearest / total if total > 0 else np.full(len(filled), 1 / len(filled))
        chosen.append(int(rng.choice(len(filled), p=chance)))
        nearest = np.minimum(nearest, np.sum((filled - filled[chosen[-1]]) ** 2, axis=1))
    return filled[chosen]


def best_of(values: Array, starts: list[tuple[str, Array]], tolerance: float = TOLERANCE) -> Mixture:
    """Run a few EM iterations from each start, and continue the most likely mixture to convergence.

    The first iterations use a sample if there are more than ``_RANKED_ITEMS`` items.

    Parameters
    ----------
    starts : list of (name, (k, p) centres)
    """
    few = values
    if len(values) > _RANKED_ITEMS:
        few = values[np.random.default_rng(len(values)).choice(len(values), _RANKED_ITEMS, replace=False)]
    short = [
        expectation_maximisation(few, *start_near(few, centres), start=name, max_iterations=_RANKED_AFTER)
        for name, centres in starts
    ]
    return continued(max(short, key=lambda fit: fit.log_likelihood), values, tolerance)


def continued(fit: Mixture, values: Array, tolerance: float, max_iterations: int = 500) -> Mixture:
    """Continue EM on all items from a fitted mixture, such as the fit of a sample."""
    variance = np.diag(fit.covariance)
    return expectation_maximisation(
        values, fit.weights, fit.means, variance, start=fit.start, tolerance=tolerance, max_iterations=max_iterations
    )
