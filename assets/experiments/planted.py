"""Distances between estimates and planted truth."""

import itertools

import numpy as np

from care_ops.scores import Array, ScoreMatrix
from care_ops.structure.views import Views


def thirds(p: int) -> Views:
    """Return the planted views."""
    first, second, third = np.array_split(np.arange(p), 3)
    return Views((first, second, third), 0.0, 0.0)


def named(values: Array) -> ScoreMatrix:
    """Name the items and judges of drawn scores in their order."""
    n, p = values.shape
    return ScoreMatrix(values, tuple(f"i{k:06}" for k in range(n)), tuple(f"j{k:02}" for k in range(p)))


def matched(found: Array, wanted: Array) -> float:
    """Return the relative error of the means under the best permutation of the states."""
    orders = itertools.permutations(range(len(wanted)))
    return min(float(np.linalg.norm(found[list(o)] - wanted)) for o in orders) / float(np.linalg.norm(wanted))


def rotated(found: Array, wanted: Array) -> float:
    """Return the relative error of the means under the best orthogonal matrix."""
    u, _, vt = np.linalg.svd(wanted @ found.T)
    return float(np.linalg.norm(u @ vt @ found - wanted)) / float(np.linalg.norm(wanted))
