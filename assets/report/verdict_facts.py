"""The facts that a verdict is made from, found in a fit and in what was computed from it."""

from collections.abc import Collection
from dataclasses import fields, replace

import numpy as np

from assets.fit.details import CareDetails, read_details
from assets.report.data import ReportData
from assets.report.sampled import over_sample
from care_ops.admission import outside_scale
from care_ops.anchors import NO_ANCHORS, Anchors
from care_ops.concerns import CareSummary
from care_ops.config import Calibration, FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.least import TELLING_SCORES
from care_ops.metrics import rank_correlation
from care_ops.records import Aggregate
from care_ops.results.coverage import coverage_of
from care_ops.results.drift import copies_of_gold
from care_ops.results.fit_facts import FitFacts, FollowedFeature, JudgeFacts, LabelEvidence

_SAME_ORDER = 0.99
"""Rank correlation (Spearman) from which on a column is taken for the feature of the text itself."""


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
    edition, made_at : str
        Its id, and when it was made.
    declared : collection of str
        Judges that are people, or the gold label, on purpose.
    """
    caution = data.unconverged()
    facts = FitFacts(
        edition,
        made_at,
        data.scores.shape[0],
        _judges(data, declared),
        cautions=() if caution is None else (caution,),
        coverage=coverage_of(data.scores, not_asked=data.not_asked),
    )
    try:
        care = _care(data, config, anchors)
    except FitError as error:
        return replace(facts, failure=str(error))
    details = read_details(care, CareDetails)
    nearest = max(details.follows, key=lambda name: abs(details.follows[name]), default=None)
    return replace(
        facts,
        **{entry.name: getattr(details, entry.name) for entry in fields(CareSummary)},
        feature=nearest,
        follows=0.0 if nearest is None else details.follows[nearest],
        removed=tuple(details.removed_effects),
        blind=details.features == (),
        labels=_labels(care.labels_used, details),
        followed=tuple(_followed(data)),
        influence=data.dropping.influence,
    )


def _care(data: ReportData, config: FitConfig, anchors: Anchors) -> Aggregate:
    """The answer of ``care``: the one of this fit, or one that is made here if other aggregators alone were asked for.

    Raises ``FitError`` where ``care`` gives no answer on this panel.
    """
    if "care" in data.aggregates:
        return data.aggregates["care"]
    if "care" in data.failures:
        raise FitError(data.failures["care"])
    alone = replace(config, aggregators=("care",), calibration=Calibration())
    return fit_panel(data.scores, alone, anchors, solve="not").aggregates["care"]


def _labels(count: int, details: CareDetails) -> LabelEvidence | None:
    """What the labels tell that the fit has seen; None where it has seen none, or they do not differ."""
    if details.labels_better is None:
        return None
    return LabelEvidence(count, details.labels_better, details.labels_gain, details.labels_at_random, details.turned)


def _judges(data: ReportData, declared: Collection[str]) -> tuple[JudgeFacts, ...]:
    items, data = data.scores.shape[0], over_sample(data)
    copies = set(copies_of_gold(data.scores.values, data.gold, data.scores.judges)) - set(declared)
    position = {judge: j for j, judge in enumerate(data.scores.judges)}
    judges: list[JudgeFacts] = []
    for check in data.checks:
        j = position.get(check.judge)
        cell = data.weight_cell("care", j)
        judges.append(
            JudgeFacts(
                **vars(check),
                weight=cell.weight,
                weight_hi=cell.hi,
                looks_like=None if j is None else _looks_like(data, j, is_gold=check.judge in copies),
                outside=outside_scale(round((1.0 - check.missing_rate) * items), check.out_of_range),
            )
        )
    return tuple(judges)


def _looks_like(data: ReportData, j: int, *, is_gold: bool) -> str | None:
    """What a column looks like that does not look like a judge: a label, an id, or a size of the text."""
    if is_gold:
        return "the label itself"
    column = data.scores.values[:, j]
    present = column[~np.isnan(column)]
    if len(present) >= TELLING_SCORES and np.all(present % 1 == 0) and len(np.unique(present)) == len(present):
        return "an id or a count (whole numbers that never repeat)"
    for what, size_of in (("characters", len), ("words", lambda text: len(text.split()))):
        sizes = np.array([np.nan if text is None else size_of(text) for text in data.responses], dtype=np.float64)
        known = ~np.isnan(column) & ~np.isnan(sizes)
        if known.sum() >= TELLING_SCORES and abs(rank_correlation(column, sizes)) >= _SAME_ORDER:
            return f"the number of {what} of the response"
    return None


def _followed(data: ReportData) -> list[FollowedFeature]:
    """The feature that each factor follows most closely, the closest first."""
    nearest = [(k, data.factors.nearest_feature(k)) for k in range(len(data.factors.factors))]
    followed = [FollowedFeature(k, *feature) for k, feature in nearest if feature is not None]
    return sorted(followed, key=lambda feature: (-abs(feature.correlation), feature.factor))
