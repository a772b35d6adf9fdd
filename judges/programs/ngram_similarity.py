"""Relevance by letters: cosine of three-letter counts, whatever the language."""

from collections import Counter

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded

_MOST_LETTERS = 20_000


@program_judge("ngram_similarity", family="question", criterion="relevance")
def ngram_similarity(item: Item) -> float | None:
    """Cosine similarity of the three-letter sequences of question and response."""
    asked, said = _trigrams(item.prompt), _trigrams(item.response)
    if not asked or not said:
        return None
    dot = sum(count * said[gram] for gram, count in asked.items())
    norm = (sum(v * v for v in asked.values()) * sum(v * v for v in said.values())) ** 0.5
    return bounded(dot / norm)


def _trigrams(text: str | None) -> Counter[str]:
    flat = " ".join((text or "").lower().split())[:_MOST_LETTERS]
    return Counter(flat[k : k + 3] for k in range(len(flat) - 2))
