"""Coherence by negation: the same thing said and denied."""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, content_words, sentences, words

_NEGATIONS = frozenset("not no never cannot can't isn't aren't wasn't weren't don't doesn't didn't won't".split())
_MOST_SENTENCES = 200


@program_judge("contradiction", family="coherence", criterion="coherence")
def contradiction(item: Item) -> float | None:
    """Share of sentences that no other sentence of much the same words denies."""
    found = sentences(item.response)[:_MOST_SENTENCES]
    if not found:
        return None
    parts = [(set(content_words(s)) - _NEGATIONS, bool(_NEGATIONS & set(words(s)))) for s in found]
    denied = 0
    for k, (said, negated) in enumerate(parts):
        denied += any(
            other_negated != negated and said and len(said & other) >= 0.6 * max(len(said), len(other))
            for number, (other, other_negated) in enumerate(parts)
            if number != k
        )
    return bounded(1 - denied / len(parts))
