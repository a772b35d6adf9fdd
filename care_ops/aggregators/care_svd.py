"""CARE-SVD: quality as the leading factor of the judges' precision (paper, Algorithm 1).

Belongs here: penalties without labels, the aggregate and its placement. Does not: the solver
(``structure``) or the rules that name the factor (``factors``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.aggregators.base import Aggregate, Problem, unit_weights
from care_ops.calibration import to_panel_scale
from care_ops.config import Program, StructureConfig
from care_ops.errors import FitError
from care_ops.moments.missing import condition
from care_ops.moments.state import Moments, shrink
from care_ops.structure.factors import (
    choose_by_anchors,
    choose_by_balance,
    effective_judges,
    extract,
    posterior,
    subtract_confounders,
)
from care_ops.structure.program import Structure, solve

Array = NDArray[np.float64]

_TAU_STEPS = 12
_TAU_STEP = 1.5


@dataclass(frozen=True)
class Effort:
    """When a solve of the structure may stop.

    Attributes
    ----------
    tolerance : float
        Relative duality gap.
    most_iterations : int
    """

    tolerance: float
    most_iterations: int


EXACTLY = Effort(1e-6, 20_000)

ROUGHLY = Effort(1e-3, 300)
"""For resamples: what is left is far below the spread between them, and a singular one does not take minutes."""


def fit_structure(
    moments: Moments, config: StructureConfig, judges: Sequence[str] | None = None, effort: Effort = EXACTLY
) -> tuple[Structure, dict[str, float]]:
    """Sparse + low-rank structure of the shrunk correlation of a panel.

    gamma and tau come from theory and from draws of the paper's own model, never from labels. Where they
    leave L empty, tau is lowered until a factor appears, and the result says so.

    Returns
    -------
    structure : Structure
    details : dict
        gamma_n, tau, shrinkage and ``tau_lowered`` (how many times).

    Raises
    ------
    FitError
        Fewer than three judges or ten items, or no factor at any tau.
    """
    p, n = moments.p, moments.n
    if p < 3:
        raise FitError(f"structure: at least three judges are needed, there are {p}")
    if n < 10:
        raise FitError(f"structure: at least ten items are needed, there are {n}")
    correlation, intensity = shrink(moments.correlation(judges), n)
    gamma = config.gamma * penalty_rate(correlation, n, config.program)
    tau = config.tau * float(np.sqrt(p))
    for lowered in range(_TAU_STEPS):
        structure = solve(
            correlation,
            lambda_s=gamma,
            lambda_l=gamma * tau,
            program=config.program,
            tolerance=effort.tolerance,
            max_iterations=effort.most_iterations,
        )
        if np.linalg.eigvalsh(structure.low_rank)[-1] > 1e-6:
            return structure, {
                "gamma_n": gamma,
                "tau": tau,
                "shrinkage": intensity,
                "tau_lowered": float(lowered),
            }
        tau /= _TAU_STEP
    raise FitError(
        "structure: no shared factor at any penalty; the judges' scores look independent of one another. "
        "Check that they score the same items on the same question"
    )


def penalty_rate(correlation: Array, n: int, program: Program) -> float:
    """What ``StructureConfig.gamma`` multiplies: sqrt(log p / n) times the median diagonal of the loss's target."""
    with threadpool_limits(limits=1, user_api="blas"):
        unit = float(np.median(np.diag(np.linalg.inv(correlation)))) if program == "frobenius" else 1.0
    return float(np.sqrt(np.log(len(correlation)) / n)) * unit


class CareSVD:
    """``care_svd``: E[Q | J] along the quality factor of L.

    Without labels quality is the leading factor; anchors choose factor and sign. The estimate carries
    the location and spread of the panel's mean (``calibration.to_panel_scale``).
    """

    name = "care_svd"
    scale_free = True
    uses_labels = True

    def fit(self, problem: Problem) -> Aggregate:
        """Extract factors, name quality, take its posterior mean."""
        structure, correlation = problem.require_structure(), problem.correlation
        factors = extract(structure.low_rank, correlation)
        if problem.config.quality == "balance":
            factors = choose_by_balance(factors)
        rows, labels = problem.anchors.rows(problem.scores.item_ids)
        if len(rows):
            filled, _ = condition(problem.standardised[rows], correlation)
            factors = choose_by_anchors(factors, filled, labels)
        weights = subtract_confounders(factors) if problem.config.subtract_confounders else factors.weights
        strength = float(factors.strengths[factors.quality])
        latent, sd = posterior(problem.standardised, weights, strength, correlation)
        estimate, _, unit = to_panel_scale(latent, problem.panel_mean)
        order = [factors.quality, *(r for r in range(len(factors.strengths)) if r != factors.quality)]
        details = {
            "rule": factors.rule,
            "quality_factor": factors.quality,
            "strengths": factors.strengths.tolist(),
            "mass": factors.mass.tolist(),
            "effective_rank": factors.effective_rank,
            "effective_judges": effective_judges(factors, correlation),
            "orientation": factors.orientation,
            "confounders_subtracted": problem.config.subtract_confounders,
            "certificate": asdict(structure.certificate),
            "scale": "location and spread of the panel mean",
        }
        return Aggregate(
            self.name,
            estimate,
            threshold=problem.cut,
            sd=sd * unit,
            weights=unit_weights(weights),
            loadings=factors.directions[:, order],
            latent=latent,
            labels_used=len(rows),
            details=details,
        )
