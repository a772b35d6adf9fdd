"""Factual accuracy by names: a name that the reference does not know counts as wrong."""

import re

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import STOP_WORDS, bounded, words

_NAME = re.compile(r"(?<=[a-z,:;)] )[A-Z][\w'’-]+")


@program_judge("entity_support", family="reference", criterion="factual accuracy")
def entity_support(item: Item) -> float | None:
    """Share of the capitalised names inside the response's sentences that the reference knows."""
    if not item.reference or item.response is None:
        return None
    known = set(words(item.reference)) | set(words(item.prompt))
    names = [name.lower() for name in _NAME.findall(item.response)]
    names = [name for name in names if name not in STOP_WORDS]
    if not names:
        return 0.0
    return bounded(sum(name in known for name in names) / len(names))
