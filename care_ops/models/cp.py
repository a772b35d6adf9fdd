"""Estimation of mixture components from the third moment across three views.

Each view gets a constant column of ones. The moment of K affinely independent means then has rank K although the
scores are centred, and a decomposition of the moment determines both the means and the weights of the components.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from care_ops.errors import FitError, how_to_install
from care_ops.moments.state import Moments
from care_ops.scores import Array
from care_ops.structure.views import Views

_ATTEMPTS = 10
"""Number of random contractions, or random starts, of one decomposition."""

_LEAST_WEIGHT = 1e-3
"""Minimum weight of a component; smaller or negative weights from the moment are raised to this value."""


def augmented_moment(moments: Moments, views: Views, scale: Array | None = None) -> Array:
    """Compute the third moment across three views of centred scores, with a column of ones added to each view.

    Parameters
    ----------
    scale : (p,) array, optional
        Divisor of each judge's scores.

    Returns
    -------
    (1 + p1, 1 + p2, 1 + p3) array
    """
    g1, g2, g3 = views
    covariance = moments.covariance()
    tensor = np.zeros((len(g1) + 1, len(g2) + 1, len(g3) + 1))
    tensor[0, 0, 0] = 1.0
    tensor[1:, 1:, 0] = covariance[np.ix_(g1, g2)]
    tensor[1:, 0, 1:] = covariance[np.ix_(g1, g3)]
    tensor[0, 1:, 1:] = covariance[np.ix_(g2, g3)]
    tensor[1:, 1:, 1:] = moments.third_central(g1, g2, g3)
    if scale is None:
        return tensor
    first, second, third = (np.concatenate([[1.0], scale[group]]) for group in views)
    return tensor / first[:, None, None] / second[None, :, None] / third[None, None, :]


def decompose(tensor: Array, views: Views, k: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Decompose the third moment by diagonalising a random contraction over the third view (Jennrich's algorithm).

    Parameters
    ----------
    tensor : (1 + p1, 1 + p2, 1 + p3) array
        Third moment, computed by ``augmented_moment``.
    k : int
        Number of components.

    Returns
    -------
    weights : (k,) array
        Positive weights that sum to one.
    means : (k, p) array
        Mean of each component, with the judges in column order.

    Raises
    ------
    FitError
        A view has fewer than k - 1 judges, or the moment does not determine k components.
    """
    if min(tensor.shape) < k:
        raise FitError(
            f"tensor: {k} components need {k - 1} judges in each view; the views have {_sizes(views)}; add judges"
        )
    singular = np.linalg.svd(tensor[:, :, 0], compute_uv=False)
    condition = float(singular[0] / max(singular[k - 1], 1e-300))
    if condition > 1e10:
        raise FitError(
            f"tensor: the cross-moment has rank < {k} (condition number {condition:.1e}); use the aggregator `care`"
        )
    factor = _jennrich(tensor, k, rng)
    if np.abs(factor[0]).min() <= 1e-9 * np.abs(factor).max():
        raise FitError("tensor: too few items to determine the weight of every component; add items")
    first = factor / factor[0]  # the constant coordinate of every mean is one
    inverse = np.linalg.pinv(first)
    second, third = inverse @ tensor[:, :, 0], inverse @ tensor[:, 0, :]
    weights = np.maximum(0.5 * (second[:, 0] + third[:, 0]), _LEAST_WEIGHT)
    means = np.empty((k, sum(len(group) for group in views)))
    means[:, views[0]] = first[1:].T
    for group, moved in zip(views[1:], (second, third), strict=True):
        means[:, group] = moved[:, 1:] / np.maximum(moved[:, :1], _LEAST_WEIGHT)
    if not np.isfinite(means).all():
        raise FitError("tensor: the decomposition has non-finite means; use the aggregator `care`")
    return weights / weights.sum(), means


def _jennrich(tensor: Array, k: int, rng: np.random.Generator) -> Array:
    """Compute the factor of the first view, up to column scales, by Jennrich's algorithm; shape (1 + p1, k)."""
    left, singular, right = np.linalg.svd(tensor[:, :, 0])
    root = 1.0 / np.sqrt(singular[:k])
    core = np.einsum("abc,ai,bj->ijc", tensor, left[:, :k] * root, right[:k].T * root, optimize=True)
    best: tuple[float, Array] | None = None
    for _ in range(_ATTEMPTS):
        direction = rng.standard_normal(tensor.shape[2])
        eigenvalues, eigenvectors = np.linalg.eig(core @ direction)
        if np.abs(np.imag(eigenvalues)).max() > 1e-8 * np.abs(eigenvalues).max():
            continue
        values = np.sort(np.real(eigenvalues))
        separation = float(np.diff(values).min() / max(np.ptp(values), 1e-300))
        if best is None or separation > best[0]:
            best = (separation, np.real(eigenvectors))
    if best is None:
        raise FitError(f"tensor: the third moment does not have {k} real components; use the aggregator `care`")
    return left[:, :k] @ (np.sqrt(singular[:k])[:, None] * best[1])


def by_tensorly(
    tensor: Array, k: int, rng: np.random.Generator, attempts: int, starts: Sequence[list[Array]] = ()
) -> list[list[Array]]:
    """Decompose a tensor with tensorly; return the three factors with k columns for each start, the best fit first.

    Starts are random unless ``starts`` are given. Raises ``FitError`` if tensorly is not installed, or if a
    least-squares problem is singular.
    """
    try:
        from tensorly.decomposition import parafac
    except ImportError as error:
        raise FitError(
            f"tensor: alternating least squares needs tensorly, which is not installed; {how_to_install('pipeline')}"
        ) from error

    fits: list[tuple[float, list[Array]]] = []
    begin: list[Any] = [(np.ones(k), factors) for factors in starts] or ["random"] * attempts
    for start in begin:
        seed = int(rng.integers(2**31))
        try:
            weights, factors = parafac(tensor, k, n_iter_max=500, tol=1e-9, init=start, random_state=seed)
        except np.linalg.LinAlgError as error:
            raise FitError(f"tensor: singular least-squares problem ({error}); use the aggregator `care`") from error
        scaled = [np.asarray(factors[0] * weights), np.asarray(factors[1]), np.asarray(factors[2])]
        fits.append((float(np.linalg.norm(rebuilt(scaled) - tensor)), scaled))
    return [factors for _, factors in sorted(fits, key=lambda fit: fit[0])]


def mixture_by_least_squares(
    tensor: Array, views: Views, k: int, rng: np.random.Generator
) -> tuple[Array, Array, float]:
    """Fit weights and means of a mixture to the third moment by least squares (Algorithm 2, steps C, D and G).

    Several decompositions are computed, and the best one whose weights are all positive is returned. Views are first
    whitened by the cross-moments (Anandkumar et al., 2014, section 4.3). If quality and the confounder differ much in
    strength, components are nearly parallel; without whitening, the fit would then need thousands of steps.

    Parameters, weights and means are those of ``decompose``. The third result is the misfit: the relative distance
    between ``tensor`` and the tensor of the components.

    Raises
    ------
    FitError
        The views have too few judges for k components to be unique (Kruskal, 1977), or no decomposition has only
        positive weights.
    """
    if sum(min(size, k) for size in tensor.shape) < 2 * k + 2:
        raise FitError(f"tensor: {k} components are not unique with views of {_sizes(views)} judges; add judges")
    back = _unwhitening(tensor, k)
    core = np.einsum("abc,ai,bj,cl->ijl", tensor, *(np.linalg.pinv(root).T for root in back), optimize=True)
    whitened = by_tensorly(core, k, rng, _ATTEMPTS)
    starts = [[root @ factor for root, factor in zip(back, fit, strict=True)] for fit in whitened]
    for factors in by_tensorly(tensor, k, rng, _ATTEMPTS, starts):
        constants = np.array([factor[0] for factor in factors])
        weights = constants.prod(axis=0)
        if not (weights > 0).all():
            continue
        means = np.empty((k, sum(len(group) for group in views)))
        for group, factor, constant in zip(views, factors, constants, strict=True):
            means[:, group] = (factor[1:] / constant).T
        misfit = float(np.linalg.norm(rebuilt(factors) - tensor) / np.linalg.norm(tensor))
        return weights / weights.sum(), means, misfit
    raise FitError(f"tensor: none of {_ATTEMPTS} decompositions has {k} positive weights; use the aggregator `care`")


def _unwhitening(tensor: Array, k: int) -> list[Array]:
    """Compute the three matrices that map whitened coordinates back to the views with their constant columns."""
    first, singular, second = np.linalg.svd(tensor[:, :, 0])
    third, third_singular, _ = np.linalg.svd(tensor[:, 0, :].T)
    back = [(first, singular), (second.T, singular), (third, third_singular)]
    if min(float(values[:k].min()) for _, values in back) < 1e-10 * float(singular[0]):
        raise FitError(f"tensor: a cross-moment has rank < {min(k, *tensor.shape)}; use the aggregator `care`")
    return [vectors[:, : min(k, len(values))] * np.sqrt(values[:k]) for vectors, values in back]


def rebuilt(factors: Sequence[Array]) -> Array:
    """Rebuild a tensor from three factors, as the sum of outer products of their columns."""
    return np.einsum("ar,br,cr->abc", *factors, optimize=True)


def two_way_baseline(tensor: Array, views: Views, k: int) -> Array:
    """Estimate component means from two cross-moments by SVD and a Procrustes rotation, as a baseline; shape (k, p).

    This is the paper's "SVD Baseline in Synthetic Experiment". Two-way moments determine the means only up to an
    orthogonal matrix, and only the third moment determines this matrix.
    """

    def halves(pair: Array) -> tuple[Array, Array]:
        left, singular, right = np.linalg.svd(pair)
        root = np.sqrt(singular[:k])
        return left[:, :k] * root, right[:k].T * root

    first, second = halves(tensor[:, :, 0])
    first_copy, third = halves(tensor[:, 0, :])
    u, _, vt = np.linalg.svd(first_copy.T @ first)
    third = third @ (u @ vt)  # rotated like the first copy of view 1
    means = np.empty((k, sum(len(g) for g in views)))
    for group, factor in zip(views, (first, second, third), strict=True):
        means[:, group] = factor[1:].T
    return means


def _sizes(views: Views) -> str:
    return ", ".join(str(len(group)) for group in views)
