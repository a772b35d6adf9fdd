"""A fit checked against solvers that are not ours: the structure against cvxpy, a decomposition against tensorly.

How far two answers may differ is not tuned but follows from what the solvers certify: the duality gaps of both, and for
the decomposition the condition of the pair moment, by whose square Jennrich's algorithm enlarges the rounding of a sum
over the moment's entries.
"""

from dataclasses import dataclass

import numpy as np

from care_ops.errors import FitError
from care_ops.models import cp
from care_ops.scores import Array
from care_ops.structure.conic import solve_conic
from care_ops.structure.losses import LOSSES, checked
from care_ops.structure.program import Structure
from care_ops.structure.views import Views

_ROUNDING = float(np.finfo(np.float64).eps)
_ATTEMPTS = 3
_MOST_ALLOWED = 0.01
"""Relative difference of two decompositions from which a comparison would tell nothing."""

_OUTSIDE = 1e-9
"""Least eigenvalue, as a share of the largest entry, that a matrix on the edge of the cone may have by rounding."""


@dataclass(frozen=True)
class SolverAgreement:
    """How far our solver's answer is from another solver's answer to the same problem.

    Attributes
    ----------
    difference : float
        How far ours is off.
    allowed : float
        How far it may be off by what both solvers certify.
    """

    difference: float
    allowed: float

    @property
    def agrees(self) -> bool:
        """Whether the difference is allowed; one that is not a number is not."""
        return self.difference <= self.allowed


def objective(sigma: Array, structure: Structure) -> float:
    """What the program with a penalised diagonal is to minimise, at a given S and L."""
    penalty = structure.lambda_s * np.abs(structure.sparse).sum() + structure.lambda_l * np.trace(structure.low_rank)
    return LOSSES[structure.program](checked(sigma)).value(structure.precision) + float(penalty)


def compare_structure(correlation: Array, structure: Structure) -> SolverAgreement:
    """How far the objective of a structure without constraints lies above the bound that cvxpy proves for the optimum.

    Parameters
    ----------
    correlation : (p, p) array
        What the structure was solved on.

    Returns
    -------
    SolverAgreement
        The difference is relative to the objective, and infinite where S - L or L is not positive semi-definite.
        Allowed is the gap that ours is certified to plus cvxpy's, and the rounding of a sum over the entries.
    """
    other = solve_conic(
        correlation,
        lambda_s=structure.lambda_s,
        lambda_l=structure.lambda_l,
        program=structure.program,
        tolerance=structure.certificate.tolerance,
    ).certificate
    scale = max(1.0, abs(other.primal))
    gaps = sum(found.gap * max(1.0, abs(found.primal)) for found in (structure.certificate, other))
    allowed = gaps / scale + _ROUNDING * correlation.size
    if not (_is_positive(structure.low_rank) and _is_positive(structure.precision)):
        return SolverAgreement(float("inf"), allowed)
    return SolverAgreement((objective(correlation, structure) - other.dual) / scale, allowed)


def compare_decomposition(tensor: Array, views: Views, k: int, rng: np.random.Generator) -> SolverAgreement:
    """How far our components of tensorly's approximation of a moment are from making that approximation again.

    A moment of real scores has no exact components, and two methods would differ on it by what they do with the rest.
    The tensor of rank k that tensorly finds near it has: its components are unique, so that ours have to be the same.

    Parameters
    ----------
    tensor : (1 + p1, 1 + p2, 1 + p3) array
        The augmented moment of standardised scores (``cp.augmented_moment``).

    Returns
    -------
    SolverAgreement
        The difference is relative to the norm of tensorly's tensor.

    Raises
    ------
    FitError
        The moment does not carry k components with positive weights, or so weakly that rounding alone could change them
        by a hundredth, so that there is nothing to compare.
    """
    target = cp.rebuilt(cp.by_tensorly(tensor, k, rng, _ATTEMPTS)[0])
    ours = cp.decompose(target, views, k, rng)
    if ours.negative_weights:
        raise FitError(f"tensor: {ours.negative_weights} of {k} components have no positive weight")
    ones = np.ones((1, k))
    first, second, third = (np.vstack([ones, ours.means[:, group].T]) for group in views.groups)
    again = cp.rebuilt([first * (ours.weights * target[0, 0, 0]), second, third])
    difference = float(np.linalg.norm(again - target) / np.linalg.norm(target))
    allowed = _ROUNDING * tensor.size * ours.condition**2
    if allowed > _MOST_ALLOWED:
        raise FitError(f"tensor: the pair moment is too near a lower rank (condition {ours.condition:.1e})")
    return SolverAgreement(difference, allowed)


def _is_positive(matrix: Array) -> bool:
    return bool(np.linalg.eigvalsh(matrix)[0] >= -_OUTSIDE * np.abs(matrix).max())
