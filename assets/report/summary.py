"""A page in short: what a reader on call asks next after the verdict, and where on the page the whole answer stands."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assets.report.cards import JudgeCard
from assets.report.data import Changes, ReportData, SystemRow
from assets.report.items import ItemRow, interval_of
from care_ops.errors import listed
from care_ops.least import FOLLOWS
from care_ops.results.reasons import feature_in_words

_NAMED = 3
"""Judges, changes or items that an answer names; the section has all of them."""


@dataclass(frozen=True)
class Answer:
    """One question with its answer; ``place`` is the id of the section that has more, or empty where there is none."""

    question: str
    says: str
    place: str = ""


def summary(
    data: ReportData, cards: Sequence[JudgeCard], rows: Sequence[ItemRow], count: int | None = None
) -> list[Answer]:
    """The answers, in the order in which they are asked.

    Parameters
    ----------
    data : ReportData
    cards : sequence of JudgeCard
        The panel by falling weight, then the judges that were not admitted.
    rows : sequence of ItemRow
        The items, best first; where they are many not all of them, but the first and the last.
    count : int, optional
        How many items have an estimate; by default as many as there are rows.
    """
    answers = [
        _changed(data),
        _trusted(cards),
        _noticed(cards),
        _shared(data),
        _ends(data, rows, len(rows) if count is None else count),
        _sure(data),
        _right(data),
        _to_label(data),
        _missing(data),
    ]
    return [answer for answer in answers if answer is not None]


def _changed(data: ReportData) -> Answer | None:
    if data.edition is None:
        return None
    question, changes = "What changed since the fit before?", data.changes
    if changes is None:
        return Answer(question, "There is no fit before it to compare with.")
    sentences = [f"Since {changes.made_at}: {listed(changes.why, _NAMED)}."]
    if changes.order is not None:
        sentences.append(f"The order of the items correlates at {changes.order:.3f} with the one before.")
    if changes.gold_before is not None and changes.gold_after is not None:
        sentences.append(f"Its order against gold was {changes.gold_before:.3f} and is {changes.gold_after:.3f}.")
    sentences += _moves(changes)
    return Answer(question, " ".join(sentences), "changes")


def _moves(changes: Changes) -> list[str]:
    """The judge and the item that moved most."""
    sentences: list[str] = []
    if changes.judges:
        first = changes.judges[0]
        sentences.append(
            f"What moved most: the weight of {first.judge} ({_weight(first.before)} to {_weight(first.after)})"
        )
    if changes.items:
        item = changes.items[0]
        also = f" and the item {item.item_id} ({item.moved:+.2f} standard deviations)"
        sentences.append(sentences.pop() + also if sentences else f"What moved most:{also.removeprefix(' and')}")
    return [f"{sentence}." for sentence in sentences]


def _weight(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _trusted(cards: Sequence[JudgeCard]) -> Answer | None:
    weighted = [(card.row.check.judge, card.weight.weight) for card in cards if card.weight.weight is not None]
    heaviest = sorted(weighted, key=lambda pair: -abs(pair[1]))[:_NAMED]
    total = sum(abs(weight) for _, weight in weighted)
    if not total > 0:
        return None
    share = sum(abs(weight) for _, weight in heaviest) / total
    named = ", ".join(f"{judge} {weight:.3f}" for judge, weight in heaviest)
    return Answer(
        "Whom does the answer trust?", f"{named}: {share:.0%} of the weight of {len(weighted)} judges.", "judges"
    )


def _noticed(cards: Sequence[JudgeCard]) -> Answer:
    groups = {
        "left out": [card for card in cards if not card.row.check.admitted],
        "weight below zero": [card for card in cards if (card.weight.weight or 0.0) < 0],
        "with a note on its card": [card for card in cards if card.row.check.admitted and card.row.check.notes],
    }
    parts = [f"{what}: {listed([c.row.check.judge for c in group], _NAMED)}" for what, group in groups.items() if group]
    says = "; ".join(parts) if parts else "none: all were admitted, and none counts against the answer"
    return Answer("Which judges need a look?", f"{says[:1].upper()}{says[1:]}.", "judges")


def _shared(data: ReportData) -> Answer | None:
    rows = data.factor_rows()
    if not rows and not data.links:
        return None
    named = [
        f"factor {row.number} follows {feature_in_words(row.feature)} ({row.correlation:+.2f})"
        for row in rows
        if row.feature and row.correlation is not None and abs(row.correlation) >= FOLLOWS
    ]
    says = f"{listed(named, _NAMED)} of the texts." if named else "no factor follows a feature of the texts."
    links = data.strongest_links(1)
    if links:
        first, second, partial = links[0]
        says += f" Beyond the factors, {first} and {second} are linked most ({partial:+.2f})."
    return Answer("What do the judges share?", says[:1].upper() + says[1:], "shared")


def _ends(data: ReportData, rows: Sequence[ItemRow], count: int) -> Answer | None:
    systems = data.system_rows()
    if len(systems) > 1:
        return Answer("Which system is best?", _best_system(systems), "systems")
    if not rows:
        return None
    first, last = rows[0], rows[-1]
    return Answer(
        "Which item is best, which worst?",
        f"Of {count:,} items {first.item_id} ({first.estimate:.3f}) is best and {last.item_id} "
        f"({last.estimate:.3f}) worst.",
        "items",
    )


def _best_system(systems: Sequence[SystemRow]) -> str:
    best, next_best = systems[0], systems[1]
    says = f"{best.system} ({best.value:.3f})"
    if next_best.behind is None:
        return f"{says}."
    clear = "and that is clear" if next_best.behind.lo > 0 else "which is not clear"
    behind = f"{next_best.behind.difference:.3f} ({next_best.behind.lo:.3f} … {next_best.behind.hi:.3f})"
    return f"{says}; {next_best.system} is behind it by {behind}, {clear}."


def _sure(data: ReportData) -> Answer | None:
    aggregate = data.aggregates.get(data.lead)
    if aggregate is None or aggregate.sd is None:
        return None
    known = ~np.isnan(aggregate.estimate) & ~np.isnan(aggregate.sd)
    if not known.any():
        return None
    lo, hi = interval_of(aggregate.estimate[known], aggregate.sd[known])
    return Answer(
        "How sure is the order?",
        f"Half of the items' 90 % intervals are narrower than {np.median(hi - lo):.3f}. They cover the noise of the "
        "judges, not a bias that the judges share.",
        "items",
    )


def _right(data: ReportData) -> Answer:
    question = "Is the answer right?"
    evaluation = data.evaluations.get(data.lead)
    if evaluation is None or evaluation.order is None:
        return Answer(question, "Nothing here can say: there is no label that the fit has not seen.")
    metric = "AUC" if evaluation.auc is not None else "Kendall's tau"
    chance = "0.5" if evaluation.auc is not None else "0"
    says = (
        f"On {evaluation.n:,} items with gold its {metric} is {evaluation.order:.3f} (1 is a perfect order, {chance} "
        "chance)"
    )
    of_mean = data.evaluations["avg"].order if "avg" in data.evaluations else None
    if of_mean is not None and data.lead != "avg":
        says += f"; the mean of the judges has {of_mean:.3f}"
    return Answer(question, f"{says}.", "gold")


def _to_label(data: ReportData) -> Answer | None:
    if data.care is None or not data.care.label_first or not data.rivals:
        return None
    return Answer(
        "What should be labelled first?",
        f"{listed(list(data.care.label_first), _NAMED)}: there two defensible answers differ most.",
        "label",
    )


def _missing(data: ReportData) -> Answer:
    says = f"{np.isnan(data.scores.values).mean():.1%} of the panel's scores"
    failed = list(data.failures)
    says += f"; no answer from {listed(failed, _NAMED)}." if failed else "; every aggregator answered."
    return Answer("What is missing?", says)
