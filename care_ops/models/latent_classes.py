"""Latent classes of items: judges as independent categorical answers given a class."""

from dataclasses import dataclass

import numpy as np

from care_ops.models.answers import Answers, softmax
from care_ops.scores import Array

_PRIOR = 1.0
"""Number of answers of each judge that is added to each class, spread over levels as the judge uses them."""


@dataclass(frozen=True)
class LatentClasses:
    """A fitted model.

    Attributes
    ----------
    posterior : (n, k) array
        P(class | answers).
    weights : (k,) array
    log_likelihood : float
        Mean over the items, with the log density of the prior.
    """

    posterior: Array
    weights: Array
    log_likelihood: float
    converged: bool


def fit(answers: Answers, start: Array, *, tolerance: float = 1e-6, max_iterations: int = 500) -> LatentClasses:
    """EM from given posteriors.

    Parameters
    ----------
    answers : Answers
        Graded answers (``answers.grades``).
    start : (n, k) array
        Posteriors to start from, whose rows add to one.
    """
    n, k = start.shape
    prior = _PRIOR * answers.shares()
    posterior, last, iteration, change = start, -np.inf, 0, np.inf
    weights = np.full(k, 1.0 / k)
    while change > tolerance and iteration < max_iterations:
        iteration += 1
        weights = (posterior.sum(axis=0) + 1.0) / (n + k)
        counts = answers.counts(posterior) + prior[:, None]
        logs = np.log(answers.normalise(counts))
        posterior, likelihood = softmax(answers.joint(logs) + np.log(weights))
        objective = float(likelihood.sum() + np.sum(prior[:, None] * logs) + np.log(weights).sum()) / n
        change, last = objective - last, objective
    return LatentClasses(posterior, weights, last, change <= tolerance)


def by_rank(score: Array, classes: int, softness: float = 0.1) -> Array:
    """Posteriors to start from: the items cut into classes of equal size along a score."""
    n = len(score)
    share = (np.argsort(np.argsort(score, kind="stable"), kind="stable") + 0.5) / n
    hard = np.eye(classes)[np.minimum((share * classes).astype(int), classes - 1)]
    return (1 - softness) * hard + softness / classes
