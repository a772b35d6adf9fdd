"""Changed versions of a test set's items, for measurements of the robustness of judges.

A transformation changes the style of an answer but not its content. A trigger replaces the answer by a phrase, such as
"Solution", that does not answer the question but still gets high scores from some judges.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from care_ops.errors import InputError
from warehouse.items import ItemRecord

PAIR, VERSION, ORIGINAL = "pair", "version", "original"
"""Metadata keys of the original item id and of the change, and the value of ``VERSION`` for unchanged items."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_PADDING = (
    "It is worth bearing in mind that this is a matter on which much can be said.",
    "There are, of course, many ways of looking at it.",
    "All of this should be seen in its wider context.",
)


def beauty(text: str) -> str:
    """Add emoji, and format the first sentence in bold and the other sentences as a list, without changing a word."""
    first, *rest = _SENTENCE.split(text.strip())
    return "\n".join([f"✨ **{first}** ✨", "", *(f"- {sentence} 🌟" for sentence in rest)])


def authority(text: str) -> str:
    """Add a citation of a study that does not exist."""
    return f"{text.rstrip()} According to a leading study, this is established (Hartmann et al., 2019) [1]."


def verbosity(text: str) -> str:
    """Append filler sentences that together contain at least as many words as the text."""
    words, padding = len(text.split()), list[str]()
    while sum(len(line.split()) for line in padding) < words:
        padding.append(_PADDING[len(padding) % len(_PADDING)])
    return " ".join([text.rstrip(), *padding])


TRANSFORMATIONS: dict[str, Callable[[str], str]] = {"beauty": beauty, "authority": authority, "verbosity": verbosity}
"""Changes of style that preserve content and gold label (paper, "Robustness to Confounding Factors")."""

TRIGGERS: dict[str, str] = {
    "colon": ":",
    "comma": ",",
    "solution": "Solution",
    "thought process": "Thought process:",
    "blank": " ",
    "step by step": "Let's solve this problem step by step.",
}
"""Responses that do not answer the question, from the paper's table of adversarial responses (Zhao et al. 2025)."""


def versions_of(records: Sequence[ItemRecord], changes: Sequence[str], wrong: float | None) -> list[ItemRecord]:
    """Return the items and their changed versions; each version has the split unit of its item.

    The changes are names in ``TRANSFORMATIONS`` or ``TRIGGERS``. A trigger adds one version per prompt;
    ``wrong`` is the gold label of this version. Raises ``InputError`` if no item has a response to change.
    """
    answered = [record for record in records if record.response]
    if not answered:
        raise InputError("versions: no item has a response to change; set `of` to a test set with responses")
    items = [_version(r, r.response, r.gold, ORIGINAL) for r in records]
    for change in changes:
        if change in TRANSFORMATIONS:
            transform = TRANSFORMATIONS[change]
            items += [_version(r, transform(r.response or ""), r.gold, change) for r in answered]
        else:
            first_of_prompt = {(r.prompt, r.reference, r.aspect): r for r in reversed(answered)}
            items += [_version(r, TRIGGERS[change], wrong, change) for r in reversed(first_of_prompt.values())]
    return items


def version_id(item_id: str, change: str) -> str:
    """Return the id of a changed item: the item's id and the name of the change; an original keeps its id."""
    return item_id if change == ORIGINAL else f"{item_id} {change}"


def _version(record: ItemRecord, response: str | None, gold: float | None, version: str) -> ItemRecord:
    return replace(
        record,
        item_id=version_id(record.item_id, version),
        response=response,
        gold=gold,
        split_unit=record.split_unit or record.item_id,
        metadata={**record.metadata, PAIR: record.item_id, VERSION: version},
    )
