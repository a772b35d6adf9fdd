"""Clarity by coming to the point: the first sentence is about the question."""

import re

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, content_words, sentences

_PREAMBLE = re.compile(
    r"^\W*(?:sure|certainly|of course|great question|thank|as an ai|okay|well,|let me|I'd be happy)", re.I
)


@program_judge("directness", family="question", criterion="clarity and conciseness")
def directness(item: Item) -> float | None:
    """Share of the question's content words in the first sentence; a preamble halves it."""
    asked = set(content_words(item.prompt))
    found = sentences(item.response)
    if not asked or not found:
        return None
    share = len(asked & set(content_words(found[0]))) / len(asked)
    return bounded(share * (0.5 if _PREAMBLE.search(item.response or "") else 1.0))
