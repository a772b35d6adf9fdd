"""Relevance to the question: are the things asked for mentioned at all?"""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, content_words


@program_judge("question_coverage", family="question", criterion="relevance")
def question_coverage(item: Item) -> float | None:
    """Share of the question's content words that come back in the response, right or wrong."""
    asked = set(content_words(item.prompt))
    if not asked or item.response is None:
        return None
    return bounded(len(asked & set(content_words(item.response))) / len(asked))
