"""What several criteria of the same items share: how far their scores agree, and which judges carry a halo.

A judge with a halo scores an item as a whole: where it is too kind in one criterion, it is too kind in the others. Its
deviations from the criteria's scores are then correlated.
"""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from care_ops.least import LEAST_ITEMS
from care_ops.scores import Array, correlation


def correlations(columns: Array) -> Array:
    """Correlation of every two columns over the rows where both are present.

    Parameters
    ----------
    columns : (n, c) array
        NaN is missing.

    Returns
    -------
    (c, c) array
        NaN where two columns share fewer than ``LEAST_ITEMS`` rows, or one of them does not vary there.
    """
    count = columns.shape[1]
    matrix = np.full((count, count), np.nan)
    np.fill_diagonal(matrix, 1.0)
    for a, b in combinations(range(count), 2):
        matrix[a, b] = matrix[b, a] = correlation(columns[:, a], columns[:, b], at_least=LEAST_ITEMS)
    return matrix


def deviations(values: Array, estimate: Array) -> Array:
    """What is left of each judge's scores after a straight line through the estimates.

    Parameters
    ----------
    values : (n, p) array
    estimate : (n,) array

    Returns
    -------
    (n, p) array
        NaN where a score or an estimate is missing, and throughout where a judge has fewer than ``LEAST_ITEMS`` scores.
    """
    left = np.full(values.shape, np.nan)
    for j in range(values.shape[1]):
        present = ~np.isnan(values[:, j]) & ~np.isnan(estimate)
        if present.sum() < LEAST_ITEMS:
            continue
        line = np.column_stack([np.ones(present.sum()), estimate[present]])
        coefficients = np.linalg.lstsq(line, values[present, j], rcond=None)[0]
        left[present, j] = values[present, j] - line @ coefficients
    return left


def halo(left: Array, votes: NDArray[np.bool_] | None = None) -> Array:
    """Mean correlation, over every two criteria, of a judge's deviations in both.

    Parameters
    ----------
    left : (c, n, p) array
        ``deviations`` of c criteria, over the same items and judges.
    votes : (p,) array of bool, optional
        Which judges say one of two things. A correlation r of theirs stands for sin(pi r / 2) of what they voted by
        (Sheppard, 1899), so that one limit holds for votes and for grades.

    Returns
    -------
    (p,) array
        About 0 where a judge's mistakes in one criterion say nothing of those in another; NaN where no two criteria
        share enough items.
    """
    means = np.full(left.shape[2], np.nan)
    for j in range(left.shape[2]):
        matrix = correlations(left[:, :, j].T)
        pairs = matrix[np.triu_indices(len(matrix), k=1)]
        if (~np.isnan(pairs)).any():
            means[j] = float(np.nanmean(pairs))
    return means if votes is None else np.where(votes, np.sin(np.pi / 2 * means), means)
