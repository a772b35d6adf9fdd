"""Redundancy by phrases that come again."""

from collections import Counter

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, words


@program_judge("repeated_phrases", family="style", criterion="redundancy")
def repeated_phrases(item: Item) -> float | None:
    """Share of three-word phrases that are said once only; abstains below four words."""
    said = words(item.response)
    if len(said) < 4:
        return None
    phrases = Counter(zip(said, said[1:], said[2:], strict=False))
    return bounded(sum(count for count in phrases.values() if count == 1) / (len(said) - 2))
