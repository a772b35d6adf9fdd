"""Draws of judges that depend on one another within states."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from care_ops.scores import Array
from tests.support.observed import Kind

_DENSITY = 0.4
"""Share of the pairs of judges in a third that are edges."""


@dataclass(frozen=True)
class DependentDraw:
    """Scores of judges that depend on one another within states.

    Attributes
    ----------
    scores : (n, p) array
        Grades as 0, 1, ...
    states : (n,) array of int
        2 Q + C.
    edges : (p, p) array of bool
    levels : tuple of p int
        Grades of each judge, 0 for real scores.
    """

    scores: Array
    states: NDArray[np.intp]
    edges: NDArray[np.bool_]
    levels: tuple[int, ...]


def dependent_judges(rng: np.random.Generator, kind: Kind, *, n: int, p: int = 12) -> DependentDraw:
    """Draw judges of one kind given binary Q and C, with edges within each third of them.

    Judges with heavy tails are a Gaussian graphical model whose scores are then stretched: each score by itself to a t
    of three degrees (``student``), or all scores of an item by one scale (``scale mixture``). Graded judges, and panels
    of real and graded ones, are log-linear in pairs: an edge multiplies the centred grades of two judges, but for
    ``categorical`` it counts whether the two agree; it is worth log odds of one, and of
    real judges a partial correlation of .4. In ``mixed`` each third has Gaussian, binary and ordinal judges.

    Parameters
    ----------
    kind : str
    n, p : int
        Items and judges.
    """
    group = np.repeat(np.arange(3), -(-p // 3))[:p]
    upper = np.triu((group[:, None] == group[None, :]) & (rng.random((p, p)) < _DENSITY), 1)
    edges = upper | upper.T
    states = rng.integers(0, 4, n)
    mean = rng.normal(scale=0.2, size=(4, p)) + np.where(np.arange(4) >= 2, 1.3, -1.3)[:, None]
    mean = mean + np.where(np.arange(4) % 2 == 1, 1.0, -1.0)[:, None] * (np.arange(p) % 2 == 0)
    if kind in ("student", "scale mixture"):
        scores = mean[states] + 0.7 * _tailed_noise(rng, kind, edges, n)
        return DependentDraw(scores, states.astype(np.intp), edges, (0,) * p)
    levels = {"binary": (2,) * p, "categorical": (3,) * p, "ordinal": (4,) * p}.get(
        kind, tuple((0, 2, 4)[j % 3] for j in range(p))
    )
    by_grade = rng.normal(scale=1.2, size=(4, p, max(levels)))
    scores = np.empty((n, p))
    for third in range(3):
        columns = np.flatnonzero(group == third)
        scores[:, columns] = _log_linear_scores(
            rng,
            states,
            1.0 * upper[np.ix_(columns, columns)],
            [levels[j] for j in columns],
            mean[:, columns],
            by_grade[:, columns] if kind == "categorical" else None,
        )
    return DependentDraw(scores, states.astype(np.intp), edges, levels)


def _log_linear_scores(
    rng: np.random.Generator,
    states: NDArray[np.intp],
    strengths: Array,
    levels: list[int],
    mean: Array,
    by_grade: Array | None,
) -> Array:
    """Scores of judges that are log-linear in pairs given the state, shape (n, b).

    The grades of an item are one pattern, drawn by its weight in the item's state; real scores are Gaussian given it.

    Parameters
    ----------
    states : (n,) array of int
    strengths : (b, b) array
        Strength of each edge, in the upper triangle.
    levels : list of b int
        Number of grades of each judge, 0 where its scores are real.
    mean : (4, b) array
        Field of each judge by state.
    by_grade : (4, b, m) array, optional
        Field of each grade by state, for judges whose grades have no order; an edge then counts equal grades.
    """
    is_graded = np.array(levels) > 0
    graded, real = np.flatnonzero(is_graded), np.flatnonzero(~is_graded)
    patterns = np.array(list(itertools.product(*(range(levels[j]) for j in graded))), dtype=np.float64)
    counts = np.array([levels[j] for j in graded], dtype=np.float64)
    standard = (patterns - (counts - 1) / 2) / np.sqrt((counts**2 - 1) / 12)
    inner = strengths[np.ix_(graded, graded)]
    if by_grade is not None:
        energy = np.einsum("ab,mab->m", inner, patterns[:, :, None] == patterns[:, None, :])
    else:
        energy = 0.5 * np.einsum("ma,ab,mb->m", standard, inner, standard)
    both = strengths + strengths.T
    precision = np.eye(len(real)) - 0.4 * both[np.ix_(real, real)]
    root = np.linalg.cholesky(precision).T
    scores = np.empty((len(states), len(levels)))
    for state in range(4):
        rows = np.flatnonzero(states == state)
        if by_grade is not None:
            field = sum(by_grade[state, j, patterns[:, a].astype(int)] for a, j in enumerate(graded))
        else:
            field = 0.5 * standard @ mean[state, graded]
        pull = mean[state, real] + 0.5 * standard @ both[np.ix_(graded, real)]
        centre = np.linalg.solve(precision, pull.T).T
        weight = np.exp(energy + field + 0.5 * np.sum(pull * centre, axis=1))
        pattern = rng.choice(len(patterns), len(rows), p=weight / weight.sum())
        noise = np.linalg.solve(root, rng.standard_normal((len(real), len(rows)))).T
        scores[np.ix_(rows, graded)] = patterns[pattern]
        scores[np.ix_(rows, real)] = centre[pattern] + noise
    return scores


def _tailed_noise(rng: np.random.Generator, kind: Kind, edges: NDArray[np.bool_], n: int) -> Array:
    """Noise of a Gaussian graphical model with unit variances, stretched to heavy tails; shape (n, p)."""
    p = len(edges)
    precision = np.eye(p) - 0.4 * edges
    precision += np.eye(p) * max(0.1 - float(np.linalg.eigvalsh(precision)[0]), 0.0)
    covariance = np.linalg.inv(precision)
    root = np.sqrt(np.diag(covariance))
    noise = rng.multivariate_normal(np.zeros(p), covariance / np.outer(root, root), n)
    if kind == "student":
        return stdtrit(3.0, ndtr(noise))
    return noise * np.sqrt(4.0 / rng.chisquare(4.0, n))[:, None]
