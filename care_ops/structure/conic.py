"""The structure programs in cvxpy: the tests' oracle, and the way to add constraints.

Belongs here: the programs of ``program.solve`` written for a general conic solver, which is slower by one or two orders
of magnitude. Does not: the solver of the nightly fit (``program``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from care_ops.config import Program
from care_ops.errors import FitError, InputError

Array = NDArray[np.float64]


def solve_conic(
    sigma: Array,
    *,
    lambda_s: float,
    lambda_l: float,
    program: Program = "frobenius",
    positive: bool = True,
    support: NDArray[np.bool_] | None = None,
    solver: str = "CLARABEL",
) -> tuple[Array, Array, float]:
    """Solve the program of ``program.solve`` (diagonal penalised) with cvxpy.

    Parameters
    ----------
    sigma : (p, p) array
    lambda_s, lambda_l, program, positive : as in ``program.solve``
    support : (p, p) array of bool, optional
        Entries of S that may differ from zero; see ``within_families``.
    solver : str
        Any semi-definite solver that cvxpy knows.

    Returns
    -------
    sparse, low_rank : (p, p) arrays
    objective : float

    Raises
    ------
    InputError
        ``support`` is not a symmetric (p, p) array, or leaves out the diagonal.
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
    if support is not None and not _checked(support, p).all():
        constraints.append(cp.multiply(~support, sparse) == 0)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=solver)
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise FitError(f"conic: {solver} stopped with status {problem.status!r}")
    return np.asarray(sparse.value), np.asarray(low_rank.value), float(problem.value)  # type: ignore[arg-type]


def within_families(judges: Sequence[str], families: Mapping[str, str]) -> NDArray[np.bool_]:
    """The support of S that allows direct edges only between judges of one declared family, shape (p, p).

    A judge without a family has no direct edge.
    """
    family = [families.get(judge) for judge in judges]
    same = np.array([[a is not None and a == b for b in family] for a in family], dtype=bool)
    return same | np.eye(len(family), dtype=bool)


def _checked(support: NDArray[np.bool_], p: int) -> NDArray[np.bool_]:
    if support.shape != (p, p) or support.dtype != np.bool_ or not (support == support.T).all():
        raise InputError(f"conic: support must be a symmetric ({p}, {p}) array of bool, got shape {support.shape}")
    if not support.diagonal().all():
        raise InputError("conic: support must hold the diagonal, without which S - L cannot be positive")
    return support
