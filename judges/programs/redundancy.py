"""Redundancy: a text that compresses well repeats itself."""

import zlib

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded


@program_judge("redundancy", family="style", criterion="redundancy")
def redundancy(item: Item) -> float | None:
    """Size after DEFLATE over size before, so that repetition lowers the score."""
    raw = (item.response or "").encode("utf-8", "replace")
    if not raw:
        return None
    return bounded(len(zlib.compress(raw, 9)) / len(raw))
