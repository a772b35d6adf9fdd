"""Quality estimated from a few labels by a Gaussian process that starts from the label-free estimate.

A label is modelled as a sum of four terms: a multiple of the label-free estimate, a deviation from it along the judges'
common factors, a deviation along single judges and text features, and noise. The result is the posterior mean over a
grid of scales of the deviations and the noise (Bayesian model averaging: Hoeting et al., Statistical Science 1999). A
few labels therefore hardly change the estimate. Many labels turn the estimate into a ridge regression on the judges.

A binary label states whether the process plus noise exceeds a threshold (a probit model). If binary labels were
modelled as numbers, they would favour deviations that also have two values, such as the votes of a few judges.
"""

import itertools
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from care_ops.models.answers import softmax
from care_ops.scores import Array

SLOPE, SLOPE_SD = 0.6, 0.2
"""Prior mean and standard deviation of the correlation between the label-free estimate and a label."""

DEPARTURES = (0.0, 0.2, 0.4)
"""Grid of standard deviations of the departures along factors and judges, in standard deviations of the labels."""

NOISES = (0.4, 0.6, 0.9)
"""Grid of standard deviations of the noise, in standard deviations of the labels."""

NOISES_OF_SIDES = (0.25, 0.5, 1.0)
"""Grid of standard deviations of the noise of binary labels, in standard deviations of the latent variable."""

AT_RANDOM = 0.05
"""Prior probability that labels are unrelated to the scores, because they belong to other items or are random."""

_FLAT = 10.0
"""Prior variance of the intercept; with this large variance, only the labels determine the intercept."""

_MOST_STEPS, _STEP_ENDS, _MIN_CURVATURE = 50, 1e-6, 1e-12
"""Limits of Newton's method: maximum number of steps, change at which it stops, and minimum curvature."""

_DRAWS = 500
NOT_WORSE = 0.01
"""Maximum loss in Kendall's tau at which an estimate still counts as at least as good as the plain average."""


@dataclass(frozen=True)
class Columns:
    """Regressors for the quality of n items.

    Attributes
    ----------
    estimate : (n,) array
        The label-free estimate, with mean 0 and variance 1.
    factors : (n, k) array
        Scores of the judges' common factors, with variance 1.
    judges : (n, p) array
        Standardised scores, with 0 for missing scores, and features of the texts.
    """

    estimate: Array
    factors: Array
    judges: Array


@dataclass(frozen=True)
class LabelledFit:
    """Estimate of quality from labels, compared with the plain average.

    Attributes
    ----------
    latent : (n,) array
        Posterior mean of quality minus the mean label, in standard deviations of the labels.
    at_random : float
        Posterior probability that the labels are unrelated to the scores.
    better : float
        Probability that Kendall's tau of ``latent`` is at least that of the plain average minus ``NOT_WORSE``.
    gain : float
        Expected gain of ``latent`` over the plain average, in Kendall's tau.
    """

    latent: Array
    at_random: float
    better: float
    gain: float


class _Conditioned(NamedTuple):
    """Result of conditioning on labels y with covariance C: C^{-1} (y - mean), log density, and noise precisions."""

    dual: Array
    evidence: float
    precision: Array


def fit_labels(
    columns: Columns, rows: NDArray[np.intp], labels: Array, counts: Array, plain: Array | None
) -> LabelledFit | None:
    """Estimate the quality of all items from the labels of some items; return None if the labels do not differ.

    Parameters
    ----------
    columns : Columns
    rows : (m,) array of int
        Rows of the labelled items.
    labels : (m,) array
    counts : (m,) array
        Weight of each label; the noise variance of a label is inversely proportional to the weight.
    plain : (n,) array, optional
        The plain average for a comparison with the result; by default, no comparison is made.
    """
    if len(labels) < 2 or np.ptp(labels) == 0:
        return None
    y = (labels - labels.mean()) / labels.std(ddof=1)
    estimate = columns.estimate
    factors = columns.factors / np.sqrt(max(columns.factors.shape[1], 1))
    judges = columns.judges / np.sqrt(columns.judges.shape[1])
    condition, noises = partial(_on_numbers, y, np.sqrt(counts)), NOISES
    if len(np.unique(labels)) == 2:
        condition, noises = partial(_on_sides, np.sign(y), counts), NOISES_OF_SIDES
    everything = np.column_stack([factors[rows], judges[rows], estimate[rows]])
    start = SLOPE * estimate[rows]
    cells = list(itertools.product(DEPARTURES, DEPARTURES, noises))
    of_factors, of_judges = np.ones(factors.shape[1]), np.ones(judges.shape[1])
    scales = [np.concatenate([f * of_factors, j * of_judges, [SLOPE_SD]]) for f, j, _ in cells]
    fitted = [condition(everything * scale, noise, start) for scale, (_, _, noise) in zip(scales, cells, strict=True)]
    unrelated = np.log(AT_RANDOM) + condition(np.zeros((len(y), 0)), 1.0, np.zeros(len(y))).evidence
    logs = np.array([cell.evidence for cell in fitted]) + np.log((1.0 - AT_RANDOM) / len(fitted))
    probability = softmax(np.append(logs, unrelated)[None])[0][0]
    weights, at_random = probability[:-1], float(probability[-1])
    prior = np.zeros(everything.shape[1])
    prior[-1] = SLOPE
    means = [prior + scale**2 * (everything.T @ cell.dual) for scale, cell in zip(scales, fitted, strict=True)]
    mean = weights @ np.array(means) + at_random * prior
    latent = factors @ mean[: len(of_factors)] + judges @ mean[len(of_factors) : -1] + estimate * mean[-1]
    better, gain = 1.0, 0.0
    if plain is not None:
        shares = weights / max(weights.sum(), 1e-300)
        posteriors = list(zip(scales, fitted, means, shares, strict=True))
        better, gain = _compared(np.column_stack([factors, judges, estimate, plain]), everything, posteriors, mean)
    return LabelledFit(latent, at_random, (1.0 - at_random) * better + at_random / 2.0, (1.0 - at_random) * gain)


def _compared(
    columns: Array, labelled: Array, cells: list[tuple[Array, _Conditioned, Array, float]], mean: Array
) -> tuple[float, float]:
    """Compute the probability that the estimate is at least as good as the plain average, and the mean gain in tau.

    Coefficients of quality are drawn from the posterior. The last of the ``columns`` is the plain average.
    """
    centred, rng = columns - columns.mean(axis=0), np.random.default_rng(0)
    gram = centred.T @ centred / len(centred)
    draws: list[Array] = []
    shares = rng.multinomial(_DRAWS, np.array([weight for *_, weight in cells]))
    for (scale, cell, at, _), share in zip(cells, shares, strict=True):
        if share:
            features = labelled * scale
            lower = np.linalg.cholesky(np.eye(len(scale)) + features.T @ (cell.precision[:, None] * features))
            deviations = np.linalg.solve(lower.T, rng.standard_normal((len(scale), share)))
            draws.append(at[:, None] + scale[:, None] * deviations)
    quality = np.concatenate(draws, axis=1)
    spread = np.sqrt(np.maximum(np.sum(quality * (gram[:-1, :-1] @ quality), axis=0), 1e-12))
    estimate = np.append(mean, 0.0)
    own = float(np.sqrt(max(estimate @ gram @ estimate, 1e-12)))
    by_estimate = (gram @ estimate)[:-1] @ quality / (own * spread)
    by_plain = gram[-1, :-1] @ quality / (float(np.sqrt(gram[-1, -1])) * spread)
    gains = 2.0 / np.pi * (np.arcsin(np.clip(by_estimate, -1, 1)) - np.arcsin(np.clip(by_plain, -1, 1)))
    return float(np.mean(gains >= -NOT_WORSE)), float(np.mean(gains))


def _on_numbers(y: Array, root: Array, features: Array, noise: float, mean: Array) -> _Conditioned:
    """Condition the Gaussian process on numeric labels; ``root`` is the square root of each label's weight."""
    dual, evidence = _condition(root[:, None] * _with_level(features), noise, root * (y - mean))
    return _Conditioned(root * dual, evidence, root**2 / noise**2)


def _on_sides(sides: Array, counts: Array, features: Array, noise: float, mean: Array) -> _Conditioned:
    """Condition the Gaussian process on labels -1 and 1 by Laplace's approximation.

    Each Newton step conditions on numeric pseudo-labels (Rasmussen and Williams, 2006, chapter 3).
    """
    features, mean = _with_level(features / noise), mean / noise
    at, left = mean, _MOST_STEPS
    while True:
        below = log_ndtr(sides * at)
        ratio = np.exp(-0.5 * at**2 - below) / np.sqrt(2 * np.pi)
        root = np.sqrt(np.maximum(counts * ratio * (ratio + sides * at), _MIN_CURVATURE))
        residual = root * (at - mean) + counts * sides * ratio / root
        dual, evidence = _condition(root[:, None] * features, 1.0, residual)
        before, at = at, mean + features @ (features.T @ (root * dual))
        left -= 1
        if left == 0 or np.abs(at - before).max() < _STEP_ENDS:
            break
    log_determinant = evidence + 0.5 * float(residual @ dual)
    fitted = float(counts @ log_ndtr(sides * at)) - 0.5 * float((root * dual) @ (at - mean))
    return _Conditioned(root * dual / noise, fitted + log_determinant, root**2 / noise**2)


def _with_level(features: Array) -> Array:
    return np.column_stack([features, np.full(len(features), np.sqrt(_FLAT))])


def _condition(features: Array, noise: float, residual: Array) -> tuple[Array, float]:
    """Compute C^{-1} residual and the residual's log density, up to a constant, for C = features features' + noise^2 I.

    The smaller of the (m, m) and (d, d) matrices is factorised; this is fast even with many labels.
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
