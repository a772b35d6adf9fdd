"""The judges of a view joined into one, whose grades are the patterns of theirs: states that no edge can blur.

A mixture of judges that are independent within states takes a strong edge between two of them for a state. Between the
three views of the paper's Algorithm 2 there is no edge, and within a view the joined judge may have any. This is the
likelihood's way to the states that the third moment across views shows, and works for votes, whose means nearly add up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from care_ops.models import observation
from care_ops.scores import Array
from care_ops.structure.views import Views

_REAL_GRADES = 3
"""Grades of like size into which real scores are cut, so that they have patterns; what is lost is regained by the model
that starts from here."""

_TOLERANCE = 1e-6
"""Rise of the mean log likelihood below which EM has ended: starts need no more."""

_MOST_ITERATIONS = 300


def states_of(values: Array, levels: Sequence[int], views: Views, starts: Sequence[Array]) -> Array:
    """P(state | J) of the likeliest mixture of the joined judges over some starts, shape (n, k).

    Each pattern of a view has a probability in each state, so that views need fewer patterns than there are items:
    otherwise the starts come back nearly as they are.

    Parameters
    ----------
    values : (n, p) array
        Grades as 0, 1, ... and real scores, none missing.
    levels : sequence of p int
        Number of grades of each judge, 0 where its scores are real.
    starts : sequence of (n, k) arrays
        P(state | J) that EM starts from.
    """
    grades = np.column_stack(
        [_cut(column) if most == 0 else column for column, most in zip(values.T, levels, strict=True)]
    )
    joined = np.column_stack([_patterns(grades[:, group]) for group in views.groups])
    columns = tuple(range(joined.shape[1]))
    model = observation.Graded(columns, tuple(int(most) + 1 for most in joined.max(axis=0)))
    ended = [
        observation.expectation_maximisation(joined, [model], start, _TOLERANCE, _MOST_ITERATIONS) for start in starts
    ]
    return max(ended, key=lambda fit: fit.log_likelihood).posterior(joined)


def _cut(scores: Array) -> Array:
    """Grades of like size."""
    return np.searchsorted(np.quantile(scores, np.arange(1, _REAL_GRADES) / _REAL_GRADES), scores).astype(np.float64)


def _patterns(grades: Array) -> Array:
    """The number of each row among the different rows."""
    return np.unique(grades, axis=0, return_inverse=True)[1].ravel().astype(np.float64)
