"""Support by a reference: how little of the response lies outside it."""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, content_words


@program_judge("reference_precision", family="reference", criterion="relevance")
def reference_precision(item: Item) -> float | None:
    """Share of the response's content words that the reference or the question contains."""
    said = content_words(item.response)
    if not said or not item.reference:
        return None
    known = set(content_words(item.reference)) | set(content_words(item.prompt))
    return bounded(sum(word in known for word in said) / len(said))
