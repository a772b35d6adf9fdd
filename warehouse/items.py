"""Items as the warehouse keeps them.

Belongs here: the record of one item. Does not: how a source is read (``sources``), how items are stored
(``parts``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from care_ops.errors import InputError


@dataclass(frozen=True)
class ItemRecord:
    """One item of a test set.

    Attributes
    ----------
    item_id : str
        Unique in the test set.
    prompt, response, response_2, reference, aspect : str, optional
    gold : float, optional
        For evaluation only; fits never read it.
    split_unit : str, optional
        Items that share it must not be parted between fit and evaluation.
    metadata : dict
        Everything else that the source says about the item.
    """

    item_id: str
    prompt: str | None = None
    response: str | None = None
    response_2: str | None = None
    reference: str | None = None
    aspect: str | None = None
    gold: float | None = None
    split_unit: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


def named_in(metadata: Sequence[Mapping[str, Any]], names: Sequence[str], where: str) -> list[tuple[str, ...] | None]:
    """What each item's metadata say under ``names``; None where one is empty or there are no names.

    Raises
    ------
    InputError
        No item has a column of that name; ``where`` opens the message.
    """
    for name in names:
        if not any(item.get(name) is not None for item in metadata):
            there = ", ".join(sorted({key for item in metadata for key in item})) or "no further columns"
            raise InputError(f"{where}: no item has a column {name!r}; there are {there}")
    found: list[tuple[str, ...] | None] = []
    for item in metadata:
        values = [item.get(name) for name in names]
        found.append(None if not values or any(v is None for v in values) else tuple(str(v) for v in values))
    return found
