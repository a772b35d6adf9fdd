"""Fit of a panel of judges: moments, sparse + low-rank structure and aggregates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from care_ops.aggregators.base import OF_SCORES, Problem
from care_ops.aggregators.care_svd import fit_structure
from care_ops.aggregators.placement import placed
from care_ops.aggregators.registry import REGISTRY
from care_ops.config import FitConfig, StructureConfig
from care_ops.errors import FitError
from care_ops.fit_labels import NO_LABELS, FitLabels
from care_ops.minimum_sizes import MIN_COLUMNS
from care_ops.moments.state import Moments, of_panel
from care_ops.records import Aggregate
from care_ops.scores import ScoreMatrix, canonical_order, content_seed, restore
from care_ops.structure.program import Structure
from care_ops.threads import one_blas_thread

Watch = Callable[[str, int, int], None]
"""Progress callback that takes the current step, the number of finished steps and the total number of steps."""


def unwatched(_what: str, _done: int, _total: int) -> None:
    """Ignore progress reports; this is the default ``Watch``."""


Solve = Literal["exactly", "roughly", "not"]

THIRD_MOMENTS = frozenset(("care_tensor", "care_tensor_paper"))
"""Aggregators that use third moments of the scores."""


@dataclass(frozen=True)
class Fit:
    """Result of fitting one panel, with items and judges in the order of ``scores``.

    Attributes
    ----------
    moments : Moments
        Moments of the scores, with the judges in canonical (sorted) order.
    structure : Structure or None
        Sparse + low-rank structure in the same order; None if there are too few judges or items.
    structure_details : dict
        Penalties and shrinkage (``care_svd.fit_structure``).
    aggregates : dict name -> Aggregate
    failures : dict name -> message
        Reason why an aggregator has no estimate.
    """

    scores: ScoreMatrix
    moments: Moments
    structure: Structure | None
    structure_details: dict[str, float]
    aggregates: dict[str, Aggregate]
    failures: dict[str, str]


def fit_panel(
    scores: ScoreMatrix,
    config: FitConfig,
    labels: FitLabels = NO_LABELS,
    *,
    solve: Solve = "exactly",
    weights_only: bool = False,
    watch: Watch = unwatched,
) -> Fit:
    """Fit moments, structure and all configured aggregators to one panel.

    Parameters
    ----------
    scores : ScoreMatrix
        Scores of the admitted judges only.
    labels : FitLabels
        Labels that the fit may use.
    solve : {"exactly", "roughly", "not"}
        How to estimate the structure: to full precision, less precisely (for a resample), or not at all.
    weights_only : bool
        Whether the caller reads only weights and loadings (``Problem.weights_only``).

    Raises
    ------
    FitError
        There are fewer than two judges, or no aggregator has an estimate.
    """
    if scores.shape[1] < MIN_COLUMNS:
        raise FitError(
            f"fit: a plain average needs at least two judges and CARE needs three, but the panel has {scores.shape[1]} "
            f"({', '.join(scores.judges) or 'none'}); add judges, or exclude fewer"
        )
    canonical = scores.canonical()
    third = solve == "exactly" or not THIRD_MOMENTS.isdisjoint(config.aggregators)
    moments = of_panel(canonical.values, third=third)
    structure, details, failures = None, dict[str, float](), dict[str, str]()
    watch("moments and structure", 0, len(config.aggregators))
    if solve != "not":
        roughly = solve == "roughly"
        structure, details, failures = try_structure(moments, config.structure, canonical.judges, roughly=roughly)
    aggregates, more = run_aggregators(
        scores, moments, structure, config, labels, weights_only=weights_only, watch=watch
    )
    if not aggregates:
        raise FitError("fit: no aggregator has an estimate: " + "; ".join({**failures, **more}.values()))
    return Fit(scores, moments, structure, details, aggregates, {**failures, **more})


def try_structure(
    moments: Moments, config: StructureConfig, judges: Sequence[str], *, roughly: bool = False
) -> tuple[Structure | None, dict[str, float], dict[str, str]]:
    """Estimate the sparse + low-rank structure of a panel; return it with its details and any failure message."""
    try:
        structure, details = fit_structure(moments, config, judges, roughly=roughly)
        return structure, details, {}
    except FitError as error:
        return None, {}, {"structure": str(error)}


def problem_of(scores: ScoreMatrix, config: FitConfig, labels: FitLabels = NO_LABELS) -> Problem:
    """Build the input of the ``care`` aggregator from scores, without estimating the structure."""
    panel = scores.canonical()
    rng = np.random.default_rng([content_seed(panel), config.seed])
    return Problem(panel, of_panel(panel.values), None, rng, config, labels)


def run_aggregators(
    scores: ScoreMatrix,
    moments: Moments,
    structure: Structure | None,
    config: FitConfig,
    labels: FitLabels = NO_LABELS,
    *,
    weights_only: bool = False,
    watch: Watch = unwatched,
) -> tuple[dict[str, Aggregate], dict[str, str]]:
    """Run all configured aggregators on one panel.

    Parameters
    ----------
    scores : ScoreMatrix
        Scores with items and judges in any order; the aggregates keep this order.
    moments, structure :
        Moments and structure of the scores in canonical order.

    Returns
    -------
    aggregates : dict name -> Aggregate
    failures : dict name -> message
    """
    canonical = scores.canonical()
    item_order, judge_order = canonical_order(scores.item_ids), canonical_order(scores.judges)
    content = content_seed(canonical)
    aggregates: dict[str, Aggregate] = {}
    failures: dict[str, str] = {}
    computed: dict[str, Any] = {}
    with one_blas_thread():  # more threads make small problems slower
        for done, name in enumerate(config.aggregators):
            watch(f"fitting {name}", done, len(config.aggregators))
            aggregator = REGISTRY[name]
            problem = Problem(
                canonical,
                moments,
                structure,
                np.random.default_rng([content, config.seed]),
                config,
                labels if aggregator.uses_labels else NO_LABELS,
                weights_only,
            )
            vars(problem).update(computed)
            try:
                aggregate = placed(aggregator.fit(problem), problem, labels)
                aggregates[name] = aggregate.mapped(
                    partial(restore, order=item_order), partial(restore, order=judge_order)
                )
            except FitError as error:
                failures[name] = str(error)
            computed = {shared: vars(problem)[shared] for shared in OF_SCORES if shared in vars(problem)}
    return aggregates, failures
