"""A table that was read, and where its cells are for a person who looks for them.

Belongs here: what parsers are told and what they return. Does not: parsing (``tables`` and the modules that it calls).
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from care_ops.errors import InputError
from warehouse.sources.reading import listed

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
"""Compression by the end of a file's name."""

_LISTED_CELLS = 10


@dataclass(frozen=True)
class Wanted:
    """What is to be read of a table whose column names are known.

    Attributes
    ----------
    as_text : frozenset of str
        Read as text whatever they look like, so that the id ``007`` stays one.
    only : frozenset of str, optional
        Columns that are needed, where a format can leave the others unread.
    """

    as_text: frozenset[str] = frozenset()
    only: frozenset[str] | None = None


Plan = Callable[[Sequence[str]], Wanted]
"""From the names of the columns to what is wanted of them."""


def rows_by_number(rows: Sequence[int]) -> list[str]:
    """Where rows are in a table that has no lines."""
    return [f"row {row + 1}" for row in rows]


@dataclass(frozen=True)
class InputTable:
    """A table and how it was read.

    Attributes
    ----------
    name : str
        Opens every message: the path, or what kind of frame it is.
    table : pyarrow.Table
        Column names are unique and not empty.
    parser : str
    notes : tuple of str
        What the parser decided beside its settings.
    locate : callable
        From row numbers, counted from 0, to where a person finds them: ``line 7``.
    unread : tuple of str
        Columns that were not wanted, and that the format could leave where they are.
    """

    name: str
    table: pa.Table
    parser: str
    notes: tuple[str, ...] = ()
    locate: Callable[[Sequence[int]], list[str]] = field(default=rows_by_number)
    unread: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return self.table.column_names

    def cells(self, rows: Iterable[int], values: Iterable[object]) -> str:
        """Values and where they are, for a message; beyond ten they are counted."""
        rows, values = list(rows), list(values)
        places = self.locate(rows[:_LISTED_CELLS])
        shown = [f"{value!r} ({place})" for value, place in zip(values, places, strict=False)]
        more = len(rows) - len(shown)
        return ", ".join(shown) + (f" and {more:,} more" if more else "")


def open_text(path: Path, encoding: str, newline: str | None = None) -> io.TextIOWrapper:
    """A file's text.

    Raises
    ------
    InputError
        There is no such encoding.
    """
    try:
        return io.TextIOWrapper(open_stream(path), encoding, newline=newline)
    except LookupError as error:
        raise InputError(f"{path}: there is no encoding {encoding!r}; cp1252 and utf-16 are examples") from error


def open_stream(path: Path) -> pa.NativeFile:
    """A file's bytes, decompressed by what its name says."""
    return pa.input_stream(path, compression=COMPRESSED.get(path.suffix.lower()))


def name_columns(names: Sequence[str]) -> list[str]:
    """Names where those that are empty say so."""
    return [name if name.strip() else f"unnamed column {k + 1}" for k, name in enumerate(names)]


def refuse_repeated(where: str, names: Sequence[str]) -> None:
    """``InputError`` where two columns share a name."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        positions = [
            f"{name!r} (columns {', '.join(str(k + 1) for k, other in enumerate(names) if other == name)})"
            for name in repeated
        ]
        raise InputError(f"{where}: columns share a name: {listed(positions)}; rename or remove all but one of each")
