"""Probe items of obvious quality, for trials of a judge before the judge scores a whole test set."""

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
    """Return how strongly a judge prefers a probe to the bad answer, as a score difference; None without both scores.

    A judge that compares pairs prefers the probe with the lower score: a higher score favours the second response.
    """
    score, bad = scores[probe].score, scores["bad"].score
    return None if score is None or bad is None else (bad - score if pairwise else score - bad)
