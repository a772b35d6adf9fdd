"""The record of one item as the warehouse keeps it.

Belongs here: the record and what can be asked of its metadata. Belongs elsewhere: how a source is read (``sources``)
and how items are stored (``parts``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from care_ops.errors import InputError

ITEM_TEXTS = ("prompt", "response", "response_2", "reference", "aspect")
"""Fields of an item that a judge reads."""


@dataclass(frozen=True)
class ItemRecord:
    """One item of a test set.

    Attributes
    ----------
    item_id : str
        Unique in the test set.
    prompt, response, response_2, reference, aspect : str, optional
    gold : float, optional
        Label that is used for evaluation only; fits never read it.
    split_unit : str, optional
        Items with the same split unit must not be divided between fit and evaluation.
    metadata : dict
        All other columns of the source.
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
    """The values of the columns ``names`` in each item's metadata, as text.

    Returns
    -------
    list of tuple of str, or None
        One entry per item; None if one of its values is empty or ``names`` is.

    Raises
    ------
    InputError
        No item has a column of that name; the message begins with ``where``.
    """
    for name in names:
        if not any(item.get(name) is not None for item in metadata):
            columns = ", ".join(sorted({key for item in metadata for key in item})) or "no further columns"
            raise InputError(f"{where}: no item has a column {name!r}; there are {columns}")
    texts: list[tuple[str, ...] | None] = []
    for item in metadata:
        values = [item.get(name) for name in names]
        texts.append(None if not values or any(v is None for v in values) else tuple(str(v) for v in values))
    return texts
