"""Table from a file or a data frame, with the position of each row in the file."""

import codecs
import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from care_ops.errors import InputError
from warehouse.sources.reading import listed

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
"""Compression format for each file name extension."""

_LISTED_CELLS = 5


@dataclass(frozen=True)
class WantedColumns:
    """Columns that a parser should read from a table.

    Columns in ``as_text`` are read as text even if they look like numbers: the id ``007`` keeps its zeros. If ``only``
    is given, the parsers of some formats read no other columns.
    """

    as_text: frozenset[str] = frozenset()
    only: frozenset[str] | None = None


Plan = Callable[[Sequence[str]], WantedColumns]
"""Function that receives the column names of a table and returns the columns to read."""


@dataclass(frozen=True)
class InputTable:
    """Table with unique, non-empty column names, and a description of how it was parsed.

    Error messages begin with ``name``: the path of the file or the type of frame. ``parser`` is the parser's name and
    settings, and ``notes`` lists decisions of the parser. ``locate`` converts row numbers, counted from 0, to positions
    in the file such as ``line 7``. ``unread`` lists the columns that were not read.
    """

    name: str
    table: pa.Table
    parser: str
    notes: tuple[str, ...] = ()
    locate: Callable[[Sequence[int]], list[str]] = field(default=lambda rows: [f"row {row + 1}" for row in rows])
    unread: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.table.column_names

    def cells(self, rows: Iterable[int], values: Iterable[object]) -> str:
        """Describe cells for a message: up to five distinct values with positions, and the number of other values."""
        rows_of: dict[str, list[int]] = {}
        for row, value in zip(rows, values, strict=True):
            rows_of.setdefault(repr(value), []).append(row)
        named = list(rows_of.items())[:_LISTED_CELLS]
        places = self.locate([of_value[0] for _, of_value in named])
        shown = [
            f"{value} ({place})" if len(of_value) == 1 else f"{value} ({len(of_value):,} times, first in {place})"
            for (value, of_value), place in zip(named, places, strict=True)
        ]
        more = len(rows_of) - len(named)
        return ", ".join(shown) + (f" and {more:,} other values" if more else "")


def open_text(path: Path, encoding: str) -> io.TextIOWrapper:
    """Open a plain or compressed file as text; raise ``InputError`` if the encoding is unknown."""
    return io.TextIOWrapper(open_stream(path), encoding_of(path, encoding))


def encoding_of(path: Path, name: str) -> str:
    """Return the standard name of a text encoding; raise ``InputError`` if the encoding is unknown."""
    try:
        with io.TextIOWrapper(io.BytesIO(), name) as text:  # accepts encodings of text only
            return codecs.lookup(text.encoding).name
    except (LookupError, ValueError) as error:
        raise InputError(f"{path}: the encoding {name!r} is unknown; give a name such as cp1252 or utf-16") from error


def open_stream(path: Path) -> pa.NativeFile:
    """Open a file as a stream of bytes, and decompress it if its name ends in .gz, .bz2 or .zst."""
    return pa.input_stream(path, compression=COMPRESSED.get(path.suffix.lower()))


def unique_names(where: object, names: Sequence[str]) -> list[str]:
    """Replace empty column names by names such as ``unnamed column 3``, and return all names.

    Raises ``InputError`` if two columns have the same name.
    """
    names = [name if name.strip() else f"unnamed column {k + 1}" for k, name in enumerate(names)]
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        positions = [
            f"{name!r} (columns {', '.join(str(k + 1) for k, other in enumerate(names) if other == name)})"
            for name in repeated
        ]
        raise InputError(f"{where}: columns have the same name: {listed(positions)}; rename or remove columns")
    return names
