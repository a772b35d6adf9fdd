"""Redundancy by sentences that say what another has said."""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, content_words, sentences

_MOST_SENTENCES = 200


@program_judge("repeated_sentences", family="style", criterion="redundancy")
def repeated_sentences(item: Item) -> float | None:
    """One less the mean over sentences of the largest share of words another earlier one has had."""
    found = [set(content_words(s)) for s in sentences(item.response)[:_MOST_SENTENCES]]
    found = [s for s in found if s]
    if len(found) < 2:
        return None
    overlap = [max(len(s & t) / len(s | t) for t in found[:k]) for k, s in enumerate(found) if k]
    return bounded(1 - sum(overlap) / len(overlap))
