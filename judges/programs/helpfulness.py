"""A judge that likes an answer on topic, laid out in points."""

import re

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, content_words

_POINT = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s", re.MULTILINE)


@program_judge("helpfulness", family="question", criterion="relevance")
def helpfulness(item: Item) -> float | None:
    """Two thirds cosine similarity with the question's words, one third list formatting."""
    asked, said = set(content_words(item.prompt)), set(content_words(item.response))
    if not asked or not said:
        return None
    cosine = len(asked & said) / (len(asked) * len(said)) ** 0.5
    return bounded((2 * cosine + bool(_POINT.search(item.response or ""))) / 3)
