"""What the paper's theory of CARE says about a model or a fit, as numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import InputError
from care_ops.scores import Array

_DISTINCT = 1e-8
"""Relative gap below which two eigenvalues count as equal."""


@dataclass(frozen=True)
class Identifiability:
    """How well L determines its own directions (prop:ident-stable, thm:exact).

    Attributes
    ----------
    strengths : (h,) array
        Eigenvalues of L, strongest first.
    gaps : (h,) array
        ``delta_i = min(lambda_i, min_j |lambda_i - lambda_j|)``, the full-spectrum eigengap of thm:approx.
    identified : bool
        Whether all gaps are positive. Where the columns of K_JH are orthogonal (Assumption 2), they are then the
        eigenvectors of L up to sign and order.
    """

    strengths: Array
    gaps: Array
    identified: bool


@dataclass(frozen=True)
class Misspecification:
    """What a model with one latent factor does to the direction of quality (thm:misspecification).

    Attributes
    ----------
    holds : bool
        Whether the theorem's condition ||E|| <= delta / 2 is met, where E is the sum over the confounders of k k^T / d
        and delta = ||k_1||^2 / d_1. ``bound`` says nothing where it is not.
    bound : float
        2 ||E|| / delta, which bounds ``deviation``.
    deviation : float
        Distance ||v_1 - s u_1|| of the leading direction from that of quality, as unit vectors with signs aligned.
    """

    holds: bool
    bound: float
    deviation: float


def low_rank_of(connection: Array, latent_precision: Array) -> Array:
    """L = K_JH K_HH^{-1} K_HJ, shape (p, p).

    Parameters
    ----------
    connection : (p, h) array
        K_JH, with the column of quality first.
    latent_precision : (h,) array
        The diagonal d of K_HH, positive.

    Raises
    ------
    InputError
        The shapes do not fit, or a precision is not positive.
    """
    connection, latent_precision = np.asarray(connection, float), np.asarray(latent_precision, float)
    if connection.ndim != 2 or latent_precision.shape != connection.shape[1:]:
        raise InputError(
            f"bounds: K_JH must be (p, h) and the diagonal of K_HH (h,), got {connection.shape} and "
            f"{latent_precision.shape}"
        )
    if not (latent_precision > 0).all():
        raise InputError("bounds: the diagonal of K_HH must be positive")
    return (connection / latent_precision) @ connection.T


def identifiability(low_rank: Array, factors: int) -> Identifiability:
    """Eigengaps of L, and whether they determine its directions.

    Parameters
    ----------
    low_rank : (p, p) array
        L, positive semi-definite.
    factors : int
        The number h of leading eigenvectors that are meant.

    Raises
    ------
    InputError
        ``factors`` is not between 1 and p.
    """
    values = np.linalg.eigvalsh(low_rank)[::-1]
    if not 1 <= factors <= len(values):
        raise InputError(f"bounds: between 1 and {len(values)} factors can be asked for, got {factors}")
    strengths = values[:factors].astype(np.float64, copy=False)
    distances = np.abs(strengths[:, None] - strengths[None, :]) + np.diag(np.full(factors, np.inf))
    gaps = np.minimum(strengths, distances.min(axis=1))
    return Identifiability(strengths, gaps, bool((gaps > _DISTINCT * max(strengths[0], 1e-300)).all()))


def directions_error(spectral_error: float, gaps: Array) -> Array:
    """Bound on ||u^_i - s_i u_i|| from that on ||L^ - L||, shape (h,).

    The bound is ``2^{3/2} ||L^ - L|| / delta_i`` (Yu, Wang and Samworth, "A useful variant of the Davis-Kahan theorem
    for statisticians", Biometrika 2015, corollary 3). It is step 2 of thm:sample. With
    ||L^ - L|| <= ||K_HH^{-1}|| (2 ||E|| + ||E||^2) it is thm:approx, whose constant 4 holds for the sine of the angle.

    Parameters
    ----------
    spectral_error : float
        ||L^ - L|| in spectral norm.
    gaps : (h,) array
        ``Identifiability.gaps`` of L, positive.
    """
    return 2**1.5 * spectral_error / gaps


def misspecification(connection: Array, latent_precision: Array) -> Misspecification:
    """How far a one-factor model turns away from quality (thm:misspecification), from what ``low_rank_of`` takes.

    Raises ``InputError`` as it does, and where quality is connected to no judge.
    """
    low_rank = low_rank_of(connection, latent_precision)
    quality = connection[:, 0]
    norm = float(np.linalg.norm(quality))
    if norm == 0:
        raise InputError("bounds: quality is connected to no judge, so it has no direction")
    gap = norm**2 / float(latent_precision[0])
    rest = low_rank - np.outer(quality, quality) / latent_precision[0]
    confounding = float(np.linalg.norm(rest, 2))
    leading = np.linalg.eigh(low_rank)[1][:, -1]
    direction = quality / norm
    sign = 1.0 if direction @ leading >= 0 else -1.0
    deviation = float(np.linalg.norm(leading - sign * direction))
    return Misspecification(confounding <= gap / 2, 2 * confounding / gap, deviation)


@dataclass(frozen=True)
class TensorRate:
    """The scale of the tensor step's error (thm:care-tensor-rate), without the theorem's universal constants.

    The theorem leaves the constants open, so that only ratios of these numbers have a meaning: a panel with half the
    ``means`` of another one can be expected to have half its error.

    Attributes
    ----------
    noise : float
        sigma_max, the square root of the largest eigenvalue of the within-state covariance.
    gap : float
        delta. The theorem takes it from the perturbation theory of the decomposition without a formula. Here it is the
        k-th singular value of the pair moment of the first two views, by which the whitening divides.
    least_weight : float
        pi_min, the smallest mixing weight.
    means : float
        sigma_max^3 / delta * sqrt(p log(p / epsilon) / n): the error of a state's mean is at most a constant times it.
    weights : float
        sqrt(p log(p / epsilon) / n): the error of the mixing weights is at most a constant times it.
    items : float
        sigma_max^6 / (delta^2 pi_min^2) * p log(p / epsilon): the theorem asks for a constant times as many items.
    """

    noise: float
    gap: float
    least_weight: float
    means: float
    weights: float
    items: float


def tensor_rate(
    means: Array,
    weights: Array,
    covariance: Array,
    groups: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]],
    n: int,
    epsilon: float = 0.05,
) -> TensorRate:
    """The quantities of thm:care-tensor-rate for a mixture that is planted or fitted.

    Parameters
    ----------
    means : (k, p) array
        Means of the states.
    weights : (k,) array
        Mixing weights.
    covariance : (p, p) array
        Covariance within the states, in the squared unit of ``means``.
    groups : three index arrays
        The judges of each view.
    n : int
        Items, at least one.
    epsilon : float
        Probability of failure, between 0 and 1.

    Returns
    -------
    TensorRate
        ``means`` and ``items`` are infinite where the views do not tell the states apart.

    Raises
    ------
    InputError
        ``epsilon`` lies outside (0, 1), or there is no item.
    """
    if not 0 < epsilon < 1 or n < 1:
        raise InputError(f"bounds: epsilon must lie in (0, 1) and n be positive, got {epsilon} and {n}")
    p, k = means.shape[1], len(weights)
    # the pair moment of views that are augmented by a constant, as ``models.cp`` decomposes it
    first, second = (np.column_stack([np.ones(k), means[:, group]]) for group in groups[:2])
    singular = np.linalg.svd((first * weights[:, None]).T @ second, compute_uv=False)
    gap = float(singular[k - 1]) if len(singular) >= k else 0.0
    noise = float(np.sqrt(np.linalg.eigvalsh(covariance)[-1]))
    spread = p * float(np.log(p / epsilon))
    least = float(weights.min())
    error_of_weights = float(np.sqrt(spread / n))
    if gap <= 0:
        return TensorRate(noise, 0.0, least, float("inf"), error_of_weights, float("inf"))
    error_of_means = noise**3 / gap * error_of_weights
    return TensorRate(noise, gap, least, error_of_means, error_of_weights, noise**6 / (gap * least) ** 2 * spread)
