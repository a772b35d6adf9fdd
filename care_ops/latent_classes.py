"""Latent classes of items: judges as independent categorical answers given a class.

Belongs here: the model of Lazarsfeld and Henry (1968) by EM, on graded answers. Does not: continuous
mixtures (``mixture``), judges that confuse classes each in their own way about a known label (Dawid-Skene).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_LEVELS = 10

_PRIOR = 1.0
"""Answers of every level that each class is credited with for each judge, in proportion to the judge's own use."""


@dataclass(frozen=True)
class LatentClasses:
    """A fitted model.

    Attributes
    ----------
    posterior : (n, k) array
        P(class | answers).
    weights : (k,) array
    log_likelihood : float
        An item, penalised by the prior.
    converged : bool
    """

    posterior: Array
    weights: Array
    log_likelihood: float
    converged: bool


def grades(values: Array, levels: int = MOST_LEVELS) -> NDArray[np.intp]:
    """Each judge's scores as 0, 1, ...: its own levels where they are few, else quantile bins; -1 is missing.

    Parameters
    ----------
    values : (n, p) array
    """
    out = np.full(values.shape, -1, dtype=np.intp)
    for j, column in enumerate(values.T):
        known = ~np.isnan(column)
        distinct = np.unique(column[known])
        if len(distinct) > levels:
            inner = np.quantile(column[known], np.arange(1, levels) / levels)
            out[known, j] = np.searchsorted(np.unique(inner), column[known], side="right")
        else:
            out[known, j] = np.searchsorted(distinct, column[known])
    return out


def fit(
    answers: NDArray[np.intp], start: Array, *, tolerance: float = 1e-6, max_iterations: int = 500
) -> LatentClasses:
    """EM from given posteriors.

    Parameters
    ----------
    answers : (n, p) array of int
        From ``grades``.
    start : (n, k) array
        Posteriors to start from; rows add to one.
    """
    n, k = start.shape
    design, owner = _one_hot(answers)
    used = design.sum(axis=0)
    totals = np.zeros(answers.shape[1])
    np.add.at(totals, owner, used)
    prior = _PRIOR * used / np.maximum(totals[owner], 1.0)
    posterior, last, iteration, change = start, -np.inf, 0, np.inf
    weights = np.full(k, 1.0 / k)
    while change > tolerance and iteration < max_iterations:
        iteration += 1
        weights = (posterior.sum(axis=0) + 1.0) / (n + k)
        counts = design.T @ posterior + prior[:, None]
        by_judge = np.zeros((answers.shape[1], k))
        np.add.at(by_judge, owner, counts)
        logs = np.log(counts / by_judge[owner])
        joint = design @ logs + np.log(weights)
        top = joint.max(axis=1, keepdims=True)
        likelihood = top[:, 0] + np.log(np.exp(joint - top).sum(axis=1))
        posterior = np.exp(joint - likelihood[:, None])
        objective = float(likelihood.sum() + np.sum(prior[:, None] * logs) + np.log(weights).sum()) / n
        change, last = objective - last, objective
    return LatentClasses(posterior, weights, last, change <= tolerance)


def by_rank(score: Array, classes: int, softness: float = 0.1) -> Array:
    """Posteriors to start from: the items cut into classes of equal size along a score."""
    n = len(score)
    share = (np.argsort(np.argsort(score, kind="stable"), kind="stable") + 0.5) / n
    hard = np.eye(classes)[np.minimum((share * classes).astype(int), classes - 1)]
    return (1 - softness) * hard + softness / classes


def _one_hot(answers: NDArray[np.intp]) -> tuple[Array, NDArray[np.intp]]:
    """(n, levels of all judges) of 0 and 1, and the judge each column belongs to."""
    columns: list[Array] = []
    owner: list[int] = []
    for j, column in enumerate(answers.T):
        for level in np.unique(column[column >= 0]):
            columns.append((column == level).astype(np.float64))
            owner.append(j)
    return np.column_stack(columns), np.array(owner, dtype=np.intp)
