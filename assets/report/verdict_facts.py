"""Functions that collect the facts about a fit; the verdict is computed from these facts."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import fields, replace

import numpy as np

from assets.fit.details import CareDetails, read_details
from assets.fit.made import note, result_version
from assets.report.data import ReportData
from assets.report.documents import BLOCKED, HeldDocument
from assets.workspace import Workspace
from care_ops.admission import outside_scale
from care_ops.concerns import CareSummary
from care_ops.config import POSITION, Calibration, FitConfig
from care_ops.errors import CareError, FitError, counted
from care_ops.fit import fit_panel
from care_ops.fit_labels import NO_LABELS, FitLabels
from care_ops.metrics import rank_correlation
from care_ops.minimum_sizes import FOLLOWS, MIN_SCORES_TO_DESCRIBE
from care_ops.records import Aggregate
from care_ops.results.coverage import coverage_of
from care_ops.results.drift import copies_of_gold
from care_ops.results.fit_facts import FitFacts, FollowedFeature, JudgeFacts, LabelEvidence
from care_ops.samples import spread_rows
from care_ops.scores import Array

_log = logging.getLogger(__name__)

_SAME_ORDER = 0.99
"""Minimum Spearman correlation with text length for which a column counts as a text length."""

_ITEMS_COMPARED = 5_000
"""Maximum number of items whose text lengths and features are correlated with scores."""


def fit_facts(
    data: ReportData,
    config: FitConfig,
    labels: FitLabels = NO_LABELS,
    *,
    fit_version: str,
    made_at: str,
    declared: Collection[str] = (),
) -> FitFacts:
    """Collect the facts for a fit's verdict; the scores of ``declared`` judges are allowed to equal the gold labels."""
    outside = sum(check.out_of_range for check in data.checks if check.admitted)
    off_scale = (
        f"{counted(outside, 'score')} outside the scale {'counts' if outside == 1 else 'count'} as missing. If valid, "
        "give a wider scale: `--scale LOW:HIGH` (`scale` in Python, and in the file of a test set or judge)."
    )
    facts = FitFacts(
        fit_version,
        made_at,
        data.scores.shape[0],
        _judges(data, declared),
        cautions=tuple(filter(None, (data.unconverged(), off_scale if outside else None))),
        coverage=coverage_of(data.scores, not_asked=data.not_asked),
    )
    try:
        care = _care(data, config, labels)
    except FitError as error:
        return replace(facts, failure=str(error))
    details = read_details(care, CareDetails)
    gates, gate_needs = data.drawn.gates
    nearest = max(details.follows, key=lambda name: abs(details.follows[name]), default=None)
    return replace(
        facts,
        **{entry.name: getattr(details, entry.name) for entry in fields(CareSummary)},
        feature=nearest,
        follows=0.0 if nearest is None else details.follows[nearest],
        removed=tuple(details.removed_effects),
        not_quality=tuple(name for name in config.not_quality if name != POSITION),
        blind=details.features == (),
        labels=_labels(care.labels_used, details),
        followed=tuple(_followed_features(data, care.estimate)),
        gates=tuple(advice for advice, _ in gates.values()),
        gate_needs=gate_needs,
    )


def _care(data: ReportData, config: FitConfig, labels: FitLabels) -> Aggregate:
    """Return the aggregate of ``care``, fitted now if necessary; raise ``FitError`` if ``care`` gives no estimate."""
    if "care" in data.aggregates:
        return data.aggregates["care"]
    if "care" in data.failures:
        raise FitError(data.failures["care"])
    care_only = replace(config, aggregators=("care",), calibration=Calibration())
    return fit_panel(data.scores, care_only, labels, solve="not").aggregates["care"]


def _labels(count: int, details: CareDetails) -> LabelEvidence | None:
    if details.labels_better is None:
        return None
    return LabelEvidence(count, details.labels_better, details.labels_gain, details.labels_at_random, details.turned)


def _judges(data: ReportData, declared: Collection[str]) -> tuple[JudgeFacts, ...]:
    items, data = data.scores.shape[0], data.drawn
    copies = set(copies_of_gold(data.scores.values, data.gold, data.scores.judges)) - set(declared)
    position, sizes = {judge: j for j, judge in enumerate(data.scores.judges)}, _sizes(data)
    judges: list[JudgeFacts] = []
    for check in data.checks:
        j = position.get(check.judge)
        looks_like = "the label itself" if check.judge in copies else None
        if j is not None and looks_like is None:
            looks_like = _looks_like(data.scores.values[:, j], sizes)
        cell = data.weight_cell("care", check.judge)
        outside = outside_scale(round((1.0 - check.missing_rate) * items), check.out_of_range)
        facts = JudgeFacts(**vars(check), weight=cell.weight, weight_hi=cell.hi, looks_like=looks_like, outside=outside)
        judges.append(facts)
    return tuple(judges)


def _sizes(data: ReportData) -> dict[str, Array]:
    sizes = {what: np.full(len(data.responses), np.nan) for what in ("characters", "words")}
    for row in spread_rows(len(data.responses), _ITEMS_COMPARED):
        if (text := data.responses[row]) is not None:
            sizes["characters"][row], sizes["words"][row] = len(text), len(text.split())
    return sizes


def _looks_like(column: Array, sizes: Mapping[str, Array]) -> str | None:
    """Describe a column that looks like ids, counts or text lengths instead of scores; otherwise return None."""
    present = column[~np.isnan(column)]
    if len(present) >= MIN_SCORES_TO_DESCRIBE and np.all(present % 1 == 0) and len(np.unique(present)) == len(present):
        return "an id or a count (whole numbers that never repeat)"
    for what, size in sizes.items():
        known = ~np.isnan(column) & ~np.isnan(size)
        if known.sum() >= MIN_SCORES_TO_DESCRIBE and abs(rank_correlation(column, size)) >= _SAME_ORDER:
            return f"the number of {what} in the response"
    return None


def _followed_features(data: ReportData, estimate: Array) -> list[FollowedFeature]:
    from care_ops.results.interpret import FEATURES, feature_correlations, text_features

    nearest = [(k, data.factors.nearest_feature(k)) for k in range(len(data.factors.factors))]
    followed = [FollowedFeature(k, *feature) for k, feature in nearest if feature is not None]
    if any(abs(each.correlation) >= FOLLOWS for each in followed):
        rows = spread_rows(len(data.responses), _ITEMS_COMPARED)
        features = text_features([data.responses[row] for row in rows])
        correlations = feature_correlations(estimate[rows, None], features)[0]
        of_estimate = {name: float(c) for name, c in zip(FEATURES, correlations, strict=True) if not np.isnan(c)}
        followed = [replace(each, of_estimate=of_estimate.get(each.feature.replace(" ", "_"))) for each in followed]
    return sorted(followed, key=lambda feature: (-abs(feature.correlation), feature.factor))


def store_facts(workspace: Workspace, data: ReportData) -> FitFacts:
    """Store and return the facts about a fit; if it is unpublished, also store the changes from the published fit."""
    testset, shown, changes = data.title, data.fit_version, data.changes
    assert shown is not None  # a page of a workspace
    of_fit = (workspace.fit_config(testset), workspace.labels_of(testset))
    declared = workspace.review.declared
    facts = fit_facts(data, *of_fit, fit_version=shown.id, made_at=shown.made_at, declared=declared)
    if changes is not None and changes.moved is not None and facts.coverage is not None:
        facts = replace(facts, coverage=replace(facts.coverage, lost=changes.moved.lost))
    workspace.fits.annotate(testset, shown.id, facts)  # it may be published again later
    if shown.id != shown.published:
        changed = ((), ()) if changes is None else (tuple(changes.why), tuple(changes.moves))
        workspace.fit_folder(testset).write(HeldDocument(facts, *changed))
    return facts


def store_blocked_facts(workspace: Workspace, testset: str) -> None:
    """Store the facts about a blocked fit, unless a result of the fit is missing."""
    from assets.report.gather import gather

    try:
        store_facts(workspace, gather(workspace, testset))
    except CareError as error:
        _log.info("%s: statistics of the blocked fit cannot be computed yet (%s)", testset, error)
        return
    note(workspace.fit_folder(testset), BLOCKED, result_version(workspace, testset, "report"))
