"""Streaming reader of a test set's item texts, with only a few texts in memory at a time."""

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
    """Iterable of the ids and texts of a test set's items, read from a file in the data folder.

    Every method raises ``WarehouseError`` if the file cannot be read, and quarantines the file if it is damaged.
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
            raise WarehouseError(f"{self._path}: the file changed while CARE read it; run the command again")
        return [records[row] for row in rows]

    def _scan(self, since: int = 0) -> Iterator[tuple[int, pa.Table]]:
        """Yield each row group with the number of its first row; the first group is the one with the row ``since``."""
        tables = scan_table(self._path, _SCHEMA, since)
        then = "; run `care run` to read the items from their source again"
        missing = "the item file does not exist; run `care run` to read the items again"
        while (table := read_sound(self._path, lambda _: next(tables, None), then, missing)) is not None:
            yield table


def _rows(table: pa.Table) -> list[Row]:
    columns = (table.column(name).to_pylist() for name in _SCHEMA.names)
    return list(zip(*columns, strict=True))
