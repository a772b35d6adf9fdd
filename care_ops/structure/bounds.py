"""What the paper's theory of the spectral path says about a model or a fit, as numbers.

Belongs here: the propositions and theorems of the paper's section "Theoretical Analysis" and its appendix
"Theory", with their conditions. Does not: any estimate. A theorem speaks of the population; where it is
evaluated on a fit, the fit stands in for the population, and the number is a plug-in, not a guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import InputError

Array = NDArray[np.float64]

_DISTINCT = 1e-8
"""Relative gap below which two eigenvalues count as equal."""


@dataclass(frozen=True)
class Identifiability:
    """How well the directions of L are determined.

    Attributes
    ----------
    strengths : (h,) array
        Eigenvalues of L, strongest first.
    gaps : (h,) array
        delta_i = min(lambda_i, min_j |lambda_i - lambda_j|): the full-spectrum eigengap of thm:approx.
    orthogonality : float
        Spectral norm of K^T K - I for the columns of K_JH scaled to unit length; 0 is Assumption 2. NaN where
        only L is known, from which it cannot be told.
    identified : bool
        Whether all gaps are positive (and, where K_JH is known, its columns orthogonal): then the columns of
        K_JH are the eigenvectors of L up to sign and order (thm:exact).
    """

    strengths: Array
    gaps: Array
    orthogonality: float
    identified: bool


@dataclass(frozen=True)
class Misspecification:
    """What a model with one latent factor does to the direction of quality (thm:misspecification).

    Attributes
    ----------
    confounding : float
        ||E||, E = sum over confounders of k k^T / d.
    gap : float
        delta = ||k_1||^2 / d_1.
    holds : bool
        Whether ||E|| <= delta / 2, the theorem's condition. Where it does not, ``bound`` says nothing.
    bound : float
        2 ||E|| / delta on the distance of unit vectors, signs aligned.
    deviation : float
        The distance itself, ||v_1 - s u_1||.
    """

    confounding: float
    gap: float
    holds: bool
    bound: float
    deviation: float


def low_rank_of(connection: Array, latent_precision: Array) -> Array:
    """L = K_JH K_HH^{-1} K_HJ, shape (p, p).

    Parameters
    ----------
    connection : (p, h) array
        K_JH, quality first.
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
    """Eigengaps of L and whether they determine its directions (prop:ident-stable, thm:exact).

    Parameters
    ----------
    low_rank : (p, p) array
    factors : int
        h, how many of its eigenvectors are meant.
    """
    values = np.linalg.eigvalsh(low_rank)[::-1]
    if not 1 <= factors <= len(values):
        raise InputError(f"bounds: between 1 and {len(values)} factors can be asked for, got {factors}")
    strengths = values[:factors].astype(np.float64, copy=False)
    apart = np.abs(strengths[:, None] - strengths[None, :]) + np.diag(np.full(factors, np.inf))
    gaps = np.minimum(strengths, apart.min(axis=1))
    return Identifiability(strengths, gaps, float("nan"), bool((gaps > _DISTINCT * max(strengths[0], 1e-300)).all()))


def identifiability_of_model(connection: Array, latent_precision: Array) -> Identifiability:
    """As ``identifiability``, of a known model: Assumption 2 is checked as well.

    Parameters
    ----------
    connection, latent_precision : as in ``low_rank_of``
    """
    found = identifiability(low_rank_of(connection, latent_precision), connection.shape[1])
    unit = connection / np.linalg.norm(connection, axis=0)
    lack = float(np.linalg.norm(unit.T @ unit - np.eye(unit.shape[1]), 2))
    return Identifiability(found.strengths, found.gaps, lack, found.identified and lack < 1e-8)


def stability(latent_precision: Array, perturbation: float, gaps: Array) -> Array:
    """Bound on ||u~_i - s_i u_i|| when K_JH with orthonormal columns is perturbed (thm:approx), shape (h,).

    The theorem states ``4 ||K_HH^{-1}|| ||E|| / delta_i + O(||E||^2)``. Its proof gives the second-order term:
    with ||Delta|| <= ||K_HH^{-1}|| (2 ||E|| + ||E||^2) the bound is ``2^{3/2} ||Delta|| / delta_i`` (Yu, Wang and
    Samworth, "A useful variant of the Davis-Kahan theorem for statisticians", Biometrika 2015, corollary 3;
    the 2 of the paper's proof holds for the sine of the angle). That is what is returned, and it holds for any E.

    Parameters
    ----------
    latent_precision : (h,) array
        Diagonal of K_HH.
    perturbation : float
        Spectral norm of E.
    gaps : (h,) array
        ``Identifiability.gaps`` of the unperturbed L.
    """
    delta = (2 * perturbation + perturbation**2) / float(np.min(latent_precision))
    return 2**1.5 * delta / gaps


def directions_error(spectral_error: float, gaps: Array) -> Array:
    """Bound on ||u^_i - u_i|| from that on ||L^ - L|| (thm:sample, step 2; Yu, Wang and Samworth), shape (h,).

    Parameters
    ----------
    spectral_error : float
        ||L^ - L|| in spectral norm.
    gaps : (h,) array
        ``Identifiability.gaps`` of L.
    """
    return 2**1.5 * spectral_error / gaps


def curvature(low_rank: Array, factors: int) -> tuple[float, float]:
    """Lower and upper bound on xi(T), how spiky a matrix of spectral norm one in the tangent space at L can be.

    Chandrasekaran, Parrilo and Willsky: inc(L) <= xi(T) <= 2 inc(L), inc the greatest length of a coordinate
    vector projected on the range of L. Between sqrt(h / p) (spread evenly) and 1 (a judge of its own).

    Parameters
    ----------
    low_rank : (p, p) array
    factors : int
        h, the rank taken.
    """
    vectors = np.linalg.eigh(low_rank)[1][:, ::-1][:, :factors]
    incoherence = float(np.sqrt(np.max(np.sum(vectors**2, axis=1))))
    return incoherence, min(2.0 * incoherence, 1.0)


def items_needed(
    low_rank: Array, factors: int, accuracy: float, *, failure: float = 0.05, constant: float = 1.0
) -> float:
    """Items for all directions to be within ``accuracy`` (thm:sample): C^2 8 eta / (xi(T)^2 delta^2 accuracy^2).

    The theorem leaves the constant C open, so that only ratios mean anything: twice the accuracy asks four
    times the items, half the gap likewise. ``eta = log(2 / failure)``; xi(T) enters by its lower bound.

    Parameters
    ----------
    low_rank : (p, p) array
    factors : int
    accuracy : float
        Distance of unit vectors, in (0, 1).
    failure : float
        Probability, in (0, 1).
    constant : float
        C of Chandrasekaran et al., theorem 4.1.
    """
    if not (0 < accuracy < 1 and 0 < failure < 1):
        raise InputError(f"bounds: accuracy and failure must lie between 0 and 1, got {accuracy} and {failure}")
    strengths = identifiability(low_rank, factors).strengths
    apart = np.abs(np.diff(strengths)).min() if factors > 1 else float(strengths[0])
    if apart <= 0:
        return float("inf")
    xi, _ = curvature(low_rank, factors)
    return float(8 * constant**2 * np.log(2 / failure) / (xi * apart * accuracy) ** 2)


def misspecification(connection: Array, latent_precision: Array) -> Misspecification:
    """How far a one-factor model turns away from quality (thm:misspecification).

    Parameters
    ----------
    connection, latent_precision : as in ``low_rank_of``, quality first
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
    return Misspecification(confounding, gap, confounding <= gap / 2, 2 * confounding / gap, deviation)


def misspecified_mean_error(connection: Array, latent_precision: Array, observed: Array) -> Array:
    """Bound on |E[Q | o]_mis - E[Q | o]_true| (corollary of thm:misspecification), shape (n,).

    ``2 ||E|| / ||k_1|| * ||o||``; NaN where the theorem's condition does not hold.

    Parameters
    ----------
    connection, latent_precision : as in ``low_rank_of``, quality first
    observed : (n, p) array
        Centred scores.
    """
    found = misspecification(connection, latent_precision)
    if not found.holds:
        return np.full(len(observed), np.nan)
    factor = 2 * found.confounding / float(np.linalg.norm(connection[:, 0]))
    return factor * np.linalg.norm(observed, axis=1)


@dataclass(frozen=True)
class TensorRate:
    """The scale of the tensor step's error (thm:care-tensor-rate), its universal constants left out.

    Attributes
    ----------
    noise : float
        sigma_max, the square root of the largest eigenvalue of the within-state covariance.
    gap : float
        delta. The theorem takes it from the decomposition's perturbation theory without a formula; here it is the
        smallest singular value of the pair moment of the first two views, which the whitening divides by.
    least_weight : float
        pi_min.
    means : float
        sigma_max^3 / delta * sqrt(p log(p / epsilon) / n): the error of a state's mean is at most a constant times it.
    weights : float
        sqrt(p log(p / epsilon) / n), likewise for the mixing weights.
    items : float
        sigma_max^6 / (delta^2 pi_min^2) * p log(p / epsilon): a constant times as many items are asked for.
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
    """The theorem's quantities for a mixture, planted or fitted.

    Parameters
    ----------
    means : (k, p) array
    weights : (k,) array
    covariance : (p, p) array
        Within states.
    groups : three index arrays
        The views.
    n : int
    epsilon : float
        Probability of failure, between 0 and 1.

    Raises
    ------
    InputError
        epsilon outside (0, 1), or fewer than one item.
    """
    if not 0 < epsilon < 1 or n < 1:
        raise InputError(f"bounds: epsilon must lie in (0, 1) and n be positive, got {epsilon} and {n}")
    p, k = means.shape[1], len(weights)
    pair = (means[:, groups[0]] * weights[:, None]).T @ means[:, groups[1]]
    singular = np.linalg.svd(pair, compute_uv=False)
    gap = float(singular[k - 1]) if len(singular) >= k else 0.0
    noise = float(np.sqrt(np.linalg.eigvalsh(covariance)[-1]))
    spread = p * float(np.log(p / epsilon))
    least = float(weights.min())
    if gap <= 0:
        return TensorRate(noise, 0.0, least, float("inf"), float(np.sqrt(spread / n)), float("inf"))
    return TensorRate(
        noise,
        gap,
        least,
        noise**3 / gap * float(np.sqrt(spread / n)),
        float(np.sqrt(spread / n)),
        noise**6 / (gap * least) ** 2 * spread,
    )
