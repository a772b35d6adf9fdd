"""Cost records of judges, in one Parquet file per judge and run; CARE rewrites the file during the run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa

from warehouse.storage import find_sound, read_table, write_table

_COUNTS = "scored questions requests repeated refused tokens_in tokens_cached tokens_out tokens_reasoning"
BILL_SCHEMA = pa.schema(
    [
        ("run_date", pa.date32()),
        ("judge", pa.string()),
        ("testset", pa.string()),
        ("what", pa.string()),
        ("began", pa.timestamp("us", tz="UTC")),
        *((name, pa.int64()) for name in _COUNTS.split()),
        ("dollars", pa.float64()),
        ("dollars_unknown", pa.float64()),
        ("dollars_reserved", pa.float64()),
        ("seconds", pa.float64()),
        ("latencies_ms", pa.list_(pa.field("element", pa.float64()))),  # Parquet's name for the elements of a list
        ("prices", pa.string()),
        ("forecast_tokens", pa.float64()),
        ("forecast_dollars", pa.float64()),
    ]
)
"""Columns of a cost record and of the database table ``askings``."""


class Bills:
    """Store of a workspace's cost records; each file name begins with the date of the run (YYYY-MM-DD)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, run_date: str, asking: str, judge: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Replace a judge's cost record for a run; ``rows`` has a row per test set and purpose (column ``what``)."""
        write_table(self._file(run_date, asking, judge), pa.Table.from_pylist(list(rows), BILL_SCHEMA))

    def rows_of(self, run_date: str, asking: str, judge: str) -> list[dict[str, Any]]:
        """Return the rows of a judge's cost record for a run, or an empty list if there is no record."""
        return self._rows([self._file(run_date, asking, judge)]).to_pylist()

    def _file(self, run_date: str, asking: str, judge: str) -> Path:
        return self._folder / f"{run_date}.{asking}.{quote(judge, safe='')}.parquet"

    def read(self, since: str = "") -> pa.Table:
        """Return the cost records of all runs since a date (YYYY-MM-DD); quarantine damaged files."""
        files = [file for file in sorted(self._folder.glob("*.parquet")) if file.name[:10] >= since]
        return self._rows(files)

    def load(self, connection: duckdb.DuckDBPyConnection, run_date: str = "9999") -> None:
        """Reload the database's cost records from ``run_date`` or from its latest run, whichever is earlier."""
        found = connection.execute("SELECT coalesce(max(run_date)::VARCHAR, '') FROM askings").fetchone()
        first = min(run_date, found[0]) if found else ""
        rows = self.read(first)
        connection.execute("DELETE FROM askings WHERE run_date::VARCHAR >= ?", [first])
        connection.register("bills_read", rows)
        connection.execute("INSERT INTO askings BY NAME SELECT * FROM bills_read")
        connection.unregister("bills_read")

    def _rows(self, files: Sequence[Path]) -> pa.Table:
        """Read cost records from files; if several files contain the same row, return the row once."""
        tables = [table for file in files if (table := find_sound(file, _read_bill)) is not None]
        rows = [row for table in tables for row in table.to_pylist()]
        once = {(row["judge"], row["testset"], row["what"], row["began"]): row for row in rows}
        return pa.Table.from_pylist(list(once.values()), BILL_SCHEMA)


def _read_bill(path: Path) -> pa.Table:
    """Read a cost record; in format 1 (``documents.FORMAT``) the column ``run_date`` was called ``night``."""
    table = read_table(path)
    return table.rename_columns(["run_date" if name == "night" else name for name in table.column_names])
