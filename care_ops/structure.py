"""Sparse + low-rank structure of the judges' precision matrix, with a certificate.

Two convex programs share one solver (paper, Algorithm 1 step 2). With R = S - L the estimate of the
observable precision Theta = K_JJ - K_JH K_HH^{-1} K_HJ:

- ``frobenius``: 1/2 ||Theta_hat - R||_F^2, the loss of Algorithm 1, Theta_hat = Sigma^{-1};
- ``dtrace``: 1/2 tr(R Sigma R) - tr R, whose unpenalised minimiser is Sigma^{-1} (Zhang and Zou,
  "Sparse precision matrix estimation via lasso penalized D-trace loss", Biometrika 2014);

each plus ``lambda_s ||S||_1 + lambda_l tr L`` subject to L >= 0 and, where asked, R >= 0. The solver is
consensus ADMM, whose blocks all have closed forms (Ma, Xue and Zou, Neural Computation 2013), stopped by
the duality gap rather than by how little it moved.

Belongs here: the losses, their conjugates, the solver, the certificate. Does not: what the factors of
L mean (``factors``), or which penalty to choose for a panel (``aggregators.care_svd``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.config import Program
from care_ops.errors import FitError, InputError

Matrix = NDArray[np.float64]

_OVER_RELAXATION = 1.7
_RHO_BALANCE_EVERY = 10


@dataclass(frozen=True)
class Certificate:
    """Proof of how far a solution is from optimal.

    Attributes
    ----------
    primal, dual : float
        Objective of the returned feasible (S, L) and of a feasible dual point: the optimum lies between.
    gap : float
        ``(primal - dual) / max(1, |primal|)``.
    tolerance : float
        The gap asked for.
    iterations : int
    converged : bool
        Whether ``gap <= tolerance``.
    """

    primal: float
    dual: float
    gap: float
    tolerance: float
    iterations: int
    converged: bool


@dataclass(frozen=True)
class Structure:
    """A solution of the sparse + low-rank program.

    Attributes
    ----------
    sparse : (p, p) array
        S, the direct conditional edges between judges.
    low_rank : (p, p) array
        L, positive semi-definite: what the latent factors explain.
    program, lambda_s, lambda_l : the program solved.
    certificate : Certificate
    """

    sparse: Matrix
    low_rank: Matrix
    program: Program
    lambda_s: float
    lambda_l: float
    certificate: Certificate

    @property
    def precision(self) -> Matrix:
        """R = S - L, shape (p, p)."""
        return self.sparse - self.low_rank


class _Loss(Protocol):
    def value(self, r: Matrix) -> float: ...
    def prox(self, v: Matrix, rho: float) -> Matrix: ...
    def conjugate(self, g: Matrix) -> float: ...


class _Frobenius:
    """f(R) = 1/2 ||Theta_hat - R||_F^2."""

    def __init__(self, sigma: Matrix) -> None:
        values, vectors = np.linalg.eigh(sigma)
        self.theta = _symmetric((vectors / values) @ vectors.T)
        self.start = self.theta

    def value(self, r: Matrix) -> float:
        return 0.5 * float(np.sum((self.theta - r) ** 2))

    def prox(self, v: Matrix, rho: float) -> Matrix:
        return (self.theta + rho * v) / (1.0 + rho)

    def conjugate(self, g: Matrix) -> float:
        return 0.5 * float(np.sum(g * g)) + float(np.sum(g * self.theta))


class _DTrace:
    """f(R) = 1/2 tr(R Sigma R) - tr R; everything is diagonal in Sigma's eigenbasis."""

    def __init__(self, sigma: Matrix) -> None:
        self.sigma = sigma
        values, self.vectors = np.linalg.eigh(sigma)
        self.mean_of_pairs = 0.5 * (values[:, None] + values[None, :])
        self.start = _symmetric((self.vectors / values) @ self.vectors.T)

    def value(self, r: Matrix) -> float:
        return 0.5 * float(np.sum((r @ self.sigma) * r)) - float(np.trace(r))

    def prox(self, v: Matrix, rho: float) -> Matrix:
        target = self._rotate(rho * v + np.eye(len(v)))
        return self._rotate_back(target / (self.mean_of_pairs + rho))

    def conjugate(self, g: Matrix) -> float:
        rotated = self._rotate(g + np.eye(len(g)))
        return 0.5 * float(np.sum(rotated * rotated / self.mean_of_pairs))

    def _rotate(self, a: Matrix) -> Matrix:
        return self.vectors.T @ a @ self.vectors

    def _rotate_back(self, a: Matrix) -> Matrix:
        return _symmetric(self.vectors @ a @ self.vectors.T)


_LOSSES: dict[str, type[_Frobenius] | type[_DTrace]] = {"frobenius": _Frobenius, "dtrace": _DTrace}


def solve(
    sigma: Matrix,
    *,
    lambda_s: float,
    lambda_l: float,
    program: Program = "frobenius",
    penalize_diagonal: bool = True,
    positive: bool = True,
    tolerance: float = 1e-6,
    max_iterations: int = 20_000,
) -> Structure:
    """Decompose the precision of ``sigma`` into sparse minus low-rank (paper, Algorithm 1 step 2).

    Parameters
    ----------
    sigma : (p, p) array
        Correlation or covariance matrix of the judges, symmetric positive definite.
    lambda_s, lambda_l : float
        Penalties on ``||S||_1`` and ``tr L``; Algorithm 1's gamma and gamma * tau.
    program : {"frobenius", "dtrace"}
        The loss; see the module's docstring.
    penalize_diagonal : bool
        Whether ``||S||_1`` counts the diagonal, as Algorithm 1 writes it.
    positive : bool
        Whether R = S - L must be positive semi-definite, as a precision matrix is.
    tolerance : float
        Relative duality gap to stop at.
    max_iterations : int
        Where to give up; the certificate then says ``converged=False``.

    Returns
    -------
    Structure

    Raises
    ------
    InputError
        ``sigma`` is not a finite symmetric matrix, or a penalty is not positive.
    FitError
        ``sigma`` is singular, so that the program has no finite precision to decompose.
    """
    return solve_path(
        sigma,
        [(lambda_s, lambda_l)],
        program=program,
        penalize_diagonal=penalize_diagonal,
        positive=positive,
        tolerance=tolerance,
        max_iterations=max_iterations,
    )[0]


def solve_path(
    sigma: Matrix,
    penalties: Sequence[tuple[float, float]],
    *,
    program: Program = "frobenius",
    penalize_diagonal: bool = True,
    positive: bool = True,
    tolerance: float = 1e-6,
    max_iterations: int = 20_000,
) -> list[Structure]:
    """Solutions at several penalties, each started from the one before.

    Every solution has its own certificate, so the start changes the time it takes and no more. Neighbours in
    the list should be neighbours in the penalties.

    Parameters
    ----------
    penalties : sequence of (lambda_s, lambda_l)
    sigma, program, penalize_diagonal, positive, tolerance, max_iterations : as in ``solve``

    Returns
    -------
    list of Structure, in the order of ``penalties``

    Raises
    ------
    InputError, FitError
        As ``solve``.
    """
    sigma = _checked(sigma)
    for lambda_s, lambda_l in penalties:
        if not (0 < lambda_s < np.inf and 0 < lambda_l < np.inf):
            raise InputError(f"structure: penalties must be positive and finite, got {lambda_s=} and {lambda_l=}")
    with threadpool_limits(limits=1, user_api="blas"):
        admm = _Consensus(_LOSSES[program](sigma), positive)
        found: list[Structure] = []
        for lambda_s, lambda_l in penalties:
            penalty = np.full(sigma.shape, float(lambda_s))
            if not penalize_diagonal:
                np.fill_diagonal(penalty, 0.0)
            admm.aim(penalty, float(lambda_l))
            sparse, low_rank, certificate = admm.run(tolerance, max_iterations)
            found.append(Structure(sparse, low_rank, program, float(lambda_s), float(lambda_l), certificate))
    return found


class _Consensus:
    """Consensus ADMM over the copies (R, S, L[, P]) tied by R = S - L [and P = R].

    P, the positive semi-definite copy of R, enters only once R is seen to leave the cone.
    """

    def __init__(self, loss: _Loss, positive: bool) -> None:
        self.loss, self.positive, self.with_cone = loss, positive, False
        start: Matrix = loss.start  # type: ignore[attr-defined]
        p = len(start)
        zero = np.zeros((p, p))
        self.x = [start, start.copy(), zero.copy(), start.copy()]
        self.z = [a.copy() for a in self.x]
        self.u = [zero.copy() for _ in range(4)]
        self.rho = 0.1

    def aim(self, penalty: Matrix, lambda_l: float) -> None:
        """Set the penalties; the copies and multipliers stay where they are."""
        self.penalty, self.lambda_l = penalty, lambda_l

    def run(self, tolerance: float, limit: int) -> tuple[Matrix, Matrix, Certificate]:
        iteration, best = 0, None
        while iteration < limit:
            iteration += 1
            primal_residual, dual_residual = self._step()
            if iteration % _RHO_BALANCE_EVERY:
                continue
            sparse, low_rank = self.x[1], self.x[2]
            if self.positive and not self.with_cone:
                self.with_cone = float(np.linalg.eigvalsh(sparse - low_rank)[0]) < -1e-10
            candidate = self._certify(sparse, low_rank)
            if best is None or candidate[0] - candidate[1] < best[0] - best[1]:
                best = candidate
            if _relative(best[0], best[1]) <= tolerance:
                break
            self._balance(primal_residual, dual_residual, iteration)
        if best is None:
            best = self._certify(self.x[1], self.x[2])
        primal, dual, sparse, low_rank = best
        gap = _relative(primal, dual)
        return sparse, low_rank, Certificate(primal, dual, gap, tolerance, iteration, gap <= tolerance)

    def _step(self) -> tuple[float, float]:
        rho, z, u = self.rho, self.z, self.u
        self.x[0] = self.loss.prox(z[0] - u[0], rho)
        self.x[1] = _soft_threshold(z[1] - u[1], self.penalty / rho)
        self.x[2] = _shrink_psd(z[2] - u[2], self.lambda_l / rho)
        if self.with_cone:
            self.x[3] = _shrink_psd(z[3] - u[3], 0.0)
        copies = range(4 if self.with_cone else 3)
        relaxed = [_OVER_RELAXATION * self.x[k] + (1 - _OVER_RELAXATION) * z[k] for k in copies]
        new = self._project([relaxed[k] + u[k] for k in copies])
        dual = rho * np.sqrt(sum(float(np.sum((new[k] - z[k]) ** 2)) for k in copies))
        for k in copies:
            self.u[k] = u[k] + relaxed[k] - new[k]
            self.z[k] = new[k]
        primal = np.sqrt(sum(float(np.sum((self.x[k] - new[k]) ** 2)) for k in copies))
        return float(primal), float(dual)

    def _project(self, v: list[Matrix]) -> list[Matrix]:
        """The nearest copies that satisfy R = S - L [and P = R]."""
        if not self.with_cone:
            excess = v[0] - v[1] + v[2]
            return [v[0] - excess / 3, v[1] + excess / 3, v[2] - excess / 3]
        centre = 0.5 * (v[0] + v[3])
        excess = centre - v[1] + v[2]
        r = centre - excess / 5
        return [r, v[1] + 0.4 * excess, v[2] - 0.4 * excess, r]

    def _balance(self, primal: float, dual: float, iteration: int) -> None:
        """Residual balancing, ever more rarely so that convergence is kept."""
        if iteration > 2_000:
            return
        factor = 2.0 if primal > 5 * dual else 0.5 if dual > 5 * primal else 1.0
        self.rho *= factor
        self.u = [a / factor for a in self.u]

    def _certify(self, sparse: Matrix, low_rank: Matrix) -> tuple[float, float, Matrix, Matrix]:
        """(primal, dual, S, L): a feasible primal point and a feasible dual value."""
        if self.positive:
            lowest = float(np.linalg.eigvalsh(sparse - low_rank)[0])
            if lowest < 0:
                sparse = sparse - lowest * np.eye(len(sparse))
        primal = (
            self.loss.value(sparse - low_rank)
            + float(np.sum(self.penalty * np.abs(sparse)))
            + self.lambda_l * float(np.trace(low_rank))
        )
        multiplier = self.rho * (self.x[1] - self.z[1] + self.u[1])
        multiplier = np.clip(_symmetric(multiplier), -self.penalty, self.penalty)
        top = float(np.linalg.eigvalsh(multiplier)[-1])
        if top > self.lambda_l:
            multiplier = multiplier * (self.lambda_l / top)
        cone = np.zeros_like(multiplier)
        if self.with_cone:
            cone = _shrink_psd(-self.rho * self.u[3], 0.0)
        return primal, -self.loss.conjugate(multiplier + cone), sparse, low_rank


def _relative(primal: float, dual: float) -> float:
    return max(primal - dual, 0.0) / max(1.0, abs(primal))


def _symmetric(a: Matrix) -> Matrix:
    return 0.5 * (a + a.T)


def _soft_threshold(a: Matrix, threshold: Matrix) -> Matrix:
    return np.sign(a) * np.maximum(np.abs(a) - threshold, 0.0)


def _shrink_psd(a: Matrix, threshold: float) -> Matrix:
    """Prox of ``threshold * tr`` on the positive semi-definite cone."""
    values, vectors = np.linalg.eigh(_symmetric(a))
    kept = values > threshold
    vectors = vectors[:, kept]
    return (vectors * (values[kept] - threshold)) @ vectors.T


def _checked(sigma: Matrix) -> Matrix:
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
            "copies of each other, or there are fewer items than judges; drop one, or shrink the matrix (moments.shrink)"
        )
    return _symmetric(sigma)
