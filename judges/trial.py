"""Probe items with responses of known quality, to test a judge before it scores a whole test set."""

from collections.abc import Mapping

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
    for name, first, second in (
        ("good", _GOOD, _BAD),
        ("bad", _BAD, _GOOD),
        ("empty", " ", _GOOD),
        ("long and bad", _LONG, _GOOD),
    )
}
"""Probe items by name, each with a second response for judges that compare pairs."""


def gain_over_bad(scores: Mapping[str, Score], probe: str, *, pairwise: bool) -> float | None:
    """Return the score of ``probe`` minus the score of the clearly bad response; None if one of the scores is missing.

    For a judge that compares pairs the sign is reversed, because a higher score favours the second response.
    """
    score, bad = scores[probe].score, scores["bad"].score
    return None if score is None or bad is None else (bad - score if pairwise else score - bad)
