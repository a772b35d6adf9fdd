"""Approximation of a fit by a function of an item's own scores; the function scores new items without a new fit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from care_ops.blocks import blocks, by_rows, columns
from care_ops.errors import FitError, listed
from care_ops.records import Array
from care_ops.samples import MOST_ITEMS, spread_rows
from care_ops.scores import ScoreMatrix, varies

_MOST_KNOTS = 101
_FOLDS = 5

FAITHFUL = 0.98
"""Minimum share of held-out variance that a frozen function must explain before it may score new items."""


@dataclass(frozen=True)
class Frozen:
    """Approximation of an aggregate by a linear function of standardised scores and normal scores.

    ``care_svd``, ``avg`` and ``uws`` are linear in standardised scores; the factor of ``care`` is linear in normal
    scores.

    Attributes
    ----------
    judges : tuple of p str
    mean, sd : (p,) arrays
        Mean and standard deviation by which each judge's scores are standardised.
    knots, heights : tuple of p arrays
        Scores of each judge and the corresponding normal scores in the fit; values between knots are interpolated.
    coefficients : (2 p,) array
        Coefficients of the standardised scores, then of the normal scores.
    fidelity : float
        Held-out R^2 of the function (five folds).
    """

    judges: tuple[str, ...]
    mean: Array
    sd: Array
    knots: tuple[Array, ...]
    heights: tuple[Array, ...]
    coefficients: Array
    intercept: float
    fidelity: float

    def apply(self, scores: ScoreMatrix) -> Array:
        """Estimate each item from its scores; NaN if no judge of the fit scored the item.

        A missing score counts as the judge's mean. Raises ``FitError`` if the function explains too little of the
        variance of the fit's estimates, or if ``scores`` lacks a judge of the fit.
        """
        if self.fidelity < FAITHFUL:
            raise FitError(
                f"new items cannot be scored: a function of an item's own scores explains only {self.fidelity:.2f} of "
                f"the variance of this fit's estimates (minimum {FAITHFUL}); fit old and new items together"
            )
        lost = sorted(set(self.judges) - set(scores.judges))
        if lost:
            raise FitError(f"the new items lack scores of {listed(lost)}; run these judges, or fit without them")
        values = scores.select_judges(self.judges).values
        estimate = by_rows(lambda some: self.features(some) @ self.coefficients + self.intercept, values)
        return np.where(np.isnan(values).all(axis=1), np.nan, estimate)

    def features(self, values: Array) -> Array:
        """Stack standardised and normal scores, with 0 for missing scores; shape (n, 2 p)."""
        curves = zip(values.T, self.knots, self.heights, strict=True)
        normal = [np.interp(column, knots, heights) for column, knots, heights in curves]
        return np.nan_to_num(np.column_stack([(values - self.mean) / self.sd, *normal]))


def freeze(scores: ScoreMatrix, estimate: Array) -> Frozen:
    """Approximate one aggregate by a function of an item's own scores; see ``freeze_all``."""
    return freeze_all(scores, {"": estimate})[""]


def freeze_all(scores: ScoreMatrix, estimates: Mapping[str, Array]) -> dict[str, Frozen]:
    """Approximate each aggregate of a panel by a function of an item's own scores, by least squares.

    A QR decomposition reduces the rows of each fold to a triangular factor (Golub and Van Loan, Matrix Computations,
    5.3). The five factors give the fit on all items and its cross-validation. With many items, an evenly spaced subset
    is used (``care_ops.samples``).

    Parameters
    ----------
    scores : ScoreMatrix
        The fit's panel.
    estimates : mapping name -> (n,) array
        Estimates in the order of ``scores``; items with NaN are ignored.
    """
    values = scores.values
    mean, spread = (_array(np.nan_to_num(f(values, axis=0))) for f in (np.nanmean, np.nanstd))
    curves = [_normal_scores(column) for column in columns(values)]
    spread = np.where(varies(values), spread, 1.0)
    knots, heights = (tuple(each) for each in zip(*curves, strict=True))
    blank = Frozen(scores.judges, mean, spread, knots, heights, np.zeros(2 * len(curves)), 0.0, 0.0)
    frozen: dict[str, Frozen] = {}
    by_items: dict[bytes, list[str]] = {}
    for name, estimate in estimates.items():
        by_items.setdefault(np.isnan(estimate).tobytes(), []).append(name)
    for names in by_items.values():
        scored = ~np.isnan(estimates[names[0]])
        target = np.column_stack([estimates[name][scored] for name in names])
        rows = spread_rows(len(target), MOST_ITEMS)
        solution, fidelity = _least_squares(blank.features, values, np.flatnonzero(scored)[rows], target[rows])
        for name, x, explained in zip(names, solution.T, fidelity, strict=True):
            frozen[name] = replace(
                blank, coefficients=_array(x[:-1]), intercept=float(x[-1]), fidelity=float(explained)
            )
    return {name: frozen[name] for name in estimates}


def _least_squares(
    features_of: Callable[[Array], Array], values: Array, scored: NDArray[np.intp], target: Array
) -> tuple[Array, Array]:
    """Return least-squares coefficients with intercepts, shape (2 p + 1, k), and held-out R^2 values, shape (k,)."""
    width = 2 * values.shape[1] + 1
    triangles = [np.zeros((0, width + target.shape[1])) for _ in range(_FOLDS)]
    for rows in blocks(len(scored)):
        features = features_of(values[scored[rows]])
        both = np.column_stack([features, np.ones(len(features)), target[rows]])
        for fold in range(_FOLDS):
            of_fold = both[(fold - rows.start) % _FOLDS :: _FOLDS]
            triangles[fold] = _array(np.linalg.qr(np.vstack([triangles[fold], of_fold]), mode="r"))

    def solve(folds: Sequence[Array]) -> Array:
        stacked = np.vstack(folds)
        negligible = np.finfo(np.float64).eps * max(len(scored), width)
        return _array(np.linalg.lstsq(stacked[:, :width], stacked[:, width:], rcond=negligible)[0])

    missed = np.zeros(target.shape[1])
    for fold, left_out in enumerate(triangles):
        guess = solve([triangle for other, triangle in enumerate(triangles) if other != fold])
        missed += ((left_out[:, width:] - left_out[:, :width] @ guess) ** 2).sum(axis=0)
    total = ((target - target.mean(axis=0)) ** 2).sum(axis=0) if len(target) else missed
    explained = 1.0 - missed / np.where(total > 0, total, 1.0)
    return solve(triangles), np.where(total > 0, np.maximum(explained, 0.0), 0.0)


def _array(values: Any) -> Array:
    return np.asarray(values, dtype=np.float64)


def _normal_scores(column: Array) -> tuple[Array, Array]:
    """Return at most 101 distinct scores and their normal scores, computed from mid-ranks."""
    present = column[~np.isnan(column)]
    if not len(present):
        return np.zeros(1), np.zeros(1)
    kinds, counts = np.unique(present, return_counts=True)
    heights = scipy.special.ndtri((np.cumsum(counts) - counts / 2) / len(present))
    if len(kinds) > _MOST_KNOTS:
        chosen = np.unique(np.linspace(0, len(kinds) - 1, _MOST_KNOTS).round().astype(int))
        kinds, heights = kinds[chosen], heights[chosen]
    return kinds, heights
