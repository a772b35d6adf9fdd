"""Data class of items, and functions that read columns from the metadata of items."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from care_ops.errors import InputError, counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ITEM_TEXTS = ("prompt", "response", "response_2", "reference", "aspect")
"""Names of the item fields that a judge may read."""


@dataclass(frozen=True)
class ItemRecord:
    """One item of a test set.

    ``gold`` is a label for evaluation only; fits never read it. Items with the same ``split_unit`` must not be divided
    between fit and evaluation. ``metadata`` contains all other columns of the source.
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
    """Ids, responses, gold labels (NaN if missing) and split units of a test set's items."""

    item_ids: list[str]
    responses: list[str | None]
    gold: NDArray[np.float64]
    split_units: list[str | None]

    def units(self) -> list[str]:
        """Return the split unit of each item; an item without a split unit gets its item id."""
        return units_of(self.split_units, self.item_ids)


def units_of(declared: Iterable[str | None], item_ids: Iterable[str]) -> list[str]:
    """Return the split unit of each item; an item without a declared split unit gets its item id."""
    return [unit or item for unit, item in zip(declared, item_ids, strict=True)]


_NOT_JUDGED = re.compile("gold|ideal|target|expect|refer|truth|correct|label|prompt|question|instruction", re.I)


def unnamed_text_column(records: Sequence[ItemRecord]) -> str | None:
    """Return the only metadata column that may contain the scored texts.

    Returns None if an item has a response, no column qualifies, or several columns qualify.
    """
    words: dict[str, list[int]] = {}
    for record in () if any(record.response for record in records) else records[:1000]:
        for name, value in record.metadata.items():
            if isinstance(value, str) and not _NOT_JUDGED.search(name):
                words.setdefault(name, []).append(len(value.split()))
    columns = [name for name, counts in words.items() if sum(counts) >= 8 * len(counts)]
    return columns[0] if len(columns) == 1 else None


def unnamed_text(records: Sequence[ItemRecord]) -> str | None:
    """Return advice to rename the only column that may contain the scored texts; None if there is no such column."""
    if (column := unnamed_text_column(records)) is None:
        return None
    condition = f"if the judged texts are in the column {column!r}"
    return f"{condition}, rename it to `response`: CARE then checks whether judges reward longer answers"


def refuse_strangers(scored: Iterable[str], items: Container[str], where: object) -> None:
    """Raise ``InputError`` if a scored item is not in ``items``; ``where`` names the table of items."""
    if missing := [item_id for item_id in scored if item_id not in items]:
        raise InputError(
            f"{where}: the table lacks {counted(len(missing), 'scored item')}, such as {missing[0]!r}; add the missing "
            "rows, or correct the item ids"
        )


def named_in(metadata: Sequence[Mapping[str, Any]], names: Sequence[str], where: str) -> list[tuple[str, ...] | None]:
    """Return each item's values in the metadata columns ``names`` as strings; an item that lacks a value gets None.

    Raises ``InputError`` if a column is empty for all items; the message begins with ``where``, the name of the source.
    """
    for name in names:
        if not any(item.get(name) is not None for item in metadata):
            columns = ", ".join(sorted({key for item in metadata for key in item})) or "none"
            raise InputError(f"{where}: no item has a value in the column {name!r}; choose from the columns {columns}")
    texts: list[tuple[str, ...] | None] = []
    for item in metadata:
        values = [item.get(name) for name in names]
        texts.append(None if not values or any(v is None for v in values) else tuple(str(v) for v in values))
    return texts


_SIDES = (("a", "b"), ("1", "2"), ("left", "right"), ("first", "second"))
_OTHER_SIDE = {side: other for pair in _SIDES for side, other in (pair, pair[::-1])}
_SIDE = re.compile(r"(?<![a-z])(a|b|left|right|first|second)(?![a-z])|[12]$", re.IGNORECASE)
"""Pattern of a word in a column name that means one side of a pair, such as ``a`` or ``left``."""


def systems_in(
    metadata: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    where: str,
    answers: Sequence[tuple[str | None, str | None]] = (),
) -> list[tuple[str, ...] | None]:
    """Return the names of the systems that wrote each item's answers, from one column, or from two columns for pairs.

    ``answers`` contains the response and response_2 of each item. Raises ``InputError`` if a column is empty or
    repeated, more than two columns are given, pairs come with one column, or single responses come with two.
    """
    if len(columns) > 2 or len(set(columns)) < len(columns):
        raise InputError(
            f"{where}: {', '.join(columns)} cannot name the systems; give one column or, for pairs, two different "
            "columns, with the left system's column first"
        )
    named = named_in(metadata, columns, where)
    first, known = columns[0] if columns else "", {key for item in metadata for key in item}
    paired = any(second for _, second in answers)
    other = _SIDE.sub(lambda side: _OTHER_SIDE[side[0].lower()], first)
    if len(columns) == 1 and (paired or (other != first and other in known)):
        both = " and ".join(map(repr, sorted({first, other}))) if other in known else "left and right"
        raise InputError(
            f"{where}: the items are pairs, but {first!r} names only one of the two systems; give both columns "
            f"({both}), each with --system"
        )
    if len(columns) == 2 and not paired and any(response for response, _ in answers):
        raise InputError(
            f"{where}: there are two columns of systems, but each item has one answer; give one column of systems"
        )
    return named


def numbers_in(metadata: Sequence[Mapping[str, Any]], name: str, where: str) -> NDArray[Any]:
    """Return the metadata column ``name`` as numbers, with NaN for an empty cell; array of shape (n,).

    Raises ``InputError`` if the column is empty for all items, or a value in it is not a number; the message begins
    with ``where``, the name of the source.
    """
    import numpy as np

    values = [text[0] if text else None for text in named_in(metadata, (name,), where)]
    try:
        return np.array([np.nan if value in (None, "") else float(value) for value in values], dtype=np.float64)
    except ValueError as error:
        raise InputError(f"{where}: column {name!r} must contain only numbers ({error}); correct the column") from None
