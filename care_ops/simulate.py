"""Simulated data from the paper's models, with the true parameters."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.scores import Array


@dataclass(frozen=True)
class GaussianDraw:
    """Scores of the joint Gaussian model (paper, "CARE for Fully Gaussian").

    Attributes
    ----------
    scores : (n, p) array
    sparse, low_rank : (p, p) arrays
        The true S and L.
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
    means, weights : (4, p) and (4,) arrays
        Mean scores and probability of each state.
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
) -> GaussianDraw:
    """Draw scores from the joint Gaussian model with precision S - L (Assumptions 1 and 2 of the paper).

    Loadings are orthonormal, and quality is the strongest factor. Every judge loads on quality with the same sign.
    About half of the judges load on each confounder, with random signs. S has edges with random signs. The smallest
    eigenvalue of the precision is one.
    """
    upper = np.triu_indices(p, 1)
    edges = np.where(rng.random(len(upper[0])) < edge_density, rng.choice([-0.25, 0.25], len(upper[0])), 0.0)
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


_WEIGHTS = (0.35, 0.15, 0.2, 0.3)
_DENSITY = 0.4
"""Probability of an edge between two judges in the same third."""


def four_state_mixture(
    rng: np.random.Generator, *, n: int, p: int, noise: float = 1.0, root: Array | None = None
) -> MixtureDraw:
    """Draw scores from four Gaussian states with covariance ``noise**2 * root @ root.T``; ``root`` defaults to I."""
    means = rng.uniform(1.0, 4.0, (4, p))
    states = rng.choice(4, size=n, p=np.array(_WEIGHTS))
    errors = rng.standard_normal((n, p))
    scores = means[states] + noise * (errors if root is None else errors @ root.T)
    return MixtureDraw(scores, states.astype(np.intp), means, np.array(_WEIGHTS), noise)


def grouped_mixture(rng: np.random.Generator, *, n: int, p: int, noise: float) -> tuple[MixtureDraw, NDArray[np.bool_]]:
    """Draw scores from four states; in each, different thirds of the judges are independent (paper, "graph-aware").

    Returns
    -------
    draw : MixtureDraw
    edges : (p, p) array of bool
        Whether the precision matrix of a state links two judges; False for judges in different thirds.
    """
    group = np.repeat(np.arange(3), -(-p // 3))[:p]
    upper = np.triu((group[:, None] == group[None, :]) & (rng.random((p, p)) < _DENSITY), 1)
    edges = upper | upper.T
    precision = np.where(edges, 0.3, 0.0)
    precision = precision + np.eye(p) * (1.0 + max(0.0, 0.1 - np.linalg.eigvalsh(precision + np.eye(p))[0]))
    root = np.linalg.cholesky(np.linalg.inv(precision)).astype(np.float64)
    return four_state_mixture(rng, n=n, p=p, noise=noise, root=root), edges


@dataclass(frozen=True)
class ConfoundedDraw:
    """Scores of three views given binary C and Q (paper, "Synthetic Experiments with Latent Confounding Factor").

    Attributes
    ----------
    scores : (n, p) array
        Scores, with the three views as groups of columns.
    quality, confounder : (n,) arrays of int
        Q and C of each item.
    means : (4, p) array
        Means of the states (C, Q) = 00, 01, 10, 11.
    views : tuple of three index arrays
        Columns of each view.
    """

    scores: Array
    quality: NDArray[np.intp]
    confounder: NDArray[np.intp]
    means: Array
    views: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]


TableOfMeans = tuple[tuple[float, float, float], ...]
"""Shifts of each view's mean score for Q = 1, for C = 1, and for C = Q = 1; the third gives the means rank 4."""

SUFFICIENT_TABLES: dict[str, TableOfMeans] = {
    "aligned": ((2.0, 0.2, 0.3), (0.3, 1.0, 0.3), (0.3, -1.0, 0.3)),
    "unequal": ((0.5, 0.2, 0.3), (0.3, 1.0, 0.3), (0.3, -0.5, 0.3)),
    "leaky": ((0.5, 0.2, 0.3), (0.3, 1.5, 0.3), (0.3, -0.5, 0.3)),
}
"""Tables of means by view; the paper does not specify them. In each table, the first view follows quality, and the
confounder moves the other two views in opposite directions. ``aligned``: quality varies most, as the name of the regime
requires; ``unequal``: the confounder varies most and does not cancel in the mean; ``leaky``: the confounder outweighs
quality in the mean. A judge's shifts are the shifts of the judge's view times random factors from (.5, 1.5)."""


def second_order_sufficient(
    rng: np.random.Generator, strength: float, table: TableOfMeans, *, truth: int, n: int = 50_000
) -> ConfoundedDraw:
    """Draw scores from the paper's second-order-sufficient regime, with three views of five judges and noise .1.

    P(C, Q) = (.2, .3, .3, .2) for 00, 01, 10, 11.

    Parameters
    ----------
    rng : numpy.random.Generator
        Generator of the scores.
    strength : float
        The paper's g in [0, 1], which multiplies all effects of the confounder.
    table : TableOfMeans
        Table of means, for example one of ``SUFFICIENT_TABLES``.
    truth : int
        Seed of the judges' factors; all draws of a sweep over g use the same seed.
    """
    factor = np.random.default_rng([truth, 1]).uniform(0.5, 1.5, (3, 15))
    shift = factor * np.repeat(table, 5, axis=0).T
    means = np.array([q * shift[0] + strength * c * (shift[1] + q * shift[2]) for c in (0, 1) for q in (0, 1)])
    return _confounded(rng, means, (0.2, 0.3, 0.3, 0.2), n)


def second_order_insufficient(
    rng: np.random.Generator, strength: float, *, truth: int, n: int = 3_000
) -> ConfoundedDraw:
    """Draw scores from the paper's second-order-insufficient regime, with three views of twelve features and noise .1.

    All four states are equally likely. In each view, Q alone shifts three features, C alone eight, and both one. The
    paper does not specify shifts; here they are uniform on (.4, .8). The feature that both shift has an additional
    shift if Q = C = 1; without it, the four means of a view would have rank 3, but the paper assumes rank 4. At
    ``strength`` 0 the confounder has no effect, and only two states remain.

    Parameters as in ``second_order_sufficient``; ``strength`` is the paper's c.
    """
    on_quality, on_confounder = np.zeros(12, bool), np.zeros(12, bool)
    on_quality[[0, 1, 2, 11]] = on_confounder[3:] = True
    shift = np.random.default_rng([truth, 2]).uniform(0.4, 0.8, (3, 36))
    shift *= np.tile([on_quality, on_confounder, on_quality & on_confounder], 3)
    means = np.array([q * shift[0] + strength * c * (shift[1] + q * shift[2]) for c in (0, 1) for q in (0, 1)])
    return _confounded(rng, means, (0.25, 0.25, 0.25, 0.25), n)


def _confounded(rng: np.random.Generator, means: Array, chances: tuple[float, ...], n: int) -> ConfoundedDraw:
    """Draw scores around ``2 + means``; the rows of ``means`` are the states (C, Q) = 00, 01, 10, 11."""
    p = means.shape[1]
    states = rng.choice(4, size=n, p=np.array(chances))
    confounder, quality = np.divmod(states, 2)
    means = 2.0 + means
    first, second, third = np.array_split(np.arange(p), 3)
    scores = means[states] + 0.1 * rng.standard_normal((n, p))
    return ConfoundedDraw(scores, quality.astype(np.intp), confounder.astype(np.intp), means, (first, second, third))
