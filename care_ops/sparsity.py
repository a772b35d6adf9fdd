"""Detection of sparse panels, where most judges scored few items, as in crowdsourcing."""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from care_ops.minimum_sizes import MIN_SCORES_TO_DESCRIBE
from care_ops.scores import Array, mean_of_present, varies

NARROW = 0.1
"""Limit of a narrow range of a judge's scores, as a share of the range of all scores."""

FIT_GROUPS_REMEDY = "fit the scores of each group separately, or let judges of all groups score some common items"
"""Instruction to the user if groups of judges share no item."""


@dataclass(frozen=True)
class Component:
    """Group of judges and items that are connected by scores; ``judges`` and ``items`` are sorted positions."""

    judges: NDArray[np.intp]
    items: NDArray[np.intp]


def is_sparse(values: Array) -> bool:
    """Return whether pairs of judges share too few items for correlations.

    Parameters
    ----------
    values : (n, p) array
        Scores; NaN marks a missing score.
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
    """Return whether over half of the judges scored less than half of the items; ``present`` counts scores by judge."""
    return bool(present.any() and (present < 0.5 * items).mean() > 0.5)


def lacks_pairs(together: Array) -> bool:
    """Return whether two judges share no item, but are linked by other judges; ``together`` counts shared items."""
    lacking = together == 0
    return bool(lacking.any()) and scipy.sparse.csgraph.connected_components(~lacking, directed=False)[0] == 1


def components(values: Array) -> list[Component]:
    """Find groups of judges that share no item with judges of other groups, the largest first.

    Judges and items without a score belong to no group.

    Parameters
    ----------
    values : (n, p) array
        Scores; NaN marks a missing score.
    """
    n, p = values.shape
    present = ~np.isnan(values)
    if p and present.all(axis=1).any():  # an item that all judges scored connects them
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
    """Return whether at least a quarter of the judges use less than a tenth of the range of all scores.

    Such judges, for instance reward models, have their own scales, so neither scores nor thresholds are comparable
    across judges. Constant judges and judges with fewer than ``MIN_SCORES_TO_DESCRIBE`` scores are ignored.

    Parameters
    ----------
    values : (n, p) array
        Scores; NaN marks a missing score.
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
    return bool((ranges < NARROW * whole).mean() >= 0.25)


def comparable(values: Array) -> Array:
    """Standardise the scores of a sparse panel by the mean and standard deviation of all scores.

    If ``scales_are_unlike``, each judge is standardised separately, and a judge with fewer than
    ``MIN_SCORES_TO_DESCRIBE`` scores gets NaN.

    Parameters
    ----------
    values : (n, p) array
        Scores; NaN marks a missing score.
    """
    if not scales_are_unlike(values):
        present = values[~np.isnan(values)]
        spread = float(present.std()) if varies(present) else 1.0
        return (values - present.mean()) / spread
    centred = values - mean_of_present(values)
    spread = np.sqrt(mean_of_present(centred**2))
    known = ((~np.isnan(values)).sum(axis=0) >= MIN_SCORES_TO_DESCRIBE) & (spread > 0) & varies(values)
    return np.where(known, centred / np.where(known, spread, 1.0), np.nan)
