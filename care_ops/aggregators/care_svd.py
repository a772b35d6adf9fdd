"""CARE-SVD: quality as the leading factor of the judges' precision matrix (paper, Algorithm 1)."""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from care_ops.aggregators.base import TOO_SPARSE, Problem, unit_weights
from care_ops.calibration import to_panel_scale
from care_ops.config import StructureConfig
from care_ops.errors import FitError, counted
from care_ops.minimum_sizes import MIN_ITEMS, MIN_JUDGES
from care_ops.moments.missing import condition
from care_ops.moments.state import Moments, shrink
from care_ops.records import Aggregate
from care_ops.scores import Array
from care_ops.structure.conic import sharpen
from care_ops.structure.factors import choose_by_labels, extract, posterior
from care_ops.structure.program import Structure, solve
from care_ops.threads import one_blas_thread

_TAU_STEPS = 12
_TAU_STEP = 1.5


EXACTLY, ROUGHLY = (1e-6, 20_000), (1e-3, 300)
"""Relative duality gap and number of iterations at which the solver stops. A rough solution suffices for a resample,
because its error is far below the spread between resamples."""


def fit_structure(
    moments: Moments, config: StructureConfig, judges: Sequence[str] | None = None, *, roughly: bool = False
) -> tuple[Structure, dict[str, float]]:
    """Fit the sparse + low-rank structure of a panel to the shrunk correlation matrix.

    The penalties come from theory and from simulations of the paper's model, never from labels. If the low-rank
    part L is zero, its relative penalty tau is lowered until L contains a factor.

    Parameters
    ----------
    judges : sequence of str, optional
        Names of the judges for error messages.
    roughly : bool
        Whether a rough solution suffices, as in a bootstrap.

    Returns
    -------
    structure : Structure
    details : dict
        ``gamma_n`` (penalty of the sparse part), ``tau`` (penalty of L divided by ``gamma_n``), ``tau_lowered`` (number
        of times that tau was lowered), and ``shrinkage`` (shrinkage intensity of the correlation matrix).

    Raises
    ------
    FitError
        There are fewer than three judges or ten items, the panel is sparse, or L is zero at every tau.
    """
    p, n = moments.p, moments.n
    if p < MIN_JUDGES or n < MIN_ITEMS:
        raise FitError(
            "structure: at least three judges and at least ten items are needed, but the panel has "
            f"{counted(p, 'judge')} and {counted(n, 'item')}; add judges or items"
        )
    if moments.sparse:
        raise FitError(f"structure: {TOO_SPARSE}")
    correlation, intensity = shrink(moments.correlation(judges), n)
    gamma = config.gamma * penalty_rate(correlation, n)
    tolerance, most = ROUGHLY if roughly else EXACTLY
    tau = config.tau * float(np.sqrt(p))
    for lowered in range(_TAU_STEPS):
        structure = solve(correlation, lambda_s=gamma, lambda_l=gamma * tau, tolerance=tolerance, max_iterations=most)
        if np.linalg.eigvalsh(structure.low_rank)[-1] > 1e-6:
            structure = structure if roughly else sharpen(structure, correlation)
            return structure, {"gamma_n": gamma, "tau": tau, "shrinkage": intensity, "tau_lowered": float(lowered)}
        tau /= _TAU_STEP
    raise FitError(
        "structure: no shared factor at any penalty, because the judges' scores look independent of one another; "
        "check that all judges score the same items on the same question"
    )


def penalty_rate(correlation: Array, n: int) -> float:
    """Compute the rate of the sparse part's penalty from the paper's theorem on sample complexity.

    The rate is sqrt(log p / n) times the median diagonal entry of the inverse correlation matrix.

    Parameters
    ----------
    correlation : (p, p) array, positive definite
    n : int
        Number of items from which the correlation was computed.
    """
    with one_blas_thread():
        unit = float(np.median(np.diag(np.linalg.inv(correlation))))
    return float(np.sqrt(np.log(len(correlation)) / n)) * unit


def care_svd(problem: Problem) -> Aggregate:
    """Estimate quality, E[Q | J], from one factor of the low-rank part L (aggregator ``care_svd``).

    Without labels, this is the leading factor; with labels, the one that correlates best with them. The estimate has
    the location and spread of the panel's mean (``calibration.to_panel_scale``). If ``placement`` is ``weights``, the
    estimate is instead a weighted mean of raw scores (``weighted``), without a posterior standard deviation.

    Raises ``FitError`` if L could not be estimated, L is zero, or the weights of the raw scores sum to zero.
    """
    structure, correlation = problem.require_structure(), problem.correlation
    factors = extract(structure.low_rank, correlation)
    rows, labels = problem.labels.rows(problem.scores.item_ids)
    if len(rows):
        filled, _ = condition(problem.standardised[rows], correlation)
        factors = choose_by_labels(factors, filled, labels)
    weights, strength = factors.weights, float(factors.strengths[factors.quality])
    latent, sd = posterior(problem.standardised, weights, strength, correlation)
    estimate, _, unit = to_panel_scale(latent, problem.panel_mean, problem.ends)
    placement, sd = "location and spread of the panel mean", sd * unit
    if problem.config.placement == "weights":
        filled, _ = condition(problem.standardised, correlation)
        estimate = weighted(problem.moments.mean() + problem.scale * filled, weights)
        estimate = np.where(np.isnan(latent), np.nan, estimate)
        placement, sd = "weighted mean of raw scores, with weights that sum to one", None
    quality_first = [factors.quality, *(r for r in range(len(factors.strengths)) if r != factors.quality)]
    details = {
        "rule": factors.rule,
        "quality_factor": factors.quality,
        "strengths": factors.strengths.tolist(),
        "mass": factors.mass.tolist(),
        "orientation": factors.orientation,
        "certificate": asdict(structure.certificate),
        "scale": placement,
    }
    return Aggregate(
        "care_svd",
        estimate,
        threshold=problem.cut,
        sd=sd,
        weights=unit_weights(weights),
        loadings=factors.directions[:, quality_first],
        latent=latent,
        labels_used=len(rows),
        details=details,
    )


def weighted(scores: Array, weights: Array) -> Array:
    """Compute the weighted mean of raw scores, w'J, as in the paper's released code; shape (n,).

    Weights come from correlations and multiply raw scores. Judges with a wide scale therefore have more influence, and
    negative weights shift the location of the result.

    Parameters
    ----------
    scores : (n, p) array
        Raw scores without missing values.
    weights : (p,) array

    Raises
    ------
    FitError
        The weights sum to zero and therefore cannot be scaled to sum to one.
    """
    total = float(weights.sum())
    if total <= 1e-6 * float(np.abs(weights).sum()):
        raise FitError("care_svd: the weights sum to zero and cannot be scaled to sum to one; use `placement: panel`")
    return scores @ (weights / total)
