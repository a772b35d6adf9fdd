"""The losses of the structure programs: how far a precision is from what the scores say."""

import numpy as np

from care_ops.config import Program
from care_ops.errors import FitError, InputError
from care_ops.scores import Array


class Frobenius:
    """f(R) = 1/2 ||Theta_hat - R||_F^2; ``start`` is its minimiser."""

    def __init__(self, sigma: Array) -> None:
        values, vectors = np.linalg.eigh(sigma)
        self.theta = symmetric((vectors / values) @ vectors.T)
        self.start = self.theta

    def value(self, r: Array) -> float:
        """f(R)."""
        return 0.5 * float(np.sum((self.theta - r) ** 2))

    def gradient(self, r: Array) -> Array:
        """R - Theta_hat."""
        return r - self.theta

    def prox(self, v: Array, rho: float) -> Array:
        """The minimiser of f(R) + rho/2 ||R - V||^2."""
        return (self.theta + rho * v) / (1.0 + rho)

    def conjugate(self, g: Array) -> float:
        """The largest <G, R> - f(R) over all R."""
        return 0.5 * float(np.sum(g * g)) + float(np.sum(g * self.theta))


class DTrace:
    """f(R) = 1/2 tr(R Sigma R) - tr R, minimal at ``start``; everything is diagonal in Sigma's eigenbasis."""

    def __init__(self, sigma: Array) -> None:
        self.sigma = sigma
        values, self.vectors = np.linalg.eigh(sigma)
        self.identity = np.eye(len(sigma))
        self.mean_of_pairs = 0.5 * (values[:, None] + values[None, :])
        self.start = symmetric((self.vectors / values) @ self.vectors.T)

    def value(self, r: Array) -> float:
        """f(R)."""
        return 0.5 * float(np.sum((r @ self.sigma) * r)) - float(np.trace(r))

    def gradient(self, r: Array) -> Array:
        """The symmetric part of R Sigma, less the identity."""
        return symmetric(r @ self.sigma) - self.identity

    def prox(self, v: Array, rho: float) -> Array:
        """The minimiser of f(R) + rho/2 ||R - V||^2."""
        target = self._rotate(rho * v) + self.identity
        return symmetric(self.vectors @ (target / (self.mean_of_pairs + rho)) @ self.vectors.T)

    def conjugate(self, g: Array) -> float:
        """The largest <G, R> - f(R) over all R."""
        rotated = self._rotate(g) + self.identity
        return 0.5 * float(np.sum(rotated * rotated / self.mean_of_pairs))

    def _rotate(self, a: Array) -> Array:
        return self.vectors.T @ a @ self.vectors


Loss = Frobenius | DTrace
LOSSES: dict[Program, type[Loss]] = {"frobenius": Frobenius, "dtrace": DTrace}


def symmetric(a: Array) -> Array:
    """The symmetric part of a matrix."""
    return 0.5 * (a + a.T)


def checked(sigma: Array) -> Array:
    """The matrix that a loss can be made of, exactly symmetric.

    Raises
    ------
    InputError
        ``sigma`` is not a finite symmetric matrix.
    FitError
        ``sigma`` is singular, so that there is no finite precision to decompose.
    """
    sigma = np.asarray(sigma, dtype=np.float64)
    if sigma.ndim != 2 or sigma.shape[0] != sigma.shape[1]:
        raise InputError(f"structure: sigma must be a square matrix, got shape {sigma.shape}")
    if not np.isfinite(sigma).all():
        raise InputError("structure: sigma holds NaN or infinity; drop judges without variance first")
    if not np.allclose(sigma, sigma.T, rtol=1e-8, atol=1e-10 * float(np.abs(sigma).max())):
        raise InputError("structure: sigma is not symmetric")
    values = np.linalg.eigvalsh(sigma)
    if values[0] <= 1e-12 * max(float(values[-1]), 1.0):
        raise FitError(
            f"structure: sigma is singular (smallest eigenvalue {values[0]:.2e}): two judges may be "
            "copies of each other, or there are fewer items than judges; drop one, or shrink the matrix "
            "(moments.shrink)"
        )
    return symmetric(sigma)
