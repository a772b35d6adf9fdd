"""Bounds of the paper's theorems, evaluated for given matrices K_JH, K_HH and L."""

from dataclasses import dataclass

import numpy as np

from care_ops.errors import InputError
from care_ops.scores import Array


@dataclass(frozen=True)
class Misspecification:
    """Error of a one-factor model as an estimate of the direction of quality, and its bound (paper, misspecification).

    Attributes
    ----------
    holds : bool
        Whether the theorem's condition ||E|| <= delta / 2 is met; otherwise, ``bound`` is invalid. With columns k_i of
        K_JH and diagonal d of K_HH, E = sum of k_i k_i^T / d_i over the confounders, and delta = ||k_1||^2 / d_1.
    bound : float
        2 ||E|| / delta, which bounds ``deviation``.
    deviation : float
        Distance between the leading unit eigenvector of L and the unit vector of k_1, with signs aligned.
    """

    holds: bool
    bound: float
    deviation: float


def low_rank_of(connection: Array, latent_precision: Array) -> Array:
    """Compute L = K_JH K_HH^{-1} K_HJ, shape (p, p).

    Parameters
    ----------
    connection : (p, h) array
        K_JH, with the column of quality first.
    latent_precision : (h,) array
        The positive diagonal d of K_HH.

    Raises
    ------
    InputError
        The shapes do not match, or a precision is not positive.
    """
    connection, latent_precision = np.asarray(connection, float), np.asarray(latent_precision, float)
    if connection.ndim != 2 or latent_precision.shape != connection.shape[1:]:
        raise InputError(
            f"bounds: K_JH must be (p, h) and the diagonal of K_HH (h,), got {connection.shape} and "
            f"{latent_precision.shape}"
        )
    if not (latent_precision > 0).all():
        raise InputError(f"bounds: all diagonal entries of K_HH must be positive, got {latent_precision.min():g}")
    return (connection / latent_precision) @ connection.T


def eigengaps(low_rank: Array, factors: int) -> Array:
    """Compute the eigengaps of L; all are positive if the eigenvectors are unique (paper, on exact recovery).

    If all are positive, orthogonal columns of K_JH (Assumption 2) are L's eigenvectors up to length, sign and order.

    Parameters
    ----------
    low_rank : (p, p) array
        L, positive semi-definite.
    factors : int
        Number h of leading eigenvectors.

    Returns
    -------
    (h,) array
        Full-spectrum eigengaps of the paper, ``delta_i = min(lambda_i, min_j |lambda_i - lambda_j|)``, in descending
        order of the eigenvalues.

    Raises
    ------
    InputError
        ``factors`` is not between 1 and p.
    """
    values = np.linalg.eigvalsh(low_rank)[::-1]
    if not 1 <= factors <= len(values):
        raise InputError(f"bounds: factors must be between 1 and {len(values)}, got {factors}")
    strengths = values[:factors].astype(np.float64, copy=False)
    distances = np.abs(strengths[:, None] - strengths[None, :]) + np.diag(np.full(factors, np.inf))
    return np.minimum(strengths, distances.min(axis=1))


def misspecification(connection: Array, latent_precision: Array) -> Misspecification:
    """Bound the deviation of a one-factor model's direction from the direction of quality (paper, on misspecification).

    See ``low_rank_of`` for the parameters. Raises ``InputError`` if they are invalid, or column 0 of K_JH is zero.
    """
    low_rank = low_rank_of(connection, latent_precision)
    quality = connection[:, 0]
    norm = float(np.linalg.norm(quality))
    if norm == 0:
        raise InputError("bounds: quality has no direction, because column 0 of K_JH is zero; set a nonzero entry")
    gap = norm**2 / float(latent_precision[0])
    rest = low_rank - np.outer(quality, quality) / latent_precision[0]
    confounding = float(np.linalg.norm(rest, 2))
    leading = np.linalg.eigh(low_rank)[1][:, -1]
    direction = quality / norm
    sign = 1.0 if direction @ leading >= 0 else -1.0
    deviation = float(np.linalg.norm(leading - sign * direction))
    return Misspecification(confounding <= gap / 2, 2 * confounding / gap, deviation)
