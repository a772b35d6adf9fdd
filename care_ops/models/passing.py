"""Pass rate of a system, estimated from a few yes-or-no labels and one score per item.

Each system gets its own logistic regression of the label on the score, P(Y = 1) = expit(a + b x). Pooling would bias
the estimate of a system that judges favour. Jeffreys' prior on (a, b) (Firth, Biometrika 1993) keeps the estimate
finite if all labels agree. The posterior is evaluated on a grid. Labels of the unlabelled items are drawn from this
posterior (finite-population inference: Ghosh and Meeden, 1997).

The mean difference between labels and scores is not used: if judges contradict at most one of twenty labels, the
variance of the differences cannot be estimated, and intervals have much less than their nominal coverage.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from care_ops.scores import Array

_INTERCEPTS, _SLOPES, _BINS = 81, 41, 200
"""Numbers of grid points of the intercept and the slope, and of score bins for unlabelled items."""

_REACH = 5.0
"""Half of the width of a grid, in standard deviations of a normal approximation."""

_MARGIN = 1.0
"""Additional half-width of the grid of intercepts, in logits, for the long tail of a share near 0 or 1."""

_SCORING_STEPS = 500
"""Maximum number of scoring steps; a few labels on skewed scores need many steps."""


@dataclass(frozen=True)
class System:
    """Scores and labels of one system.

    Attributes
    ----------
    scores : (N,) array
        Normal scores of all items of the system, with mean 0 and variance 1.
    labelled : (m,) array of int
        Rows of ``scores`` that have a label.
    labels : (m,) array
        Label of each item: 0, 1, or the share of ones if the item has several labels.
    weights : (m,) array
        Weight of each label; ones for a simple random sample.
    chosen : bool
        Whether some items were more likely to be labelled; labelled items may then differ from the other items.
    alike : float
        Design effect of split units (groups of related items) on the variance of the mean score; 1 without units.
    """

    scores: Array
    labelled: NDArray[np.intp]
    labels: Array
    weights: Array
    chosen: bool = False
    alike: float = 1.0


def draw_shares(system: System, draws: int, rng: np.random.Generator, *, of_these_items: bool = True) -> Array:
    """Draw from the posterior of a system's share of items with Y = 1, shape (draws,).

    Parameters
    ----------
    system : System
        System with at least one label.
    of_these_items : bool
        Whether to estimate the share among the system's items; otherwise, in the population from which they were drawn
        at random.
    """
    grid = _grid(system)
    intercepts, slopes = _draw_parameters(_log_posterior(system, grid), grid, draws, rng)
    return _shares(system, intercepts, slopes, rng, of_these_items=of_these_items)


@dataclass(frozen=True)
class _Grid:
    """Grid of intercepts (C,) and slopes (B,) of logistic regressions on the scores minus ``centre``."""

    intercepts: Array
    slopes: Array
    centre: float


def _grid(system: System) -> _Grid:
    x, w = system.scores[system.labelled], system.weights
    centre = float(w @ x / w.sum())
    level, slope, covariance = _mode(x - centre, system.labels, w)
    reach = _REACH * float(np.sqrt(covariance[0, 0])) + _MARGIN
    intercepts = np.linspace(level - reach, level + reach, _INTERCEPTS)
    width = _REACH * float(np.sqrt(covariance[1, 1]))
    slopes = np.linspace(slope - width, slope + width, _SLOPES) if width > 0 else np.zeros(1)
    return _Grid(intercepts, slopes, centre)


def _mode(x: Array, y: Array, w: Array) -> tuple[float, float, Array]:
    """Find the posterior mode and covariance of intercept and slope under Jeffreys' prior, by Firth's score.

    Steps are halved until the posterior rises, because full steps may fail for separated labels and skewed scores. If
    scores do not vary over the labelled items, the slope is 0 with variance 0.
    """
    design = np.column_stack([np.ones_like(x), x]) if np.ptp(x) > 0 else np.ones((len(x), 1))
    beta = np.zeros(design.shape[1])
    value, step, inverse = _scored(beta, design, y, w)
    for _ in range(_SCORING_STEPS):
        size = float(np.abs(step).max())
        if size < 1e-8:
            break
        share = min(1.0, 2.0 / size)
        trial = _scored(beta + share * step, design, y, w)
        while trial[0] < value and share * size > 1e-10:
            share /= 2.0
            trial = _scored(beta + share * step, design, y, w)
        if trial[0] < value:  # all smaller steps are within rounding errors
            break
        beta, (value, step, inverse) = beta + share * step, trial
    if len(beta) == 1:
        return float(beta[0]), 0.0, np.diag([float(inverse[0, 0]), 0.0])
    return float(beta[0]), float(beta[1]), inverse


def _scored(beta: Array, design: Array, y: Array, w: Array) -> tuple[float, Array, Array]:
    """Return the log posterior of ``beta`` up to a constant, the Fisher scoring step, and the inverse information."""
    logit = design @ beta
    p = expit(logit)
    variance = w * p * (1 - p)
    information = design.T * variance @ design
    sign, log_determinant = np.linalg.slogdet(information)
    if sign <= 0:
        return -np.inf, np.zeros_like(beta), np.zeros_like(information)
    inverse = np.linalg.inv(information)
    leverage = variance * np.einsum("ij,jk,ik->i", design, inverse, design)
    value = float(w @ (y * log_expit(logit) + (1.0 - y) * log_expit(-logit))) + 0.5 * float(log_determinant)
    return value, inverse @ (design.T @ (w * (y - p) + leverage * (0.5 - p))), inverse


def _log_posterior(system: System, grid: _Grid) -> Array:
    """Return the log posterior of each (intercept, slope) given the labels, up to a constant; shape (C, B)."""
    x, y, w = system.scores[system.labelled] - grid.centre, system.labels, system.weights
    total = _jeffreys(x, w, grid)
    for at, share, weight in _counted(x, y, w):
        logit = grid.intercepts[:, None] + grid.slopes[None, :] * at
        if share > 0:
            total += weight * share * log_expit(logit)
        if share < 1:
            total += weight * (1.0 - share) * log_expit(-logit)
    return total


def _counted(x: Array, y: Array, w: Array) -> list[tuple[float, float, float]]:
    together: dict[tuple[float, float], float] = {}
    for at, label, weight in zip(x.tolist(), y.tolist(), w.tolist(), strict=True):
        together[at, label] = together.get((at, label), 0.0) + weight
    return [(at, label, weight) for (at, label), weight in together.items()]


def _jeffreys(x: Array, w: Array, grid: _Grid) -> Array:
    """Return Jeffreys' log prior (half the log determinant of the information) of each grid point; shape (C, B)."""
    zeroth, first, second = (np.zeros((len(grid.intercepts), len(grid.slopes))) for _ in range(3))
    for at, _, weight in _counted(x, np.zeros_like(x), w):
        p = expit(grid.intercepts[:, None] + grid.slopes[None, :] * at)
        information = weight * p * (1 - p)
        zeroth += information
        first += information * at
        second += information * at**2
    determinant = zeroth * second - first**2 if len(grid.slopes) > 1 else zeroth
    return 0.5 * np.log(np.maximum(determinant, 1e-300))


def _draw_parameters(log_posterior: Array, grid: _Grid, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw intercepts (at score 0) and slopes from cells of the grid, uniformly within a cell; shape (draws,) each."""
    weight = np.exp(log_posterior - log_posterior.max()).ravel()
    chosen = np.searchsorted(np.cumsum(weight) / weight.sum(), rng.random(draws), side="right")
    level, slope = np.unravel_index(np.minimum(chosen, weight.size - 1), log_posterior.shape)
    intercepts = grid.intercepts[level] + rng.uniform(-0.5, 0.5, draws) * (grid.intercepts[1] - grid.intercepts[0])
    slopes = grid.slopes[slope]
    if len(grid.slopes) > 1:
        slopes = slopes + rng.uniform(-0.5, 0.5, draws) * (grid.slopes[1] - grid.slopes[0])
    return intercepts - slopes * grid.centre, slopes


def _shares(
    system: System, intercepts: Array, slopes: Array, rng: np.random.Generator, *, of_these_items: bool
) -> Array:
    n = len(system.scores)
    rest = np.delete(system.scores, system.labelled) if of_these_items and not system.chosen else system.scores
    if not len(rest):
        return np.full(len(slopes), float(system.labels.mean()))
    at, count = _binned(rest)
    p = expit(intercepts[:, None] + slopes[:, None] * at[None, :])
    if of_these_items and not system.chosen:  # counts of items, so that an interval ends at a possible share
        return (float(system.labels.sum()) + rng.binomial(count.astype(np.int64), p).sum(axis=1)) / n
    mean = p @ count / n
    if of_these_items:  # chosen items differ from the rest, so all are predicted; known labels narrow the interval
        return mean.mean() + (mean - mean.mean()) * np.sqrt(1.0 - len(system.labels) / n)
    spread = np.sqrt(np.maximum(p**2 @ count / n - mean**2, 0.0) / n * system.alike)
    return np.clip(mean + spread * rng.standard_normal(len(slopes)), 0.0, 1.0)


def _binned(scores: Array) -> tuple[Array, Array]:
    """Return distinct scores and their counts; if over ``_BINS``, the means and counts of ``_BINS`` bins."""
    values, count = np.unique(scores, return_counts=True)
    if len(values) <= _BINS:
        return values, count.astype(np.float64)
    parts = np.array_split(np.sort(scores), _BINS)
    return np.array([part.mean() for part in parts]), np.array([float(len(part)) for part in parts])
