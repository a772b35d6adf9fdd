"""Clarity by saying who does what."""

import re

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, sentences

_PASSIVE = re.compile(r"\b(?:is|are|was|were|be|been|being)\s+(?:\w+ly\s+)?\w+(?:ed|en)\b", re.IGNORECASE)


@program_judge("active_voice", family="style", criterion="clarity and conciseness")
def active_voice(item: Item) -> float | None:
    """Share of sentences without a passive."""
    found = sentences(item.response)
    if not found:
        return None
    return bounded(1 - sum(bool(_PASSIVE.search(s)) for s in found) / len(found))
