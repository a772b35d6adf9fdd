"""Bayesian model averaging of several defensible answers by a few labels.

Each hypothesis says that quality follows one score. Given a hypothesis, labels are a Gaussian process: a slope on that
score, a departure along the judges' common factors, a departure along single judges, and noise. The answer is the
posterior mean over the hypotheses and over a grid of scales of the departures and the noise, so that no single
hypothesis has to be chosen (Hoeting et al., "Bayesian model averaging: a tutorial", Statistical Science 1999).

Labels of two values say on which side of a threshold that process lies (probit). As numbers they would fit best what
has two values itself: departures that single out a few votes, where there is nothing to gain by them.
"""

import itertools
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from care_ops.models.answers import softmax
from care_ops.scores import Array

SLOPE, SLOPE_SD = 0.6, 0.2
"""Prior mean and standard deviation of the correlation between a defensible answer and a label."""

DEPARTURES = (0.0, 0.2, 0.4)
"""Grid of the standard deviations of the departures along factors and along judges, in those of the label."""

NOISES = (0.4, 0.6, 0.9)
"""Grid of the standard deviation of the noise, in those of the label."""

NOISES_OF_SIDES = (0.25, 0.5, 1.0)
"""The same where labels have two values, in the standard deviations of what lies behind them. Around a slope of .6 they
stand for correlations of .92, .77 and .51 with that, and a fifth less with labels of two even halves (biserial)."""

NOTHING = 0.05
"""Prior probability that labels follow nothing that the judges say: those of other items, or given at random."""

_FLAT = 10.0
"""Prior variance of the intercept, so large that the labels alone decide where they lie; on sides, in that of noise."""


_MOST_STEPS, _STEP_ENDS, _LEAST_CURVATURE = 50, 1e-6, 1e-12
"""Of Newton's method, in standard deviations of the noise."""


@dataclass(frozen=True)
class Hypothesis:
    """The hypothesis that quality follows ``score``.

    Attributes
    ----------
    score : (n,) array
        Score of mean 0 and variance 1 over the items.
    """

    name: str
    score: Array
    prior: float


@dataclass(frozen=True)
class ModelAverage:
    """The average over the hypotheses.

    Attributes
    ----------
    latent : (n,) array
        Posterior mean of quality less the mean of the labels, in their standard deviations.
    weights : dict name -> float
        Posterior probability of each hypothesis; the probabilities and ``nothing`` add to one.
    nothing : float
        Posterior probability that the labels follow nothing that the judges say.
    """

    latent: Array
    weights: dict[str, float]
    nothing: float


def average_hypotheses(
    hypotheses: list[Hypothesis],
    factors: Array,
    judges: Array,
    rows: NDArray[np.intp],
    labels: Array,
    counts: Array | None = None,
) -> ModelAverage | None:
    """Bayesian model average of quality given some labels; None where the labels do not differ.

    Where the labels follow nothing that the judges say, quality is what it was thought to be before there were any.

    Parameters
    ----------
    factors : (n, k) array
        Factor scores, columns of variance one.
    judges : (n, p) array
        Standardised scores, missing ones as 0.
    rows : (m,) array of int
        Labelled items.
    labels : (m,) array
    counts : (m,) array, optional
        How much each label counts: the variance of its noise is that of a single label divided by this.
    """
    if len(labels) < 2 or np.ptp(labels) == 0:
        return None
    y = (labels - labels.mean()) / labels.std(ddof=1)
    factors, judges = factors / np.sqrt(factors.shape[1]), judges / np.sqrt(judges.shape[1])
    counts = np.ones(len(y)) if counts is None else counts
    condition, noises = partial(_on_numbers, y, np.sqrt(counts)), NOISES
    if len(np.unique(labels)) == 2:
        condition, noises = partial(_on_sides, np.sign(y), counts), NOISES_OF_SIDES
    at_factors, at_judges = factors[rows], judges[rows]
    logs: list[float] = []
    slopes: list[float] = []
    along_factors: list[Array] = []
    along_judges: list[Array] = []
    for of_factors, of_judges, noise in itertools.product(DEPARTURES, DEPARTURES, noises):
        shared = np.column_stack([of_factors * at_factors, of_judges * at_judges])
        for hypothesis in hypotheses:
            s = hypothesis.score[rows]
            dual, evidence = condition(np.column_stack([shared, SLOPE_SD * s]), noise, SLOPE * s)
            logs.append(float(np.log(hypothesis.prior)) + evidence)
            slopes.append(SLOPE + SLOPE_SD**2 * float(s @ dual))
            along_factors.append(of_factors**2 * (at_factors.T @ dual))
            along_judges.append(of_judges**2 * (at_judges.T @ dual))
    of_nothing = np.log(NOTHING) + condition(np.zeros((len(y), 0)), 1.0, np.zeros(len(y)))[1]
    others = np.array(logs) + np.log((1.0 - NOTHING) * len(hypotheses) / len(logs))
    probability = softmax(np.append(others, of_nothing)[None])[0][0]
    weight, at_random = probability[:-1], float(probability[-1])
    latent = factors @ (weight @ np.array(along_factors)) + judges @ (weight @ np.array(along_judges))
    weight, by_grid = weight.reshape(-1, len(hypotheses)), np.array(slopes).reshape(-1, len(hypotheses))
    for k, hypothesis in enumerate(hypotheses):
        slope = float(weight[:, k] @ by_grid[:, k]) + at_random * SLOPE * hypothesis.prior
        latent = latent + slope * hypothesis.score
    return ModelAverage(latent, {h.name: float(weight[:, k].sum()) for k, h in enumerate(hypotheses)}, at_random)


def _on_numbers(y: Array, root: Array, features: Array, noise: float, mean: Array) -> tuple[Array, float]:
    """C^{-1} (y - mean) and its log density, for C = features features' + noise^2 / root^2."""
    dual, evidence = _condition(root[:, None] * _with_level(features), noise, root * (y - mean))
    return root * dual, evidence


def _on_sides(sides: Array, counts: Array, features: Array, noise: float, mean: Array) -> tuple[Array, float]:
    """The same where a label says on which side, -1 or 1, of 0 the process with its noise lies, as often as it counts.

    By Laplace's approximation (Rasmussen and Williams, "Gaussian processes for machine learning", 2006, chapter 3);
    each step of Newton's method conditions on numbers.
    """
    features, mean = _with_level(features / noise), mean / noise
    at, left = mean, _MOST_STEPS
    while True:
        below = log_ndtr(sides * at)
        ratio = np.exp(-0.5 * at**2 - below) / np.sqrt(2 * np.pi)
        root = np.sqrt(np.maximum(counts * ratio * (ratio + sides * at), _LEAST_CURVATURE))
        residual = root * (at - mean) + counts * sides * ratio / root
        dual, evidence = _condition(root[:, None] * features, 1.0, residual)
        before, at = at, mean + features @ (features.T @ (root * dual))
        left -= 1
        if left == 0 or np.abs(at - before).max() < _STEP_ENDS:
            break
    log_determinant = evidence + 0.5 * float(residual @ dual)
    fitted = float(counts @ log_ndtr(sides * at)) - 0.5 * float((root * dual) @ (at - mean))
    return root * dual / noise, fitted + log_determinant


def _with_level(features: Array) -> Array:
    return np.column_stack([features, np.full(len(features), np.sqrt(_FLAT))])


def _condition(features: Array, noise: float, residual: Array) -> tuple[Array, float]:
    """C^{-1} residual and the log density of residual (less a constant) for C = features features' + noise^2 I.

    The smaller of the (m, m) and (d, d) matrices is factorised, so that many labels cost little.
    """
    m, d = features.shape
    if m <= d:
        lower = np.linalg.cholesky(features @ features.T + noise**2 * np.eye(m))
        whitened = np.linalg.solve(lower, residual)
        dual = np.linalg.solve(lower.T, whitened).astype(np.float64)
        return dual, -0.5 * float(whitened @ whitened) - float(np.log(np.diag(lower)).sum())
    lower = np.linalg.cholesky(features.T @ features + noise**2 * np.eye(d))
    inner = np.linalg.solve(lower.T, np.linalg.solve(lower, features.T @ residual))
    dual = ((residual - features @ inner) / noise**2).astype(np.float64)
    log_determinant = 2 * float(np.log(np.diag(lower)).sum()) + 2 * (m - d) * float(np.log(noise))
    return dual, -0.5 * float(residual @ dual) - 0.5 * log_determinant
