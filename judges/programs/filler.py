"""Conciseness by phrases that say nothing."""

import re

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, words

_FILLER = re.compile(
    r"\b(?:it is important to note|it should be noted|in order to|as a matter of fact|at the end of the day|"
    r"needless to say|basically|actually|literally|in terms of|due to the fact that|I hope this helps|"
    r"great question|as mentioned (?:above|before)|in conclusion|overall|very|really|quite)\b",
    re.IGNORECASE,
)


@program_judge("filler", family="style", criterion="clarity and conciseness")
def filler(item: Item) -> float | None:
    """Filler phrases a hundred words; five cost all marks."""
    count = len(words(item.response))
    if count == 0:
        return None
    return bounded(1 - 100 * len(_FILLER.findall(item.response or "")) / count / 5)
