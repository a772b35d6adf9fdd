"""A judge that wants every point covered, and takes length for effort."""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, content_words, sentences


@program_judge("thoroughness", family="question", criterion="completeness")
def thoroughness(item: Item) -> float | None:
    """Half question coverage, half the number of sentences (eight are full marks)."""
    asked = set(content_words(item.prompt))
    if not asked or item.response is None:
        return None
    covered = len(asked & set(content_words(item.response))) / len(asked)
    return bounded(0.5 * covered + 0.5 * min(len(sentences(item.response)) / 8, 1.0))
