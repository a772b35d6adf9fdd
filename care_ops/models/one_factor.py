"""Robust fit of one common factor to the correlations of the judges.

As in the paper, the correlation matrix is the sum C = a a' + S: a a' is the common factor, and the sparse matrix S is
the direct dependence between judges. The fit minimises the *absolute* residuals of the correlations. A pair of judges
with direct dependence therefore has less influence than with squared residuals.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.scores import Array

_STEPS, _SMALL = 200, 0.03
"""Maximum number of reweighting steps, and the residual below which the loss is quadratic."""

MAX_LOADING = 0.97
"""Maximum loading; it leaves each judge some unique variance."""


@dataclass(frozen=True)
class OneFactor:
    """Common factor of the judges, with measures of its misfit.

    Attributes
    ----------
    loadings : (p,) array
        Correlation of each judge with the common factor, shrunk towards the mean loading according to sampling error.
    raw_loadings : (p,) array
        Loadings before shrinkage.
    misfit : float
        Root mean square of the correlations that the factor leaves unexplained, after subtracting sampling error.
    second : float
        Strength of a second factor: ratio of the largest residual eigenvalue to the sum of squared loadings.
    first_group : (p,) array of bool
        Whether a judge is in the first of the two groups that the second factor separates.
    """

    loadings: Array
    raw_loadings: Array
    misfit: float
    second: float
    first_group: NDArray[np.bool_]

    @property
    def weights(self) -> Array:
        """Weights of the judges' scores in the regression of the factor: a / (1 - a^2) for a loading a, at least 0."""
        return np.clip(self.loadings, 0.0, None) / (1.0 - self.loadings**2)

    def validity(self, weights: Array) -> float:
        """Return the correlation of a weighted sum of the judges' standardised scores with the factor."""
        shared = float(weights @ self.loadings)
        return shared / max(float(np.sqrt(shared**2 + weights**2 @ (1.0 - self.loadings**2))), 1e-12)

    @property
    def signal(self) -> float:
        """Median loading of the judges, which measures their common signal."""
        return float(np.median(self.raw_loadings))


def fit(correlation: Array, items: float) -> OneFactor:
    """Fit the common factor to the correlations of all pairs of judges.

    Parameters
    ----------
    correlation : (p, p) array
        Correlations of the judges' normal scores.
    items : float
        Number of items from which each correlation was computed.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    >>> correlation = np.outer(a, a) + np.diag(1 - a**2)
    >>> fit(correlation, 1e6).raw_loadings.round(2)
    array([0.9, 0.8, 0.7, 0.6, 0.5])
    """
    p = len(correlation)
    if p == 2:  # one correlation does not determine which of two judges is better
        loadings = np.full(2, np.sqrt(np.clip(correlation[0, 1], 0.0, MAX_LOADING**2)))
        return OneFactor(loadings, loadings, 0.0, 0.0, np.array([True, False]))
    pairs = ~np.eye(p, dtype=np.bool_)
    raw = common_loadings(correlation, pairs)
    loadings = np.clip(_shrunk(raw, pairs, items), 0.0, MAX_LOADING)
    rest = np.where(pairs, correlation - np.outer(raw, raw), 0.0)
    own = 1.0 - raw**2  # sampling variance of a residual, of which the fitted loadings absorb 2 / (p - 1)
    by_chance = float(np.mean(np.outer(own, own)[pairs])) / items * max(1.0 - 2.0 / (p - 1), 0.1)
    misfit = float(np.sqrt(max(float(np.mean(rest[pairs] ** 2)) - by_chance, 0.0)))
    second, first_group = _second_factor(correlation)
    return OneFactor(loadings, raw, misfit, second, first_group)


def _second_factor(correlation: Array, steps: int = 200) -> tuple[float, NDArray[np.bool_]]:
    """Compute the strength of a second factor relative to the first, and the first of the two groups that it separates.

    Principal-axis factoring gives the first factor; the second is the leading eigenvector of the residual correlation.
    """
    p = len(correlation)
    shared = np.clip(np.abs(correlation - np.eye(p)).max(axis=1), 0.05, 0.95)
    loadings = np.zeros(p)
    for _ in range(steps):
        reduced = correlation.copy()
        np.fill_diagonal(reduced, shared)
        values, vectors = np.linalg.eigh(reduced)
        before, loadings = loadings, vectors[:, -1] * np.sqrt(max(float(values[-1]), 1e-9))
        if float(np.abs(np.abs(before) - np.abs(loadings)).max()) < 1e-9:
            break
        shared = np.clip(loadings**2, 0.0, MAX_LOADING)
    rest = correlation - np.outer(loadings, loadings)
    np.fill_diagonal(rest, 0.0)
    values, vectors = np.linalg.eigh(rest)
    leading = vectors[:, -1]
    leading = leading if leading[int(np.argmax(np.abs(leading)))] > 0 else -leading
    return float(values[-1]) / max(float(loadings @ loadings), 1e-9), leading > (leading.min() + leading.max()) / 2.0


def common_loadings(correlation: Array, pairs: NDArray[np.bool_]) -> Array:
    """Minimise the absolute residuals |c_jk - a_j a_k| over ``pairs``; return the loadings a_j with a positive sum.

    Residuals below ``_SMALL`` have a quadratic loss (Huber, 1964). Iteratively reweighted least squares start from the
    median correlation of each judge.
    """
    known = np.where(pairs, correlation, np.nan)
    middle = np.array([np.median(row[~np.isnan(row)]) if (~np.isnan(row)).any() else 0.0 for row in known])
    loadings = np.sqrt(np.clip(middle, 0.05, 1.0))
    for _ in range(_STEPS):
        off = np.maximum(np.abs(correlation - np.outer(loadings, loadings)), _SMALL)
        weight = np.where(pairs, 1.0 / off, 0.0)
        new = np.clip((weight * correlation) @ loadings / np.maximum(weight @ loadings**2, 1e-9), -1.0, 1.0)
        if float(np.abs(new - loadings).max()) < 1e-7:
            break
        loadings = 0.5 * (loadings + new)
    return loadings if loadings.sum() >= 0 else -loadings


def _shrunk(loadings: Array, pairs: NDArray[np.bool_], items: float) -> Array:
    """Shrink loadings towards their mean by the share of their variance that is sampling error (empirical Bayes).

    A loading is a judge's correlation r with the others divided by the square root of their reliability R (Spearman,
    1904). Its sampling variance is (1 - r^2)^2 / (n R), with r and R computed as if all loadings had equal size.
    """
    square = min(float(np.mean(loadings**2)), 0.9)
    signal = pairs.sum(axis=1) * square / (1.0 - square)
    reliability = np.maximum(signal / (1.0 + signal), 1e-9)
    variance = (1.0 - square * reliability) ** 2 / (items * reliability)
    trust = 1.0 / (variance + 0.02)
    centre = float(np.average(loadings, weights=trust))
    spread = max(float(np.average((loadings - centre) ** 2 - variance, weights=trust)), 0.0)
    return centre + spread / (spread + variance) * (loadings - centre)
