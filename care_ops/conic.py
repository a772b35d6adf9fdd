"""The structure programs in cvxpy: the tests' oracle, and the way to add constraints.

Belongs here: the same programs as ``structure.solve`` written for a general conic solver. Slower by one
or two orders of magnitude; nothing on the nightly road calls it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from care_ops.config import Program
from care_ops.errors import FitError

Array = NDArray[np.float64]


def solve_conic(
    sigma: Array,
    *,
    lambda_s: float,
    lambda_l: float,
    program: Program = "frobenius",
    positive: bool = True,
    solver: str = "CLARABEL",
) -> tuple[Array, Array, float]:
    """Solve the program of ``structure.solve`` (diagonal penalised) with cvxpy.

    Parameters
    ----------
    sigma : (p, p) array
    lambda_s, lambda_l, program, positive : as in ``structure.solve``
    solver : str
        Any semi-definite solver that cvxpy knows.

    Returns
    -------
    sparse, low_rank : (p, p) arrays
    objective : float

    Raises
    ------
    FitError
        The solver did not reach an optimum.
    """
    import cvxpy as cp

    p = len(sigma)
    sparse: Any = cp.Variable((p, p), symmetric=True)
    low_rank: Any = cp.Variable((p, p), PSD=True)
    difference = sparse - low_rank
    if program == "frobenius":
        loss = 0.5 * cp.sum_squares(difference - np.linalg.inv(sigma))
    else:
        values, vectors = np.linalg.eigh(sigma)
        root = (vectors * np.sqrt(values)) @ vectors.T
        loss = 0.5 * cp.sum_squares(difference @ root) - cp.trace(difference)
    objective = loss + lambda_s * cp.sum(cp.abs(sparse)) + lambda_l * cp.trace(low_rank)
    constraints = [difference >> 0] if positive else []
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=solver)
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise FitError(f"conic: {solver} stopped with status {problem.status!r}")
    return np.asarray(sparse.value), np.asarray(low_rank.value), float(problem.value)  # type: ignore[arg-type]
