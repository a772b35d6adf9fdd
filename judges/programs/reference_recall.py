"""Completeness against a reference: how much of it the response repeats."""

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, content_words


@program_judge("reference_recall", family="reference", criterion="completeness")
def reference_recall(item: Item) -> float | None:
    """Share of the reference's distinct content words that the response contains."""
    wanted = set(content_words(item.reference))
    if not wanted or item.response is None:
        return None
    return bounded(len(wanted & set(content_words(item.response))) / len(wanted))
