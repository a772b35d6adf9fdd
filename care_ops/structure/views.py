"""Three views: groups of judges without direct edges between them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from care_ops.errors import FitError
from care_ops.scores import Array

CLEAR_EDGE = 5.0
"""A partial correlation of more standard errors than this is an edge: |Fisher's z| times sqrt(n - p - 1)."""


@dataclass(frozen=True)
class Views:
    """A partition of the judges into three groups.

    Attributes
    ----------
    groups : three index arrays
        Together all judges, each once; none is empty.
    tolerance : float
        The epsilon of Algorithm 2: no edge above it runs between groups.
    largest_cross_edge : float
        The strongest |S_ij| between two groups (at most ``tolerance``).
    """

    groups: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]
    tolerance: float
    largest_cross_edge: float


def partition(sparse: Array, tolerance: float | None = None) -> Views:
    """Pack the connected components of |S| > tolerance into three groups of like size.

    Parameters
    ----------
    sparse : (p, p) array
        S of a ``Structure``.
    tolerance : float, optional
        The default is the smallest tolerance at which no component has more than a third of the judges, rounded up,
        so that the groups are of like size.

    Raises
    ------
    FitError
        Fewer than three judges, or the given tolerance leaves fewer than three components.
    """
    p = len(sparse)
    if p < 3:
        raise FitError(f"views: three views need at least three judges, there are {p}")
    strength = np.abs(sparse - np.diag(np.diag(sparse)))
    if tolerance is None:
        tolerance = _smallest_tolerance(strength, largest=-(-p // 3))
    count, label = _components(strength, tolerance)
    if count < 3:
        raise FitError(
            f"views: at tolerance {tolerance:.3g} the judges form {count} connected group(s), three are "
            "needed; raise the tolerance"
        )
    groups: list[list[int]] = [[], [], []]
    members = [np.flatnonzero(label == k) for k in range(count)]
    for component in sorted(members, key=lambda m: (-len(m), int(m[0]))):
        min(groups, key=len).extend(int(j) for j in component)
    first, second, third = (np.array(sorted(g), dtype=np.intp) for g in sorted(groups, key=min))
    return Views((first, second, third), float(tolerance), largest_cross_edge(sparse, (first, second, third)))


def partition_within(covariance: Array, items: int) -> Views:
    """``partition`` by the precision of the within-state covariance, in which an edge is a clear partial correlation.

    In a mixture the covariance of the states' means is in S as well. The covariance within states does not contain it,
    and shows only the edges. Where the clear edges hang together in fewer than three groups, the weakest are cut until
    no group has more than a third of the judges, and the result's ``largest_cross_edge`` exceeds the limit.

    Parameters
    ----------
    covariance : (p, p) array
        Covariance of a ``mixture.Mixture`` with a full shape.
    items : int
        Number of items behind the covariance.
    """
    strength = fisher_z(covariance, items)
    count, _ = _components(np.abs(strength), CLEAR_EDGE)
    return partition(strength, tolerance=CLEAR_EDGE if count >= 3 else None)


def fisher_z(covariance: Array, items: int) -> Array:
    """Return standardised partial correlations (p, p), zero on the diagonal: about N(0, 1) without an edge."""
    precision = np.linalg.inv(covariance)
    root = np.sqrt(np.diag(precision))
    partial = -precision / np.outer(root, root)
    np.fill_diagonal(partial, 0.0)
    return np.arctanh(np.clip(partial, -1 + 1e-12, 1 - 1e-12)) * np.sqrt(max(items - len(covariance) - 1, 1))


def largest_cross_edge(sparse: Array, groups: tuple[NDArray[np.intp], ...]) -> float:
    """Return the strongest |S_ij| with i and j in different groups."""
    view = np.empty(len(sparse), dtype=int)
    for k, group in enumerate(groups):
        view[group] = k
    across = view[:, None] != view[None, :]
    return float(np.abs(sparse[across]).max())


def _smallest_tolerance(strength: Array, largest: int) -> float:
    edges = np.unique(np.concatenate([[0.0], strength[np.triu_indices(len(strength), 1)]]))
    low, high = 0, len(edges) - 1  # at the largest edge every judge is a group of its own
    while low < high:
        middle = (low + high) // 2
        count, label = _components(strength, float(edges[middle]))
        if count >= 3 and np.bincount(label).max() <= largest:
            high = middle
        else:
            low = middle + 1
    return float(edges[low])


def _components(strength: Array, tolerance: float) -> tuple[int, NDArray[np.intp]]:
    count, label = connected_components(csr_array(strength > tolerance), directed=False)
    return int(count), label.astype(np.intp)
