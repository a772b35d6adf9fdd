"""What a page says of each judge: a card with its weight, what it follows, and what it could change."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from assets.report.data import JudgeRow, ReportData, Retest, WeightCell
from care_ops.least import LABELS_TO_ADVISE, LEAST_LABELS
from care_ops.metrics import auc, is_binary, tau
from care_ops.records import DropEvidence
from care_ops.results.judge_gate import Measure, agreement_with_people, may_gate
from care_ops.scores import Array
from judges.items import FROM_A_FILE

_ITEMS_SHOWN = 3
_FROM_A_FILE = f"not known: {FROM_A_FILE}"
"""Of the judges of a table, which has no workspace that says what they are."""


@dataclass(frozen=True)
class Followed:
    """The factor that most of what a judge shares with others comes from.

    Attributes
    ----------
    factor : int
        Counted from 1.
    share : float
        Of what the judge shares with others, by the factors that are described.
    feature, correlation : str and float, or None
        The text feature that the judge's own scores follow most closely, and their Spearman correlation; None where
        they follow none.
    """

    factor: int
    share: float
    feature: str | None
    correlation: float | None


@dataclass(frozen=True)
class PartedItem:
    """An item that a judge ranks far from the answer; ranks are shares of the items below it."""

    item_id: str
    score: float
    rank: float
    answer_rank: float
    response: str | None


@dataclass(frozen=True)
class AgainstLabels:
    """Order by a judge alone, and by the recommended score (AUC or Kendall's tau); whether the judge may gate."""

    metric: str
    alone: float | None
    answer: float | None
    gate: str = ""


@dataclass(frozen=True)
class JudgeCard:
    """One judge; all that follows ``weight`` is of a judge on the panel.

    ``number`` is its place on the page by falling weight, None where it is not on the panel; ``weight`` is that in the
    recommended answer, and ``before`` in the fit version that was published before this one. ``parted`` are the items
    on which its score and the answer differ most. ``labels`` are None where there is no gold. ``evidence`` is the
    comparison by labels of the fits with and without the judge; where it is None, ``no_evidence`` is the reason, as the
    rest of a sentence. ``retest`` is how far the judge agrees with itself, or why that is not known.
    """

    number: int | None
    row: JudgeRow
    weight: WeightCell
    before: float | None = None
    follows: Followed | None = None
    parted: Sequence[PartedItem] = ()
    labels: AgainstLabels | None = None
    evidence: DropEvidence | None = None
    no_evidence: str = ""
    retest: Retest | str = ""


def judge_cards(data: ReportData) -> list[JudgeCard]:
    """A card a judge: the panel by falling weight, then the judges that were not admitted."""
    column = {judge: j for j, judge in enumerate(data.scores.judges)}
    number = {judge: k + 1 for k, judge in enumerate(data.judges)}
    answer = data.aggregates[data.lead].estimate if data.lead else np.full(data.scores.shape[0], np.nan)
    cards: list[JudgeCard] = []
    for row in data.judge_rows:
        judge, j = row.check.judge, column.get(row.check.judge)
        if j is None:
            cards.append(JudgeCard(None, row, WeightCell()))
            continue
        cards.append(
            JudgeCard(
                number[judge],
                row,
                data.weight_cell(data.lead, j),
                data.previous_weights.get(judge),
                followed(data, j),
                _parted(data, j, answer),
                _against_labels(data, j, answer),
                data.dropping.evidence.get(judge),
                data.dropping.refused or "the labels that can be compared do not differ",
                data.retests.get(judge, _FROM_A_FILE if data.edition is None else "not known"),
            )
        )
    return cards


def followed(data: ReportData, j: int) -> Followed | None:
    """What most of a judge's shared part comes from; None where the panel has no structure."""
    loadings = data.loadings_by_factor
    if loadings is None:
        return None
    mass = np.array([factor.mass for factor in data.factors.factors[: loadings.shape[1]]])
    parts = mass * loadings[j, : len(mass)] ** 2
    if not parts.sum() > 0:
        return None
    k = int(np.argmax(parts))
    share = float(parts[k] / parts.sum())
    return Followed(k + 1, share, *(data.factors.followed_by(data.scores.judges[j]) or (None, None)))


def _parted(data: ReportData, j: int, answer: Array) -> list[PartedItem]:
    """The items on which a judge's rank is furthest from the answer's, among those that have both."""
    scores = data.scores.values[:, j]
    both = np.flatnonzero(~np.isnan(scores) & ~np.isnan(answer))
    if not len(both):
        return []
    own, other = (rankdata(values[both]) / len(both) for values in (scores, answer))
    furthest = np.argsort(-np.abs(own - other), kind="stable")[:_ITEMS_SHOWN]
    places = zip(both[furthest].tolist(), own[furthest].tolist(), other[furthest].tolist(), strict=True)
    ids, texts = data.scores.item_ids, data.responses
    return [PartedItem(ids[k], float(scores[k]), rank, answer_rank, texts[k]) for k, rank, answer_rank in places]


def _against_labels(data: ReportData, j: int, answer: Array) -> AgainstLabels | None:
    known = ~np.isnan(data.gold) & ~np.isnan(answer)
    if known.sum() < 2:
        return None
    metric, order = ("AUC", auc) if len(np.unique(data.gold[known])) == 2 else ("Kendall's tau", tau)
    scored = known & ~np.isnan(data.scores.values[:, j])
    alone = order(data.scores.values[scored, j], data.gold[scored]) if scored.sum() > 1 else None
    own = data.scores.values[:, j]
    gate = _may_gate(data.scores.judges[j], own, data.gold, votes=is_binary(own))
    return AgainstLabels(metric, alone, order(answer[known], data.gold[known]), gate)


def panel_gate(data: ReportData) -> str:
    """Return whether the recommended score may gate, as ``_may_gate`` says it of a judge."""
    if not data.lead:
        return ""
    return _may_gate("panel", data.aggregates[data.lead].estimate, data.gold, votes=is_binary(data.scores.values))


def _may_gate(judge: str, scores: Array, gold: Array, *, votes: bool) -> str:
    """Return whether a judge may gate at the default bar; empty where scores and gold are not on one scale.

    Of ``votes``, which are 0 and 1 or a share of such, more than one half passes.
    """
    known = ~np.isnan(gold) & ~np.isnan(scores)
    if known.sum() < LEAST_LABELS:
        return ""
    low, high = scores[known].min(), scores[known].max()
    binary = is_binary(gold)
    if binary != votes or (not votes and (gold[known].min() < low or gold[known].max() > high)):
        return ""
    found = agreement_with_people(judge, scores, gold, np.ones(len(gold)), 0.5, grades=None if binary else gold)
    measure: Measure = "kappa" if binary else "weighted_kappa"
    if (statistic := found.measure(measure)) is None:
        return ""
    advice = may_gate(found, measure=measure)
    more = f", about {advice.more_labels:,} more labels would decide" if advice.more_labels else ""
    name = measure.replace("_", " ")
    return (
        f"{name} {statistic.value:.2f} ({statistic.lo:.2f} … {statistic.hi:.2f}) by {found.labels:,} labels; "
        f"may gate at {advice.bar:g}: {advice.outcome}{more}"
    )


def advice(card: JudgeCard) -> str:
    """Whether the judge should be dropped, which only labels say; else why they do not say it."""
    evidence = card.evidence
    if evidence is None:
        return f"None, so keep it for now: {card.no_evidence}."
    said = (
        f"by {evidence.labels:,} labels of {evidence.units:,} split units, a fit without it changes the share of pairs "
        f"in the right order by {-evidence.gain:+.1%} ({-evidence.hi:+.1%} … {-evidence.lo:+.1%}, adjusted for the "
        "number of judges)"
    )
    if evidence.units < LABELS_TO_ADVISE:
        return f"None, so keep it for now: {said}, and advice takes labels of {LABELS_TO_ADVISE} split units."
    if evidence.advice in ("drop", "keep"):
        return f"{evidence.advice.capitalize()} it: {said}."
    if evidence.gain < 0 and evidence.needed is not None:
        return f"Keep it for now: {said}, which may be chance. About {evidence.needed:,} labels would tell."
    return f"Keep it: {said}, which is no reason to drop it."


def retest(card: JudgeCard) -> str:
    """How far a judge agrees with itself, or why that is not known, as one sentence."""
    found = card.retest
    if isinstance(found, str):
        says = f"{found}."
    elif found.moved is None:
        says = f"asked again about {found.items} items on {found.asked_at}, it answered none of them."
    else:
        says = (
            f"asked again about {found.items} items on {found.asked_at} (by the canary), its scores moved by "
            f"{found.moved:.1%} of the scale on average; 0 % is a judge that repeats itself exactly."
            f"{f' Answered by {found.answered_by}.' if found.answered_by else ''}"
        )
    return says[:1].upper() + says[1:]
