"""Complete the record of a page from a fit, for a workspace or a table."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assets.report.data import ReportData, rows_shown
from care_ops.aggregators.base import Problem
from care_ops.aggregators.label_free import label_free
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.moments.state import Moments
from care_ops.scores import Array, ScoreMatrix, canonical_order, restore
from care_ops.structure.program import Structure
from care_ops.threads import one_blas_thread


def completed(
    data: ReportData, moments: Moments, structure: Structure | None, config: FitConfig, provenance: Mapping[str, Any]
) -> ReportData:
    """Add correlations, links, rival estimates and provenance to a page's record.

    ``moments`` and the structure have the judges in canonical order.
    """
    missing_share = float(np.isnan(data.scores.values).mean())
    everywhere = {"items": data.scores.shape[0], "missing_scores": missing_share, "labels_seen": data.labels_seen}
    return replace(
        data,
        correlation=_correlation(data.scores, moments),
        missing_share=missing_share,
        provenance={**everywhere, **provenance},
        partial_correlations=_partial_correlations(data.scores, structure),
        rivals=_rivals(data, moments, config),
        cut=config.cut,
    )


def _rivals(data: ReportData, moments: Moments, config: FitConfig) -> dict[str, Array]:
    """Compute the two rival estimates of ``care``; empty if ``care`` gave no estimate.

    The values are in the order of ``data.scores``. If a page shows only a sample of many items (``sampled``), the
    estimates are computed on the sample and are NaN for all other items.
    """
    if data.care is None:
        return {}
    rows = rows_shown(data)
    count = data.scores.shape[0]
    shown = data.scores if len(rows) == count else data.scores.select_items(rows)
    problem = Problem(shown.canonical(), moments, None, np.random.default_rng(0), config)
    with one_blas_thread():
        found = label_free(problem)
    order = canonical_order(shown.item_ids)
    out = {name: np.full(count, np.nan) for name in found.rivals}
    for name, estimate in found.rivals.items():
        out[name][rows] = restore(np.where(found.scored, estimate, np.nan), order)
    return out


def _correlation(scores: ScoreMatrix, moments: Moments) -> Array | None:
    """Return the judges' correlation in the order of ``scores``; None if it is undefined."""
    try:
        canonical = moments.correlation()
    except FitError:
        return None
    return _in_order(scores, canonical)


def _partial_correlations(scores: ScoreMatrix, structure: Structure | None) -> Array | None:
    """Return partial correlations from the sparse part, in the order of ``scores``; None without a structure."""
    if structure is None:
        return None
    precision = np.diag(structure.sparse - structure.low_rank)
    scale = np.sqrt(np.maximum(np.outer(precision, precision), 1e-300))
    links = np.clip(-structure.sparse / scale, -1.0, 1.0)
    np.fill_diagonal(links, 0.0)
    return _in_order(scores, links)


def _in_order(scores: ScoreMatrix, canonical: Array) -> Array:
    """Reorder a matrix of judges from sorted order to the order of ``scores``."""
    position = {judge: k for k, judge in enumerate(sorted(scores.judges))}
    order = [position[judge] for judge in scores.judges]
    return canonical[np.ix_(order, order)]
