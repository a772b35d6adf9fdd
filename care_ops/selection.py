"""Selection of the penalties and judges whose estimates agree best with a few labels, as in the paper."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.care_svd import fit_structure, penalty_rate
from care_ops.config import FitConfig, StructureConfig
from care_ops.errors import FitError, InputError, counted
from care_ops.fit import Watch, run_aggregators, unwatched
from care_ops.metrics import evaluate
from care_ops.moments.sharded import Spread
from care_ops.moments.state import accumulate, shrink
from care_ops.records import Aggregate
from care_ops.scores import Array, ScoreMatrix

Criterion = Literal["order", "error"]

_TENSOR_STEPS = (1e-3, 5e-3, 1e-2, 5e-2, 1e-1)

GRIDS: dict[str, tuple[tuple[float, float | None], ...]] = {
    "care_svd": tuple((g, None) for g in (0.1, 0.2, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0)),
    "care_tensor": tuple((g, t) for g in _TENSOR_STEPS for t in _TENSOR_STEPS),
    "care_tensor_paper": tuple((g, t) for g in _TENSOR_STEPS for t in _TENSOR_STEPS),
}
"""Pairs (gamma, tau) of the paper's appendix "Hyperparameter Tuning"; a tau of None means the default of this project.

The values are the penalties of Algorithm 1. For CARE-SVD with the placement ``panel``, they are multiples of the
theoretical rate (``care_svd.penalty_rate``).
"""

Penalised = Literal["care_svd", "care_tensor", "care_tensor_paper"]
"""Aggregators that have penalties."""


@dataclass(frozen=True)
class Candidate:
    """One pair of penalties in a grid search, with the resulting aggregate.

    Attributes
    ----------
    gamma, tau : float
        Values of the grid; a tau of None means the default.
    config : StructureConfig
        The penalties as multiples of the theoretical rate.
    value : float or None
        Value of the criterion, where higher is better; None if not computed.
    why_not : str or None
        Reason why there is no aggregate.
    aggregate : Aggregate or None
        Result of the aggregator; None if the fit failed.
    """

    gamma: float
    tau: float | None
    config: StructureConfig
    value: float | None
    why_not: str | None = None
    aggregate: Aggregate | None = None


@dataclass(frozen=True)
class Selection:
    """Result of a grid search.

    Attributes
    ----------
    candidates : list of Candidate
        Candidates in the order of the grid.
    best : Candidate
        First candidate with the highest value.
    """

    aggregator: str
    criterion: str
    candidates: list[Candidate]
    best: Candidate
    labels_used: int


def validation_items(units: Sequence[str], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw split units until they contain ``share`` of the items, and return a mask (n,) of the drawn items.

    Raises ``InputError`` if the share lies outside (0, 1), or all split units would be drawn.
    """
    if not 0 < share < 1:
        raise InputError(f"selection: the share of labels must be above 0 and below 1, got {share}; try 0.2")
    distinct, code, size = np.unique(np.array(units, dtype=str), return_inverse=True, return_counts=True)
    order = rng.permutation(len(distinct))
    taken = order[: int(np.searchsorted(np.cumsum(size[order]), share * len(units))) + 1]
    if len(taken) == len(distinct):
        raise InputError("selection: no split unit is left to evaluate the choice; use a smaller share of labels")
    return np.isin(code, taken)


def forward(names: Sequence[str], error: Callable[[list[str]], float], patience: int) -> tuple[list[str], list[float]]:
    """Add judges by greedy forward selection; return their order, and the error at the start and after each step.

    Each step adds the judge that gives the lowest error, even if the error rises. The search ends after ``patience``
    steps without improvement, or if no judge is left. Ties go to the first judge.

    Parameters
    ----------
    error : callable
        Function that returns the error of a panel from the names of its judges; ``inf`` if the panel has no estimate.
    """
    path, errors = list[str](), [error([])]
    best, waited = errors[0], 0
    while waited < patience and len(path) < len(names):
        tried = {name: error([*path, name]) for name in names if name not in path}
        chosen = min(tried, key=lambda name: tried[name])
        path.append(chosen)
        errors.append(tried[chosen])
        waited = 0 if errors[-1] < best - 1e-9 else waited + 1
        best = min(best, errors[-1])
    return path, errors


def fit_grid(
    scores: ScoreMatrix,
    config: FitConfig,
    aggregator: Penalised,
    *,
    grid: Sequence[tuple[float, float | None]] | None = None,
    spread: Spread = map,
    watch: Watch = unwatched,
) -> list[Candidate]:
    """Fit the aggregator without labels at each pair of penalties of a grid; ``Candidate.value`` stays None.

    Parameters
    ----------
    grid : sequence of (gamma, tau or None), optional
        Pairs of penalties; by default the paper's grid (``GRIDS``).
    spread : callable, optional
        Replacement for ``map`` that computes the fits elsewhere, such as ``Workers.map``.
    """
    canonical = scores.canonical()
    moments = accumulate(canonical.values)
    literal = aggregator != "care_svd" or config.placement == "weights"
    unit = penalty_rate(shrink(moments.correlation(), moments.n)[0], moments.n) if literal else 1.0

    def fit(penalties: tuple[float, float | None]) -> Candidate:
        gamma, tau = penalties
        relative = StructureConfig(gamma / unit, config.structure.tau if tau is None else tau / math.sqrt(moments.p))
        try:
            structure, _ = fit_structure(moments, relative, canonical.judges)
            at = replace(config, structure=relative, aggregators=(aggregator,))
            aggregates, failures = run_aggregators(scores, moments, structure, at)
        except FitError as error:
            aggregates, failures = {}, {aggregator: str(error)}
        return Candidate(gamma, tau, relative, None, failures.get(aggregator), aggregates.get(aggregator))

    candidates: list[Candidate] = []
    points = grid or GRIDS[aggregator]
    for candidate in spread(fit, points):
        candidates.append(candidate)
        watch("trying penalties", len(candidates), len(points))
    return candidates


def select_with_labels(
    scores: ScoreMatrix,
    config: FitConfig,
    labels: Array,
    *,
    aggregator: Penalised = "care_svd",
    criterion: Criterion = "order",
    grid: Sequence[tuple[float, float | None]] | None = None,
    watch: Watch = unwatched,
) -> Selection:
    """Select the penalties whose aggregate fits the labelled items best.

    Labels only select the penalties; the aggregate itself uses no labels.

    Parameters
    ----------
    labels : (n,) array
        Labels; NaN for an item without a label.
    criterion : {"order", "error"}
        "order" is AUC for binary labels, else Kendall's tau. "error" is accuracy at the aggregate's threshold for
        binary labels, else the negative mean absolute error.
    grid : sequence of (gamma, tau or None), optional
        See ``fit_grid``.

    Raises
    ------
    InputError
        There are fewer than two different labels.
    FitError
        The aggregator has no estimate for any pair of penalties.
    """
    labelled = ~np.isnan(labels)
    if labelled.sum() < 2 or np.ptp(labels[labelled]) == 0:
        raise InputError(
            f"selection: {counted(int(labelled.sum()), 'label')} cannot rank penalties, because at least two different "
            "labels are needed; label more items"
        )

    def valued(candidate: Candidate) -> Candidate:
        fitted = candidate.aggregate
        if fitted is None:
            return candidate
        measured = evaluate(fitted.estimate[labelled], labels[labelled], threshold=fitted.threshold, scale=config.scale)
        accuracy = measured.accuracy if measured.mae is None else -measured.mae
        return replace(candidate, value=measured.order if criterion == "order" else accuracy)

    candidates = [valued(candidate) for candidate in fit_grid(scores, config, aggregator, grid=grid, watch=watch)]
    values = [-np.inf if candidate.value is None else candidate.value for candidate in candidates]
    if max(values) == -np.inf:
        reason = candidates[-1].why_not
        raise FitError(f"selection: {aggregator} has no estimate at any penalty; the last attempt failed: {reason}")
    return Selection(aggregator, criterion, candidates, candidates[int(np.argmax(values))], int(labelled.sum()))
