"""Parser of delimited text files, such as CSV, TSV and exports from spreadsheets.

pyarrow parses the file. Python's ``csv`` module detects separators and unclosed quotes, and counts lines for messages.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from care_ops.errors import InputError
from warehouse.compute import pc
from warehouse.sources.input_table import InputTable, Plan, encoding_of, open_stream, unique_names
from warehouse.sources.reading import listed
from warehouse.spreadsheets import as_meant
from warehouse.testsets import ReadingOptions

MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    *("-", "--", "none", "missing"),
)
"""Spellings of a missing value: the spellings that pandas accepts, and other usual spellings."""

_SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_HEXADECIMAL, _APOSTROPHE = re.compile(rb"\b0[xX][0-9a-fA-F]"), re.compile(rb"(?:^|[,;\t|\n\"])'+[-=+@\t\r]")
"""Patterns of hexadecimal numbers, which may be ids, and of apostrophes that ``spreadsheets.csv_of`` adds to cells."""

_SAMPLE_CHARACTERS = 1 << 16
_BLOCK_BYTES = 1 << 25
"""Size of the blocks that pyarrow parses, and maximum size of a cell, in bytes."""


@dataclass(frozen=True)
class _DelimitedText:
    """Text of a file, converted to UTF-8, and the file's original encoding, separator and decimal character."""

    path: Path
    content: bytes
    encoding: str
    separator: str
    decimal: str

    def described(self) -> str:
        separator = _SEPARATORS.get(self.separator, repr(self.separator))
        encoding = "UTF-8 with a byte order mark" if self.encoding == "utf-8-sig" else self.encoding.upper()
        comma = " with a decimal comma" if self.decimal == "," else ""
        return f"pyarrow {pa.__version__} as text separated by {separator}{comma}, in {encoding}"

    def locate(self, rows: Sequence[int]) -> list[str]:
        """Return each row's position in the file, such as ``line 7``; row 0 is the row after the column names."""
        lines = [line for line, _ in islice(self.records(), 1, max(rows, default=-1) + 2)]
        return [f"line {lines[row]}" for row in rows]

    def records(self, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Yield each record with the number of its first line; the first record contains the column names."""
        allow_long_fields()
        text = io.TextIOWrapper(io.BytesIO(self.content), "utf-8", newline="")
        reader = csv.reader(text, delimiter=self.separator, strict=strict)
        line = 1
        try:
            for record in reader:
                if record:
                    yield line, record
                line = reader.line_num + 1
        except csv.Error as error:
            raise InputError(
                f"{self.path}: the quotes in the record that begins on line {line} do not match ({error}); "
                'close each quote, and write a quote inside a quoted value twice: ""'
            ) from error


def read_delimited(path: Path, plan: Plan, options: ReadingOptions, kind: str) -> InputTable:
    """Read a table from a delimited text file, such as CSV.

    Raises ``InputError`` if the encoding is wrong, records differ in their number of values, a quote is not closed, or
    column names are repeated.
    """
    from pyarrow import csv as arrow_csv

    text = _text_of(path, options, kind)
    written = next((record for _, record in text.records()), [])
    names = unique_names(path, written)
    as_text = names if _HEXADECIMAL.search(text.content) else plan(names).as_text
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(text.content),
            read_options=arrow_csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(delimiter=text.separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                null_values=MISSING,
                decimal_point=text.decimal,
                column_types={
                    inside: pa.string() for inside, name in zip(written, names, strict=True) if name in as_text
                },
            ),
        )
    except pa.ArrowInvalid:
        _refuse_misread(text, len(names))
        raise
    if b'"' in text.content:
        _refuse_misread(text, len(names), table.num_rows)
    for k in (k for k, name in enumerate(names) if name in as_text):
        if pc.all(pc.is_in(table.column(k), pa.array(MISSING))).as_py():  # as when pyarrow chooses the type
            table = table.set_column(k, written[k], pa.nulls(table.num_rows))
    notes = ()
    if _APOSTROPHE.search(text.content):
        table = pa.table({name: _as_meant(table.column(k)) for k, name in enumerate(names)})
        notes = ("CARE removed apostrophes before =, +, - and @ (used in spreadsheets to prevent formulas)",)
    return InputTable(str(path), table, text.described(), notes, text.locate)


def _text_of(path: Path, options: ReadingOptions, kind: str) -> _DelimitedText:
    with open_stream(path) as stream:
        content = bytes(stream.read())
    found = next((name for mark, name in _BYTE_ORDER_MARKS.items() if content.startswith(mark)), "utf-8")
    encoding = encoding_of(path, options.encoding or found)
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
        content = text.encode()
    except UnicodeError as error:
        place = "the file"
        if isinstance(error, UnicodeDecodeError):
            line = content[: error.start].decode(encoding, "replace").count("\n") + 1
            place = f"line {line}, with the byte 0x{content[error.start]:02x},"
        raise InputError(
            f"{path}: {place} is not valid {encoding.upper()}; save the file as UTF-8, or give its encoding, such as "
            "cp1252, with --encoding (reading.encoding in a workspace)"
        ) from error
    sample = text[:_SAMPLE_CHARACTERS]
    if not sample.strip():
        raise InputError(f"{path}: the file is empty; it needs a header line and at least one row")
    if "\0" in sample:
        raise InputError(
            f"{path}: the file contains NUL characters, so it may be UTF-16, not {encoding.upper()}; save it as "
            "UTF-8, or give its encoding with --encoding (reading.encoding in a workspace)"
        )
    separator = options.separator or _separator(sample, sample_is_file=len(sample) == len(text), kind=kind)
    return _DelimitedText(path, content, encoding, separator, options.decimal or ".")


def _separator(sample: str, *, sample_is_file: bool, kind: str) -> str:
    """Return the separator that splits the first records into equal numbers of values; prefer the largest number."""
    usual = "\t" if kind in (".tsv", ".tab") else ","
    allow_long_fields()
    widths: dict[str, list[int]] = {}
    for separator in sorted(_SEPARATORS, key=lambda other: other != usual):
        lines = csv.reader(io.StringIO(sample, newline=""), delimiter=separator)
        widths[separator] = [len(record) for record in lines if record]
    # the end of a sample cuts off the last record
    even = [name for name, of in widths.items() if len(set(of if sample_is_file else of[:-1])) == 1 and of[0] > 1]
    return max(even or widths, key=lambda name: widths[name][0])


def _refuse_misread(text: _DelimitedText, width: int, rows: int | None = None) -> None:
    """Raise ``InputError`` if a record does not have ``width`` values, or a quote is not closed.

    ``rows`` is pyarrow's row count; it is wrong after an unclosed quote, because pyarrow reads the rest as one value.
    """
    count, uneven = -1, list[str]()
    for line, record in text.records(strict=True):
        count += 1
        if len(record) != width:
            uneven.append(f"{len(record)} on line {line}")
    if uneven:
        raise InputError(
            f"{text.path}: the number of values differs: {width} in the header line, {listed(uneven, 10)}; give the "
            "complete file, with the names of all columns in the first line; quote values that contain the separator, "
            "or give the separator with --separator (reading.separator in a workspace)"
        )
    if rows is not None and count != rows:
        raise InputError(
            f"{text.path}: the quotes are ambiguous: the file has {rows:,} or {count:,} rows; "
            'close each quote, and write a quote inside a quoted value twice: ""'
        )


def _as_meant(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_string(column.type):
        return column
    return pa.chunked_array([[cell and as_meant(cell) for cell in column.to_pylist()]], pa.string())


def allow_long_fields() -> None:
    """Increase the maximum length of a value in Python's ``csv`` module, for the whole process."""
    csv.field_size_limit(max(csv.field_size_limit(), _BLOCK_BYTES))
