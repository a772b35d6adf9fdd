"""Factual accuracy by numbers: a number that neither question nor reference knows counts as invented."""

import re

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@program_judge("number_support", family="reference", criterion="factual accuracy")
def number_support(item: Item) -> float | None:
    """Share of the response's numbers found in the question or the reference; abstains without a reference."""
    if not item.reference or item.response is None:
        return None
    known = set(_NUMBER.findall(item.reference)) | set(_NUMBER.findall(item.prompt or ""))
    said = _NUMBER.findall(item.response)
    return bounded(sum(number in known for number in said) / len(said)) if said else None
