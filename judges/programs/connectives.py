"""Coherence by signposts: because, therefore, however."""

import re

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, sentences

_CONNECTIVE = re.compile(
    r"\b(?:because|therefore|thus|hence|however|although|since|for example|for instance|first|second|finally|then|"
    r"as a result|in contrast|moreover|furthermore|so that|which means)\b",
    re.IGNORECASE,
)


@program_judge("connectives", family="coherence", criterion="coherence")
def connectives(item: Item) -> float | None:
    """Connectives a sentence; one in every second sentence is full marks."""
    count = len(sentences(item.response))
    if count == 0:
        return None
    return bounded(2 * len(_CONNECTIVE.findall(item.response or "")) / count)
