"""Agreement of a table's judges with human labels."""

import shlex
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assets.results.comparison import recommended_estimate
from assets.results.gold import aligned
from assets.table.fitting import ScoreTable, TableConfig, admit, item_columns
from assets.table.rating import check_labels
from care_ops.errors import FitError, InputError
from care_ops.fit_labels import FitLabels
from care_ops.labels import Labels
from care_ops.minimum_sizes import MIN_LABELS
from care_ops.results.judge_gate import PeopleAgreement, agreement_with_people, people_sentences
from care_ops.results.judge_report import JudgeReport, Share, report_of
from care_ops.scores import Array
from care_ops.sparsity import NARROW, scales_are_unlike

_TIE = 0.5

PANEL = "panel"
"""Name under which reports list the recommended aggregate next to the judges."""


@dataclass(frozen=True)
class Reports:
    """Reports by judge, the panel's agreement with human labels, and reasons for missing reports.

    Attributes
    ----------
    panel : PeopleAgreement or None
        Agreement of the labels with an aggregate that was fitted without labels; None if there are too few labels.
    left_out : dict judge -> reason
        Reason why a judge has no report.
    ties : int
        Number of labels that are ties.
    """

    reports: list[JudgeReport]
    panel: PeopleAgreement | None
    left_out: dict[str, str]
    ties: int


def judge_reports(
    table: ScoreTable, labels: Labels, config: TableConfig, *, only: str | None = None, level: float = 0.9
) -> Reports:
    """Compare all judges, or only the judge ``only``, with human labels; a grade above ``cut`` counts as a pass.

    Labels of .5, which mean that a pair is tied, are left out.

    Raises
    ------
    InputError
        The judge does not exist, or labels or scores have more than two values and no ``cut`` that fits them is given.
    FitError
        The panel gives no estimate.
    """
    check_labels(table, labels)
    every, labels = labels, _decided(table, labels, config.fit.cut)
    if only not in (None, PANEL, *table.scores.judges):
        raise InputError(f"there is no judge {only!r}; choose from {', '.join(table.scores.judges)}, {PANEL!r}")
    answer = recommended_estimate(admit(table, config)[0], config.fit, table.labels)
    item_ids = table.scores.item_ids
    given = np.array([labels.values[i] if i in labels.sample else np.nan for i in item_ids], dtype=np.float64)
    labelled = [item for item in item_ids if item in labels.sample]
    weights = np.zeros(len(item_ids))
    weights[~np.isnan(given)] = FitLabels.of(labels).weights(labelled)
    grades = None if every.binary else aligned(item_ids, every.values)
    given_to_all: dict[str, Any] = {"grades": grades, "units": item_columns(table).units(), "level": level}
    reports: list[JudgeReport] = []
    left_out = _on_other_scales(table, config.fit.cut) if only in (None, PANEL) else {}
    for name, scores in zip(table.scores.judges, table.scores.values.T, strict=True):
        if only not in (None, PANEL, name) or name in left_out:
            continue
        cut = cut_of(scores) if config.fit.cut is None else config.fit.cut
        if cut is None:
            several = len(np.unique(scores[~np.isnan(scores)]))
            raise InputError(
                f"{name} has {several} different scores; give --cut, the score above which an answer passes"
            )
        try:
            reports.append(report_of(name, scores, given, weights, cut, **given_to_all))
        except FitError as error:
            left_out[name] = str(error)
    panel = None
    if len(labelled) >= MIN_LABELS and only in (None, PANEL) and PANEL not in left_out:
        cut = config.fit.cut if config.fit.cut is not None else float(np.nanmean([report.cut for report in reports]))
        panel = agreement_with_people(PANEL, answer, given, weights, cut, **given_to_all)
    reports = [] if only == PANEL else reports
    return Reports(reports, panel, left_out, len(every) - len(labels))


def _on_other_scales(table: ScoreTable, cut: float | None) -> dict[str, str]:
    """Return the reasons why ``cut`` does not fit the panel or a judge, by name; empty if all judges share a scale.

    ``cut`` fits the narrowest scale that contains it, and others that contain it and are less than ten times as wide.
    """
    values, judges = table.scores.values, table.scores.judges
    if cut is None or not scales_are_unlike(values):
        return {}
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    contains = (low <= cut) & (cut < high)
    fits = contains & ((high - low) * NARROW < (high - low)[contains].min(initial=np.inf))
    why = "its scores, {:g} to {:g}, do not fit the cut {:g}; report on this judge with --of {} --cut VALUE"
    others = {judges[j]: why.format(low[j], high[j], cut, shlex.quote(judges[j])) for j in np.flatnonzero(~fits)}
    panel = (
        "the judges use different scales, so no cut fits the panel; report on each judge with --of JUDGE --cut VALUE"
    )
    return {PANEL: panel, **others}


def _decided(table: ScoreTable, labels: Labels, cut: float | None) -> Labels:
    decided = Labels(tuple(label for label in labels.given if label.value != _TIE))
    if decided.binary:
        return decided
    grades = [label.value for label in labels.given]
    low, high = float(np.nanmin(table.scores.values)), float(np.nanmax(table.scores.values))
    if not (low <= min(grades) and (low + high) / 2 < max(grades) <= high):
        raise InputError(
            f"the labels are grades from {min(grades):g} to {max(grades):g} and scores lie between {low:g} and "
            f"{high:g}, so no cut fits both; label items with 1 (pass) and 0 (fail), and set --cut to the score "
            "above which an answer passes"
        )
    if cut is None or not min(grades) <= cut < max(grades):
        raise InputError(
            f"the labels are grades from {min(grades):g} to {max(grades):g}, and a judge's report needs to know which "
            "grades pass; give the grade above which an answer passes, such as --cut "
            f"{(min(grades) + max(grades)) / 2:g}, or give labels of 0 and 1"
        )
    return Labels(tuple(replace(label, value=float(label.value > cut)) for label in labels.given))


def cut_of(scores: Array) -> float | None:
    """Return the midpoint as the threshold if scores have two values or are preferences (0, .5, 1); otherwise None."""
    low, high = np.fmin.reduce(scores, initial=np.inf), np.fmax.reduce(scores, initial=-np.inf)
    between = scores[(low < scores) & (scores < high)]  # without sorting: a table may have millions of scores
    is_tied_pair = (low, high) == (0.0, 1.0) and bool((between == _TIE).all())
    return float((low + high) / 2) if low < high and (not len(between) or is_tied_pair) else None


def sentences(report: JudgeReport) -> list[str]:
    """Describe a judge's report in sentences."""
    return [
        *people_sentences(report.people),
        f"of the answers that people passed, the judge passed {_share(report.passed_of_passed)}",
        f"of the answers that people failed, the judge failed {_share(report.failed_of_failed)}",
        f"the judge agrees with {_share(report.accuracy)} of {report.labels} labels; people passed "
        f"{report.base_rate.value:.0%} of these items",
    ]


def _share(share: Share | None) -> str:
    if share is None:
        return "an unknown share (there are no such labels)"
    return f"{share.value:.0%} ({share.lo:.0%} to {share.hi:.0%})"
