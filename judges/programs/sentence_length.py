"""Clarity by sentences that are neither telegrams nor mazes."""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, sentences, words


@program_judge("sentence_length", family="style", criterion="clarity and conciseness")
def sentence_length(item: Item) -> float | None:
    """Distance of the mean sentence from seventeen words; seventeen off is no mark."""
    found = sentences(item.response)
    if not found:
        return None
    mean = len(words(item.response)) / len(found)
    return bounded(1 - abs(mean - 17) / 17)
