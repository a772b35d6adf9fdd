"""Functions that add correlations, two plausible estimates and provenance to the data of a report page."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assets.report.data import ReportData
from care_ops.aggregators.base import Problem
from care_ops.aggregators.label_free import label_free
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.moments.state import Moments
from care_ops.scores import Array, ScoreMatrix, canonical_order, restore
from care_ops.threads import one_blas_thread


def completed(data: ReportData, moments: Moments, config: FitConfig, provenance: Mapping[str, Any]) -> ReportData:
    """Add correlations, two plausible estimates and provenance to a page's data."""
    missing_share = float(np.isnan(data.scores.values).mean())
    everywhere = {"items": data.scores.shape[0], "missing_scores": missing_share, "labels_seen": data.labels_seen}
    return replace(
        data,
        correlation=_correlation(data.scores, moments),
        missing_share=missing_share,
        provenance={**everywhere, **provenance},
        rivals=_rivals(data, moments, config),
        cut=config.cut,
    )


def _rivals(data: ReportData, moments: Moments, config: FitConfig) -> dict[str, Array]:
    """Return the two estimates that the page compares, keyed by name; an empty dict if ``care`` gave no estimate.

    With labels, these are CARE's estimate and the plain average; without labels, two plausible estimates that differ.
    """
    if data.care is None:
        return {}
    shown, labelled = data.drawn.scores, data.drawn.aggregates["care"]
    problem = Problem(shown.canonical(), moments, None, np.random.default_rng(0), config)
    with one_blas_thread():
        found = label_free(problem)
    order = canonical_order(shown.item_ids)
    out = {"CARE with labels": labelled.estimate} if labelled.labels_used else {}
    for name, estimate in ({"plain average": found.plain} if labelled.labels_used else found.rivals).items():
        out[name] = restore(np.where(found.scored, estimate, np.nan), order)
    return out


def _correlation(scores: ScoreMatrix, moments: Moments) -> Array | None:
    try:
        canonical = moments.correlation()
    except FitError:
        return None
    places = np.argsort(canonical_order(scores.judges))
    return canonical[np.ix_(places, places)]
