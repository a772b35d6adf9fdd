"""Parser of text files with separated values: CSV, TSV and what spreadsheets write.

pyarrow parses the file. Python's ``csv`` module finds the separator in the first records, unclosed quotes in a file
that has quotes, and line numbers for messages.
"""

import codecs
import csv
import io
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from care_ops.errors import InputError
from warehouse.compute import pc
from warehouse.sources.input_table import (
    InputTable,
    Plan,
    lines_of,
    name_columns,
    open_stream,
    open_text,
    refuse_repeated,
)
from warehouse.sources.reading import listed
from warehouse.spreadsheets import as_meant
from warehouse.testsets import ReadingOptions

MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    *("-", "--", "none", "missing"),
)
"""Spellings of a missing number: those of pandas, and what people write."""

_SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_QUOTE, _HEXADECIMAL = re.compile(b'"'), re.compile(rb"\b0[xX][0-9a-fA-F]")
_APOSTROPHE = re.compile(rb"(?:^|[,;\t|\n\"])'+[-=+@\t\r]")
"""Patterns that are searched in a whole file: pyarrow reads the text 0x1f, which may be an id, as the number 31."""

_SAMPLE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 25
"""Size of the blocks that pyarrow parses, and the longest cell."""


@dataclass(frozen=True)
class _Dialect:
    """The encoding, separator and decimal character of one file."""

    path: Path
    encoding: str
    separator: str
    decimal: str
    skipped: int  # number of lines before the names of the columns

    def described(self) -> str:
        separator = _SEPARATORS.get(self.separator, repr(self.separator))
        encoding = "UTF-8 with a byte order mark" if self.encoding == "utf-8-sig" else self.encoding.upper()
        comma = " with a decimal comma" if self.decimal == "," else ""
        return f"pyarrow {pa.__version__} as text separated by {separator}{comma}, in {encoding}"

    def utf8(self) -> pa.NativeFile:
        """Return the file as bytes of UTF-8, whatever its own encoding."""
        stream = open_stream(self.path)
        return (
            stream if self.encoding.startswith("utf-8") else pa.transcoding_input_stream(stream, self.encoding, "utf8")
        )

    def holds(self, pattern: re.Pattern[bytes]) -> bool:
        """Return whether a pattern of up to 16 bytes occurs in the text, also across two blocks."""
        end = b""
        with self.utf8() as stream:
            while block := stream.read(_BLOCK_BYTES):
                if pattern.search(end + block):
                    return True
                end = block[-16:]
        return False

    def records(self, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Yield all records, the column names first, each with the number of its first line."""
        allow_long_fields()
        with open_text(self.path, self.encoding, newline="") as text:
            for _ in range(self.skipped):
                text.readline()
            reader = csv.reader(text, delimiter=self.separator, strict=strict)
            line = self.skipped + 1
            try:
                for record in reader:
                    if record:
                        yield line, record
                    line = self.skipped + reader.line_num + 1
            except csv.Error as error:
                raise InputError(
                    f"{self.path}: the quotes in the record that begins in line {line} do not match ({error}); "
                    'close each quote, and write a quote inside a quoted value twice: ""'
                ) from error


def read_delimited(path: Path, plan: Plan, options: ReadingOptions, kind: str) -> InputTable:
    """Read a table from text with separated values; every record must have as many values as there are names.

    Raises ``InputError`` where the text has another encoding, records differ in length, quotes do not match, or names
    are repeated.
    """
    from pyarrow import csv as arrow_csv

    dialect = _dialect(path, options, kind)
    written = next((record for _, record in dialect.records()), [])
    names = name_columns(written)
    refuse_repeated(str(path), names)
    try:
        as_text = names if dialect.holds(_HEXADECIMAL) else plan(names).as_text
        table = arrow_csv.read_csv(
            dialect.utf8(),
            read_options=arrow_csv.ReadOptions(skip_rows=dialect.skipped, block_size=_BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                null_values=MISSING,
                decimal_point=dialect.decimal,
                column_types={
                    inside: pa.string() for inside, name in zip(written, names, strict=True) if name in as_text
                },
            ),
        )
    except (UnicodeError, pa.ArrowInvalid):
        _refuse_undecodable(path, dialect.encoding)
        _refuse_uneven(dialect, len(names))
        raise
    if any(pa.types.is_binary(column.type) for column in table.columns):  # pyarrow's type for text that is not UTF-8
        _refuse_undecodable(path, dialect.encoding)
    if dialect.holds(_QUOTE):
        _check_quotes(dialect, table.num_rows)
    for k in (k for k, name in enumerate(names) if name in as_text):
        if pc.all(pc.is_in(table.column(k), pa.array(MISSING))).as_py():  # as where pyarrow chooses the type
            table = table.set_column(k, written[k], pa.nulls(table.num_rows))
    notes = ("the first line, sep=, names the separator",) if dialect.skipped else ()
    if dialect.holds(_APOSTROPHE):
        table = pa.table({name: _as_meant(table.column(k)) for k, name in enumerate(names)})
        notes += ("an apostrophe before =, +, -, @ keeps a spreadsheet from running a cell, and is left out",)
    return InputTable(
        str(path),
        table,
        dialect.described(),
        notes,
        lambda rows: lines_of(rows, islice((line for line, _ in dialect.records()), 1, None)),
    )


def _dialect(path: Path, options: ReadingOptions, kind: str) -> _Dialect:
    with open_stream(path) as stream:
        start = bytes(stream.read(_SAMPLE_BYTES))
    sample_is_file = len(start) < _SAMPLE_BYTES
    encoding = options.encoding or next((e for mark, e in _BYTE_ORDER_MARKS.items() if start.startswith(mark)), "utf-8")
    with open_text(path, encoding) as text:
        encoding = codecs.lookup(text.encoding).name
    try:
        sample = codecs.getincrementaldecoder(encoding)().decode(start, final=sample_is_file)
    except UnicodeError:
        _refuse_undecodable(path, encoding)
        raise
    sample = sample.removeprefix("\ufeff")
    if not sample.strip():
        raise InputError(f"{path}: the file is empty; it needs a line of names and at least one row")
    if "\0" in sample:
        raise InputError(
            f"{path}: holds NUL characters, as UTF-16 does where it is read as {encoding.upper()}; "
            "save it as UTF-8, or name its encoding with --encoding (reading.encoding in a workspace)"
        )
    first = sample.splitlines()[0]
    skipped = int(first.lower().startswith("sep=") and len(first) == len("sep=") + 1)
    separator = options.separator or (
        first[-1] if skipped else _separator(sample, sample_is_file=sample_is_file, kind=kind)
    )
    return _Dialect(path, encoding, separator, options.decimal or ".", skipped)


def _separator(sample: str, *, sample_is_file: bool, kind: str) -> str:
    """Return the separator that cuts the first records into the most pieces, with the same number in each."""
    usual = "\t" if kind in (".tsv", ".tab") else ","
    allow_long_fields()
    widths: dict[str, list[int]] = {}
    for separator in sorted(_SEPARATORS, key=lambda other: other != usual):
        lines = csv.reader(io.StringIO(sample, newline=""), delimiter=separator)
        widths[separator] = [len(record) for record in lines if record]
    # the end of a sample cuts off the last record
    even = [name for name, of in widths.items() if len(set(of if sample_is_file else of[:-1])) == 1 and of[0] > 1]
    return max(even or widths, key=lambda name: widths[name][0])


def _refuse_undecodable(path: Path, encoding: str) -> None:
    """Raise ``InputError`` if a file is not text in this encoding; the message names the first such line."""
    with open_stream(path) as stream:
        content = stream.read()
    try:
        content.decode(encoding)
    except UnicodeError as error:
        place = "it"
        if isinstance(error, UnicodeDecodeError):
            line = content[: error.start].decode(encoding, "replace").count("\n") + 1
            place = f"line {line}, with the byte 0x{content[error.start]:02x},"
        raise InputError(
            f"{path}: {place} is not {encoding.upper()}; save the file as UTF-8, or name its encoding with --encoding "
            "(reading.encoding in a workspace), such as cp1252"
        ) from error


def _refuse_uneven(dialect: _Dialect, width: int) -> None:
    """Raise ``InputError`` if a record has more or fewer values than there are names."""
    widths = [(line, len(record)) for line, record in dialect.records(strict=True)]
    uneven = [(line, count) for line, count in widths if count != width]
    if not uneven:
        return
    with open_text(dialect.path, dialect.encoding) as text:
        (end,) = deque(text, 1)
    hint = "quote values that hold the separator, or name it with --separator (reading.separator in a workspace)"
    if all(count == width + 1 for _, count in widths[1:]):
        hint = "name the first column too, if it is that one which has no name"
    elif uneven == widths[-1:] and uneven[0][1] < width and not end.endswith("\n"):
        hint = "the last line is incomplete, as where a file was cut off: give the whole file, or delete that line"
    elif width == 1:
        hint = f"let the names of the columns be the first line; or {hint}"
    places = listed([f"{count} values in line {line}" for line, count in uneven], 10)
    raise InputError(f"{dialect.path}: the line of names has {width}, but there are {places}; {hint}")


def _as_meant(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_string(column.type):
        return column
    return pa.chunked_array([[cell and as_meant(cell) for cell in column.to_pylist()]], pa.string())


def _check_quotes(dialect: _Dialect, rows: int) -> None:
    """Read the file again, strictly: pyarrow reads everything after an unclosed quote as one value."""
    counted = sum(1 for _ in dialect.records(strict=True)) - 1
    if counted != rows:
        raise InputError(
            f"{dialect.path}: the quotes can be read in two ways, as {rows:,} rows or as {counted:,}; "
            'close each quote, and write a quote inside a quoted value twice: ""'
        )


def allow_long_fields() -> None:
    """Let Python's ``csv`` accept values of more than 128 KiB, in the whole process."""
    csv.field_size_limit(max(csv.field_size_limit(), _BLOCK_BYTES))
