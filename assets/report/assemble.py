"""The record of a page from a fit and what was computed from it, the same for a workspace and for a table.

Belongs here: what both sides have in common. Does not: reading what the stages of a night stored (``gather``), fitting
a table (``assets.table``), the record itself (``data``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from assets.report.data import EditionShown, ReportData
from assets.results.gold import held_out_gold
from care_ops.errors import FitError
from care_ops.probes import NO_PROBES, ProbeResponses

if TYPE_CHECKING:
    from assets.results.documents import FactorsDocument, SystemsDocument
    from care_ops.admission import JudgeCheck
    from care_ops.aggregators.base import Aggregate
    from care_ops.anchors import Anchors
    from care_ops.metrics import Evaluation
    from care_ops.moments.state import Moments
    from care_ops.scores import Array, ScoreMatrix
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
    """

    scores: ScoreMatrix
    moments: Moments
    aggregates: Mapping[str, Aggregate]
    failures: Mapping[str, str]
    checks: Sequence[JudgeCheck]


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
    probes: ProbeResponses = NO_PROBES


def panel_items(scores: ScoreMatrix, items: ItemColumnsRead, anchors: Anchors) -> PanelItems:
    """The panel's items, without the gold of anchors and of what shares a split unit with one."""
    gold = held_out_gold(items.item_ids, items.gold, items.split_units, anchors)
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
) -> ReportData:
    """All that a page shows.

    Parameters
    ----------
    provenance : mapping
        What is to be printed beside the numbers that every page has.
    edition : EditionShown, optional
        Where the page is of a workspace.
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
        probes=results.probes,
    )


def _correlation(scores: ScoreMatrix, moments: Moments) -> Array | None:
    """Correlation in the order of ``scores.judges``, from moments in canonical order; None where it is undefined."""
    try:
        canonical = moments.correlation()
    except FitError:
        return None
    position = {judge: k for k, judge in enumerate(sorted(scores.judges))}
    order = [position[judge] for judge in scores.judges]
    return canonical[np.ix_(order, order)]
