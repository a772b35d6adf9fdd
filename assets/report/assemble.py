"""The record of a page from a fit and what was computed from it, the same for a workspace and for a table.

Belongs here: what both sides have in common. Belongs elsewhere: reading what the stages of a night stored (``gather``),
fitting a table (``assets.table``), the record itself (``data``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from assets.fit.details import CareDetails, read_details
from assets.report.data import NOT_LEFT_OUT, Changes, EditionShown, ReportData
from assets.report.sampled import rows_shown
from assets.results.gold import held_out_gold
from care_ops.aggregators.base import Problem
from care_ops.aggregators.care import candidates_of, defensible, rival_answers
from care_ops.errors import FitError
from care_ops.probes import NO_PROBES, ProbeResponses
from care_ops.scores import canonical_order, restore
from care_ops.threads import one_blas_thread

if TYPE_CHECKING:
    from assets.results.documents import FactorsDocument, SystemsDocument
    from care_ops.admission import JudgeCheck
    from care_ops.aggregators.base import Aggregate
    from care_ops.anchors import Anchors
    from care_ops.config import FitConfig
    from care_ops.metrics import Evaluation
    from care_ops.moments.state import Moments
    from care_ops.results.drop_evidence import Dropping
    from care_ops.scores import Array, ScoreMatrix
    from care_ops.structure.program import Structure
    from warehouse.matrix import ItemColumnsRead


@dataclass(frozen=True)
class FittedPanel:
    """A panel and what was made of it, in the order of ``scores``.

    Attributes
    ----------
    scores : ScoreMatrix
    moments : Moments
        In canonical order of the judges.
    aggregates : mapping name -> Aggregate
    failures : mapping name -> message
    checks : sequence of JudgeCheck
        Also of the judges that were not admitted.
    structure : Structure or None
        In canonical order of the judges.
    config : FitConfig or None
        The settings of the fit.
    not_asked : bool
        Whether an absent score was taken for one that was not asked.
    """

    scores: ScoreMatrix
    moments: Moments
    aggregates: Mapping[str, Aggregate]
    failures: Mapping[str, str]
    checks: Sequence[JudgeCheck]
    structure: Structure | None = None
    config: FitConfig | None = None
    not_asked: bool = False


@dataclass(frozen=True)
class PanelItems:
    """The panel's items in its order: their responses, and gold with NaN where it is unknown or held out."""

    responses: Sequence[str | None]
    gold: Array


@dataclass(frozen=True)
class PanelResults:
    """What was computed from the fit for people to read; the attributes are those of ``ReportData``."""

    factors: FactorsDocument
    systems: SystemsDocument
    evaluations: Mapping[str, Evaluation]
    intervals: Mapping[str, tuple[Array, Array]] = field(default_factory=dict[str, "tuple[Array, Array]"])
    changes: Changes | None = None
    probes: ProbeResponses = NO_PROBES
    dropping: Dropping = NOT_LEFT_OUT


def panel_items(scores: ScoreMatrix, items: ItemColumnsRead, anchors: Anchors) -> PanelItems:
    """The panel's items, without the gold of anchors and of what shares a split unit with one."""
    gold = held_out_gold(items.item_ids, items.gold, items.split_units, anchors)
    if list(scores.item_ids) == items.item_ids:
        return PanelItems(items.responses, np.array(gold, dtype=np.float64))
    row_of = {item: row for row, item in enumerate(items.item_ids)}
    rows = [row_of.get(item) for item in scores.item_ids]
    return PanelItems(
        responses=[None if row is None else items.responses[row] for row in rows],
        gold=np.array([np.nan if row is None else gold[row] for row in rows], dtype=np.float64),
    )


def assemble(
    title: str,
    description: str,
    fitted: FittedPanel,
    items: PanelItems,
    results: PanelResults,
    anchors: Anchors,
    provenance: Mapping[str, Any],
    edition: EditionShown | None = None,
    made_at: str = "",
) -> ReportData:
    """All that a page shows.

    Parameters
    ----------
    provenance : mapping
        What is to be printed beside the numbers that every page has.
    edition : EditionShown, optional
        Where the page is of a workspace.
    made_at : str
        When the fit was made, to the minute; now by default.
    """
    scores = fitted.scores
    missing_share = float(np.isnan(scores.values).mean())
    return ReportData(
        title=title,
        description=description,
        scores=scores,
        correlation=_correlation(scores, fitted.moments),
        aggregates=fitted.aggregates,
        failures=fitted.failures,
        checks=fitted.checks,
        evaluations=results.evaluations,
        gold=items.gold,
        responses=items.responses,
        factors=results.factors,
        systems=results.systems,
        missing_share=missing_share,
        labels_seen=len(anchors),
        provenance={
            "items": scores.shape[0],
            "missing_scores": missing_share,
            "labels_seen": len(anchors),
            **provenance,
        },
        intervals=results.intervals,
        edition=edition,
        made_at=made_at or f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        partial_correlations=_partial_correlations(scores, fitted.structure),
        changes=results.changes,
        rivals=_rivals(fitted, items.gold),
        probes=results.probes,
        not_asked=fitted.not_asked,
        dropping=results.dropping,
    )


def _rivals(fitted: FittedPanel, gold: Array) -> dict[str, Array]:
    """The two defensible answers of ``care`` in the order of the scores, computed again; empty where it gave none.

    Where items are many, they are computed over the page's sample (``sampled``) and are NaN for the other items.
    """
    if "care" not in fitted.aggregates or fitted.config is None:
        return {}
    first = read_details("care", fitted.aggregates["care"].details, CareDetails).label_first
    rows = rows_shown(fitted.scores, gold, set(first))
    keep = np.zeros(fitted.scores.shape[0], dtype=np.bool_)
    keep[rows] = True
    shown = fitted.scores if keep.all() else fitted.scores.select_items(keep)
    problem = Problem(shown.canonical(), fitted.moments, None, np.random.default_rng(0), fitted.config)
    with one_blas_thread():
        answers = defensible(problem)
        rivals = rival_answers(answers, candidates_of(answers))
    order = canonical_order(shown.item_ids)
    out = {name: np.full(len(keep), np.nan) for name in rivals}
    for name, answer in rivals.items():
        out[name][rows] = restore(np.where(answers.scored, answer, np.nan), order)
    return out


def _correlation(scores: ScoreMatrix, moments: Moments) -> Array | None:
    """Correlation in the order of ``scores.judges``, from moments in canonical order; None where it is undefined."""
    try:
        canonical = moments.correlation()
    except FitError:
        return None
    return _in_order(scores, canonical)


def _partial_correlations(scores: ScoreMatrix, structure: Structure | None) -> Array | None:
    """Partial correlations by the sparse part alone, as ``scores.judges`` are ordered; None without a structure."""
    if structure is None:
        return None
    precision = np.diag(structure.sparse - structure.low_rank)
    scale = np.sqrt(np.maximum(np.outer(precision, precision), 1e-300))
    links = np.clip(-structure.sparse / scale, -1.0, 1.0)
    np.fill_diagonal(links, 0.0)
    return _in_order(scores, links)


def _in_order(scores: ScoreMatrix, canonical: Array) -> Array:
    """A matrix of the judges in sorted order, brought into the order of ``scores.judges``."""
    position = {judge: k for k, judge in enumerate(sorted(scores.judges))}
    order = [position[judge] for judge in scores.judges]
    return canonical[np.ix_(order, order)]
