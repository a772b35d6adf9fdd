"""Dictionary encoding of columns of names, such as item ids: the distinct names, and each row's index into them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from care_ops.errors import InputError
from warehouse.sources.input_table import InputTable


class Identifiers(NamedTuple):
    """Distinct values of a column as names, in order of first occurrence, and each row's index into the names."""

    names: list[str]
    codes: NDArray[np.int32]


def identifiers(input_table: InputTable, column: str) -> Identifiers:
    """Return the distinct names in a column, and the index of each row's name.

    If the column's name has surrounding spaces, CARE also strips the values. Raises ``InputError`` if
    a row has no name, or two names differ only in surrounding spaces.
    """
    kind = input_table.table.column(column).type
    if pa.types.is_nested(kind):
        raise InputError(f"{input_table.name}: column {column} contains {kind}, not names; convert the column to text")
    names, codes = distinct(input_table.table.column(column))
    if column != column.strip():
        names = [name.strip() for name in names]
    empty = np.array([not name for name in names])
    if empty.any():
        rows = np.flatnonzero(empty[codes]).tolist()
        places = ", ".join(input_table.locate(rows[:10])) + (f" and {len(rows) - 10:,} more" if len(rows) > 10 else "")
        raise InputError(f"{input_table.name}: {column} is empty in {places}; write a name into each of these cells")
    refuse_spaces(input_table, column, names)
    if len(set(names)) == len(names):
        return Identifiers(names, codes)
    first: dict[str, int] = {}
    merged = np.array([first.setdefault(name, len(first)) for name in names], dtype=np.int32)
    return Identifiers(list(first), merged[codes])


def distinct(column: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int32]]:
    """Return a column's distinct values as names, in order of first occurrence, and each row's index into the names.

    A dictionary column is not decoded, because a long table contains each item and judge many times.
    """
    encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    names = [_name(value) for value in (*encoded.dictionary.to_pylist(), None)]
    used = encoded.indices.cast(pa.int32()).fill_null(len(names) - 1).dictionary_encode()
    return [names[k] for k in used.dictionary.to_pylist()], used.indices.to_numpy(zero_copy_only=False)


def as_texts(values: Identifiers) -> list[str]:
    """Decode identifiers to a list with one name per row."""
    return [values.names[code] for code in values.codes]


def refuse_repeated_items(
    input_table: InputTable,
    column: str,
    items: Identifiers,
    remedy: str = "keep one row",
    rows: NDArray[np.intp] | None = None,
) -> None:
    """Raise ``InputError`` if an item has several rows among ``rows`` (by default all rows)."""
    what = f"{column} has several rows"
    refuse_repeated(input_table, what, items.codes, lambda row: repr(items.names[items.codes[row]]), remedy, rows)


def refuse_repeated(
    input_table: InputTable,
    what: str,
    codes: NDArray[np.integer],
    described: Callable[[int], str],
    remedy: str,
    rows: NDArray[np.intp] | None = None,
) -> None:
    """Raise ``InputError`` if rows have equal ``codes``; ``described`` returns the description of a row."""
    rows = np.arange(len(codes)) if rows is None else rows
    repeated = np.flatnonzero(np.bincount(codes[rows]) > 1).tolist()
    if not repeated:
        return
    found = [rows[codes[rows] == code][:3].tolist() for code in repeated[:5]]
    examples = [f"{described(of[0])} ({', '.join(input_table.locate(of))})" for of in found]
    more = f" and {len(repeated) - 5:,} more" if len(repeated) > 5 else ""
    raise InputError(f"{input_table.name}: {what} for {', '.join(examples)}{more}; {remedy}")


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a text type or a dictionary of texts."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _name(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def refuse_spaces(input_table: InputTable, column: str, names: Sequence[str]) -> None:
    """Raise ``InputError`` if two names differ only in surrounding spaces."""
    if all(map(str.__eq__, map(str.strip, names), names)):
        return  # distinct names without spaces around them
    plain: dict[str, str] = {}
    for name in names:
        other = plain.setdefault(name.strip(), name)
        if other != name:
            raise InputError(
                f"{input_table.name}: {column} contains {other!r} and {name!r}, equal except for spaces; use one form"
            )
