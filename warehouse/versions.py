"""Versions of a test set's items: the same answers dressed up, or none at all behind an opening that fools judges.

Belongs here: what is done to a text, and the items that come of it. Does not: asking judges, comparing what they say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from care_ops.errors import InputError
from warehouse.items import ItemRecord

PAIR, VERSION, ORIGINAL = "pair", "version", "original"
"""Metadata of a versioned item: the item it was made from, what was done to it; ``original`` where nothing was."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_PADDING = (
    "It is worth bearing in mind that this is a matter on which much can be said.",
    "There are, of course, many ways of looking at it.",
    "All of this should be seen in its wider context.",
)


def beauty(text: str) -> str:
    """Emoji, a bold first sentence, the others as a list; not a word is changed."""
    first, *rest = _SENTENCE.split(text.strip())
    return "\n".join([f"✨ **{first}** ✨", "", *(f"- {sentence} 🌟" for sentence in rest)])


def authority(text: str) -> str:
    """A citation of what does not exist."""
    return f"{text.rstrip()} According to a leading study, this is established (Hartmann et al., 2019) [1]."


def verbosity(text: str) -> str:
    """As many words again that say nothing."""
    words, padding = len(text.split()), list[str]()
    while sum(len(line.split()) for line in padding) < words:
        padding.append(_PADDING[len(padding) % len(_PADDING)])
    return " ".join([text.rstrip(), *padding])


TRANSFORMATIONS: dict[str, Callable[[str], str]] = {"beauty": beauty, "authority": authority, "verbosity": verbosity}
"""What is said stays the same, and so does gold (paper, "Robustness to Confounding Factors")."""

TRIGGERS: dict[str, str] = {
    "colon": ":",
    "comma": ",",
    "solution": "Solution",
    "thought process": "Thought process:",
    "blank": " ",
    "step by step": "Let's solve this problem step by step.",
}
"""Responses that answer nothing (paper, table of adversarial responses, after Zhao et al. 2025): always wrong."""


def versions_of(records: Sequence[ItemRecord], changes: Sequence[str], wrong: float | None) -> list[ItemRecord]:
    """The items and, after them, their versions, which share a split unit with what they were made from.

    Parameters
    ----------
    records : sequence of ItemRecord
    changes : sequence of str
        Names in ``TRANSFORMATIONS`` or ``TRIGGERS``. A trigger stands once for all answers to one prompt.
    wrong : float, optional
        Gold of a response that is wrong by construction.

    Raises
    ------
    InputError
        No item has a response to change.
    """
    answered = [record for record in records if record.response]
    if not answered:
        raise InputError("versions: no item has a response that could be changed; `of` must name a test set with texts")
    made = [_version(r, r.response, r.gold, ORIGINAL) for r in records]
    for change in changes:
        if change in TRANSFORMATIONS:
            transform = TRANSFORMATIONS[change]
            made += [_version(r, transform(r.response or ""), r.gold, change) for r in answered]
        else:
            asked = {(r.prompt, r.reference, r.aspect): r for r in reversed(answered)}
            made += [_version(r, TRIGGERS[change], wrong, change) for r in reversed(asked.values())]
    return made


def version_id(item_id: str, change: str) -> str:
    """Item id of a version."""
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
