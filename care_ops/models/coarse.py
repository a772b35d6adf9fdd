"""The correlation of opinions, of which judges tell a grade: votes and few grades hide how alike two judges are.

Two judges whose opinions correlate by .97 correlate by .8 or less once each says yes or no by a threshold of its own.
Whether two judges are copies is a question about opinions. These are taken for normal, and a grade for the interval
that an opinion lies in (Olsson, Psychometrika 1979). The correlation of the grades is then a power series in that of
the opinions (Mehler, 1866), which is inverted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from care_ops.scores import Array

_MOST_GRADES = 5
"""Grades up to which they are told from opinions; with more, the two correlations hardly differ."""

_TERMS = 400
"""Terms of the power series. At a correlation of .99 the rest is less than .001."""

_GRID = np.concatenate([np.linspace(-0.99, 0.95, 98), np.linspace(0.955, 0.99, 8)])
"""Correlations of opinions at which the grades' correlation is computed; between them it is interpolated."""

_ONE_ITEM = 4.0
"""What one more item on which two judges part adds to the variance of an item's part in their correlation, times n.

Votes of judges that hardly ever part would otherwise seem to have no error at all.
"""


@dataclass(frozen=True)
class Opinions:
    """How the opinions of each two judges correlate.

    Attributes
    ----------
    estimate : (p, p) array
    least : (p, p) array
        What it surely is: of grades two standard errors less, or more where so many pairs differ by chance alone.
    most : (p, p) array
        What it may be: a standard error more, and of grades no more than the estimate.
    grades : Opinions, optional
        The same of the grades themselves, where they are not the opinions.
    kin : (p, p) array of bool, optional
        Judges of one family, who are compared by ``grades``: they share opinions, and are heard about once for that.
    """

    estimate: Array
    least: Array
    most: Array
    grades: Opinions | None = None
    kin: NDArray[np.bool_] | None = None


def opinions(correlation: Array, items: float, normal: Array, families: NDArray[np.intp]) -> Opinions:
    """The correlation of the opinions behind a panel's scores.

    Parameters
    ----------
    correlation : (p, p) array
        Of the judges' normal scores.
    items : float
        Number of items behind a correlation.
    normal : (n, p) array
        The normal scores, NaN where there is none. Judges with more than five values are taken as they are.
    families : (p,) array of int
        The family of each judge.

    Examples
    --------
    Votes by thresholds of 0 have the correlation 2 / pi arcsin(rho) (Sheppard, 1899):

    >>> import numpy as np
    >>> votes = np.array([[-1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]])
    >>> opinions(np.array([[1.0, 0.5], [0.5, 1.0]]), 1e6, votes, np.arange(2)).estimate.round(3)
    array([[1.   , 0.707],
           [0.707, 1.   ]])
    """
    series = [_coefficients(column[~np.isnan(column)]) for column in normal.T]
    coarse = np.array([one is not None for one in series])
    z, error = np.arctanh(np.clip(correlation, -1 + 1e-12, 1 - 1e-12)), 1.0 / np.sqrt(max(items - 3.0, 1.0))
    found = Opinions(correlation, correlation, np.tanh(z + error))
    if not coarse.any():
        return found
    as_it_is = np.eye(1, _TERMS)[0]
    terms = np.stack([as_it_is if one is None else one for one in series])
    errors = max(2.0, float(ndtri(1.0 - 1.0 / max(len(coarse) * (len(coarse) - 1), 3))))  # half a pair by chance
    both = np.stack([correlation, correlation - errors * _error(correlation, normal)])
    estimate, least = _inverted(terms, both)
    graded = coarse[:, None] | coarse[None, :]
    pairs = ((estimate, found.estimate), (least, found.least), (estimate, found.most))
    told = (np.where(graded, of_grades, as_given) for of_grades, as_given in pairs)
    return Opinions(*told, grades=found, kin=families[:, None] == families[None, :])


def _inverted(terms: Array, correlation: Array) -> Array:
    """The correlations of opinions under which the grades have theirs, (..., p, p), by a table of the power series."""
    powers, found = np.arange(1, _TERMS + 1), np.full(correlation.shape, _GRID[0])
    rho_before, before = float(_GRID[0]), (terms * _GRID[0] ** powers) @ terms.T
    for rho in _GRID[1:].tolist():
        now = (terms * rho**powers) @ terms.T
        share = np.clip((correlation - before) / np.maximum(now - before, 1e-12), 0.0, 1.0)
        found = np.where(correlation > before, rho_before + share * (rho - rho_before), found)
        rho_before, before = rho, now
    itself = np.arange(len(terms))
    found[..., itself, itself] = 1.0
    return found


def _error(correlation: Array, normal: Array) -> Array:
    """Standard errors of correlations by the influence of single items, whatever the scores' distribution, (p, p)."""
    seen, z = (~np.isnan(normal)).astype(np.float64), np.where(np.isnan(normal), 0.0, normal)
    items = np.maximum(seen.T @ seen, 1.0)
    square, cube, fourth = (z**2).T @ z**2 / items, (z**3).T @ z / items, (z**4).T @ seen / items
    variance = square - correlation * (cube + cube.T) + correlation**2 / 4 * (fourth + fourth.T + 2 * square)
    return np.sqrt((np.maximum(variance, 0.0) + _ONE_ITEM / items) / items)


def _coefficients(grades: Array) -> Array | None:
    """Of a standardised grade as a function of a normal opinion, by Hermite polynomials; None where grades are many."""
    if len(np.unique(grades[:1_000])) > _MOST_GRADES:
        return None
    score, counts = np.unique(grades, return_counts=True)
    if not 1 < len(counts) <= _MOST_GRADES:
        return None
    below = np.cumsum(counts)[:-1] / len(grades)
    return _hermite(ndtri(below)) @ np.diff(score) / float(grades.std())


def _hermite(cuts: Array) -> Array:
    """Coefficients of the step from 0 to 1 at each cut, (terms, cuts): h_{k-1}(t) phi(t) / sqrt(k)."""
    polynomial, before = np.exp(-(cuts**2) / 2) / np.sqrt(2 * np.pi), np.zeros_like(cuts)
    steps = []
    for k in range(1, _TERMS + 1):
        steps.append(polynomial / np.sqrt(k))
        polynomial, before = (cuts * polynomial - np.sqrt(k - 1) * before) / np.sqrt(k), polynomial
    return np.stack(steps)
