"""Bayesian model averaging of several defensible answers by a few labels.

Each hypothesis says that quality follows one score. Given a hypothesis, labels are a Gaussian process: a slope on that
score, a departure along the judges' common factors, a departure along single judges, and noise. The answer is the
posterior mean over the hypotheses and over a grid of scales of the departures and the noise, so that no single
hypothesis has to be chosen (Hoeting et al., "Bayesian model averaging: a tutorial", Statistical Science 1999).
"""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.models.answers import softmax
from care_ops.scores import Array

SLOPE, SLOPE_SD = 0.6, 0.2
"""Prior mean and standard deviation of the correlation between a defensible answer and a label."""

DEPARTURES = (0.0, 0.2, 0.4)
"""Grid of the standard deviations of the departures along factors and along judges, in those of the label."""

NOISES = (0.4, 0.6, 0.9)
"""Grid of the standard deviation of the noise, in those of the label."""

NOTHING = 0.05
"""Prior probability that labels follow nothing that the judges say: those of other items, or given at random."""

_FLAT = 10.0
"""Prior variance of the intercept, so large that the labels alone decide where they lie."""


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
    root = np.sqrt(np.ones(len(y)) if counts is None else counts)
    at_factors, at_judges = factors[rows] * root[:, None], judges[rows] * root[:, None]
    logs: list[float] = []
    slopes: list[float] = []
    along_factors: list[Array] = []
    along_judges: list[Array] = []
    one = np.sqrt(_FLAT) * root[:, None]
    for of_factors, of_judges, noise in itertools.product(DEPARTURES, DEPARTURES, NOISES):
        shared = np.column_stack([of_factors * at_factors, of_judges * at_judges, one])
        for hypothesis in hypotheses:
            s = root * hypothesis.score[rows]
            dual, evidence = _condition(np.column_stack([shared, SLOPE_SD * s]), noise, root * y - SLOPE * s)
            logs.append(float(np.log(hypothesis.prior)) + evidence)
            slopes.append(SLOPE + SLOPE_SD**2 * float(s @ dual))
            along_factors.append(of_factors**2 * (at_factors.T @ dual))
            along_judges.append(of_judges**2 * (at_judges.T @ dual))
    of_nothing = np.log(NOTHING) + _condition(one, 1.0, root * y)[1]
    others = np.array(logs) + np.log((1.0 - NOTHING) * len(hypotheses) / len(logs))
    probability = softmax(np.append(others, of_nothing)[None])[0][0]
    weight, at_random = probability[:-1], float(probability[-1])
    latent = factors @ (weight @ np.array(along_factors)) + judges @ (weight @ np.array(along_judges))
    weight, by_grid = weight.reshape(-1, len(hypotheses)), np.array(slopes).reshape(-1, len(hypotheses))
    for k, hypothesis in enumerate(hypotheses):
        slope = float(weight[:, k] @ by_grid[:, k]) + at_random * SLOPE * hypothesis.prior
        latent = latent + slope * hypothesis.score
    return ModelAverage(latent, {h.name: float(weight[:, k].sum()) for k, h in enumerate(hypotheses)}, at_random)


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
