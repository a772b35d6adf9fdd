"""A table that was read from a file or a frame, and where in the file a person finds its cells."""

import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pyarrow as pa

from care_ops.errors import InputError
from warehouse.sources.reading import listed

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
"""Compression of a file, by the ending of its name."""

_LISTED_CELLS = 5


@dataclass(frozen=True)
class WantedColumns:
    """Which columns of a table a parser is to read, and how.

    Attributes
    ----------
    as_text : frozenset of str
        Columns that are read as text even if they look like numbers, so that the id ``007`` stays as it is.
    only : frozenset of str, optional
        Columns that are needed; if the format allows it, the others are not read. By default all are read.
    """

    as_text: frozenset[str] = frozenset()
    only: frozenset[str] | None = None


Plan = Callable[[Sequence[str]], WantedColumns]
"""A function that gets the names of a table's columns and says which of them are wanted."""


def rows_by_number(rows: Sequence[int]) -> list[str]:
    """Places of rows, counted from 0, in a table that has no lines: ``row 1`` is the first."""
    return [f"row {row + 1}" for row in rows]


@dataclass(frozen=True)
class InputTable:
    """A table, whose column names are unique and not empty, and how it was read.

    Every message begins with ``name``, the path of the file or the kind of frame. ``parser`` is its name and settings,
    and ``notes`` are what it decided beyond them. ``locate`` tells from row numbers, counted from 0, where a person
    finds the rows, such as ``line 7``. ``unread`` are columns that were not wanted, and that the format allowed to
    leave unread.
    """

    name: str
    table: pa.Table
    parser: str
    notes: tuple[str, ...] = ()
    locate: Callable[[Sequence[int]], list[str]] = field(default=rows_by_number)
    unread: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.table.column_names

    def cells(self, rows: Iterable[int], values: Iterable[object]) -> str:
        """Values and their places, for a message: each once, those after the first ten only counted."""
        first: dict[str, int] = {}
        times = Counter[str]()
        for row, value in zip(rows, values, strict=True):
            first.setdefault(repr(value), row)
            times[repr(value)] += 1
        named = list(first)[:_LISTED_CELLS]
        places = self.locate([first[value] for value in named])
        shown = [
            f"{value} ({place})" if times[value] == 1 else f"{value} ({times[value]:,} times, first in {place})"
            for value, place in zip(named, places, strict=True)
        ]
        more = len(first) - len(named)
        return ", ".join(shown) + (f" and {more:,} other values" if more else "")


def lines_of(rows: Sequence[int], first_lines: Iterable[int]) -> list[str]:
    """Places of rows, which are counted from 0, as lines of a file; ``first_lines`` has the one where each row begins.

    No more of it is read than is needed.
    """
    lines = list(islice(first_lines, max(rows, default=-1) + 1))
    return [f"line {lines[row]}" for row in rows]


def open_text(path: Path, encoding: str, newline: str | None = None) -> io.TextIOWrapper:
    """Open a file, which may be compressed, as text.

    Raises ``InputError`` where there is no such encoding.
    """
    try:
        return io.TextIOWrapper(open_stream(path), encoding, newline=newline)
    except LookupError as error:
        raise InputError(f"{path}: there is no encoding {encoding!r}; cp1252 and utf-16 are examples") from error


def open_stream(path: Path) -> pa.NativeFile:
    """Open a file as bytes; they are decompressed if the file's name ends accordingly."""
    return pa.input_stream(path, compression=COMPRESSED.get(path.suffix.lower()))


def name_columns(names: Sequence[str]) -> list[str]:
    """The names of columns, where an empty name is replaced by ``unnamed column 3``."""
    return [name if name.strip() else f"unnamed column {k + 1}" for k, name in enumerate(names)]


def refuse_repeated(where: str, names: Sequence[str]) -> None:
    """Raise ``InputError`` if two columns have the same name."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        positions = [
            f"{name!r} (columns {', '.join(str(k + 1) for k, other in enumerate(names) if other == name)})"
            for name in repeated
        ]
        raise InputError(f"{where}: columns share a name: {listed(positions)}; rename or remove all but one of each")
