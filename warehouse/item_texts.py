"""Reader of a test set's item texts that keeps only a few texts in memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from care_ops.errors import WarehouseError
from warehouse.items import ITEM_TEXTS
from warehouse.parts import ITEM_SCHEMA
from warehouse.storage import read_sound, scan_table

Row = tuple[str, str | None, str | None, str | None, str | None, str | None]
"""Id of an item, and its texts in the order of ``ITEM_TEXTS``."""

_SCHEMA = pa.schema([ITEM_SCHEMA.field(name) for name in ("item_id", *ITEM_TEXTS)])


class ItemTexts:
    """Reader of a test set's items that returns only ids and texts.

    Every method raises ``WarehouseError`` if the part file cannot be read, and quarantines the file if it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Row]:
        for _, table in self._scan():
            yield from _rows(table)

    def at(self, rows: Sequence[int]) -> list[Row]:
        """Return the items at the given row numbers, in the order of ``rows``."""
        wanted = np.sort(np.asarray(rows, dtype=np.int64))
        records: dict[int, Row] = {}
        for first, table in self._scan(int(wanted[0])) if len(wanted) else ():
            start, end = np.searchsorted(wanted, (first, first + table.num_rows))
            here = wanted[start:end]
            records.update(zip(here.tolist(), _rows(table.take(here - first)), strict=True))
            if end == len(wanted):
                break
        if len(records) != len(wanted):
            raise WarehouseError(f"{self._path}: the file lost items while CARE was reading it; run the command again")
        return [records[row] for row in rows]

    def _scan(self, since: int = 0) -> Iterator[tuple[int, pa.Table]]:
        """Yield successive tables and the number of their first row, starting with the table that has row ``since``."""
        tables = scan_table(self._path, _SCHEMA, since)
        then = "; the next `care run` reads the items from their source again"
        missing = "the items no longer exist; `care run` reads them again"
        while (piece := read_sound(self._path, lambda _: next(tables, None), then, missing)) is not None:
            yield piece


def _rows(table: pa.Table) -> list[Row]:
    columns = (table.column(name).to_pylist() for name in _SCHEMA.names)
    return list(zip(*columns, strict=True))
