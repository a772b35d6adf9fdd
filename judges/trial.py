"""Trial of a judge on a few answers of obvious quality, before it scores a whole test set."""

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
_LONG = _BAD + " " + "It is widely known and has often been said that this is so. " * 20

PROBES: Mapping[str, Item] = {
    name: Item(f"probe {name}", _QUESTION, first, second, _REFERENCE, "meaning preservation")
    for name, (first, second) in {
        "good": (_GOOD, _BAD),
        "bad": (_BAD, _GOOD),
        "empty": (" ", _GOOD),
        "swapped": (_GOOD, _GOOD),
        "trigger": ("Solution:", _GOOD),
        "long and bad": (_LONG, _GOOD),
    }.items()
}
"""The probe items by name. Each has two responses for judges of pairs; in ``swapped`` both are equal."""


@dataclass(frozen=True)
class TrialResult:
    """Findings about a judge from its scores of the probes; a value is None if the required scores are missing.

    Attributes
    ----------
    spread : float or None
        Score of the good answer minus score of the bad one. For judges of pairs the sign is reversed, because a higher
        score favours the second response.
    trigger_gain, length_gain : float or None
        Score of an announcement without content, and of the bad answer with padding, minus the bad answer's score.
    valid_mass : float or None
        Smallest total probability of the legal answers over all probes.
    position_bias : float or None
        Preference for a position when both responses are equal; only for judges of pairs.
    retest : float or None
        Largest difference between the scores of two runs.
    """

    spread: float | None
    trigger_gain: float | None
    length_gain: float | None
    valid_mass: float | None
    position_bias: float | None
    retest: float | None


def findings(
    first: Mapping[str, Score], second: Mapping[str, Score], pair_answers: Mapping[str, float] | None = None
) -> TrialResult:
    """Compute the findings from the scores of two runs over the probes, by probe name.

    For a judge of pairs, ``pair_answers`` are the legal answers of its template, with their scores.
    """

    def difference(better: str, worse: str) -> float | None:
        better_score, worse_score = first[better].score, first[worse].score
        sign = 1.0 if pair_answers is None else -1.0
        return None if better_score is None or worse_score is None else sign * (better_score - worse_score)

    masses = [score.valid_mass for score in first.values() if score.valid_mass is not None]
    repeated = [(first[name].score, second[name].score) for name in first]
    changes = [abs(a - b) for a, b in repeated if a is not None and b is not None]
    return TrialResult(
        spread=difference("good", "bad"),
        trigger_gain=difference("trigger", "bad"),
        length_gain=difference("long and bad", "bad"),
        valid_mass=min(masses) if masses else None,
        position_bias=position_bias(first["swapped"].p_json, pair_answers) if pair_answers is not None else None,
        retest=max(changes) if changes else None,
    )


def position_bias(p_json: str | None, answers: Mapping[str, float]) -> float | None:
    """Compute the position bias (s_AB + s_BA) / 2 of a pair from expected scores; None without both orders.

    ``p_json`` is a field of ``judges.items.Score``; ``answers`` are the template's legal answers with their scores.
    """
    orders = json.loads(p_json) if p_json else {}
    if set(orders) != {"ab", "ba"}:
        return None
    means = [sum(answers[a] * p for a, p in order.items()) / (sum(order.values()) or 1.0) for order in orders.values()]
    return sum(means) / 2
