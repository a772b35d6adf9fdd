"""A fit frozen to a function of one item's scores, so that new items can be scored without fitting again.

Belongs here: finding and applying that function, and how faithful it is. Belongs elsewhere: which fit is pinned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from care_ops.errors import FitError, listed
from care_ops.scores import ScoreMatrix

Array = NDArray[np.float64]

_MOST_KNOTS = 101
_FOLDS = 5

FAITHFUL = 0.98
"""Least share of an aggregate's variance on items left out that a frozen function must explain to be applied."""


@dataclass(frozen=True)
class Frozen:
    """An aggregate as a linear function of standardised scores and of normal scores.

    ``care_svd``, ``avg`` and ``uws`` are linear in the first, the factor of ``care`` in the second.

    Attributes
    ----------
    judges : tuple of p str
    mean, sd : (p,) arrays
        Mean and standard deviation by which each judge's scores are standardised.
    knots, heights : tuple of p arrays
        Scores of each judge, and the normal scores that they had in the fit's panel; the curve is linear between them.
    coefficients : (2 p,) array
    intercept : float
    fidelity : float
        Share of the aggregate's variance explained on items left out (five folds).
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
        """Estimates of (n,) items, NaN where no judge of the fit has scored.

        A judge's missing score counts as its mean.

        Raises
        ------
        FitError
            The function is not faithful, or a judge of the fit is not among the scores.
        """
        if self.fidelity < FAITHFUL:
            raise FitError(
                f"this fit does not follow from one item's scores alone (it explains {self.fidelity:.2f} of the "
                f"variance, {FAITHFUL} is asked); promote one of care, care_svd, avg or uws"
            )
        lost = sorted(set(self.judges) - set(scores.judges))
        if lost:
            raise FitError(f"the fit needs scores of {listed(lost)}; run those judges, or promote another fit")
        values = scores.select_judges(self.judges).values
        estimate = _features(values, self.mean, self.sd, self.knots, self.heights) @ self.coefficients + self.intercept
        return np.where(np.isnan(values).all(axis=1), np.nan, estimate)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "judges": list(self.judges),
            "mean": self.mean.tolist(),
            "sd": self.sd.tolist(),
            "knots": [k.tolist() for k in self.knots],
            "heights": [h.tolist() for h in self.heights],
            "coefficients": self.coefficients.tolist(),
            "intercept": self.intercept,
            "fidelity": self.fidelity,
        }

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> Frozen:
        """The inverse of ``as_dict``."""
        return Frozen(
            tuple(stored["judges"]),
            _array(stored["mean"]),
            _array(stored["sd"]),
            tuple(map(_array, stored["knots"])),
            tuple(map(_array, stored["heights"])),
            _array(stored["coefficients"]),
            stored["intercept"],
            stored["fidelity"],
        )


def freeze(scores: ScoreMatrix, estimate: Array) -> Frozen:
    """The function nearest to an aggregate, by least squares.

    Parameters
    ----------
    scores : ScoreMatrix
        The fit's panel.
    estimate : (n,) array
        In the order of ``scores``; NaN is left out.
    """
    values = scores.values
    mean, spread = (_array(np.nan_to_num(f(values, axis=0))) for f in (np.nanmean, np.nanstd))
    sd = np.where(spread > 0, spread, 1.0)
    curves = [_normal_scores(values[:, j]) for j in range(len(scores.judges))]
    knots, heights = tuple(k for k, _ in curves), tuple(h for _, h in curves)
    scored = np.flatnonzero(~np.isnan(estimate))
    features, target = _features(values[scored], mean, sd, knots, heights), estimate[scored]
    design = np.column_stack([features, np.ones(len(scored))])
    solution = np.linalg.lstsq(design, target, rcond=None)[0]
    left_out = np.empty(len(scored))
    for fold in range(_FOLDS):
        out = np.arange(len(scored)) % _FOLDS == fold
        left_out[out] = design[out] @ np.linalg.lstsq(design[~out], target[~out], rcond=None)[0]
    total = float(((target - target.mean()) ** 2).sum()) if len(scored) else 0.0
    fidelity = 1.0 - float(((target - left_out) ** 2).sum()) / total if total > 0 else 0.0
    coefficients, intercept = _array(solution[:-1]), float(solution[-1])
    return Frozen(scores.judges, mean, sd, knots, heights, coefficients, intercept, max(fidelity, 0.0))


def _features(values: Array, mean: Array, sd: Array, knots: tuple[Array, ...], heights: tuple[Array, ...]) -> Array:
    """Standardised scores beside normal scores, (n, 2 p); 0 for missing."""
    normal = [np.interp(values[:, j], k, h) for j, (k, h) in enumerate(zip(knots, heights, strict=True))]
    return np.nan_to_num(np.column_stack([(values - mean) / sd, *normal]))


def _array(values: Any) -> Array:
    return np.asarray(values, dtype=np.float64)


def _normal_scores(column: Array) -> tuple[Array, Array]:
    """Scores and their normal scores (by the middle of their ranks), at most a hundred and one of them."""
    present = np.sort(column[~np.isnan(column)])
    if not len(present):
        return np.zeros(1), np.zeros(1)
    kinds, counts = np.unique(present, return_counts=True)
    heights = ndtri((np.cumsum(counts) - counts / 2) / len(present))
    if len(kinds) > _MOST_KNOTS:
        chosen = np.unique(np.linspace(0, len(kinds) - 1, _MOST_KNOTS).round().astype(int))
        kinds, heights = kinds[chosen], heights[chosen]
    return kinds, heights
