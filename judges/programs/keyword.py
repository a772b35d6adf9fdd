"""A dummy judge that counts the words which good answers are said to have."""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, words

_KEYWORDS = frozenset("example because important step note first finally however reason key result".split())


@program_judge("keyword", family="style", criterion="keywords")
def keyword(item: Item) -> float | None:
    """Different keywords in the response; five are full marks."""
    if item.response is None:
        return None
    return bounded(len(_KEYWORDS & set(words(item.response))) / 5)
