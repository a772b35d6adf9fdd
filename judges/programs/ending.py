"""Completeness by an end: a text that was cut off was not finished."""

import re

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded

_ENDED = re.compile(r"""[.!?。！？…)\]"'”’`]\s*$""")
_FENCE = re.compile(r"^```", re.MULTILINE)


@program_judge("ending", family="style", criterion="completeness")
def ending(item: Item) -> float | None:
    """Ends with closing punctuation (six), with all brackets (two) and code fences (two) closed."""
    text = (item.response or "").strip()
    if not text:
        return None
    brackets = all(text.count(a) <= text.count(b) for a, b in ("()", "[]", "{}"))
    fences = len(_FENCE.findall(text)) % 2 == 0
    return bounded(0.6 * bool(_ENDED.search(text[-20:])) + 0.2 * brackets + 0.2 * fences)
