"""Annotator models as aggregators: Dawid-Skene, MACE, GLAD and the label model of weak supervision."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from care_ops.aggregators.base import Problem
from care_ops.errors import FitError
from care_ops.minimum_sizes import MIN_JUDGES
from care_ops.models import annotators
from care_ops.models.answers import MOST_LEVELS, Answers
from care_ops.records import Aggregate
from care_ops.scores import Array

Fit = Callable[[NDArray[np.intp], int, np.random.Generator], annotators.Crowd]


def _of_crowd(name: str, fit: Fit, problem: Problem) -> Aggregate:
    """Fit an annotator model to votes (1 for a score above ``cut``, else 0) or, without ``cut``, to grades.

    With ``cut``, the estimate is expit(log odds / p) for p judges. The posterior probability is not used, because
    shared mistakes of judges would make it 0 or 1 for most items. Without ``cut``, the estimate is the expected grade.
    Raises ``FitError`` if there are fewer than three judges, or if all votes are equal.
    """
    p = problem.scores.shape[1]
    if p < MIN_JUDGES:
        raise FitError(f"{name}: an annotator model needs at least three judges, but the panel has {p}; add judges")
    grades, values = votes(problem)
    if len(np.unique(grades[grades >= 0])) < 2:
        raise FitError(f"{name}: all judges give all items the same vote; check `cut` and the scores")
    model = fit(grades, len(values), problem.rng)
    if problem.cut is not None:
        latent = model.log_odds[:, 1] - model.log_odds[:, 0]
        estimate, threshold = expit(latent / p), 0.5
    else:
        estimate = latent = model.posterior @ values
        threshold = None
    scored = (grades >= 0).any(axis=1)
    return Aggregate(
        name,
        np.where(scored, estimate, np.nan),
        threshold=threshold,
        latent=np.where(scored, latent, np.nan),
        details={"skill": model.skill.tolist(), "converged": model.converged, "classes": values.tolist()},
    )


DAWID_SKENE = partial(_of_crowd, "dawid_skene", lambda g, k, _: annotators.dawid_skene(Answers(g, k)))
MACE = partial(_of_crowd, "mace", lambda g, k, rng: annotators.mace(Answers(g, k), rng))
GLAD = partial(_of_crowd, "glad", lambda g, k, _: annotators.glad(g, k))
LABEL_MODEL = partial(_of_crowd, "ws", lambda g, k, _: annotators.label_model(Answers(g, k)))


def votes(problem: Problem) -> tuple[NDArray[np.intp], Array]:
    """Convert scores to votes from 0 to k - 1, shape (n, p); also return the value that a vote stands for, shape (k,).

    With ``cut``, a vote is 1 if the score exceeds it, else 0. Without ``cut``, a vote is the rank of a score among
    the distinct scores; more than ten distinct scores are grouped into ten bins. A missing score becomes -1.
    """
    values = problem.scores.values
    present = ~np.isnan(values)
    if problem.cut is not None:
        return np.where(present, (values > problem.cut).astype(np.intp), -1), np.array([0.0, 1.0])
    distinct = np.unique(values[present])
    if len(distinct) <= MOST_LEVELS:
        return np.where(present, np.searchsorted(distinct, np.where(present, values, distinct[0])), -1), distinct
    low, high = problem.config.scale or (float(distinct[0]), float(distinct[-1]))
    width = (high - low) / MOST_LEVELS
    place = (np.where(present, values, low) - low) / width + 1e-9  # a score on an edge belongs above it, rounded or not
    bins = np.clip(np.floor(place), 0, MOST_LEVELS - 1).astype(np.intp)
    middles = np.asarray(low + width * (np.arange(MOST_LEVELS) + 0.5), dtype=np.float64)
    return np.where(present, bins, -1), middles
