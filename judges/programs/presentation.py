"""A judge of the surface: lists, paragraphs, signs of enthusiasm."""

import re

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded

_POINT = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s", re.MULTILINE)
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]")


@program_judge("presentation", family="style", criterion="clarity")
def presentation(item: Item) -> float | None:
    """List items (four are half the marks) and emoji (three are the other half)."""
    if item.response is None:
        return None
    points = min(len(_POINT.findall(item.response)) / 4, 1.0)
    emoji = min(len(_EMOJI.findall(item.response)) / 3, 1.0)
    return bounded(0.5 * points + 0.5 * emoji)
