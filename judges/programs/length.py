"""A dummy judge that reads nothing but length."""

from math import log

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, words


@program_judge("length", family="style", criterion="verbosity")
def length(item: Item) -> float | None:
    """Logarithm of the number of words; two hundred are full marks."""
    if item.response is None:
        return None
    return bounded(log(1 + len(words(item.response))) / log(201))
