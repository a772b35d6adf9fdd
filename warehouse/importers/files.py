"""Writes imported tables to files that people name."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv

from care_ops.errors import InputError
from warehouse.storage import write_bytes, write_table


def write_file(table: pa.Table, path: Path) -> None:
    """Write a table as Parquet or CSV, as the ending of the name says.

    Raises ``InputError`` where the name ends in neither.
    """
    if path.suffix == ".parquet":
        write_table(path, table)
    elif path.suffix == ".csv":
        buffer = io.BytesIO()
        csv.write_csv(table, buffer)
        write_bytes(path, buffer.getvalue())
    else:
        raise InputError(f"{path}: give a name that ends in .parquet or .csv")
