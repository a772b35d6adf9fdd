"""Data drawn from the paper's own models, with the truth beside them.

Belongs here: generators for tests and experiments. Does not: estimating anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianDraw:
    """Scores of the joint Gaussian model (paper, "CARE for Fully Gaussian").

    Attributes
    ----------
    scores : (n, p) array
    sparse, low_rank : (p, p) arrays
        True S and L.
    directions : (p, h) array
        Orthonormal columns of K_JH; the first is quality.
    """

    scores: Array
    sparse: Array
    low_rank: Array
    directions: Array


@dataclass(frozen=True)
class MixtureDraw:
    """Scores of the four-state mixture (paper, "CARE for Gaussian Mixtures").

    Attributes
    ----------
    scores : (n, p) array
    states : (n,) array of int
        0 to 3 for (Q, C) = 00, 01, 10, 11.
    means : (4, p) array
    weights : (4,) array
    noise : float
        Standard deviation within a state.
    """

    scores: Array
    states: NDArray[np.intp]
    means: Array
    weights: Array
    noise: float


def joint_gaussian(
    rng: np.random.Generator,
    *,
    n: int,
    p: int,
    confounders: int,
    strengths: tuple[float, ...] = (2.0, 1.2, 0.7),
    edge_density: float = 0.15,
    edge: float = 0.25,
) -> GaussianDraw:
    """Draw from S - L with orthonormal loadings, quality leading (Assumptions 1 and 2 of the paper).

    Quality loads on every judge with one sign, confounders on about half of them with either sign;
    S has random edges of either sign. The smallest eigenvalue of the precision is one.
    """
    upper = np.triu_indices(p, 1)
    edges = np.where(rng.random(len(upper[0])) < edge_density, rng.choice([-edge, edge], len(upper[0])), 0.0)
    sparse = np.zeros((p, p))
    sparse[upper] = edges
    sparse = sparse + sparse.T
    loadings = [rng.uniform(0.5, 1.0, p)]
    loadings += [rng.standard_normal(p) * (rng.random(p) < 0.5) for _ in range(confounders)]
    raw = np.column_stack(loadings)
    directions, _ = np.linalg.qr(raw)
    directions = directions * np.sign(np.sum(directions * raw, axis=0))
    low_rank = (directions * np.array(strengths[: confounders + 1])) @ directions.T
    sparse = sparse + (1.0 - np.linalg.eigvalsh(sparse - low_rank)[0]) * np.eye(p)
    root = np.linalg.cholesky(np.linalg.inv(sparse - low_rank))
    return GaussianDraw(rng.standard_normal((n, p)) @ root.T, sparse, low_rank, directions)


def four_state_mixture(
    rng: np.random.Generator,
    *,
    n: int,
    p: int,
    noise: float = 1.0,
    weights: tuple[float, float, float, float] = (0.35, 0.15, 0.2, 0.3),
) -> MixtureDraw:
    """Draw from four Gaussian states with means uniform on (1, 4) and independent noise."""
    means = rng.uniform(1.0, 4.0, (4, p))
    states = rng.choice(4, size=n, p=np.array(weights))
    scores = means[states] + noise * rng.standard_normal((n, p))
    return MixtureDraw(scores, states.astype(np.intp), means, np.array(weights), noise)
