"""Coherence from sentence to sentence: each takes up something of the one before."""

from itertools import pairwise

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, content_words, sentences


@program_judge("topic_flow", family="coherence", criterion="coherence")
def topic_flow(item: Item) -> float | None:
    """Share of neighbouring sentences with a content word in common; abstains on a single sentence."""
    found = [set(content_words(s)) for s in sentences(item.response)]
    if len(found) < 2:
        return None
    return bounded(sum(bool(a & b) for a, b in pairwise(found)) / (len(found) - 1))
