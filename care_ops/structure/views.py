"""Partition of the judges into three views, with no strong edges of S between the views."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from care_ops.errors import FitError
from care_ops.scores import Array

Views = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]
"""Positions of the judges of each view; every judge is in one view, and no view is empty."""


def partition(sparse: Array) -> Views:
    """Pack the connected components of the graph |S| > epsilon into three views of similar size.

    Epsilon, the tolerance of Algorithm 2, is the smallest value at which there are at least three components, and no
    component has more than ceil(p / 3) of the p judges.

    Parameters
    ----------
    sparse : (p, p) array
        S of a ``Structure``.

    Raises
    ------
    FitError
        There are fewer than three judges.
    """
    p = len(sparse)
    if p < 3:
        raise FitError(f"views: three views need at least three judges, but the panel has {p}; add judges")
    strength = np.abs(sparse)
    edges = np.unique(strength[np.triu_indices(p, 1)])
    low, high = 0, len(edges) - 1  # at the largest edge every judge is a component
    while low < high:
        middle = (low + high) // 2
        count, label = _components(strength, float(edges[middle]))
        if count >= 3 and np.bincount(label).max() <= -(-p // 3):
            high = middle
        else:
            low = middle + 1
    count, label = _components(strength, float(edges[low]))
    groups: list[list[int]] = [[], [], []]
    members = [np.flatnonzero(label == k) for k in range(count)]
    for component in sorted(members, key=lambda m: (-len(m), int(m[0]))):
        min(groups, key=len).extend(int(j) for j in component)
    first, second, third = (np.array(sorted(group), dtype=np.intp) for group in sorted(groups, key=min))
    return first, second, third


def _components(strength: Array, tolerance: float) -> tuple[int, NDArray[np.intp]]:
    count, label = connected_components(csr_array(strength > tolerance), directed=False)
    return int(count), label.astype(np.intp)
