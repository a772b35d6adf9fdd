"""The distance between what was found and what was planted."""

import itertools

import numpy as np

from care_ops.scores import Array, ScoreMatrix
from care_ops.structure.views import Views


def thirds(p: int) -> Views:
    """The planted views."""
    first, second, third = np.array_split(np.arange(p), 3)
    return Views((first, second, third), 0.0, 0.0)


def named(values: Array) -> ScoreMatrix:
    """Drawn scores, items and judges named in their order."""
    n, p = values.shape
    return ScoreMatrix(values, tuple(f"i{k:06}" for k in range(n)), tuple(f"j{k:02}" for k in range(p)))


def matched(found: Array, wanted: Array) -> float:
    """Relative error of the means under the best permutation of the states."""
    orders = itertools.permutations(range(len(wanted)))
    return min(float(np.linalg.norm(found[list(o)] - wanted)) for o in orders) / float(np.linalg.norm(wanted))


def rotated(found: Array, wanted: Array) -> float:
    """Like ``matched``, but under the best orthogonal matrix, which includes every permutation."""
    u, _, vt = np.linalg.svd(wanted @ found.T)
    return float(np.linalg.norm(u @ vt @ found - wanted)) / float(np.linalg.norm(wanted))
