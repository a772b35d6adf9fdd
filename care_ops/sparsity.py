"""Sparse panels, in which most judges scored few of the items, such as crowds of workers."""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from care_ops.minimum_sizes import MIN_SCORES_TO_DESCRIBE
from care_ops.scores import Array, mean_of_present, varies

_NARROW = 0.1
"""Share of the range of all scores below which a judge's own range is narrow."""

FIT_GROUPS_REMEDY = "fit each group's scores by themselves, or let some items be scored by judges of all groups"
"""Instruction for groups of judges that share no item and cannot be compared."""


@dataclass(frozen=True)
class Component:
    """Judges and items that are connected by scores, by their positions, in order."""

    judges: NDArray[np.intp]
    items: NDArray[np.intp]


def is_sparse(values: Array) -> bool:
    """Return whether pairs of judges share too few items: the panel is a crowd, or ``lacks_pairs``.

    Parameters
    ----------
    values : (n, p) array
        NaN is missing.
    """
    absent = np.isnan(values)
    if not absent.any():
        return False
    present = ~absent
    if is_crowd(present.sum(axis=0), len(values)):
        return True
    if present.all(axis=1).any():
        return False
    together = present.astype(np.float64)
    return lacks_pairs(together.T @ together)


def is_crowd(present: NDArray[np.integer] | Array, items: int) -> bool:
    """Return whether more than half of the judges scored less than half of the items, by the scores of each, (p,)."""
    return bool(present.any() and (present < 0.5 * items).mean() > 0.5)


def lacks_pairs(together: Array) -> bool:
    """Whether two judges scored no item in common and others connect them, by the items that two scored, (p, p)."""
    lacking = together == 0
    return bool(lacking.any()) and scipy.sparse.csgraph.connected_components(~lacking, directed=False)[0] == 1


def components(values: Array) -> list[Component]:
    """Find groups of judges that share no item with judges of other groups; the largest first.

    Judges and items without a score are in none.

    Parameters
    ----------
    values : (n, p) array
        NaN is missing.
    """
    n, p = values.shape
    present = ~np.isnan(values)
    if p and present.all(axis=1).any():  # an item that everybody scored connects them all
        return [Component(np.arange(p), np.flatnonzero(present.any(axis=1)))]
    item, judge = np.nonzero(present)
    graph = scipy.sparse.coo_array((np.ones(len(item), dtype=np.int8), (item, n + judge)), shape=(n + p, n + p))
    label = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    groups = [
        Component(np.flatnonzero(label[n:] == group), np.flatnonzero(label[:n] == group))
        for group in np.unique(label[n + judge])
    ]
    return sorted(groups, key=lambda group: (-len(group.judges), int(group.judges[0])))


def scales_are_unlike(values: Array) -> bool:
    """Return whether a quarter of the judges or more use less than a tenth of the range of all scores.

    Such judges score on scales of their own, as reward models do: their scores can be compared neither with one another
    nor with one cut. Judges of fewer than ``MIN_SCORES_TO_DESCRIBE`` scores, and those that never vary, say nothing of
    their scale.

    Parameters
    ----------
    values : (n, p) array
        NaN is missing.
    """
    telling = (~np.isnan(values)).sum(axis=0) >= MIN_SCORES_TO_DESCRIBE
    if not telling.any():
        return False
    highest, lowest = np.fmax.reduce(values, axis=0), np.fmin.reduce(values, axis=0)  # NaN where a judge has none
    ranges = (highest - lowest)[telling]
    ranges = ranges[ranges > 0]
    if len(ranges) < 2:
        return False
    whole = float(np.nanmax(highest) - np.nanmin(lowest))
    return bool((ranges < _NARROW * whole).mean() >= 0.25)


def comparable(values: Array) -> Array:
    """Return the scores of a sparse panel in units in which judges can be compared, NaN where missing, shape (n, p).

    Few scores do not tell a judge's location and spread, so that all judges share those of all scores, unless their
    scales are unlike: then each judge has its own, and a judge of too few scores to know them has no score left.

    Parameters
    ----------
    values : (n, p) array
        NaN is missing.
    """
    if not scales_are_unlike(values):
        present = values[~np.isnan(values)]
        spread = float(present.std()) if varies(present) else 1.0
        return (values - present.mean()) / spread
    centred = values - mean_of_present(values)
    spread = np.sqrt(mean_of_present(centred**2))
    known = ((~np.isnan(values)).sum(axis=0) >= MIN_SCORES_TO_DESCRIBE) & (spread > 0) & varies(values)
    return np.where(known, centred / np.where(known, spread, 1.0), np.nan)
