"""Conic solver of the sparse + low-rank program, based on cvxpy and Clarabel.

This solver is slower than ``program``, especially with fifty judges or more. CARE uses it only if ``program`` has not
converged. Tests compare the two solvers.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from care_ops.records import Certificate
from care_ops.scores import Array
from care_ops.structure.program import Structure, relative_gap

MOST_JUDGES = 60
"""Largest number of judges for the conic solver; at this size it takes about a minute and one gigabyte of memory."""

_TOLERANCE = 1e-8


def sharpen(structure: Structure, sigma: Array) -> Structure:
    """Solve the sparse + low-rank program again with Clarabel if a solution has not converged; return the better one.

    The structure is returned unchanged if it has converged, if it has more than ``MOST_JUDGES`` judges, or if cvxpy is
    not installed.

    Parameters
    ----------
    structure : Structure
        Solution by ``program.solve``.
    sigma : (p, p) array
        Matrix that the structure decomposes.
    """
    before = structure.certificate
    if before.converged or len(sigma) > MOST_JUDGES or find_spec("cvxpy") is None:
        return structure
    primal, sparse, low_rank = solve(sigma, lambda_s=structure.lambda_s, lambda_l=structure.lambda_l)
    if primal >= before.primal:
        return structure
    gap = relative_gap(primal, before.dual)
    certificate = Certificate(primal, before.dual, gap, before.tolerance, before.iterations, gap <= before.tolerance)
    return replace(structure, sparse=sparse, low_rank=low_rank, certificate=certificate)


def solve(sigma: Array, *, lambda_s: float, lambda_l: float) -> tuple[float, Array, Array]:
    """Solve the sparse + low-rank program with Clarabel; return the objective and the feasible S and L."""
    import cvxpy as cp

    theta, p = np.linalg.inv(sigma), len(sigma)
    sparse: Any = cp.Variable((p, p), symmetric=True)
    low_rank: Any = cp.Variable((p, p), PSD=True)
    precision = sparse - low_rank
    loss = 0.5 * cp.sum_squares(precision - theta)
    penalty = lambda_s * cp.sum(cp.abs(sparse)) + lambda_l * cp.trace(low_rank)
    problem = cp.Problem(cp.Minimize(loss + penalty), [precision >> 0])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=_TOLERANCE, tol_gap_rel=_TOLERANCE, tol_feas=_TOLERANCE)
    s, low = _positive(sparse.value), _positive(low_rank.value)
    s = s - min(float(np.linalg.eigvalsh(s - low)[0]), 0.0) * np.eye(p)
    smooth = 0.5 * float(np.sum((s - low - theta) ** 2))
    primal = smooth + lambda_s * float(np.abs(s).sum()) + lambda_l * float(np.trace(low))
    return primal, s, low


def _positive(matrix: Array) -> Array:
    """Return the symmetric part of a matrix, shifted to have no negative eigenvalue."""
    matrix = 0.5 * (matrix + matrix.T)
    return matrix - min(float(np.linalg.eigvalsh(matrix)[0]), 0.0) * np.eye(len(matrix))
