"""From the third moment across three views to mixture components.

Belongs here: the tensor stage of paper, Algorithm 2 steps B to D and G. Does not: refining the components
by likelihood (``mixture``), or telling which states mean quality (``aggregators.care_tensor``).

Each view is augmented by a constant one, so that K means that are affinely independent give a moment of
rank K although the scores are centred; the constant's row of a factor reads its weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import FitError
from care_ops.moments import Moments
from care_ops.views import Views

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Components:
    """The bare tensor estimate of a mixture.

    Attributes
    ----------
    weights : (k,) array
        Mixing weights pi_r, positive, summing to one.
    means : (k, p) array
        Conditional means mu_r of the scores that the moments were taken of.
    condition : float
        Condition number of the pair moment's leading k singular values. Large means unusable.
    negative_weights : int
        Components whose raw weight was not positive and was set to a floor.
    """

    weights: Array
    means: Array
    condition: float
    negative_weights: int


def augmented_moment(moments: Moments, views: Views) -> Array:
    """E[(1, y_1) (x) (1, y_2) (x) (1, y_3)] of the centred scores y, by view.

    Returns
    -------
    (1 + p1, 1 + p2, 1 + p3) array
    """
    g1, g2, g3 = views.groups
    covariance = moments.covariance()
    tensor = np.zeros((len(g1) + 1, len(g2) + 1, len(g3) + 1))
    tensor[0, 0, 0] = 1.0
    tensor[1:, 1:, 0] = covariance[np.ix_(g1, g2)]
    tensor[1:, 0, 1:] = covariance[np.ix_(g1, g3)]
    tensor[0, 1:, 1:] = covariance[np.ix_(g2, g3)]
    tensor[1:, 1:, 1:] = moments.third_central(g1, g2, g3)
    return tensor


def scale_tensor(tensor: Array, scales: tuple[Array, Array, Array]) -> Array:
    """Divide each score coordinate by its scale; the constant coordinates stay."""
    first, second, third = (np.concatenate([[1.0], s]) for s in scales)
    return tensor / first[:, None, None] / second[None, :, None] / third[None, None, :]


def decompose(tensor: Array, views: Views, k: int, rng: np.random.Generator, attempts: int = 10) -> Components:
    """Simultaneous diagonalisation of the third moment's slices (Jennrich's algorithm).

    The pair moment M12 = A1 diag(pi) A2' is whitened; contractions of the third view with random
    directions are then similar to diagonal matrices with common eigenvectors, which give A1. The other
    views follow by projection, so that columns stay aligned (Anandkumar et al., JMLR 2014, section 4).

    Parameters
    ----------
    tensor : (1 + p1, 1 + p2, 1 + p3) array
        From ``augmented_moment``.
    views : Views
    k : int
        Number of components.
    rng : numpy.random.Generator
    attempts : int
        Random contractions; the one with the best separated eigenvalues is used.

    Returns
    -------
    Components
        Means in the order of the judges' columns.

    Raises
    ------
    FitError
        A view has fewer than k - 1 judges, or the moment does not carry k components.
    """
    if min(tensor.shape) < k:
        raise FitError(f"tensor: {k} components need {k - 1} judges in each view, sizes are {_sizes(views)}")
    pair = tensor[:, :, 0]
    left, singular, right = np.linalg.svd(pair)
    condition = float(singular[0] / max(singular[k - 1], 1e-300))
    if condition > 1e10:
        raise FitError(f"tensor: the pair moment has rank below {k} (condition {condition:.1e})")
    root = 1.0 / np.sqrt(singular[:k])
    whiten_left, whiten_right = left[:, :k] * root, right[:k].T * root
    core = np.einsum("abc,ai,bj->ijc", tensor, whiten_left, whiten_right)
    best: tuple[float, Array] | None = None
    for _ in range(attempts):
        direction = rng.standard_normal(tensor.shape[2])
        eigenvalues, eigenvectors = np.linalg.eig(core @ direction)
        if np.abs(np.imag(eigenvalues)).max() > 1e-8 * np.abs(eigenvalues).max():
            continue
        values = np.sort(np.real(eigenvalues))
        separation = float(np.diff(values).min() / max(np.ptp(values), 1e-300))
        if best is None or separation > best[0]:
            best = (separation, np.real(eigenvectors))
    if best is None:
        raise FitError(f"tensor: no contraction of the third moment has {k} real components")
    return _assemble(tensor, best[1], left[:, :k], singular[:k], views, condition)


def _assemble(
    tensor: Array, vectors: Array, left: Array, singular: Array, views: Views, condition: float
) -> Components:
    """Means and weights from the eigenvectors of the whitened first view."""
    first = left @ (np.sqrt(singular)[:, None] * vectors)
    if np.abs(first[0]).min() <= 1e-9 * np.abs(first).max():
        raise FitError("tensor: a component has no constant coordinate; the moment is unusable, items are too few")
    first = first / first[0]  # the constant coordinate of every mean is one
    inverse = np.linalg.pinv(first)
    second, third = inverse @ tensor[:, :, 0], inverse @ tensor[:, 0, :]
    raw = 0.5 * (second[:, 0] + third[:, 0])
    floor = 1e-3
    weights = np.maximum(raw, floor)
    weights = weights / weights.sum()
    p = sum(len(g) for g in views.groups)
    means = np.empty((len(weights), p))
    means[:, views.groups[0]] = first[1:].T
    means[:, views.groups[1]] = second[:, 1:] / np.maximum(second[:, :1], floor)
    means[:, views.groups[2]] = third[:, 1:] / np.maximum(third[:, :1], floor)
    if not np.isfinite(means).all():
        raise FitError("tensor: the decomposition gave means that are not finite; the moment is unusable")
    return Components(weights, means, condition, int((raw < floor).sum()))


def _sizes(views: Views) -> str:
    return ", ".join(str(len(g)) for g in views.groups)
