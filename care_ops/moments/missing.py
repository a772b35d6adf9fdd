"""Conditional means of missing scores under a Gaussian model."""

import numpy as np

from care_ops.scores import Array


def condition(standardised: Array, correlation: Array, direction: Array | None = None) -> tuple[Array, Array]:
    """Replace missing scores by conditional means; compute the conditional variance of a linear combination.

    Parameters
    ----------
    standardised : (n, p) array
        Standardised scores; NaN marks a missing score.
    correlation : (p, p) array, positive definite
    direction : (p,) array, optional
        Coefficients of the linear combination of the scores.

    Returns
    -------
    filled : (n, p) array
    variance : (n,) array
        Variance of the combination given the observed scores; 0 if no score is missing or ``direction`` is None.
    """
    precision = np.linalg.inv(correlation).astype(np.float64, copy=False)
    absent = np.isnan(standardised)
    filled, variance = np.where(absent, 0.0, standardised), np.zeros(len(standardised))
    number = absent.sum(axis=1)
    for m in np.unique(number[number > 0]):  # group rows by m; rows (r,), missing (r, m), inner (r, m, m)
        rows = np.flatnonzero(number == m)
        missing = np.nonzero(absent[rows])[1].reshape(len(rows), int(m))
        inner = precision[missing[:, :, None], missing[:, None, :]]
        outer = np.einsum("rmp,rp->rm", precision[missing], filled[rows])
        filled[rows[:, None], missing] = -np.linalg.solve(inner, outer[:, :, None])[:, :, 0]
        if direction is not None:
            weight = direction[missing]
            variance[rows] = np.einsum("rm,rm->r", weight, np.linalg.solve(inner, weight[:, :, None])[:, :, 0])
    return filled, variance
