"""Residual ranks of item features, and means by split unit."""

from collections.abc import Sequence

import numpy as np

from care_ops.minimum_sizes import MIN_ITEMS
from care_ops.scores import Array, ranks


def residual_ranks(feature: Array, other: Array) -> Array:
    """Regress the ranks of ``feature`` on the ranks of ``other``; return residuals (n,), NaN for a missing value."""
    both_known = ~np.isnan(feature) & ~np.isnan(other)
    out = np.full(len(feature), np.nan)
    if both_known.sum() < MIN_ITEMS or np.ptp(feature[both_known]) == 0:
        return out
    a, b = ranks(feature[both_known]), ranks(other[both_known])
    slope = np.cov(a, b)[0, 1] / max(float(np.var(b, ddof=1)), 1e-12)
    out[both_known] = a - slope * b
    return out


def mean_by_unit(values: Array, units: Sequence[str]) -> Array:
    """Average each column over the items of each split unit, ignoring NaN; (n, c) values give (units, c) means."""
    _, code = np.unique(np.array(units), return_inverse=True)
    present = ~np.isnan(values)
    count = np.column_stack([np.bincount(code, weights=column) for column in present.T.astype(float)])
    total = np.column_stack([np.bincount(code, weights=column) for column in np.where(present, values, 0.0).T])
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
