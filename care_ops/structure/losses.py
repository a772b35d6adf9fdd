"""The losses of the structure programs: how far a precision is from what the scores say."""

import numpy as np

from care_ops.config import Program
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
        return self._rotate_back(target / (self.mean_of_pairs + rho))

    def conjugate(self, g: Array) -> float:
        """The largest <G, R> - f(R) over all R."""
        rotated = self._rotate(g) + self.identity
        return 0.5 * float(np.sum(rotated * rotated / self.mean_of_pairs))

    def _rotate(self, a: Array) -> Array:
        return self.vectors.T @ a @ self.vectors

    def _rotate_back(self, a: Array) -> Array:
        return symmetric(self.vectors @ a @ self.vectors.T)


Loss = Frobenius | DTrace
LOSSES: dict[Program, type[Loss]] = {"frobenius": Frobenius, "dtrace": DTrace}


def symmetric(a: Array) -> Array:
    """The symmetric part of a matrix."""
    return 0.5 * (a + a.T)
