"""Sparse + low-rank structure of the judges' precision matrix, with a certificate of optimality.

The convex program of Algorithm 1, step 2, minimises 1/2 ||Sigma^{-1} - R||_F^2 + lambda_s ||S||_1 + lambda_l tr L
subject to L >= 0 and, where needed, R >= 0. R = S - L estimates the observable precision Theta = K_JJ - K_JH K_HH^{-1}
K_HJ. The solver is consensus ADMM, whose blocks have closed forms (Ma, Xue and Zou, Neural Computation 2013). The
solver stops when the duality gap is small and the objective is stable; it does not test changes in the iterates.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dsyevd  # type: ignore[attr-defined]  # compiled

from care_ops.errors import FitError, InputError
from care_ops.records import Certificate
from care_ops.scores import Array
from care_ops.threads import one_blas_thread

_OVER_RELAXATION = 1.7
_START_RHO = 0.01
_CHECK_EVERY = 10
_PATIENCE = 1.3
_OUTSIDE = 3
_SETTLED = 3e-3
"""Largest change of the objective between two checks, as a share of the tolerance, at which the solver may stop."""

_TINY = 1e-300
_TIE = np.array([1.0, -1.0, 1.0])[:, None, None]


@dataclass(frozen=True)
class Structure:
    """Solution of the sparse + low-rank program.

    Attributes
    ----------
    sparse : (p, p) array
        S, the direct conditional edges between judges.
    low_rank : (p, p) array
        L, the positive semi-definite part that latent factors explain.
    lambda_s, lambda_l : float
        The penalties.
    """

    sparse: Array
    low_rank: Array
    lambda_s: float
    lambda_l: float
    certificate: Certificate

    @property
    def precision(self) -> Array:
        """Estimated precision matrix R = S - L, shape (p, p)."""
        return self.sparse - self.low_rank


def solve(
    sigma: Array, *, lambda_s: float, lambda_l: float, tolerance: float = 1e-6, max_iterations: int = 20_000
) -> Structure:
    """Decompose the precision of ``sigma`` into sparse minus low-rank (paper, Algorithm 1 step 2).

    Parameters
    ----------
    sigma : (p, p) array
        Correlation or covariance matrix of the judges, symmetric positive definite.
    lambda_s, lambda_l : float
        Penalties on ``||S||_1`` and ``tr L``; Algorithm 1's gamma and gamma * tau.
    tolerance : float
        Relative duality gap at which the solver stops.
    max_iterations : int
        Largest number of iterations; a solution that needs more has a certificate with ``converged=False``.

    Raises
    ------
    InputError
        ``sigma`` is not a finite symmetric matrix, or a penalty is not positive.
    FitError
        ``sigma`` is singular, and therefore has no precision matrix.
    """
    sigma = _checked(sigma)
    if not (0 < lambda_s < np.inf and 0 < lambda_l < np.inf):
        raise InputError(f"structure: penalties must be positive and finite, got {lambda_s=} and {lambda_l=}")
    with one_blas_thread():
        admm = _Consensus(sigma, float(lambda_s), float(lambda_l))
        sparse, low_rank, certificate = admm.run(tolerance, max_iterations)
    return Structure(sparse, low_rank, float(lambda_s), float(lambda_l), certificate)


class _Consensus:
    """Consensus ADMM over copies (R, S, L[, P]) with the constraints R = S - L [and P = R].

    P, the positive semi-definite copy of R, is added only if R stays outside the cone. The copies form one array
    (copies, p, p), because many calls of numpy on small matrices would cost more than the arithmetic.
    """

    def __init__(self, sigma: Array, penalty: float, lambda_l: float) -> None:
        values, vectors = np.linalg.eigh(sigma)
        self.theta = _symmetric((vectors / values) @ vectors.T)
        self.penalty, self.lambda_l, self.with_cone = penalty, lambda_l, False
        self.x = np.stack([self.theta, self.theta, np.zeros_like(self.theta)])
        self.z, self.u = self.x.copy(), np.zeros_like(self.x)
        self.rho, self.outside = _START_RHO, 0

    def run(self, tolerance: float, limit: int) -> tuple[Array, Array, Certificate]:
        iteration, best, last = 0, None, np.inf
        pause, next_balance = float(_CHECK_EVERY), float(_CHECK_EVERY)
        for iteration in range(1, limit + 1):
            before = self.z
            self._step()
            if iteration % _CHECK_EVERY:
                continue
            candidate = self._certify()
            best = best or candidate
            # every feasible point bounds the optimum from above, every dual value from below
            dual = max(best[1], candidate[1])
            best = min(best, candidate, key=lambda c: c[0])
            best = (best[0], dual, best[2], best[3])
            settled = abs(candidate[0] - last) <= _SETTLED * tolerance * max(1.0, abs(best[0]))
            last = candidate[0]
            if settled and relative_gap(best[0], best[1]) <= tolerance:
                break
            if self.outside >= _OUTSIDE and not self.with_cone:
                self._enter_cone()
            elif iteration >= next_balance and self._balance(before):
                pause *= _PATIENCE  # ever more rarely, which preserves convergence
                next_balance = iteration + pause
        primal, dual, sparse, low_rank = best or self._certify()
        gap = relative_gap(primal, dual)
        return sparse, low_rank, Certificate(primal, dual, gap, tolerance, iteration, gap <= tolerance)

    def _step(self) -> None:
        rho, x = self.rho, np.empty_like(self.z)
        v = self.z - self.u
        x[0] = (self.theta + rho * v[0]) / (1.0 + rho)
        threshold = self.penalty / rho
        x[1] = v[1] - np.minimum(np.maximum(v[1], -threshold), threshold)  # np.clip takes three times as long here
        x[2] = _shrink_psd(v[2], self.lambda_l / rho)
        if self.with_cone:
            x[3] = _shrink_psd(v[3], 0.0)
        moved = _OVER_RELAXATION * x + (1 - _OVER_RELAXATION) * self.z + self.u
        self.z = self._project(moved)
        self.u = moved - self.z
        self.x = x

    def _project(self, v: Array) -> Array:
        if not self.with_cone:
            return v - _TIE * ((v[0] - v[1] + v[2]) / 3)
        centre = 0.5 * (v[0] + v[3])
        excess = centre - v[1] + v[2]
        r = centre - excess / 5
        return np.stack([r, v[1] + 0.4 * excess, v[2] - 0.4 * excess, r])

    def _balance(self, before: Array) -> bool:
        """Scale rho to balance the relative primal and dual residuals; return whether rho was changed.

        The residuals are relative, because penalties may be a thousand times smaller than precisions (Wohlberg,
        "ADMM penalty parameter selection by residual balancing", 2017).
        """
        primal = np.linalg.norm(self.x - self.z) / max(np.linalg.norm(self.x), np.linalg.norm(self.z), _TINY)
        dual = np.linalg.norm(self.z - before) / max(np.linalg.norm(self.u), _TINY)
        factor = float(np.clip(np.sqrt(primal / max(dual, _TINY)), 0.1, 10.0))
        if 0.5 < factor < 2.0:
            return False
        self.rho *= factor
        self.u = self.u / factor
        return True

    def _certify(self) -> tuple[float, float, Array, Array]:
        """Compute a feasible primal and a feasible dual point; return the objectives, and the primal S and L."""
        sparse, low_rank = _symmetric(self.x[1]), _symmetric(self.x[2])
        lowest = float(np.linalg.eigvalsh(sparse - low_rank)[0])
        if lowest < 0:
            sparse = sparse - lowest * np.eye(len(sparse))
        self.outside = self.outside + 1 if lowest < -1e-10 else 0
        primal = (
            0.5 * float(np.sum((self.theta - (sparse - low_rank)) ** 2))
            + float(np.sum(self.penalty * np.abs(sparse)))
            + self.lambda_l * float(np.trace(low_rank))
        )
        multiplier = _symmetric(self.rho * (self.x[1] - self.z[1] + self.u[1]))
        multiplier = np.clip(multiplier, -self.penalty, self.penalty)
        top = float(np.linalg.eigvalsh(multiplier)[-1])
        if top > self.lambda_l:
            multiplier = multiplier * (self.lambda_l / top)
        if self.with_cone:
            multiplier = multiplier + _shrink_psd(self.rho * self.u[3], 0.0)
        conjugate = 0.5 * float(np.sum(multiplier * multiplier)) + float(np.sum(multiplier * self.theta))
        return primal, -conjugate, sparse, low_rank

    def _enter_cone(self) -> None:
        self.with_cone = True
        self.x, self.z = (np.concatenate([a, a[:1]]) for a in (self.x, self.z))
        self.u = np.concatenate([self.u, np.zeros_like(self.u[:1])])


def relative_gap(primal: float, dual: float) -> float:
    """Return the relative duality gap, which bounds the distance of a primal objective from the optimum."""
    return max(primal - dual, 0.0) / max(1.0, abs(primal))


def _shrink_psd(a: Array, threshold: float) -> Array:
    """Apply the proximal operator of ``threshold * tr`` on the positive semi-definite cone to a symmetric matrix."""
    values, vectors, failed = dsyevd(a)
    if failed:
        raise FitError("structure: an eigenvalue computation did not converge; check that the scores are finite")
    first = int(np.searchsorted(values, threshold, side="right"))
    root = vectors[:, first:] * np.sqrt(values[first:] - threshold)
    return root @ root.T


def _symmetric(a: Array) -> Array:
    return 0.5 * (a + a.T)


def _checked(sigma: Array) -> Array:
    sigma = np.asarray(sigma, dtype=np.float64)
    if sigma.ndim != 2 or sigma.shape[0] != sigma.shape[1]:
        raise InputError(f"structure: sigma must be a square matrix, got shape {sigma.shape}")
    if not np.isfinite(sigma).all():
        raise InputError("structure: sigma contains NaN or infinity; drop judges without variance first")
    if not np.allclose(sigma, sigma.T, rtol=1e-8, atol=1e-10 * float(np.abs(sigma).max())):
        raise InputError("structure: sigma is not symmetric; pass a covariance or correlation matrix")
    values = np.linalg.eigvalsh(sigma)
    if values[0] <= 1e-12 * max(float(values[-1]), 1.0):
        raise FitError(
            f"structure: sigma is singular (smallest eigenvalue {values[0]:.2e}), because judges are copies of one "
            "another or there are fewer items than judges; drop the copies, add items, or shrink the matrix "
            "(moments.state.shrink)"
        )
    return _symmetric(sigma)
