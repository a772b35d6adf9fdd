"""Conciseness: words that carry nothing are marked down."""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, content_words, words


@program_judge("conciseness", family="style", criterion="conciseness")
def conciseness(item: Item) -> float | None:
    """Share of content words, less two points for every fifty words."""
    said = words(item.response)
    if not said:
        return None
    return bounded(len(content_words(item.response)) / len(said) - 0.2 * len(said) / 50)
