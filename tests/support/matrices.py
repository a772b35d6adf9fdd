"""Score matrices with generated names."""

import itertools

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


def shuffled(scores: ScoreMatrix, rng: np.random.Generator) -> tuple[ScoreMatrix, np.ndarray, np.ndarray]:
    """Return the same scores in random order, and the former positions of its items and judges."""
    items, judges = (rng.permutation(length) for length in scores.shape)
    item_ids, names = np.array(scores.item_ids)[items].tolist(), np.array(scores.judges)[judges].tolist()
    return ScoreMatrix(scores.values[np.ix_(items, judges)], tuple(item_ids), tuple(names)), items, judges


def matched_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the relative error of states' means under the best permutation of states."""
    orders = itertools.permutations(range(len(wanted)))
    return min(float(np.linalg.norm(found[list(order)] - wanted) / np.linalg.norm(wanted)) for order in orders)
