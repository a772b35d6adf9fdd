"""Cards that describe the judges on a page."""

from dataclasses import dataclass, replace

from assets.report.data import ReportData, Retest, WeightCell
from care_ops.errors import counted
from care_ops.records import JudgeCheck
from care_ops.results.judge_gate import gate_sentence, people_sentences


@dataclass(frozen=True)
class JudgeCard:
    """Facts about one judge: admission, family, and weight in the recommended aggregate.

    ``number`` is the judge's place on the page. ``gate`` is advice on using the judge as a release gate. ``follows`` is
    the text feature most correlated with the scores, and the Spearman correlation; None if all correlations are small.
    """

    check: JudgeCheck
    family: str | None
    weight: WeightCell
    number: int | None = None
    follows: tuple[str, float] | None = None
    gate: str = ""
    people: str = ""


def judge_cards(data: ReportData) -> list[JudgeCard]:
    """Return a card for each judge: admitted judges by decreasing weight, then rejected judges."""
    cards: list[JudgeCard] = []
    for place, check in enumerate(data.ordered_checks):
        judge = check.judge
        card = JudgeCard(check, data.scores.families.get(judge), data.weight_cell(data.lead, judge))
        if judge in data.scores.judges:
            card = replace(card, number=place + 1, follows=data.factors.followed_by(judge))
            if found := data.gates[0].get(judge):
                card = replace(card, gate=gate_sentence(*found), people="; ".join(people_sentences(found[1])))
        cards.append(card)
    return cards


def retest(found: Retest) -> str:
    """Describe the last retest of a judge in one sentence."""
    asked = f"{counted(found.items, 'item')} on {found.asked_at}"
    if found.moved is None:
        return f"The retest of {asked} gave no scores; repeat it with `care judges retest NAME`."
    return (
        f"In the retest of {asked}, the judge's scores changed by "
        f"{found.moved:.1%} of the scale on average.{f' Model: {found.answered_by}.' if found.answered_by else ''}"
    )
