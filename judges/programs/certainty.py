"""Factual accuracy by caution: who claims without exception is wrong more often."""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, words

_ABSOLUTE = frozenset(
    "always never all none every everyone nobody guaranteed certainly definitely undoubtedly impossible proven perfect "
    "absolutely completely totally entirely obviously".split()
)


@program_judge("certainty", family="style", criterion="factual accuracy")
def certainty(item: Item) -> float | None:
    """Absolute words per word; one in twenty costs all marks."""
    said = words(item.response)
    if not said:
        return None
    return bounded(1 - 20 * sum(word in _ABSOLUTE for word in said) / len(said))
