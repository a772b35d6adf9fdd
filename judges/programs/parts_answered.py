"""Completeness by parts: each clause of the question is taken up."""

import re

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, content_words

_PART = re.compile(r"[?;,]|\band\b|\bor\b", re.IGNORECASE)


@program_judge("parts_answered", family="question", criterion="completeness")
def parts_answered(item: Item) -> float | None:
    """Share of the question's clauses of which a content word comes back."""
    if item.response is None:
        return None
    parts = [set(content_words(part)) for part in _PART.split(item.prompt or "")]
    parts = [part for part in parts if part]
    if not parts:
        return None
    said = set(content_words(item.response))
    return bounded(sum(bool(part & said) for part in parts) / len(parts))
