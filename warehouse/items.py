"""Records of items, and functions that read values from the metadata of items."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from care_ops.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ITEM_TEXTS = ("prompt", "response", "response_2", "reference", "aspect")
"""Fields of an item that a judge reads."""


@dataclass(frozen=True)
class ItemRecord:
    """One item of a test set.

    ``gold`` is a label for evaluation only; fits never read it. Items with the same ``split_unit`` must not be divided
    between fit and evaluation. ``metadata`` holds all other columns of the source.
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


@dataclass(frozen=True)
class ItemColumnsRead:
    """Ids, responses, gold labels and split units of items; NaN marks a missing gold label."""

    item_ids: list[str]
    responses: list[str | None]
    gold: NDArray[np.float64]
    split_units: list[str | None]

    def units(self) -> list[str]:
        """Return the split unit of each item, which is the item id if no split unit is declared."""
        return units_of(self.split_units, self.item_ids)


def units_of(declared: Iterable[str | None], item_ids: Iterable[str]) -> list[str]:
    """Return the split unit of each item, which is the item id if no split unit is declared."""
    return [unit or item for unit, item in zip(declared, item_ids, strict=True)]


def refuse_strangers(scored: Iterable[str], items: Container[str], where: object) -> None:
    """Raise ``InputError`` if a scored item is not among the ``items`` of the table ``where``."""
    if missing := [item_id for item_id in scored if item_id not in items]:
        raise InputError(
            f"{where}: {len(missing)} scored item(s), such as {missing[0]!r}, are not in this table; add them, or "
            "correct the item ids"
        )


def named_in(metadata: Sequence[Mapping[str, Any]], names: Sequence[str], where: str) -> list[tuple[str, ...] | None]:
    """Return the values of the columns ``names`` in each item's metadata as text, or None if a value is missing.

    Raises ``InputError`` if no item has a column of that name; the message begins with ``where``.
    """
    for name in names:
        if not any(item.get(name) is not None for item in metadata):
            columns = ", ".join(sorted({key for item in metadata for key in item})) or "none"
            raise InputError(f"{where}: no item has a column {name!r}; the columns are {columns}")
    texts: list[tuple[str, ...] | None] = []
    for item in metadata:
        values = [item.get(name) for name in names]
        texts.append(None if not values or any(v is None for v in values) else tuple(str(v) for v in values))
    return texts


_SIDES = (("a", "b"), ("1", "2"), ("left", "right"), ("first", "second"))
_OTHER_SIDE = {side: other for pair in _SIDES for side, other in (pair, pair[::-1])}
_SIDE = re.compile(r"(?<![a-z])(a|b|left|right|first|second)(?![a-z])|[12]$", re.IGNORECASE)
"""Pattern of the words in a column name that stand for one side of a pair."""


def systems_in(
    metadata: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    where: str,
    answers: Sequence[tuple[str | None, str | None]] = (),
) -> list[tuple[str, ...] | None]:
    """Return the systems that wrote each item's answers: one column for single answers, two columns for pairs.

    ``answers`` holds the response and response_2 of each item. Raises ``InputError`` as ``named_in`` does, and also
    if there are three columns, a column is named twice, or the number of columns does not match the number of answers.
    """
    if len(columns) > 2 or len(set(columns)) < len(columns):
        raise InputError(
            f"{where}: {', '.join(columns)} are given as columns of systems; give one column, or two for pairs, "
            "the left one first"
        )
    named = named_in(metadata, columns, where)
    first, known = columns[0] if columns else "", {key for item in metadata for key in item}
    paired = any(second for _, second in answers)
    other = _SIDE.sub(lambda side: _OTHER_SIDE[side[0].lower()], first)
    if len(columns) == 1 and (paired or (other != first and other in known)):
        both = " and ".join(map(repr, sorted({first, other}))) if other in known else "left and right"
        raise InputError(
            f"{where}: these are pairs, but {first!r} names only one of the two systems; give both columns "
            f"(--system twice): {both}"
        )
    if len(columns) == 2 and not paired and any(response for response, _ in answers):
        raise InputError(
            f"{where}: two columns of systems need pairs, but these items have one answer each; give one column"
        )
    return named


def numbers_in(metadata: Sequence[Mapping[str, Any]], name: str, where: str) -> NDArray[Any]:
    """Return the (n,) array of the column ``name`` in the items' metadata, where NaN marks an empty cell.

    Raises ``InputError`` if no item has a column of that name, or a value in it is not a number; the message begins
    with ``where``.
    """
    import numpy as np

    values = [text[0] if text else None for text in named_in(metadata, (name,), where)]
    try:
        return np.array([np.nan if value in (None, "") else float(value) for value in values], dtype=np.float64)
    except ValueError as error:
        raise InputError(f"{where}: the feature {name!r} must be a number in every item ({error})") from None
