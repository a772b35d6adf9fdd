"""Coherence with the question: the things it names come back."""

import re

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded

_ENTITY = re.compile(r"(?<!^)(?<![.!?]\s)\b[A-Z][\w'’-]+|\b\d+(?:[.,]\d+)*\b")


@program_judge("entity_coverage", family="question", criterion="coherence")
def entity_coverage(item: Item) -> float | None:
    """Share of the question's names and numbers that the response mentions; abstains where it has none."""
    if item.response is None:
        return None
    named = {entity.lower() for entity in _ENTITY.findall(item.prompt or "")}
    if not named:
        return None
    text = item.response.lower()
    return bounded(sum(entity in text for entity in named) / len(named))
