"""Score matrices with made-up names."""

import numpy as np

from care_ops.scores import ScoreMatrix


def matrix(values: np.ndarray, **families: str) -> ScoreMatrix:
    """A score matrix with made-up names that sort in order."""
    n, p = values.shape
    items = tuple(f"i{k:05d}" for k in range(n))
    return ScoreMatrix(values, items, tuple(f"j{k:03d}" for k in range(p)), families)
