"""Detection of duplicate judges, such as two runs of the same model or two copies of the same column.

Good judges also agree. Under one common factor, the correlations with the *other* judges determine the correlation of
two judges (Spearman's tetrads, 1904); the correlation of duplicates is larger. On recorded panels the most accurate
judges are the most alike, so merging judges that are not nearly identical is harmful (``make bench-real``).
Therefore judges are duplicates only if their correlation clearly exceeds ``DUPLICATE``. CARE reports a group, but
does not merge it, if it contains more than half of the judges, or if its judges may be better than the others.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from care_ops.models.one_factor import common_loadings
from care_ops.scores import Array

DUPLICATE = 0.97
"""Minimum correlation between the normal scores of duplicates, after subtracting two standard errors."""

_UNRELATED = 0.2
"""Minimum excess of the correlation of duplicates over the value that the other judges imply. A group of duplicates
with a lower mean loading is unrelated to the common factor."""

_ALIKE = 0.85
"""Maximum correlation of two judges that count as evidence about each other. Duplicates with a mean loading below this
share of the other judges' median may be better judges than the others."""


@dataclass(frozen=True)
class Duplicates:
    """Groups of duplicate judges; each group counts as one judge.

    Attributes
    ----------
    group : (p,) array of int
        The group of each judge, counted from 0 in the order of the judges; duplicates share a group.
    uncertain : tuple of int
        The largest group of judges that are nearly identical but not merged; empty if there is no such group.
    """

    group: NDArray[np.intp]
    uncertain: tuple[int, ...] = ()


def find_duplicates(correlation: Array, items: float, families: NDArray[np.intp]) -> Duplicates:
    """Find judges whose scores are more alike than their accuracy explains.

    Parameters
    ----------
    correlation : (p, p) array
        Correlations of the judges' normal scores.
    items : float
        Number of items from which each correlation was computed.
    families : (p,) array of int
        Declared family of each judge; near-identical judges of the same family count as runs of the same model.

    Examples
    --------
    The first two of five judges are copies of each other and correlate little with the others:

    >>> import numpy as np
    >>> correlation = np.full((5, 5), 0.5) + 0.5 * np.eye(5)
    >>> correlation[:2, 2:] = correlation[2:, :2] = 0.1
    >>> correlation[0, 1] = correlation[1, 0] = 0.99
    >>> find_duplicates(correlation, 1000, np.arange(5)).group.tolist()
    [0, 0, 1, 2, 3]
    """
    p = len(correlation)
    lower = correlation - 2.0 * (1.0 - correlation**2) / np.sqrt(items)
    alike = lower > DUPLICATE
    np.fill_diagonal(alike, False)
    if not alike.any():
        return Duplicates(np.arange(p))
    related = connected_components(correlation > _ALIKE, directed=False)[1]
    unrelated = related[:, None] != related[None, :]
    loadings = common_loadings(correlation, unrelated) if unrelated.any() else np.ones(p)
    exceeds = lower - np.outer(loadings, loadings) > _UNRELATED
    implied = _are_implied(unrelated & (lower > _UNRELATED), related)
    linked = connected_components(alike & exceeds & implied, directed=False)[1]
    uncertain: list[list[int]] = []
    for members in _groups(linked):
        others = float(np.median(np.delete(loadings, members)))
        better = _UNRELATED < float(loadings[members].mean()) < _ALIKE * others
        if 2 * len(members) > p or (better and len(set(families[members].tolist())) > 1):
            uncertain.append(members)
            linked[members] = linked.max() + 1 + np.arange(len(members))
    uncertain += [
        members for members in _groups(connected_components(alike, directed=False)[1]) if 2 * len(members) > p
    ]
    return Duplicates(_numbered(linked), tuple(max(uncertain, key=len, default=())))


def _groups(label: NDArray[np.intp]) -> list[list[int]]:
    return [np.flatnonzero(label == k).tolist() for k in np.flatnonzero(np.bincount(label) > 1)]


def _are_implied(agree: NDArray[np.bool_], related: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return, for each judge, whether any two judges outside its group (``related``) agree; shape (p, 1)."""
    count = int(related.max()) + 1
    return np.array([agree[np.ix_(related != k, related != k)].any() for k in range(count)])[related][:, None]


def _numbered(label: NDArray[np.intp]) -> NDArray[np.intp]:
    _, first, place = np.unique(label, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[place]
