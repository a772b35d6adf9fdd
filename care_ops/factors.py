"""Factors of the low-rank part: their directions, signs, and which one is quality.

Belongs here: the eigendecomposition of L made deterministic, the symmetry-breaking rules, the Gaussian
posterior of a factor. Does not: solving for L (``structure``), naming confounders (``interpret``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import FitError

Array = NDArray[np.float64]
Rule = Literal["leading", "balance", "anchors"]

_RELATIVE_RANK_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Factors:
    """Eigen-directions of L, strongest first (paper, Algorithm 1 step 3).

    Attributes
    ----------
    strengths : (h,) array
        Eigenvalues of L: the strength of each factor.
    directions : (p, h) array
        Unit columns u_r, each signed so that its weighted sum of scores rises with the panel's mean.
    quality : int
        Which column is taken as the quality factor Q.
    rule : str
        The rule that chose it.
    orientation : float
        Correlation of the quality factor's score with the mean of the standardised judges. Near zero
        means that its sign rests on almost nothing.
    """

    strengths: Array
    directions: Array
    quality: int
    rule: Rule
    orientation: float

    @property
    def weights(self) -> Array:
        """Direction u* of the quality factor, shape (p,), unit length."""
        return self.directions[:, self.quality]

    @property
    def mass(self) -> Array:
        """Share of tr L that each factor carries, shape (h,)."""
        return self.strengths / self.strengths.sum()


def extract(low_rank: Array, correlation: Array, rule: Rule = "leading") -> Factors:
    """Factors of L with deterministic signs, and the one that a label-free rule calls quality.

    Parameters
    ----------
    low_rank : (p, p) array
        L of a ``Structure`` fitted on ``correlation``.
    correlation : (p, p) array
    rule : {"leading", "balance"}
        ``leading``: the largest eigenvalue (paper, section "Identifying True-Quality Factor").
        ``balance``: the factor whose squared loadings are spread most evenly (their entropy), among
        those with at least a tenth of the mass. For labels see ``choose_by_anchors``.

    Raises
    ------
    FitError
        L is zero: the penalty left no shared factor.
    """
    values, vectors = np.linalg.eigh(low_rank)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > _RELATIVE_RANK_TOLERANCE * max(float(np.trace(low_rank)), 1e-300)
    if not kept.any() or values[0] <= 1e-10:
        raise FitError("factors: the low-rank part is zero, so the judges share nothing to aggregate by")
    values, vectors = values[kept], vectors[:, kept]
    vectors = np.column_stack([_oriented(u, correlation) for u in vectors.T])
    quality = 0 if rule == "leading" else _most_balanced(values, vectors)
    return Factors(values, vectors, quality, rule, _agreement(vectors[:, quality], correlation))


def choose_by_anchors(factors: Factors, scores: Array, labels: Array, correlation: Array) -> Factors:
    """The factor, and the sign, whose score follows the labels best (paper, human-anchor criterion).

    Parameters
    ----------
    factors : Factors
    scores : (m, p) array
        Standardised scores of the labelled items, missing ones filled.
    labels : (m,) array
    """
    if len(labels) < 2 or np.ptp(labels) == 0:
        return factors
    follows = [_correlation(scores @ u, labels) for u in factors.directions.T]
    chosen = int(np.argmax(np.abs(follows)))
    directions = factors.directions.copy()
    if follows[chosen] < 0:
        directions[:, chosen] *= -1
    return Factors(factors.strengths, directions, chosen, "anchors", _agreement(directions[:, chosen], correlation))


def posterior(standardised: Array, direction: Array, strength: float, correlation: Array) -> tuple[Array, Array]:
    """E[Q | J] and its standard deviation under the joint Gaussian model, also where scores are missing.

    With K_HH = I the factor h has K_Jh = -sqrt(strength) * direction, hence
    ``E[h | J] = sqrt(strength) * direction' z`` and conditional variance one (paper, "CARE for Fully
    Gaussian"). A missing score is replaced by its conditional mean given the observed ones, and its
    conditional variance is added.

    Parameters
    ----------
    standardised : (n, p) array
        Scores less their mean over their standard deviation; NaN is missing.
    direction : (p,) array, unit length
    strength : float
        Eigenvalue of L.
    correlation : (p, p) array, positive definite

    Returns
    -------
    mean, sd : (n,) arrays
        In units of the factor's marginal standard deviation; NaN where every score is missing.
    """
    n = len(standardised)
    unit = np.sqrt(1.0 + strength * direction @ correlation @ direction)
    loading = np.sqrt(strength) * direction
    mean, variance = np.full(n, np.nan), np.full(n, np.nan)
    for present, rows in _patterns(~np.isnan(standardised)):
        if not present.any():
            continue
        seen, unseen = np.flatnonzero(present), np.flatnonzero(~present)
        effective, extra = loading[seen], 0.0
        if len(unseen):
            regression = np.linalg.solve(correlation[np.ix_(seen, seen)], correlation[np.ix_(seen, unseen)])
            effective = effective + regression @ loading[unseen]
            rest = correlation[np.ix_(unseen, unseen)] - correlation[np.ix_(unseen, seen)] @ regression
            extra = float(loading[unseen] @ rest @ loading[unseen])
        mean[rows] = standardised[np.ix_(rows, seen)] @ effective
        variance[rows] = 1.0 + max(extra, 0.0)
    return mean / unit, np.sqrt(variance) / unit


def impute(standardised: Array, correlation: Array) -> Array:
    """Conditional mean of missing standardised scores given the observed ones, shape (n, p)."""
    filled = standardised.copy()
    for present, rows in _patterns(~np.isnan(standardised)):
        seen, unseen = np.flatnonzero(present), np.flatnonzero(~present)
        if not len(unseen):
            continue
        if not len(seen):
            filled[rows] = 0.0
            continue
        regression = np.linalg.solve(correlation[np.ix_(seen, seen)], correlation[np.ix_(seen, unseen)])
        filled[np.ix_(rows, unseen)] = standardised[np.ix_(rows, seen)] @ regression
    return filled


def _patterns(present: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], NDArray[np.intp]]]:
    """Distinct rows of ``present`` with the positions where each occurs."""
    patterns, group = np.unique(present, axis=0, return_inverse=True)
    return [(pattern, np.flatnonzero(group.ravel() == k)) for k, pattern in enumerate(patterns)]


def _oriented(direction: Array, correlation: Array) -> Array:
    towards_mean = float(np.sum(correlation @ direction))
    if abs(towards_mean) < 1e-9:  # no preference: the largest entry counts as positive
        towards_mean = float(direction[np.argmax(np.abs(direction))])
    return direction if towards_mean > 0 else -direction


def _agreement(direction: Array, correlation: Array) -> float:
    ones = np.ones(len(direction))
    scale = np.sqrt((direction @ correlation @ direction) * (ones @ correlation @ ones))
    return float(direction @ correlation @ ones / scale)


def _most_balanced(strengths: Array, directions: Array) -> int:
    shares = directions**2
    entropy = -np.sum(shares * np.log(np.maximum(shares, 1e-300)), axis=0)
    entropy[strengths < 0.1 * strengths.sum()] = -np.inf
    return int(np.argmax(entropy))


def _correlation(a: Array, b: Array) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else 0.0
