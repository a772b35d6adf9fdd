"""The share of items that people would pass, given a few yes-or-no labels and one score for every item.

The model is a logistic regression of the label on the score with an intercept for each system,
P(Y = 1) = expit(c_s + b x), where c_s ~ N(a, tau^2). Jeffreys' prior on (a, b) (Firth, Biometrika 1993) keeps it finite
where all labels agree; the half-normal prior of tau on the logit scale (Gelman, Bayesian Analysis 2006) lets the
systems' intercepts share what they have in common: a judge that is too kind to one system is usually too kind to all.
The posterior is summed over a grid, so nothing is approximated but the grid, and the items without a label are drawn
from it (finite-population inference: Ghosh and Meeden, 1997).

Why a model of the label and not a mean of differences: with twenty labels, of which the judges contradict one or none,
the differences have no variance to estimate, and intervals from them cover far less than they claim.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logsumexp

from care_ops.scores import Array

_INTERCEPTS, _SLOPES, _BINS = 81, 41, 200
"""Points of the grids, and bins into which the scores of unlabelled items are counted."""

_REACH = 5.0
"""Half the width of a grid, in standard deviations of a normal approximation."""

_MARGIN = 1.0
"""What the grid of intercepts has beyond that, in logits: the posterior of a share near 0 or 1 has a long tail."""

TAUS = (0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 1.6, 2.5)
"""Grid of the standard deviation between systems, in logits."""

_TAU_SCALE = 1.0

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


def draw_shares(
    systems: Sequence[System], draws: int, rng: np.random.Generator, *, of_these_items: bool = True
) -> Array:
    """Posterior draws of each system's share of items with Y = 1.

    Parameters
    ----------
    systems : sequence of S System
        At least one has a label.
    of_these_items : bool
        The share among the items given, of which the labelled ones are known; otherwise among endless items of which
        these are a random sample.

    Returns
    -------
    shares : (draws, S) array
        Rows are joint draws, so that differences between systems may be taken row by row.
    """
    grid = _grid(systems)
    posterior = _posterior(systems, grid)
    intercepts, slopes = _draw_parameters(posterior, grid, draws, rng)
    columns = [
        _shares(system, intercepts[:, s], slopes, rng, of_these_items=of_these_items)
        for s, system in enumerate(systems)
    ]
    return np.column_stack(columns)


@dataclass(frozen=True)
class _Grid:
    """Points of the intercept at ``centre`` of the scores, and of the slope; all (C,) and (B,)."""

    intercepts: Array
    slopes: Array
    centre: float


@dataclass(frozen=True)
class _Posterior:
    """Log weights: of (tau, intercept of all, slope), and of each system's intercept given the slope.

    Attributes
    ----------
    common : (T, C, B) array
    own : list of S (C, B) arrays
        Log likelihood of a system's labels.
    between : (T, C, C) array
        Log density of a system's intercept (last) given the common one; T = 0 where there is one system only.
    """

    common: Array
    own: list[Array]
    between: Array


def _grid(systems: Sequence[System]) -> _Grid:
    """A grid around the mode of the pooled regression."""
    x = np.concatenate([s.scores[s.labelled] for s in systems])
    y = np.concatenate([s.labels for s in systems])
    w = np.concatenate([s.weights for s in systems])
    centre = float(w @ x / w.sum())
    level, slope, covariance = _mode(x - centre, y, w)
    fewest = min((float(s.weights.sum()) for s in systems if len(s.labels)), default=1.0)
    own_sd = float(np.sqrt(covariance[0, 0] * w.sum() / fewest))
    between = 0.0 if len(systems) == 1 else 2.0
    reach = _REACH * own_sd + _MARGIN + between
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


def _posterior(systems: Sequence[System], grid: _Grid) -> _Posterior:
    own = [_log_likelihood(system, grid) for system in systems]
    prior = _jeffreys(systems, grid)
    if len(systems) == 1:
        return _Posterior((own[0] + prior)[None], own, np.empty((0, 0, 0)))
    taus = np.array(TAUS)
    apart = grid.intercepts[None, :] - grid.intercepts[:, None]
    between = -0.5 * (apart / taus[:, None, None]) ** 2
    between = between - np.asarray(logsumexp(between, axis=2, keepdims=True))
    log_tau = -0.5 * (taus / _TAU_SCALE) ** 2 + np.log(np.gradient(taus))
    common, density = prior[None] + log_tau[:, None, None], np.exp(between)
    for likelihood in own:
        top = likelihood.max()
        common = common + np.log(density @ np.exp(likelihood - top) + 1e-300) + top
    return _Posterior(common, own, between)


def _log_likelihood(system: System, grid: _Grid) -> Array:
    """Of a system's labels, at each (intercept, slope), shape (C, B)."""
    x, y, w = system.scores[system.labelled] - grid.centre, system.labels, system.weights
    total = np.zeros((len(grid.intercepts), len(grid.slopes)))
    for at, share, weight in _counted(x, y, w):
        logit = grid.intercepts[:, None] + grid.slopes[None, :] * at
        if share > 0:
            total += weight * share * log_expit(logit)
        if share < 1:
            total += weight * (1.0 - share) * log_expit(-logit)
    return total


def _counted(x: Array, y: Array, w: Array) -> list[tuple[float, float, float]]:
    """Labels with equal score and answer together: (score, answer, sum of weights)."""
    together: dict[tuple[float, float], float] = {}
    for at, label, weight in zip(x.tolist(), y.tolist(), w.tolist(), strict=True):
        together[at, label] = together.get((at, label), 0.0) + weight
    return [(at, label, weight) for (at, label), weight in together.items()]


def _jeffreys(systems: Sequence[System], grid: _Grid) -> Array:
    """Half the log determinant of the information of all labels, at each (intercept, slope), shape (C, B)."""
    x = np.concatenate([s.scores[s.labelled] for s in systems]) - grid.centre
    w = np.concatenate([s.weights for s in systems])
    zeroth, first, second = (np.zeros((len(grid.intercepts), len(grid.slopes))) for _ in range(3))
    for at, _, weight in _counted(x, np.zeros_like(x), w):
        p = expit(grid.intercepts[:, None] + grid.slopes[None, :] * at)
        information = weight * p * (1 - p)
        zeroth += information
        first += information * at
        second += information * at**2
    determinant = zeroth * second - first**2 if len(grid.slopes) > 1 else zeroth
    return 0.5 * np.log(np.maximum(determinant, 1e-300))


def _draw_parameters(posterior: _Posterior, grid: _Grid, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Intercepts at score 0 (draws, S) and slopes (draws,), spread evenly within the cells of the grid."""
    weight = np.exp(posterior.common - posterior.common.max()).ravel()
    chosen = np.searchsorted(np.cumsum(weight) / weight.sum(), rng.random(draws), side="right")
    tau, level, slope = np.unravel_index(np.minimum(chosen, weight.size - 1), posterior.common.shape)
    columns: list[NDArray[np.intp]] = []
    for likelihood in posterior.own:
        if not posterior.between.size:
            columns.append(level)
            continue
        log_weight = posterior.between[tau, level] + likelihood.T[slope]
        cumulative = np.cumsum(np.exp(log_weight - log_weight.max(axis=1, keepdims=True)), axis=1)
        target = rng.random(draws) * cumulative[:, -1]
        columns.append((cumulative < target[:, None]).sum(axis=1))
    step = grid.intercepts[1] - grid.intercepts[0]
    jitter = rng.uniform(-0.5, 0.5, (draws, len(columns))) * step
    slopes = grid.slopes[slope]
    if len(grid.slopes) > 1:
        slopes = slopes + rng.uniform(-0.5, 0.5, draws) * (grid.slopes[1] - grid.slopes[0])
    intercepts = grid.intercepts[np.column_stack(columns)] + jitter
    return intercepts - slopes[:, None] * grid.centre, slopes


def _shares(
    system: System, intercepts: Array, slopes: Array, rng: np.random.Generator, *, of_these_items: bool
) -> Array:
    """Draws of one system's share, shape (draws,)."""
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
