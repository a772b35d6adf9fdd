"""The share of items that people would pass, given a few yes-or-no labels and one score for every item.

The model is a logistic regression of the label on the score, P(Y = 1) = expit(a + b x), for each system by itself: what
systems lent one another would draw the one that judges favour towards the others. Jeffreys' prior on (a, b) (Firth,
Biometrika 1993) keeps it finite where all labels agree. The posterior is summed over a grid, so nothing is approximated
but the grid, and the items without a label are drawn from it (finite-population inference: Ghosh and Meeden, 1997).

Why a model of the label and not a mean of differences: with twenty labels, of which the judges contradict one or none,
the differences have no variance to estimate, and intervals from them cover far less than they claim.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from care_ops.scores import Array

_INTERCEPTS, _SLOPES, _BINS = 81, 41, 200
"""Points of the grids, and bins into which the scores of unlabelled items are counted."""

_REACH = 5.0
"""Half the width of a grid, in standard deviations of a normal approximation."""

_MARGIN = 1.0
"""What the grid of intercepts has beyond that, in logits: the posterior of a share near 0 or 1 has a long tail."""

_SCORING_STEPS = 500
"""At most; few labels on skewed scores take the most."""


@dataclass(frozen=True)
class System:
    """What is known of one system.

    Attributes
    ----------
    scores : (N,) array
        Of all its items, labelled or not: normal scores of mean 0 and variance 1.
    labelled : (m,) array of int
        Rows of ``scores`` that have a label.
    labels : (m,) array
        0 or 1; where several people labelled an item, the share of them that said 1.
    weights : (m,) array
        How much each label counts; ones for a simple random sample.
    chosen : bool
        Whether some items were likelier to be labelled than others, so that labelled items are unlike the rest.
    alike : float
        Variance of the scores' mean over endless items, by that of as many independent ones: 1 without split units.
    """

    scores: Array
    labelled: NDArray[np.intp]
    labels: Array
    weights: Array
    chosen: bool = False
    alike: float = 1.0


def draw_shares(system: System, draws: int, rng: np.random.Generator, *, of_these_items: bool = True) -> Array:
    """Return the posterior draws of a system's share of items with Y = 1, shape (draws,).

    Parameters
    ----------
    system : System
        It has a label.
    of_these_items : bool
        The share among the items given, of which the labelled ones are known; otherwise among endless items of which
        these are a random sample.
    """
    grid = _grid(system)
    intercepts, slopes = _draw_parameters(_log_posterior(system, grid), grid, draws, rng)
    return _shares(system, intercepts, slopes, rng, of_these_items=of_these_items)


@dataclass(frozen=True)
class _Grid:
    """Points of the intercept at ``centre`` of the scores, and of the slope; all (C,) and (B,)."""

    intercepts: Array
    slopes: Array
    centre: float


def _grid(system: System) -> _Grid:
    """Build a grid around the mode."""
    x, w = system.scores[system.labelled], system.weights
    centre = float(w @ x / w.sum())
    level, slope, covariance = _mode(x - centre, system.labels, w)
    reach = _REACH * float(np.sqrt(covariance[0, 0])) + _MARGIN
    intercepts = np.linspace(level - reach, level + reach, _INTERCEPTS)
    width = _REACH * float(np.sqrt(covariance[1, 1]))
    slopes = np.linspace(slope - width, slope + width, _SLOPES) if width > 0 else np.zeros(1)
    return _Grid(intercepts, slopes, centre)


def _mode(x: Array, y: Array, w: Array) -> tuple[float, float, Array]:
    """Posterior mode of (intercept, slope) under Jeffreys' prior, by scoring with Firth's score; its covariance.

    Steps are halved until the posterior rises, which full ones on separated labels and skewed scores may not do. A
    score that does not vary over the labelled items has the slope 0, and variance 0.
    """
    design = np.column_stack([np.ones_like(x), x]) if np.ptp(x) > 0 else np.ones((len(x), 1))
    beta = np.zeros(design.shape[1])
    value, step, inverse = _scored(beta, design, y, w)
    for _ in range(_SCORING_STEPS):
        size = float(np.abs(step).max())
        if size < 1e-8:
            break
        share = min(1.0, 2.0 / size)
        found = _scored(beta + share * step, design, y, w)
        while found[0] < value and share * size > 1e-10:
            share /= 2.0
            found = _scored(beta + share * step, design, y, w)
        if found[0] < value:  # no step is left that rounding does not hide
            break
        beta, (value, step, inverse) = beta + share * step, found
    if len(beta) == 1:
        return float(beta[0]), 0.0, np.diag([float(inverse[0, 0]), 0.0])
    return float(beta[0]), float(beta[1]), inverse


def _scored(beta: Array, design: Array, y: Array, w: Array) -> tuple[float, Array, Array]:
    """Log posterior of (k,) coefficients up to a constant, the scoring step from there, and the inverse information."""
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
    """Of each (intercept, slope), shape (C, B), up to a constant: of the labels, under Jeffreys' prior."""
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
    """Return the labels with equal score and answer together: (score, answer, sum of weights)."""
    together: dict[tuple[float, float], float] = {}
    for at, label, weight in zip(x.tolist(), y.tolist(), w.tolist(), strict=True):
        together[at, label] = together.get((at, label), 0.0) + weight
    return [(at, label, weight) for (at, label), weight in together.items()]


def _jeffreys(x: Array, w: Array, grid: _Grid) -> Array:
    """Half the log determinant of the labels' information, at each (intercept, slope), shape (C, B)."""
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
    """Draw intercepts at score 0 and slopes, both (draws,), spread evenly within the cells of the grid."""
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
    """Return the draws of one system's share, shape (draws,)."""
    n = len(system.scores)
    rest = np.delete(system.scores, system.labelled) if of_these_items and not system.chosen else system.scores
    if not len(rest):
        return np.full(len(slopes), float(system.labels.mean()))
    at, count = _binned(rest)
    p = expit(intercepts[:, None] + slopes[:, None] * at[None, :])
    if of_these_items and not system.chosen:  # a count of items, so that an interval ends at a share that there may be
        return (float(system.labels.sum()) + rng.binomial(count.astype(np.int64), p).sum(axis=1)) / n
    mean = p @ count / n
    if of_these_items:  # chosen items are unlike the rest, so all are predicted; what is known narrows the interval
        return mean.mean() + (mean - mean.mean()) * np.sqrt(1.0 - len(system.labels) / n)
    spread = np.sqrt(np.maximum(p**2 @ count / n - mean**2, 0.0) / n * system.alike)
    return np.clip(mean + spread * rng.standard_normal(len(slopes)), 0.0, 1.0)


def _binned(scores: Array) -> tuple[Array, Array]:
    """Scores as at most ``_BINS`` values (means of equal shares of the items) and how many items have each."""
    values, count = np.unique(scores, return_counts=True)
    if len(values) <= _BINS:
        return values, count.astype(np.float64)
    parts = np.array_split(np.sort(scores), _BINS)
    return np.array([part.mean() for part in parts]), np.array([float(len(part)) for part in parts])
