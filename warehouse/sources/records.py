"""Parsers of JSON, JSON lines and the sheets of workbooks.

If the values of a column have one type, the column has this type. A column of several types, such as numbers and words,
becomes text.
"""

import importlib.metadata
import importlib.util
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from care_ops.errors import InputError, how_to_install
from warehouse.sources.input_table import InputTable, Plan, open_text
from warehouse.sources.isolated import IsolatedError, run_isolated
from warehouse.testsets import ReadingOptions

_MAX_CELLS, _MAX_TIMES_FILLED = 2**24, 200
"""Maximum number of cells in a table: the larger of a fixed number and a multiple of the number of filled cells."""

_MAX_GB, _MAX_S = 4, 300
_READS_SHEETS = """
import json
from python_calamine import CalamineWorkbook
book = CalamineWorkbook.from_path(sys.argv[3])
cells = {name: book.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in book.sheet_names}
json.dump(cells, sys.stdout, default=str)
"""
"""Script that prints the cells of a workbook as JSON, with dates and durations as text."""

Record = dict[str, Any]


def read_json(path: Path, plan: Plan, options: ReadingOptions) -> InputTable:
    """Read a table from lines of JSON objects, or from a JSON document that is a list of objects.

    Raises ``InputError`` if the file has neither form, or an object has a key twice.
    """
    encoding = options.encoding or "utf-8-sig"
    with open_text(path, encoding) as text:
        first, second = [*islice(filter(None, map(str.strip, text)), 2), "", ""][:2]
    if not first:
        raise InputError(f"{path}: the file is empty; give a file with at least one record")
    if ".json" not in path.suffixes or (second and first.startswith("{") and first.endswith("}")):
        parser, place, records = "Python's json, one object a line", "line", json_lines(path, encoding)
    else:
        parser, place, records = "Python's json, a list of objects", "record", _list_in(path, encoding)
    table, numbers = _table_of(path, place, records)
    return InputTable(str(path), table, parser, locate=lambda rows: [f"{place} {numbers[row]}" for row in rows])


def _list_in(path: Path, encoding: str) -> Iterator[tuple[int, Any]]:
    """Read a JSON document that is a list; yield each value with its position, counted from 1."""
    with open_text(path, encoding) as text:
        try:
            document = parse_json(text.read())
        except json.JSONDecodeError as error:
            raise InputError(f"{path} is not JSON ({error}); write one JSON list, or one object per line") from error
    if not (isinstance(document, list) and document):
        raise InputError(
            f"{path}: the file contains {type(document).__name__}, not a list of objects; write a list with one "
            "object for each row (in pandas: orient='records')"
        )
    return enumerate(document, start=1)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; replace each lone surrogate, which UTF-8 cannot encode, by U+FFFD.

    Raises ``ValueError`` if the text is not JSON, or an object has a key twice.
    """
    document = json.loads(text, object_pairs_hook=_unique_keys)
    if b"\\ud" not in (text if isinstance(text, bytes) else text.encode("utf-8", "replace")).lower():
        return document
    spelt = json.dumps(document, ensure_ascii=False)
    return json.loads(spelt.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def json_lines(path: Path, encoding: str = "utf-8-sig") -> Iterator[tuple[int, Any]]:
    """Yield the line number and the JSON value of each line that is not empty.

    Raises ``InputError`` if a line is not JSON.
    """
    with open_text(path, encoding) as text:
        for number, line in enumerate(text, start=1):
            if line.strip():
                try:
                    value = parse_json(line)
                except (ValueError, RecursionError) as error:
                    raise InputError(f"{path}: line {number} is not valid JSON ({error}); correct the line") from error
                yield number, value


def read_workbook(path: Path, plan: Plan, options: ReadingOptions) -> InputTable:
    """Read a sheet of an Excel or OpenDocument workbook, with the column names in the first non-empty row.

    Raises ``InputError`` if ``python-calamine`` is not installed, the file is not a workbook, the sheet is empty, or
    several sheets are not empty and the user has not chosen a sheet.
    """
    if importlib.util.find_spec("python_calamine") is None:
        raise InputError(f"{path}: python-calamine is not installed; {how_to_install('excel')}, or give a CSV file")
    sheets = _sheets(path)
    name = _chosen_sheet(path, sheets, options.sheet)
    rows = [(k + 1, row) for k, row in enumerate(sheets[name]) if any(cell != "" for cell in row)]
    if not rows:
        raise InputError(f"{path}: sheet {name!r} is empty; write column names and at least one row into it")
    numbers = [number for number, _ in rows[1:]]
    names = [str(cell) for cell in rows[0][1]]
    columns = [array_of([None if row[k] == "" else row[k] for _, row in rows[1:]]) for k in range(len(names))]
    table = pa.table([*map(_whole_numbers, columns)], names)
    parser = f"python-calamine {importlib.metadata.version('python-calamine')}, sheet {name!r}"
    return InputTable(str(path), table, parser, (), lambda found: [f"row {numbers[k]} of the sheet" for k in found])


def _sheets(path: Path) -> dict[str, list[list[Any]]]:
    """Read the cells of all sheets, in a separate process, because even a small workbook can need much memory."""
    too_large = (
        f"{path}: the workbook needs more than {_MAX_GB} GB or {_MAX_S} s to be read, perhaps because one cell is far "
        "from the others; save the sheet as CSV"
    )
    try:
        cells = run_isolated(_READS_SHEETS, too_large, [str(path.absolute())], gigabytes=_MAX_GB, seconds=_MAX_S)
    except IsolatedError as error:
        reason = str(error).partition(": ")[2]
        raise InputError(f"{path}: cannot be read as a workbook: {reason}; save the sheet as CSV") from error
    return json.loads(cells)


def _chosen_sheet(path: Path, sheets: dict[str, list[list[Any]]], wanted: str | None) -> str:
    if wanted is not None and wanted not in sheets:
        raise InputError(f"{path}: the workbook has no sheet {wanted!r}; choose one of {', '.join(map(repr, sheets))}")
    filled = [name for name, rows in sheets.items() if any(cell != "" for row in rows for cell in row)]
    if wanted is None and len(filled) > 1:
        raise InputError(
            f"{path}: {len(filled)} sheets have content ({', '.join(map(repr, filled))}); choose a sheet with --sheet "
            "(reading.sheet in a workspace)"
        )
    return wanted or (filled or list(sheets))[0]


def _whole_numbers(column: pa.Array) -> pa.Array:
    """Convert a column of whole numbers to integers, because a workbook stores the id 7 as 7.0."""
    try:
        return column.cast(pa.int64()) if pa.types.is_floating(column.type) else column
    except pa.ArrowInvalid:
        return column


def _unique_keys(pairs: list[tuple[str, Any]]) -> Record:
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} appears twice in one object")
    return record


def _table_of(path: Path, place: str, records: Iterable[tuple[int, Any]]) -> tuple[pa.Table, list[int]]:
    """Build a table from numbered records, one record at a time; return the table and the records' numbers."""
    columns, numbers = dict[str, list[Any]](), list[int]()
    rows = filled = 0
    for number, record in records:
        if not isinstance(record, dict):
            raise InputError(
                f"{path}: {place} {number} contains {type(record).__name__}, not an object; write one JSON object for "
                "each row"
            )
        numbers.append(number)
        for name, value in record.items():
            column = columns.setdefault(name, [])
            column += [None] * (rows - len(column))
            column.append(value)
        rows, filled = rows + 1, filled + len(record)
        if rows * len(columns) > max(_MAX_CELLS, _MAX_TIMES_FILLED * filled):
            raise InputError(
                f"{path}: {rows:,} objects have {len(columns):,} different keys, but each object has only a few keys; "
                "write a long table, with one row for each item and judge"
            )
    arrays = {name: array_of(column + [None] * (rows - len(column))) for name, column in columns.items()}
    return pa.table(arrays), numbers


def array_of(values: Sequence[Any]) -> pa.Array:
    """Convert values to an Arrow array; use text if values have no common type, or some but not all are booleans."""
    kinds = set(map(type, values)) - {type(None)}
    try:
        return _texts(values) if bool in kinds and len(kinds) > 1 else pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        return _texts(values)


def _texts(values: Sequence[Any]) -> pa.Array:
    return pa.array([None if value is None else _as_text(value) for value in values], pa.string())


def _as_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
