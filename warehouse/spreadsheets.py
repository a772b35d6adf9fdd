"""Writer of CSV tables that are safe to open in a spreadsheet.

A text cell that a spreadsheet would run as a formula gets a leading apostrophe; ``sources.delimited`` removes it.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from care_ops.errors import InputError
from warehouse.storage import write_bytes, write_table

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf")


def csv_of(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """Return a table as CSV text in UTF-8; a text cell that looks like a formula gets a leading apostrophe."""
    lines = (",".join(map(_written, row)) or '""' for row in (columns, *rows))
    return "".join(f"{line}\n" for line in lines).encode()


def write_file(table: pa.Table, path: Path) -> None:
    """Write a table as Parquet or CSV; raise ``InputError`` for any other file name extension."""
    if path.suffix == ".parquet":
        write_table(path, table)
    elif path.suffix == ".csv":
        write_bytes(path, csv_of(table.column_names, zip(*table.to_pydict().values(), strict=True)))
    else:
        raise InputError(f"{path}: CARE writes only Parquet and CSV; choose a name that ends in .parquet or .csv")


def as_meant(cell: str) -> str:
    """Remove the leading apostrophe that ``csv_of`` added to a cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _written(cell: object) -> str:
    """Return a cell as CSV text; replace NUL, and quote carriage returns, which Python's ``csv`` would not quote."""
    text = "" if cell is None else str(cell).replace("\0", "\ufffd")
    if isinstance(cell, str) and _FORMULA.match(text) and not NUMBER.fullmatch(text):
        text = f"'{text}"
    return '"{}"'.format(text.replace('"', '""')) if re.search(r'[",\r\n]', text) else text
