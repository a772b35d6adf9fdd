"""The structure program by a solver that is not ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from care_ops.scores import Array

_SHARP = 1e-8


def solve_by_cvxpy(sigma: Array, *, lambda_s: float, lambda_l: float) -> tuple[float, Array, Array]:
    """Objective, S and L by cvxpy's Clarabel; both are moved into their feasible sets, by about its tolerance."""
    import cvxpy as cp

    theta, p = np.linalg.inv(sigma), len(sigma)
    sparse: Any = cp.Variable((p, p), symmetric=True)
    low_rank: Any = cp.Variable((p, p), PSD=True)
    precision = sparse - low_rank
    loss = 0.5 * cp.sum_squares(precision - theta)
    penalty = lambda_s * cp.sum(cp.abs(sparse)) + lambda_l * cp.trace(low_rank)
    problem = cp.Problem(cp.Minimize(loss + penalty), [precision >> 0])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=_SHARP, tol_gap_rel=_SHARP, tol_feas=_SHARP)
    s, low = _positive(sparse.value), _positive(low_rank.value)
    s = s - min(float(np.linalg.eigvalsh(s - low)[0]), 0.0) * np.eye(p)
    smooth = 0.5 * float(np.sum((s - low - theta) ** 2))
    primal = smooth + lambda_s * float(np.abs(s).sum()) + lambda_l * float(np.trace(low))
    return primal, s, low


def _positive(matrix: Array) -> Array:
    """The symmetric part of a matrix, raised by what its least eigenvalue lacks."""
    matrix = 0.5 * (matrix + matrix.T)
    return matrix - min(float(np.linalg.eigvalsh(matrix)[0]), 0.0) * np.eye(len(matrix))
