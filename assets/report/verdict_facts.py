"""The facts that a verdict is made from, found in a fit and in what was computed from it.

Belongs here: from a page's record to ``FitFacts``, for a workspace and for a table alike. Belongs elsewhere: the
verdict itself (``care_ops.results.verdict``), what has happened to a workspace since (``verdicts``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from assets.fit.details import CareDetails, StructuredDetails, read_details
from assets.report.sampled import over_sample
from care_ops.anchors import NO_ANCHORS, Anchors
from care_ops.config import Calibration
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.results.coverage import coverage_of
from care_ops.results.drift import copies_of_gold
from care_ops.results.fit_facts import (
    FitFacts,
    FollowedFeature,
    JudgeFacts,
    LabelEvidence,
    MovingTogether,
    ProbeEvidence,
)
from care_ops.results.residuals import moving_together
from care_ops.results.settled import probability_by_probes, probability_settled

if TYPE_CHECKING:
    from assets.report.data import ReportData
    from care_ops.aggregators.base import Aggregate
    from care_ops.config import FitConfig
    from care_ops.scores import Array

_COUNTED_ITEMS = 20
"""Whole numbers that are all different are taken for ids where there are at least so many."""

_SAME_ORDER = 0.99
"""Rank correlation (Spearman) from which on a column is taken for the feature of the text itself."""

_HYPOTHESES = {
    "mean": "the mean of all judges",
    "care": "the answer that care gives without labels",
    "families": "the mean of the declared families",
}


def fit_facts(
    data: ReportData,
    config: FitConfig,
    anchors: Anchors = NO_ANCHORS,
    *,
    edition: str,
    made_at: str,
    declared: Collection[str] = (),
) -> FitFacts:
    """What a fit says of itself.

    Parameters
    ----------
    data : ReportData
    config, anchors : of the fit
    edition, made_at : str
        Its id, and when it was made.
    declared : collection of str
        Judges that are people, or the gold label, on purpose.
    """
    facts = FitFacts(
        edition,
        made_at,
        data.scores.shape[0],
        _judges(data, declared),
        cautions=tuple(_cautions(data)),
        publication=_publication(data),
        coverage=coverage_of(data.scores, not_asked=data.not_asked),
    )
    try:
        care = _care(data, config, anchors)
    except FitError as error:
        return replace(facts, failure=str(error))
    details = read_details("care", care.details, CareDetails)
    return replace(
        facts,
        ambiguous=details.ambiguous,
        agreement=details.agreement,
        rival=details.rival,
        labels=_labels(data, care.labels_used, details, config, anchors),
        probes=_probes(data, details, config),
        followed=tuple(_followed(data)),
        together=_together(data, config, anchors),
    )


def _together(data: ReportData, config: FitConfig, anchors: Anchors) -> tuple[MovingTogether, ...]:
    """Judges that move together; where items are many told over a sample, with its count taken to all items."""
    sample = over_sample(data, anchors.labels)
    share = data.scores.shape[0] / sample.scores.shape[0]
    groups = moving_together(sample.scores, _care(sample, config, anchors).estimate, config, anchors)
    return tuple(replace(group, items_changed=round(group.items_changed * share)) for group in groups)


def _care(data: ReportData, config: FitConfig, anchors: Anchors) -> Aggregate:
    """The answer of ``care``, which is fitted here where it was not asked for; ``FitError`` where it gives none."""
    if "care" in data.aggregates:
        return data.aggregates["care"]
    if "care" in data.failures:
        raise FitError(data.failures["care"])
    alone = replace(config, aggregators=("care",), calibration=Calibration())
    return fit_panel(data.scores, alone, anchors, solve="not").aggregates["care"]


def _labels(
    data: ReportData, count: int, details: CareDetails, config: FitConfig, anchors: Anchors
) -> LabelEvidence | None:
    """What the labels say that the fit has seen; None where it has seen none, or they do not differ."""
    if details.hypotheses is None:
        return None
    probability = probability_settled(data.scores, config, anchors, data.probes)
    if probability is None:
        return None
    hypothesis, of_one = max(details.hypotheses.items(), key=lambda pair: pair[1])
    return LabelEvidence(count, probability, _HYPOTHESES.get(hypothesis, f"the judges' {hypothesis}"), of_one)


def _probes(data: ReportData, details: CareDetails, config: FitConfig) -> ProbeEvidence | None:
    """What probes say of the hypotheses; None where nobody was asked about any, or no judge responds to them."""
    probability = probability_by_probes(data.scores, config, data.probes) if details.by_probes else None
    if probability is None:
        return None
    declared = details.declared or {}
    phrases = [
        f"{', '.join(kind.replace('_', ' ') for kind, stated in declared.items() if stated == effect)}: {says}"
        for effect, says in (("keeps", "quality kept"), ("spoils", "quality spoilt"))
        if effect in declared.values()
    ]
    return ProbeEvidence(probability, tuple(phrases))


def _judges(data: ReportData, declared: Collection[str]) -> tuple[JudgeFacts, ...]:
    data = over_sample(data)
    copies = set(copies_of_gold(data.scores.values, data.gold, data.scores.judges)) - set(declared)
    position = {judge: j for j, judge in enumerate(data.scores.judges)}
    aggregate = data.aggregates.get("care")
    weights = None if aggregate is None else aggregate.weights
    _, upper = data.intervals.get("care", (None, None))
    judges: list[JudgeFacts] = []
    for check in data.checks:
        j = position.get(check.judge)
        judges.append(
            JudgeFacts(
                check.judge,
                check.admitted,
                check.reason,
                check.notes,
                check.missing_rate,
                check.entropy,
                weight=_at(weights, j),
                weight_hi=_at(upper, j),
                looks_like=None if j is None else _looks_like(data, j, is_gold=check.judge in copies),
            )
        )
    return tuple(judges)


def _at(values: Array | None, j: int | None) -> float | None:
    return None if values is None or j is None or np.isnan(values[j]) else float(values[j])


def _looks_like(data: ReportData, j: int, *, is_gold: bool) -> str | None:
    """What a column looks like that does not look like a judge: a label, an id, or a size of the text."""
    if is_gold:
        return "the label itself"
    column = data.scores.values[:, j]
    present = column[~np.isnan(column)]
    if len(present) >= _COUNTED_ITEMS and np.all(present % 1 == 0) and len(np.unique(present)) == len(present):
        return "an id or a count (whole numbers that never repeat)"
    for size, words in (("characters", "number of characters"), ("words", "number of words")):
        if _same_order(column, _sizes(data, size)):
            return f"the {words} of the response"
    return None


def _sizes(data: ReportData, size: str) -> Array:
    """A size of each response; NaN where there is no text."""
    return np.array(
        [np.nan if text is None else len(text if size == "characters" else text.split()) for text in data.responses],
        dtype=np.float64,
    )


def _same_order(column: Array, sizes: Array) -> bool:
    both = ~np.isnan(column) & ~np.isnan(sizes)
    a, b = column[both], sizes[both]
    if len(a) < _COUNTED_ITEMS or np.ptp(a) == 0 or np.ptp(b) == 0:
        return False
    return abs(float(np.asarray(spearmanr(a, b))[0])) >= _SAME_ORDER


def _followed(data: ReportData) -> list[FollowedFeature]:
    """The feature that each factor follows most closely, the closest first."""
    nearest = [(k, data.factors.nearest_feature(k)) for k in range(len(data.factors.factors))]
    followed = [FollowedFeature(k, *feature) for k, feature in nearest if feature is not None]
    return sorted(followed, key=lambda feature: (-abs(feature.correlation), feature.factor))


def _cautions(data: ReportData) -> list[str]:
    """The first aggregate that rests on a structure short of its certificate."""
    for name, aggregate in data.aggregates.items():
        certificate = read_details(name, aggregate.details, StructuredDetails).certificate
        if certificate is not None and not certificate.converged:
            return [f"{name} rests on a structure that stopped short of its certificate (gap {certificate.gap:.1e})."]
    return []


def _publication(data: ReportData) -> str | None:
    if data.edition is None or data.edition.published == data.edition.edition:
        return None
    return (
        f"These numbers are of fit {data.edition.edition}, which is not published: a person pinned "
        f"{data.edition.published or 'none'}."
    )
