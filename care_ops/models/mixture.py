"""Gaussian mixture with one within-state covariance, fitted by EM from given starts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from care_ops.blocks import blocks, by_rows
from care_ops.errors import FitError
from care_ops.models.answers import softmax
from care_ops.scores import Array

Shape = Literal["diagonal", "full"]

SAME_STATES = 1e-4
"""Nats of log likelihood an item within which two fits count as the same."""

TOLERANCE = SAME_STATES / 1_000
"""Rise of the mean log likelihood at which EM stops."""

VARIANCE_FLOOR = 1e-3
"""Least variance of standardised scores within states, in any direction."""

_RANKED_ITEMS, _RANKED_AFTER = 10_000, 30
"""Items and iterations after which starts of EM are ranked: they need not be distinguished within ``SAME_STATES``."""

_Step = Callable[[Array, Array, Array], tuple[float, Array, Array, Array]]


@dataclass(frozen=True)
class Mixture:
    """J | state r ~ N(mu_r, Sigma), Sigma common to the states (paper, equation 1).

    Attributes
    ----------
    weights : (k,) array
    means : (k, p) array
    covariance : (p, p) array
        Sigma, diagonal if judges are independent given the state.
    log_likelihood : float
        Mean over the items.
    start : str
        Name of the start from which EM reached this likelihood.
    """

    weights: Array
    means: Array
    covariance: Array
    log_likelihood: float
    iterations: int
    converged: bool
    start: str

    def log_joint(self, values: Array) -> Array:
        """Return log pi_r + log phi(J_i; mu_r, Sigma) over the scores present, shape (n, k)."""
        return by_rows(self._log_joint, values)

    def _log_joint(self, values: Array) -> Array:
        if not np.isnan(values).any() and not (self.covariance - np.diag(np.diag(self.covariance))).any():
            variance = np.diag(self.covariance)
            scaled = self.means / variance
            squares = (
                (values**2 @ (1.0 / variance))[:, None] - 2 * values @ scaled.T + np.sum(self.means * scaled, axis=1)
            )
            return np.log(self.weights) - 0.5 * (squares + float(np.log(2 * np.pi * variance).sum()))
        out = np.tile(np.log(self.weights), (len(values), 1))
        present = ~np.isnan(values)
        if present.all():  # the one pattern, without sorting the rows
            patterns, which = np.ones((1, values.shape[1]), dtype=np.bool_), np.zeros(len(values), dtype=np.intp)
        else:
            patterns, which = np.unique(present, axis=0, return_inverse=True)
        for number, seen in enumerate(patterns):
            rows = np.flatnonzero(which == number)
            if not seen.any():
                continue
            lower = np.linalg.cholesky(self.covariance[np.ix_(seen, seen)])
            x = np.linalg.solve(lower, values[np.ix_(rows, np.flatnonzero(seen))].T)
            m = np.linalg.solve(lower, self.means[:, seen].T)
            squares = np.sum(x**2, axis=0)[:, None] - 2 * x.T @ m + np.sum(m**2, axis=0)
            constant = seen.sum() * np.log(2 * np.pi) + 2 * np.log(np.diag(lower)).sum()
            out[rows] -= 0.5 * (squares + constant)
        return out

    def posterior(self, values: Array) -> Array:
        """P(state | J), shape (n, k)."""
        return softmax(self.log_joint(values))[0]


def expectation_maximisation(
    values: Array,
    weights: Array,
    means: Array,
    covariance: Array,
    *,
    shape: Shape = "diagonal",
    tolerance: float = TOLERANCE,
    max_iterations: int = 500,
    start: str = "given",
) -> Mixture:
    """Run EM from one start until the mean log-likelihood rises by less than ``tolerance``.

    Parameters
    ----------
    values : (n, p) array
        Scores; NaN is missing and does not enter the likelihood.
    weights : (k,) array
    means : (k, p) array
    covariance : (p, p) array, or (p,) for a diagonal one
    shape : {"diagonal", "full"}
        Shape of the within-state covariance; a full one needs rows without missing scores.

    Raises
    ------
    FitError
        A full covariance is asked for and scores are missing.
    """
    holes = bool(np.isnan(values).any())
    if holes and shape == "full":
        raise FitError("mixture: a full within-state covariance needs rows without missing scores; leave others out")
    step = _with_holes(values) if holes else _complete(values, shape)
    if covariance.ndim == 1:
        covariance = np.diag(covariance)
    if shape == "diagonal":
        covariance = np.diag(np.diag(covariance))
    covariance = floored(covariance)
    previous, converged, iteration = -np.inf, False, 0
    while True:
        current, next_weights, next_means, next_covariance = step(weights, means, covariance)
        converged = current - previous < tolerance
        if converged or iteration >= max_iterations:
            break
        previous, iteration = current, iteration + 1
        weights, means, covariance = next_weights, next_means, next_covariance
    return Mixture(weights, means, covariance, current, iteration, converged, start)


def _complete(x: Array, shape: Shape) -> _Step:
    """Run one step of EM; the squares enter through one constant matrix."""
    n, p = x.shape
    second = x.T @ x

    def step(weights: Array, means: Array, covariance: Array) -> tuple[float, Array, Array, Array]:
        if shape == "diagonal":
            precision = np.diag(1.0 / np.diag(covariance))
            determinant = float(np.log(np.diag(covariance)).sum())
        else:
            precision = np.linalg.inv(covariance)
            determinant = float(np.linalg.slogdet(covariance)[1])
        scaled = precision @ means.T
        constant = np.log(weights) - 0.5 * np.sum(means.T * scaled, axis=0)
        evidence, mass, first = 0.0, np.zeros(len(means)), np.zeros(means.shape)
        for rows in blocks(n):
            r, logs = _shares(scaled.T @ x[rows].T + constant[:, None])
            evidence += logs
            mass += r.sum(axis=1)
            first += r @ x[rows]
        squares = float(np.sum(precision * second)) / n + p * float(np.log(2 * np.pi)) + determinant
        likelihood = evidence / n - 0.5 * squares
        mass = np.maximum(mass, 1e-9)
        centre = first / mass[:, None]
        scatter = (second - (centre * mass[:, None]).T @ centre) / n
        if shape == "diagonal":
            scatter = np.diag(np.diag(scatter))
        share = np.maximum(mass / n, 1.0 / (10 * n))
        return likelihood, share / share.sum(), centre, floored(scatter)

    return step


def _with_holes(values: Array) -> _Step:
    """Run one step of EM with missing scores and a diagonal covariance; sums are over the scores present.

    The variance is common to the states, so an item's squares are the same in all of them, and enter as column sums.
    """
    n, mask = len(values), (~np.isnan(values)).astype(np.float64)
    filled = np.where(np.isnan(values), 0.0, values)
    squares, count = (filled**2).sum(axis=0), mask.sum(axis=0)

    def step(weights: Array, means: Array, covariance: Array) -> tuple[float, Array, Array, Array]:
        variance = np.diag(covariance)
        scaled = means / variance
        evidence, total = 0.0, np.zeros(len(means))
        mass, first = np.zeros(means.shape), np.zeros(means.shape)
        for rows in blocks(n):
            squared = 0.5 * (means * scaled) @ mask[rows].T
            r, logs = _shares(scaled @ filled[rows].T - squared + np.log(weights)[:, None])
            evidence += logs
            total += r.sum(axis=1)
            mass += r @ mask[rows]
            first += r @ filled[rows]
        constant = float(np.sum(squares / variance + count * np.log(2 * np.pi * variance))) / n
        likelihood = evidence / n - 0.5 * constant
        share = np.maximum(total / n, 1.0 / (10 * n))
        centre = np.where(mass > 1e-9, first / np.maximum(mass, 1e-9), means)
        scatter = squares - np.sum(mass * centre**2, axis=0)
        return likelihood, share / share.sum(), centre, floored(np.diag(scatter / np.maximum(count, 1.0)))

    return step


def _shares(joint: Array) -> tuple[Array, float]:
    """P(state | item) from its logarithm up to a constant of the item, (k, n), which is overwritten; and their sum.

    States are rows: numpy takes maxima and sums over a few long rows ten times as fast as over many short ones.
    """
    top = joint.max(axis=0)
    joint -= top
    np.exp(joint, out=joint)
    total = joint.sum(axis=0)
    joint /= total
    return joint, float(np.log(total).sum() + top.sum())


def floored(covariance: Array) -> Array:
    """Raise a covariance to a minimum variance in each direction; copies of a judge have none in one."""
    off_diagonal = covariance - np.diag(np.diag(covariance))
    if not off_diagonal.any():
        return np.diag(np.maximum(np.diag(covariance), VARIANCE_FLOOR))
    variances, directions = np.linalg.eigh(covariance)
    if variances[0] >= VARIANCE_FLOOR:
        return covariance
    return (directions * np.maximum(variances, VARIANCE_FLOOR)) @ directions.T


def start_near(values: Array, centres: Array) -> tuple[Array, Array, Array]:
    """Weights, means and variance of the partition by nearest centre (one k-means step)."""
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
    """Choose k spread-out items as centres (Arthur and Vassilvitskii, 2007), shape (k, p)."""
    filled = np.where(np.isnan(values), 0.0, values)
    chosen = [int(rng.integers(len(filled)))]
    nearest = np.sum((filled - filled[chosen[0]]) ** 2, axis=1)
    for _ in range(k - 1):
        total = float(nearest.sum())
        chance = nearest / total if total > 0 else np.full(len(filled), 1 / len(filled))
        chosen.append(int(rng.choice(len(filled), p=chance)))
        nearest = np.minimum(nearest, np.sum((filled - filled[chosen[-1]]) ** 2, axis=1))
    return filled[chosen]


def fourth_order(values: Array, subspace: Array, k: int, rng: np.random.Generator) -> Array:
    """Find k centres from the fourth moments within a subspace, shape (k, p).

    Two-valued latents have negative kurtosis: the directions of extreme kurtosis (FastICA's cubic fixed point,
    Hyvarinen and Oja, 1997) are those latents, and each item lies on one side of every direction. The k fullest
    corners give the centres. It works where means add up, so that third central moments vanish.

    Parameters
    ----------
    values : (n, p) array
        Scores of mean zero; NaN counts as zero.
    subspace : (p, d) array
        Orthonormal; where the states' means differ (``cp.cross_view_subspace``).
    """
    filled = np.where(np.isnan(values), 0.0, values)
    z = filled @ subspace
    z = z - z.mean(axis=0)
    spread, turn = np.linalg.eigh(z.T @ z / len(z))
    z = z @ (turn / np.sqrt(np.maximum(spread, 1e-12)))
    d = z.shape[1]
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    for _ in range(100):
        projected = z @ axes
        u, _, vt = np.linalg.svd(z.T @ (projected * projected * projected) / len(z) - 3 * axes, full_matrices=False)
        turned = u @ vt
        moved = 1 - float(np.abs(np.sum(turned * axes, axis=0)).min())
        axes = turned
        if moved < 1e-9:
            break
    corner = (z @ axes > 0) @ (1 << np.arange(d))
    sizes = np.bincount(corner, minlength=1 << d)
    fullest = np.argsort(-sizes, kind="stable")[:k]
    if (sizes[fullest] == 0).any() or len(fullest) < k:
        return k_means_plus_plus(values, k, rng)
    return np.array([filled[corner == c].mean(axis=0) for c in fullest])


def best_of(
    values: Array,
    starts: list[tuple[str, Array]],
    *,
    shape: Shape = "diagonal",
    tolerance: float = TOLERANCE,
    max_iterations: int = 500,
) -> tuple[Mixture, dict[str, float]]:
    """Return the most likely mixture over starts: a few iterations each, then the leading one to convergence.

    The few iterations use a sample of ``_RANKED_ITEMS`` if there are more items.

    Parameters
    ----------
    starts : list of (name, (k, p) centres)

    Returns
    -------
    mixture : Mixture
    likelihoods : dict start -> log likelihood after its short run
    """
    few = values
    if len(values) > _RANKED_ITEMS:
        few = values[np.random.default_rng(len(values)).choice(len(values), _RANKED_ITEMS, replace=False)]
    short = [
        expectation_maximisation(few, *start_near(few, centres), shape=shape, start=name, max_iterations=_RANKED_AFTER)
        for name, centres in starts
    ]
    leading = max(short, key=lambda fit: fit.log_likelihood)
    best = continued(leading, values, shape, tolerance, max_iterations)
    return best, {fit.start: fit.log_likelihood for fit in short}


def continued(
    fit: Mixture, values: Array, shape: Shape = "diagonal", tolerance: float = TOLERANCE, max_iterations: int = 500
) -> Mixture:
    """Continue EM on these items from another fit, such as the fit of a sample."""
    return expectation_maximisation(
        values,
        fit.weights,
        fit.means,
        fit.covariance,
        shape=shape,
        start=fit.start,
        tolerance=tolerance,
        max_iterations=max_iterations,
    )
