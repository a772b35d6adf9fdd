"""Dagster storage in SQLite files whose SQLAlchemy engines stay open."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, event

from orchestration.dagster_internals import sqlite_storages

if TYPE_CHECKING:
    import dagster as dg

_StorageOfDagster, _EventsOfDagster, _RunsOfDagster = sqlite_storages()

_BUSY_S = 60.0
"""Seconds for which a commit waits for another process."""

_MOST_ENGINES = 8
"""Largest number of open engines: a run writes to its own log, the index and the list of runs."""


class _Engines:
    def __init__(self) -> None:
        self._kept: dict[str, Engine] = {}
        self._lock = threading.Lock()

    @contextmanager
    def connected(self, address: str, prepared: Callable[[], AbstractContextManager[Any]]) -> Generator[Connection]:
        with self._lock:
            engine = self._kept.pop(address, None)
            if engine is None:
                with prepared():  # Dagster's own connection creates the tables
                    engine = create_engine(address, connect_args={"timeout": _BUSY_S})
                event.listen(engine, "connect", _do_not_wait_for_disk)
            self._kept[address] = engine
            if len(self._kept) > _MOST_ENGINES:
                self._kept.pop(next(iter(self._kept))).dispose()  # the least recently used engine
        with engine.begin() as connection:
            yield connection

    def dispose(self) -> None:
        with self._lock:
            while self._kept:
                self._kept.popitem()[1].dispose()


def _do_not_wait_for_disk(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous = NORMAL")


class _EventLog(_EventsOfDagster):
    def __init__(self, base_dir: str) -> None:
        self._engines = _Engines()
        super().__init__(base_dir)

    def run_connection(self, run_id: str | None = None) -> Any:
        prepared = partial(super().run_connection, run_id)
        return self._engines.connected(self.conn_string_for_shard(str(run_id)), prepared)

    def index_connection(self) -> Any:
        return self._engines.connected(self.conn_string_for_shard("index"), super().index_connection)

    def dispose(self) -> None:
        super().dispose()
        self._engines.dispose()


class _Runs(_RunsOfDagster):
    def __init__(self, conn_string: str, inst_data: Any = None) -> None:
        self._engines, self._address = _Engines(), conn_string
        super().__init__(conn_string, inst_data)

    def connect(self) -> Any:
        return self._engines.connected(self._address, super().connect)

    def dispose(self) -> None:
        super().dispose()
        self._engines.dispose()


class Storage(_StorageOfDagster):
    """Dagster's SQLite storage with engines that stay open, and commits that do not wait for the disk.

    Dagster's own storage creates an engine for every event, compiles each statement again, and checkpoints SQLite's
    write-ahead log when the last connection closes. In the demo, these steps take a quarter of `care run`'s CPU time.
    After a power failure each database is intact, but the commits of the last seconds may be lost. CARE then
    materialises the affected partitions again. ``dagster.yaml`` names this class.
    """

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        super().__init__(base_dir, inst_data)
        history = Path(base_dir) / "history"
        self._events, self._runs = _EventLog(str(history / "runs")), _Runs.from_local(str(history))

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> Storage:
        return cls(inst_data=inst_data, **config_value)

    def register_instance(self, instance: dg.DagsterInstance) -> None:
        super().register_instance(instance)
        for storage in (self._events, self._runs):
            if not storage.has_instance:
                storage.register_instance(instance)

    @property
    def event_log_storage(self) -> _EventLog:
        return self._events

    @property
    def run_storage(self) -> _Runs:
        return self._runs
