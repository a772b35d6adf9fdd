"""Permutation tests of the association between features of items and factor scores."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import false_discovery_control, rankdata

from care_ops.minimum_sizes import MIN_ITEMS
from care_ops.scores import Array


def permuted(latent: Array, features: Array, resamples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Compute Spearman correlations (h, f) of factor scores with features, and two-sided permutation p-values (h, f).

    Parameters
    ----------
    latent : (n, h) array
    features : (n, f) array
        NaN marks an unknown value. A constant feature, or a feature with too few known values, has the result NaN.
    resamples : int
        Number of permutations of each feature, which are the same for every factor.
    rng : numpy.random.Generator
        Generator of the permutations.
    """
    h, f = latent.shape[1], features.shape[1]
    correlations, p_values = np.full((h, f), np.nan), np.full((h, f), np.nan)
    for c in range(f):
        scored = ~np.isnan(features[:, c]) & ~np.isnan(latent).any(axis=1)
        if scored.sum() < MIN_ITEMS or np.ptp(features[scored, c]) == 0:
            continue
        b = _unit(rankdata(features[scored, c])[:, None])[:, 0]
        a = _unit(rankdata(latent[scored], axis=0))
        seen = a.T @ b
        beyond = np.zeros(h)
        for _ in range(resamples):
            beyond += np.abs(a.T @ rng.permutation(b)) >= np.abs(seen) - 1e-12
        correlations[:, c], p_values[:, c] = seen, (1 + beyond) / (1 + resamples)
    return correlations, p_values


def benjamini_hochberg(p_values: Array, rate: float) -> NDArray[np.bool_]:
    """Return which p-values are discoveries at a false discovery rate (Benjamini and Hochberg 1995); NaN never is."""
    defined, discovered = ~np.isnan(p_values), np.zeros(p_values.shape, dtype=bool)
    discovered[defined] = false_discovery_control(p_values[defined]) <= rate
    return discovered


def residual_ranks(feature: Array, other: Array) -> Array:
    """Regress the ranks of one feature on the ranks of another, and return the residuals (n,), NaN if unknown."""
    both_known = ~np.isnan(feature) & ~np.isnan(other)
    out = np.full(len(feature), np.nan)
    if both_known.sum() < MIN_ITEMS or np.ptp(feature[both_known]) == 0:
        return out
    a, b = rankdata(feature[both_known]), rankdata(other[both_known])
    slope = np.cov(a, b)[0, 1] / max(float(np.var(b, ddof=1)), 1e-12)
    out[both_known] = a - slope * b
    return out


def mean_by_unit(values: Array, units: Sequence[str]) -> Array:
    """Average values (n, c) over the items of each split unit, ignoring NaN, and return the means (units, c)."""
    _, code = np.unique(np.array(units), return_inverse=True)
    present = ~np.isnan(values)
    count = np.column_stack([np.bincount(code, weights=column) for column in present.T.astype(float)])
    total = np.column_stack([np.bincount(code, weights=column) for column in np.where(present, values, 0.0).T])
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _unit(columns: Array) -> Array:
    centred = columns - columns.mean(axis=0)
    return centred / np.maximum(np.linalg.norm(centred, axis=0), 1e-12)
