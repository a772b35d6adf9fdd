"""Judge cards of a page: weight, factor and agreement with labels."""

from dataclasses import dataclass, replace

import numpy as np

from assets.report.data import ReportData, Retest, WeightCell
from care_ops.metrics import auc, tau
from care_ops.records import JudgeCheck
from care_ops.results.judge_gate import gate_sentence
from care_ops.scores import Array


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

    ``number`` is its place on the page by decreasing weight. ``follows`` is the text feature with the largest Spearman
    correlation with its scores, and the correlation; None if it is too small. ``labels`` is None without gold.
    """

    check: JudgeCheck
    family: str | None
    weight: WeightCell
    number: int | None = None
    follows: tuple[str, float] | None = None
    labels: AgainstLabels | None = None


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
                follows=data.factors.followed_by(judge),
                labels=_against_labels(data, j, estimate),
            )
        cards.append(card)
    return cards


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


def retest(found: Retest) -> str:
    """Describe the last retest of a judge in one sentence."""
    if found.moved is None:
        return f"Asked again about {found.items} items on {found.asked_at}, it scored none of them."
    return (
        f"Asked again about {found.items} items on {found.asked_at} (canary), its scores moved by {found.moved:.1%} of "
        f"the scale on average.{f' Answered by {found.answered_by}.' if found.answered_by else ''}"
    )
