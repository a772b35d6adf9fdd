"""Score matrices with generated names."""

import numpy as np

from care_ops.scores import ScoreMatrix


def matrix(values: np.ndarray, **families: str) -> ScoreMatrix:
    """Return a score matrix with generated names, whose sorted order is the order of rows and columns."""
    n, p = values.shape
    items = tuple(f"i{k:05d}" for k in range(n))
    return ScoreMatrix(values, items, tuple(f"j{k:03d}" for k in range(p)), families)


def random_correlation(rng: np.random.Generator, p: int, factors: int = 2) -> np.ndarray:
    """Draw the correlation matrix of p judges with common factors."""
    loadings = rng.normal(size=(p, factors))
    covariance = loadings @ loadings.T + np.diag(rng.uniform(0.5, 2.0, p))
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.outer(scale, scale)
