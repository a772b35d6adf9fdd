"""Language quality by the small rules: capitals, spaces, doubled words."""

import re

from judges.items import Item
from judges.programs.registry import program_judge
from judges.programs.text import bounded, sentences

_MISTAKE = re.compile(r"\b(\w+)\s+\1\b|\s[,;:.!?](?:\s|$)|[,;:](?=[A-Za-z])|[!?]{2,}|\bi\b(?!\.)")


@program_judge("surface_grammar", family="style", criterion="language quality")
def surface_grammar(item: Item) -> float | None:
    """Slips a sentence, a small letter at its start among them; one in each costs all marks."""
    found = sentences(item.response)
    if not found:
        return None
    small = sum(s[0].isalpha() and s[0].islower() for s in found)
    slips = small + sum(1 for _ in _MISTAKE.finditer(item.response or ""))
    return bounded(1 - slips / len(found))
