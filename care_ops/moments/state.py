"""Moments of a score matrix up to order three; moments of disjoint sets of items can be added.

The moments are entries of the symmetric third-order moment tensor of ``[1, x - shift]``. Each entry has a count and
a sum over the items that all judges of the entry scored. The shift, a mean of the first rows, limits rounding errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from care_ops.errors import FitError, InputError
from care_ops.minimum_sizes import MIN_JUDGES
from care_ops.scores import Array
from care_ops.sparsity import FIT_GROUPS_REMEDY, is_crowd, is_sparse, lacks_pairs

Index = NDArray[np.intp]

_BLOCK_ROWS = 2_048


@dataclass(frozen=True)
class Moments:
    """Sums of products of ``x - shift`` over items, with the number of items in each sum.

    Attributes
    ----------
    shift : (p,) array
        Value that is subtracted from each judge's scores.
    n : int
        Number of items, with or without scores.
    count1, sum1 : (p,) arrays
        Number of observed scores, and the sum of x - shift.
    count2, sum2 : (p, p) arrays
        Number of items that both judges scored, and the sum of products.
    partial2, square2 : (p, p) arrays
        Entry (a, b) is the sum of x_a - shift_a, or of its square, over the items that both judges scored.
    count3, sum3 : (p, p, p) arrays
        Number of items that all three judges scored, and the sum of products; shape (0, 0, 0) without third moments.
    """

    shift: Array
    n: int
    count1: Array
    sum1: Array
    count2: Array
    sum2: Array
    partial2: Array
    square2: Array
    count3: Array
    sum3: Array

    @property
    def p(self) -> int:
        """Number of judges."""
        return len(self.shift)

    @cached_property
    def sparse(self) -> bool:
        """Whether pairs of judges share too few items for correlations (``sparsity.is_sparse``)."""
        return is_crowd(self.count1, self.n) or lacks_pairs(self.count2)

    def __add__(self, other: Moments) -> Moments:
        if not np.array_equal(self.shift, other.shift):
            raise InputError("moments: moments with different shifts cannot be added; use one shift for both")
        sums = (getattr(self, entry.name) + getattr(other, entry.name) for entry in fields(self)[1:])
        return Moments(self.shift, *sums)

    def mean(self) -> Array:
        """Return the mean of each judge's scores, shape (p,); it is meaningless for a judge without scores."""
        return self.shift + self.sum1 / np.maximum(self.count1, 1)

    def covariance(self, judges: Sequence[str] | None = None) -> Array:
        """Return the pairwise-complete covariance, with the number of common items as divisor; shape (p, p).

        ``judges`` are names for error messages. Raises ``FitError`` if a judge has no scores, or two judges have no
        scored items in common.
        """
        if (self.count1 == 0).any():
            raise FitError(f"moments: judge {_name(judges, int(np.argmin(self.count1)))} has no score; drop this judge")
        if (self.count2 == 0).any():
            a, b = map(int, np.argwhere(self.count2 == 0)[0])
            pair = f"moments: judges {_name(judges, a)} and {_name(judges, b)} have no scored items in common"
            groups, group = connected_components(self.count2 > 0, directed=False)
            if groups > 1 and np.bincount(group).min() >= MIN_JUDGES:
                raise FitError(f"{pair}, because the judges form {groups} separate groups; {FIT_GROUPS_REMEDY}")
            raise FitError(f"{pair}; drop one of these judges")
        partial_mean = self.partial2 / self.count2
        return self.sum2 / self.count2 - partial_mean * partial_mean.T

    def standardise(self, values: Array) -> Array:
        """Return the standardised scores, shape (n, p), with NaN for missing scores."""
        centred = values - self.mean()
        centred /= np.sqrt(np.diag(self.covariance()))
        return centred

    def variance(self) -> Array:
        """Return the variance of each judge's scores, shape (p,); it is meaningless for a judge without scores."""
        count = np.maximum(self.count1, 1)
        return np.diag(self.sum2) / count - (np.diag(self.partial2) / count) ** 2

    def correlation(self, judges: Sequence[str] | None = None) -> Array:
        """Return the pairwise-complete correlation, shape (p, p), with a diagonal of exactly one.

        The correlation of two judges is 0 if one of them is constant on their common items. ``judges`` are names for
        error messages. Raises ``FitError`` if a judge is constant on all of its items.
        """
        covariance = self.covariance(judges)
        variance = np.diag(covariance).copy()
        # at most the rounding error of a constant at this location
        constant = variance <= np.maximum((8 * np.finfo(np.float64).eps * self.mean()) ** 2, 1e-150)
        if constant.any():
            judge = _name(judges, int(np.argmax(constant)))
            raise FitError(f"moments: judge {judge} gives every item the same score; drop this judge")
        # variances over the pair's common items keep |r| <= 1
        partial_mean, pair_square = self.partial2 / self.count2, self.square2 / self.count2
        pair_variance = pair_square - partial_mean**2
        rounding = 64 * np.finfo(np.float64).eps * np.sqrt(self.count2) * pair_square  # of a sum of so many terms
        varies = (pair_variance > rounding) & (pair_variance > 1e-300)
        varying = varies & varies.T
        pair_variance = np.where(varies, pair_variance, 1.0)
        correlation = np.where(varying, covariance / np.sqrt(pair_variance * pair_variance.T), 0.0)
        correlation = np.clip(0.5 * (correlation + correlation.T), -1.0, 1.0)
        np.fill_diagonal(correlation, 1.0)
        return correlation

    def third_central(self, first: Index, second: Index, third: Index) -> Array:
        """Compute the third central moments of triples with one judge from each of three groups (Algorithm 2 step B).

        With missing scores, the mean of a product is taken over the items that all judges in the product scored.

        Returns
        -------
        (len(first), len(second), len(third)) array
        """
        triple = np.ix_(first, second, third)
        mean = self.sum1 / self.count1
        pair = self.sum2 / np.maximum(self.count2, 1)
        raw = self.sum3[triple] / np.maximum(self.count3[triple], 1)
        a, b, c = mean[first], mean[second], mean[third]
        ab, ac, bc = pair[np.ix_(first, second)], pair[np.ix_(first, third)], pair[np.ix_(second, third)]
        return (
            raw
            - ab[:, :, None] * c[None, None, :]
            - ac[:, None, :] * b[None, :, None]
            - bc[None, :, :] * a[:, None, None]
            + 2.0 * a[:, None, None] * b[None, :, None] * c[None, None, :]
        )


def _name(judges: Sequence[str] | None, position: int) -> str:
    return f"number {position}" if judges is None else repr(judges[position])


def accumulate(values: Array, shift: Array | None = None, *, third: bool = True) -> Moments:
    """Compute the moments of an array of scores.

    Parameters
    ----------
    values : (n, p) array
        Scores; NaN marks a missing score.
    shift : (p,) array, optional
        Values to subtract, by default ``default_shift(values)``; only moments with equal shifts can be added.
    third : bool
        Whether to sum third moments; their memory grows with the cube of the number of judges.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2:
        raise InputError(f"moments: scores have shape {values.shape}; give an (items, judges) array")
    shift = default_shift(values) if shift is None else np.asarray(shift, dtype=np.float64)
    if not (values.flags.c_contiguous or values.flags.f_contiguous):
        values = np.ascontiguousarray(values)
    return accumulate_columns([values.T], shift, third=third)


def accumulate_columns(batches: Iterable[Array], shift: Array, *, third: bool = True) -> Moments:
    """Compute the moments of scores that arrive in batches.

    Parameters
    ----------
    batches : iterable of (p, m) arrays
        Scores, with a row for each judge; NaN marks a missing score.
    shift : (p,) array, subtracted from the scores
    """
    state = _block(np.empty((0, len(shift))), shift, third=third)  # the moments of zero items
    for columns in batches:
        for start in range(0, columns.shape[1], _BLOCK_ROWS):
            state = state + _block(columns[:, start : start + _BLOCK_ROWS].T, shift, third=third)
    return state


def default_shift(values: Array) -> Array:
    """Return the mean of each judge's first 1,024 observed scores, shape (p,); 0 for a judge without scores."""
    rows = 1_024
    shift = np.zeros(values.shape[1])
    for j in range(values.shape[1]):
        seen = rows  # reading a whole strided column would be slow
        while True:
            head = values[:seen, j]
            present = head[~np.isnan(head)][:rows]
            if len(present) == rows or seen >= len(values):
                break
            seen *= 2
        if len(present):
            shift[j] = present.mean()
    return shift


def of_panel(values: Array, *, third: bool = True) -> Moments:
    """Compute the moments of a panel; include third moments if ``third`` is true and the panel is not sparse."""
    return accumulate(values, third=third and not is_sparse(values))


def _block(values: Array, shift: Array, *, third: bool) -> Moments:
    present = ~np.isnan(values)
    y = np.where(present, values - shift, 0.0)
    n, p = y.shape
    total, second = y.sum(axis=0), y.T @ y
    sum3 = _triple(y) if third else np.zeros((0, 0, 0))
    if present.all():
        counts = [np.full(sums.shape, float(n)) for sums in (total, second, sum3)]
        partial = np.repeat(total[:, None], p, axis=1)
        square = np.repeat(np.diag(second)[:, None], p, axis=1)
    else:
        mask = present.astype(np.float64)
        counts = [mask.sum(axis=0), mask.T @ mask, _triple(mask) if third else sum3]
        partial, square = y.T @ mask, (y * y).T @ mask
    return Moments(shift, n, counts[0], total, counts[1], second, partial, square, counts[2], sum3)


def _triple(y: Array) -> Array:
    p, by_judge = y.shape[1], np.ascontiguousarray(y.T)
    out = np.empty((p, p, p))
    for a in range(p):
        out[a, a:] = out[a:, a] = (by_judge[a] * by_judge[a:]) @ y
    return out


def shrink(correlation: Array, n: int) -> tuple[Array, float]:
    """Shrink a correlation matrix towards the identity by oracle-approximating shrinkage.

    The result is invertible even if there are few items or duplicate judges; with many items it almost equals the input
    (Chen, Wiesel, Eldar and Hero, IEEE Transactions on Signal Processing 2010, equation 23).

    Parameters
    ----------
    correlation : (p, p) array
    n : int
        Number of items from which the correlation was computed.

    Returns
    -------
    shrunk : (p, p) array, positive definite
    intensity : float in [0, 1], the weight of the identity
    """
    p = len(correlation)
    trace_of_square = float(np.sum(correlation**2))
    numerator = (1 - 2 / p) * trace_of_square + p**2
    denominator = (n + 1 - 2 / p) * (trace_of_square - p)
    intensity = 1.0 if denominator <= 0 else min(1.0, numerator / denominator)
    lowest = float(np.linalg.eigvalsh(correlation)[0])
    # a pairwise-complete matrix can be indefinite: its smallest eigenvalue is raised to the shrunk value of 0
    floor = max(intensity, 1e-4) if lowest < 0 else 1e-4
    if (1 - intensity) * lowest + intensity < floor:
        intensity = (floor - lowest) / (1 - lowest)
    return (1 - intensity) * correlation + intensity * np.eye(p), intensity
