"""A list of the rows in many small parts, so that they are not all opened to know which items have been scored.

The list is derived from the parts and lies beside them. It knows each part by its name, its size and its times; a part
that has changed is read again, and one that is gone is left out. It can be deleted at any time, and one that is damaged
is made anew.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

from warehouse.compute import pc
from warehouse.storage import DamagedError, file_state, is_settled, read_table, write_table

LISTED_COLUMNS = ("item_key", "judge_key", "status")
"""Columns of the parts that the list has."""

_PART = "part"
_SCHEMA = pa.schema([(name, pa.string()) for name in (_PART, *LISTED_COLUMNS)])
_NAME = "manifest"
_log = logging.getLogger(__name__)


class Manifest:
    """The list of one folder of parts, those of a judge on a test set."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME

    def rows(self, parts: Iterable[Path], read: Callable[[Path], pa.Table | None]) -> pa.Table:
        """The listed columns of all rows of the parts; only parts that are new or have changed are read.

        A part that cannot be read because it is damaged or gone, for which ``read`` gives None, is left out.
        """
        states = {part: state for part in parts if (state := file_state(part)) is not None}
        by_entry = {f"{part.name} {state}": part for part, state in states.items()}
        kept = self._kept()
        current = kept.filter(pc.is_in(kept.column(_PART), pa.array(list(by_entry), pa.string())))
        listed = set(pc.unique(current.column(_PART)).to_pylist())
        tables, to_keep = [current], [current]
        for entry, part in by_entry.items():
            if entry in listed:
                continue
            table = read(part)
            if table is None:
                continue
            names = pa.repeat(pa.scalar(entry, pa.string()), table.num_rows)
            tables.append(pa.table([names, *(table.column(name) for name in LISTED_COLUMNS)], schema=_SCHEMA))
            if is_settled(states[part]):
                to_keep.append(tables[-1])
        if len(to_keep) > 1 or current.num_rows < kept.num_rows:
            self._keep(pa.concat_tables(to_keep))
        return pa.concat_tables(tables).select(list(LISTED_COLUMNS))

    def discard(self) -> None:
        """Delete the list; the next call of ``rows`` makes it anew."""
        self._path.unlink(missing_ok=True)

    def _kept(self) -> pa.Table:
        """The list as it was kept last; empty where there is none, or it is damaged."""
        try:
            return read_table(self._path, _SCHEMA)
        except FileNotFoundError:
            return _SCHEMA.empty_table()
        except DamagedError as error:
            _log.info("%s; it is made anew from the parts.", error)
            return _SCHEMA.empty_table()

    def _keep(self, rows: pa.Table) -> None:
        try:
            write_table(self._path, rows)
        except OSError as error:  # as on a disk that is full or read-only: the next process reads the parts again
            _log.info("%s: the list of scored items cannot be kept (%s).", self._path, error)
