"""A judge that checks names against the reference, and trusts what cites a source."""

import re

from judges.items import Item
from judges.programs.entity_support import entity_support
from judges.programs.registry import program_judge
from judges.programs.text import bounded

_CITATION = re.compile(r"\[\d+\]|https?://|\(\w[^()]*,\s*\d{4}\)")


@program_judge("trustworthiness", family="reference", criterion="factual accuracy")
def trustworthiness(item: Item) -> float | None:
    """Two thirds support of names by the reference, one third citations (two are full marks)."""
    support = entity_support(item)
    if support is None:
        return None
    cited = min(len(_CITATION.findall(item.response or "")) / 2, 1.0)
    return bounded((2 * support / 10 + cited) / 3)
