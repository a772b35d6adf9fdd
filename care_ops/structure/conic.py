"""The structure programs in cvxpy: constraints that ``program`` does not have, and a second opinion on what it solved.

With R = S - L the program is that of ``program.solve`` (diagonal penalised, R positive semi-definite) subject to

- S_ij = 0 outside a fixed support, and
- L_ij >= 0 for chosen pairs of judges.

Its certificate is computed here and not taken from the solver. From the multipliers M (of R >= 0) and W >= 0 (of
L_ij >= 0) that the solver returns follows Y = grad f(R) - M. The dual asks for |Y_ij| <= lambda_s on the support, for
lambda_l I - Y - W positive semi-definite, and has the value -f*(Y + M). Both points are moved into their feasible sets,
by about the solver's tolerance, before their objectives are compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.config import Program, StructureConfig
from care_ops.errors import FitError
from care_ops.records import Certificate
from care_ops.scores import Array
from care_ops.structure.losses import LOSSES, Loss, checked, symmetric
from care_ops.structure.program import Structure, check_penalties, relative_gap

if TYPE_CHECKING:
    import cvxpy as cp

Mask = NDArray[np.bool_]

_SHARPER = 0.01
"""The solver's own tolerance as a share of the gap asked for: our gap also counts the way into the feasible set."""


def masks_of(config: StructureConfig, judges: Sequence[str]) -> tuple[Mask | None, Mask | None]:
    """``support`` and ``nonnegative`` of ``solve_conic`` by a configuration; names that are not of these judges count
    for nothing.
    """
    support = None if config.edges_within is None else pairs_within(judges, config.edges_within)
    nonnegative = pairs_within(judges, config.nonnegative_within) if config.nonnegative_within else None
    return support, nonnegative


def pairs_within(judges: Sequence[str], groups: Sequence[Sequence[str]]) -> Mask:
    """Which pairs of judges share a group, and the diagonal, shape (p, p)."""
    members = np.array([[judge in group for group in groups] for judge in judges], dtype=bool)
    members = members.reshape(len(judges), len(groups))
    return (members @ members.T) | np.eye(len(judges), dtype=bool)


def solve_conic(
    sigma: Array,
    *,
    lambda_s: float,
    lambda_l: float,
    program: Program = "frobenius",
    support: Mask | None = None,
    nonnegative: Mask | None = None,
    tolerance: float = 1e-6,
) -> Structure:
    """Solve a constrained program with cvxpy's Clarabel.

    Parameters
    ----------
    sigma, lambda_s, lambda_l, program, tolerance : as in ``program.solve``
    support : (p, p) symmetric array of bool, optional
        Entries of S that may differ from zero, those of the diagonal among them; all by default.
    nonnegative : (p, p) symmetric array of bool, optional
        Entries of L that may not be negative; none by default.

    Returns
    -------
    Structure
        Its certificate has the gap that is computed here, and the solver's own beside it.

    Raises
    ------
    InputError
        ``sigma`` or a penalty cannot be used.
    FitError
        ``sigma`` is singular, or the solver did not reach an optimum.
    """
    sigma = checked(sigma)
    check_penalties(lambda_s, lambda_l)
    support = np.ones(sigma.shape, dtype=bool) if support is None else support
    nonnegative = np.zeros(sigma.shape, dtype=bool) if nonnegative is None else nonnegative
    with threadpool_limits(limits=1, user_api="blas"):
        loss = LOSSES[program](sigma)
        solution = _solved(sigma, program, (lambda_s, lambda_l), (support, nonnegative), tolerance * _SHARPER)
        sparse, low_rank = _feasible(solution.sparse, solution.low_rank, support, nonnegative)
        penalty = lambda_s * float(np.abs(sparse).sum()) + lambda_l * float(np.trace(low_rank))
        primal = loss.value(sparse - low_rank) + penalty
        dual = _dual_value(loss, solution, (lambda_s, lambda_l), (support, nonnegative))
    gap = relative_gap(primal, dual)
    certificate = Certificate(
        primal, dual, gap, tolerance, solution.iterations, gap <= tolerance, solver_gap=solution.gap
    )
    return Structure(sparse, low_rank, program, lambda_s, lambda_l, certificate)


@dataclass(frozen=True)
class _Solution:
    """What the solver returns: the primal point, the multipliers of R >= 0 and of L_ij >= 0, and its own figures."""

    sparse: Array
    low_rank: Array
    of_precision: Array
    of_entries: Array
    iterations: int
    gap: float


def _solved(
    sigma: Array, program: Program, penalties: tuple[float, float], masks: tuple[Mask, Mask], tolerance: float
) -> _Solution:
    import cvxpy as cp

    p, (support, nonnegative) = len(sigma), masks
    sparse: Any = cp.Variable((p, p), symmetric=True)
    low_rank: Any = cp.Variable((p, p), PSD=True)
    precision = sparse - low_rank
    if program == "frobenius":
        loss = 0.5 * cp.sum_squares(precision - np.linalg.inv(sigma))
    else:
        values, vectors = np.linalg.eigh(sigma)
        root = (vectors * np.sqrt(values)) @ vectors.T
        loss = 0.5 * cp.sum_squares(precision @ root) - cp.trace(precision)
    is_precision = precision >> 0
    constraints: list[Any] = [is_precision]
    absent, bounded = np.nonzero(np.triu(~support)), np.nonzero(np.triu(nonnegative, 1))
    if len(absent[0]):
        constraints.append(sparse[absent] == 0)
    is_nonnegative = None
    if len(bounded[0]):
        is_nonnegative = low_rank[bounded] >= 0
        constraints.append(is_nonnegative)
    lambda_s, lambda_l = penalties
    objective = cp.Minimize(loss + lambda_s * cp.sum(cp.abs(sparse)) + lambda_l * cp.trace(low_rank))
    problem = cp.Problem(objective, constraints)
    iterations, gap = _run(problem, tolerance)
    of_entries = np.zeros((p, p))
    if is_nonnegative is not None:
        of_entries[bounded] = 0.5 * np.asarray(is_nonnegative.dual_value)
    return _Solution(
        np.asarray(sparse.value),
        np.asarray(low_rank.value),
        symmetric(np.asarray(is_precision.dual_value)),
        of_entries + of_entries.T,
        iterations,
        gap,
    )


def _run(problem: cp.Problem, tolerance: float) -> tuple[int, float]:
    """Solve the problem; the iterations, and the relative gap that the solver itself reports."""
    import cvxpy as cp

    options = {"tol_gap_abs": tolerance, "tol_gap_rel": tolerance, "tol_feas": tolerance}
    data, chain, inverse = problem.get_problem_data(cp.CLARABEL, solver_opts=options)
    assert chain is not None
    try:
        answer: Any = chain.solve_via_data(problem, data, solver_opts=options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of an inexact answer, which our own certificate tells
            problem.unpack_results(answer, chain, inverse)
    except cp.SolverError as error:
        raise FitError(f"structure: the conic solver failed ({error}); raise fit.gamma or drop a constraint") from error
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise FitError(
            f"structure: the conic solver stopped with status {problem.status!r}; raise fit.gamma or drop a constraint"
        )
    return int(answer.iterations), abs(answer.obj_val - answer.obj_val_dual) / max(1.0, abs(answer.obj_val))


def _feasible(sparse: Array, low_rank: Array, support: Mask, nonnegative: Mask) -> tuple[Array, Array]:
    """The point of the solver, moved into the feasible set."""
    sparse, low_rank = np.where(support, symmetric(sparse), 0.0), symmetric(low_rank)
    low_rank = np.where(nonnegative, np.maximum(low_rank, 0.0), low_rank)
    identity = np.eye(len(sparse))
    low_rank = low_rank - min(float(np.linalg.eigvalsh(low_rank)[0]), 0.0) * identity
    sparse = sparse - min(float(np.linalg.eigvalsh(sparse - low_rank)[0]), 0.0) * identity
    return sparse, low_rank


def _dual_value(loss: Loss, solution: _Solution, penalties: tuple[float, float], masks: tuple[Mask, Mask]) -> float:
    """A lower bound of the optimum: the dual objective at a feasible point near the solver's."""
    (lambda_s, lambda_l), (support, nonnegative) = penalties, masks
    values, vectors = np.linalg.eigh(solution.of_precision)
    of_precision = (vectors * np.maximum(values, 0.0)) @ vectors.T
    multiplier = loss.gradient(symmetric(solution.sparse - solution.low_rank)) - of_precision
    multiplier = np.where(support, np.clip(multiplier, -lambda_s, lambda_s), multiplier)
    of_entries = np.where(nonnegative, np.maximum(solution.of_entries, 0.0), 0.0)
    top = float(np.linalg.eigvalsh(multiplier + of_entries)[-1])
    if top > lambda_l:
        multiplier = multiplier * (lambda_l / top)
    return -loss.conjugate(multiplier + of_precision)
