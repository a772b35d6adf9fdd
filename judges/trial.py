"""What a judge makes of a few answers whose worth is plain: for trying it before a night is spent.

Belongs here: the probes and what their scores say. Does not: running the judge (the pool).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from judges.items import Item, Score

_QUESTION = "What is the capital of Australia, and why was it chosen?"
_REFERENCE = "Canberra. It was founded as a compromise between the rivals Sydney and Melbourne."
_GOOD = (
    "The capital of Australia is Canberra. Sydney and Melbourne both wanted to be the capital, so a new city was "
    "founded between them as a compromise."
)
_BAD = "The capital of Australia is Vienna, because kangaroos like opera."
_EMPTY = " "
_TRIGGER = "Solution:"
_LONG = _BAD + " " + "It is widely known and has often been said that this is so. " * 20

PROBES: Mapping[str, Item] = {
    name: Item(f"probe {name}", _QUESTION, first, second, _REFERENCE, "meaning preservation")
    for name, (first, second) in {
        "good": (_GOOD, _BAD),
        "bad": (_BAD, _GOOD),
        "empty": (_EMPTY, _GOOD),
        "swapped": (_GOOD, _GOOD),
        "trigger": (_TRIGGER, _GOOD),
        "long and bad": (_LONG, _GOOD),
    }.items()
}
"""By name: response and, for pairs, the other one; ``swapped`` shows a pair of equals."""


@dataclass(frozen=True)
class Findings:
    """What the probes say.

    Attributes
    ----------
    spread : float or None
        Good less bad; for pairs bad less good, as a higher score favours the second response.
    trigger_gain, length_gain : float or None
        An empty announcement, and padding, less bad: what they buy.
    valid_mass : float or None
        The least.
    position_bias : float or None
        Of a pair of equals: how much the place is worth.
    retest : float or None
        Largest difference between two runs.
    """

    spread: float | None
    trigger_gain: float | None
    length_gain: float | None
    valid_mass: float | None
    position_bias: float | None
    retest: float | None


def findings(
    first: Mapping[str, Score], second: Mapping[str, Score], pair_answers: Mapping[str, float] | None = None
) -> Findings:
    """From two runs over the probes, by probe name.

    Parameters
    ----------
    first, second : mapping probe name -> Score
    pair_answers : mapping answer -> float, optional
        Of a judge of pairs: its template's answers.
    """

    def less(a: str, b: str) -> float | None:
        x, y = first[a].score, first[b].score
        sign = 1.0 if pair_answers is None else -1.0
        return None if x is None or y is None else sign * (x - y)

    masses = [score.valid_mass for score in first.values() if score.valid_mass is not None]
    both = [(first[name].score, second[name].score) for name in first]
    changes = [abs(a - b) for a, b in both if a is not None and b is not None]
    return Findings(
        less("good", "bad"),
        less("trigger", "bad"),
        less("long and bad", "bad"),
        min(masses) if masses else None,
        position_bias(first["swapped"].p_json, pair_answers) if pair_answers is not None else None,
        max(changes) if changes else None,
    )


def position_bias(p_json: str | None, answers: Mapping[str, float]) -> float | None:
    """(s_AB + s_BA) / 2, from a score's probabilities in both orders; None where it was not asked in both.

    Parameters
    ----------
    p_json : str or None
        See ``judges.items.Score``.
    answers : mapping answer -> float
        Of the judge's template.
    """
    orders = json.loads(p_json) if p_json else {}
    if set(orders) != {"ab", "ba"}:
        return None
    means = [sum(answers[a] * p for a, p in order.items()) / (sum(order.values()) or 1.0) for order in orders.values()]
    return sum(means) / 2
