"""Judge cards of a page: weight, factor and agreement with labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import rankdata

from assets.report.data import ReportData, Retest, WeightCell
from care_ops.metrics import auc, tau
from care_ops.records import JudgeCheck
from care_ops.results.judge_gate import gate_sentence
from care_ops.scores import Array
from judges.items import FROM_A_FILE

_ITEMS_SHOWN = 3

_FROM_A_FILE = f"not known: {FROM_A_FILE}"
"""Reason without a retest, for judges of a table."""


@dataclass(frozen=True)
class Followed:
    """The factor that explains most of the variance that a judge shares with others.

    Attributes
    ----------
    factor : int
        Counted from 1.
    share : float
        Share of the judge's communality that the factor explains.
    feature, correlation : str and float, or None
        The text feature with the largest Spearman correlation with the judge's scores; None if it is too small.
    """

    factor: int
    share: float
    feature: str | None
    correlation: float | None


@dataclass(frozen=True)
class OutlyingItem:
    """An item that a judge ranks unlike the estimate; a rank is the share of items below the item."""

    item_id: str
    score: float
    rank: float
    consensus_rank: float
    response: str | None


@dataclass(frozen=True)
class AgainstLabels:
    """Agreement of one judge and of the estimate with the order of labels; whether the judge may gate."""

    metric: str
    judge: float | None
    consensus: float | None
    gate: str = ""


@dataclass(frozen=True)
class JudgeCard:
    """One judge: its admission, family and weight in the recommended aggregate; more for judges on the panel.

    ``number`` is its place on the page by decreasing weight. ``before`` is its weight in the previous fit. ``outlying``
    are the items that it ranks least like the estimate. ``labels`` is None without gold.
    """

    check: JudgeCheck
    family: str | None
    weight: WeightCell
    number: int | None = None
    before: float | None = None
    follows: Followed | None = None
    outlying: Sequence[OutlyingItem] = ()
    labels: AgainstLabels | None = None
    retest: Retest | str = ""


def judge_cards(data: ReportData) -> list[JudgeCard]:
    """Build a card for each judge: panel judges by decreasing weight, then judges that were not admitted."""
    column = {judge: j for j, judge in enumerate(data.scores.judges)}
    estimate = data.aggregates[data.lead].estimate if data.lead else np.full(data.scores.shape[0], np.nan)
    cards: list[JudgeCard] = []
    for place, check in enumerate(data.ordered_checks):
        judge, j = check.judge, column.get(check.judge)
        card = JudgeCard(check, data.scores.families.get(judge), data.weight_cell(data.lead, judge))
        if j is not None:
            card = replace(
                card,
                number=place + 1,
                before=data.previous_weights.get(judge),
                follows=followed(data, j),
                outlying=_outlying(data, j, estimate),
                labels=_against_labels(data, j, estimate),
                retest=data.retests.get(judge, _FROM_A_FILE if data.fit_version is None else "not known"),
            )
        cards.append(card)
    return cards


def followed(data: ReportData, j: int) -> Followed | None:
    """Return the factor that explains most of a judge's shared variance; None without a structure."""
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


def _outlying(data: ReportData, j: int, estimate: Array) -> list[OutlyingItem]:
    """Return the items whose ranks by a judge and by the estimate differ most."""
    scores = data.scores.values[:, j]
    both = np.flatnonzero(~np.isnan(scores) & ~np.isnan(estimate))
    if not len(both):
        return []
    own, other = (rankdata(values[both]) / len(both) for values in (scores, estimate))
    furthest = np.argsort(-np.abs(own - other), kind="stable")[:_ITEMS_SHOWN]
    ids, texts = data.scores.item_ids, data.responses
    return [
        OutlyingItem(ids[k], float(scores[k]), float(own[place]), float(other[place]), texts[k])
        for place, k in zip(furthest.tolist(), both[furthest].tolist(), strict=True)
    ]


def _against_labels(data: ReportData, j: int, estimate: Array) -> AgainstLabels | None:
    known, own = ~np.isnan(data.gold) & ~np.isnan(estimate), data.scores.values[:, j]
    if known.sum() < 2:
        return None
    metric, order = ("AUC", auc) if len(np.unique(data.gold[known])) == 2 else ("Kendall's tau", tau)
    scored = known & ~np.isnan(own)
    of_judge = order(own[scored], data.gold[scored]) if scored.sum() > 1 else None
    gate = data.gates[0].get(data.scores.judges[j])
    shown = "" if gate is None else gate_sentence(*gate)
    return AgainstLabels(metric, of_judge, order(estimate[known], data.gold[known]), shown)


def retest(card: JudgeCard) -> str:
    """Describe the last retest of a judge, or why there is none, in one sentence."""
    found = card.retest
    if isinstance(found, str):
        sentence = f"{found}."
    elif found.moved is None:
        sentence = f"asked again about {found.items} items on {found.asked_at}, it scored none of them."
    else:
        sentence = (
            f"asked again about {found.items} items on {found.asked_at} (canary), its scores moved by "
            f"{found.moved:.1%} of the scale on average; 0 % is a judge that repeats itself exactly."
            f"{f' Answered by {found.answered_by}.' if found.answered_by else ''}"
        )
    return sentence[:1].upper() + sentence[1:]
