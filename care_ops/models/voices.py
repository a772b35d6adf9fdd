"""Judges that say the same thing: near-copies that speak for themselves and not for what all judges share.

Two copies of a judge are one opinion. Where they are counted twice, an average leans to it, and a common factor takes
what only they share for what all judges share: two copies among ten judges are enough. Near-copies are told from judges
that are good, and agree for that, by what the *other* judges make of them: under one common factor the correlation of
two judges follows from their correlations with the others (Spearman's tetrads, 1904), and copies exceed it.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from care_ops.models.coarse import Opinions
from care_ops.models.robust_factor import common_loadings

COPIES_FROM = 0.85
"""Correlation of the normal scores from which on two judges may be copies."""

_EXCESS = 0.2
"""By how much the correlation of copies exceeds what the other judges let one expect; what judges who agree have."""

ALL_ALIKE = 0.98
"""Correlation above which judges are one voice where no two others agree that could tell copies from good ones."""


def voices(said: Opinions) -> NDArray[np.intp]:
    """Number the voices of a panel; near-copies are one.

    Parameters
    ----------
    said : Opinions
        How the opinions of each two judges correlate.

    Returns
    -------
    (p,) array of int
        The voice of each judge, counted from 0 in the order of the judges.

    Examples
    --------
    The first two of five judges are copies of each other and know little of what the others agree on:

    >>> import numpy as np
    >>> correlation = np.full((5, 5), 0.5) + 0.5 * np.eye(5)
    >>> correlation[:2, 2:] = correlation[2:, :2] = 0.1
    >>> correlation[0, 1] = correlation[1, 0] = 0.97
    >>> voices(Opinions(correlation, correlation, correlation)).tolist()
    [0, 0, 1, 2, 3]
    """
    if said.grades is not None and _groups(said.most > COPIES_FROM)[0] == 1:
        return np.arange(len(said.most))  # votes of good judges on easy items are alike, and err on items of their own
    linked = _copies(said)
    if said.grades is not None and said.kin is not None:
        linked = _copies(said.grades) | (linked & ~said.kin)
    return _numbered(_groups(linked)[1])


def _copies(said: Opinions) -> NDArray[np.bool_]:
    """Which two judges are near-copies, (p, p)."""
    alike = said.most > COPIES_FROM
    np.fill_diagonal(alike, False)
    _, group = _groups(alike)
    apart = group[:, None] != group[None, :]
    surely = said.least > ALL_ALIKE
    if alike.any() and apart.any():
        loadings = common_loadings(said.estimate, apart)
        exceeds = said.least - np.outer(loadings, loadings) > _EXCESS
        surely = np.where(_are_told(apart & (said.least > _EXCESS), group), exceeds, surely)
    return alike & surely


def _are_told(agree: NDArray[np.bool_], group: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Of each judge, whether two others, unlike it and each other, agree: else nothing says how good it is, (p, 1)."""
    groups = range(int(group.max()) + 1)
    return np.array([agree[np.ix_(group != g, group != g)].any() for g in groups])[group][:, None]


def _groups(linked: NDArray[np.bool_]) -> tuple[int, NDArray[np.intp]]:
    count, group = connected_components(linked, directed=False)
    return int(count), np.asarray(group, dtype=np.intp)


def _numbered(group: NDArray[np.intp]) -> NDArray[np.intp]:
    """The same groups, numbered in the order in which they first occur."""
    _, first, place = np.unique(group, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[place]
