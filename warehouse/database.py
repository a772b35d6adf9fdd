"""Connections to the DuckDB database of a workspace, and checks of the schema version.

DuckDB allows one writing process or several reading processes, and immediately refuses any other process.
Connections are therefore short, and this module waits while the database is locked. Ray and Dask workers
never open the database. CARE can rebuild the database from the files of items, scores and fits. If DuckDB reports
damage, CARE writes a marker file, and no process uses the database until it has been rebuilt.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path

import duckdb

from care_ops.errors import WarehouseError, release
from warehouse.refusals import refusal
from warehouse.storage import DamagedError, quarantine

SCHEMA_VERSION = 14
"""Version of ``schema.sql``. CARE rebuilds a database of an older version, and refuses a newer database."""

_LOCK_MESSAGE = "Could not set lock"
_LATER_DUCKDB_MESSAGE = "created with a newer version of DuckDB"
_LOCK_WAIT_S = 60.0
_REBUILD = "run `care run` to rebuild it from the files of scores and fits"
_log = logging.getLogger(__name__)
_DAMAGE_ERRORS = (duckdb.IOException, duckdb.SerializationException, duckdb.InternalException, duckdb.FatalException)
"""Errors that DuckDB raises for a damaged file. Other errors about damage have "corrupt" in their message. If CARE
treats an intact database as damaged, the only cost is a rebuild of about a minute."""


class Warehouse:
    """DuckDB database of a workspace; its file may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def writer(self) -> Generator[duckdb.DuckDBPyConnection]:
        """Open a connection for writing, and commit the transaction at the end of the ``with`` block.

        An error rolls the transaction back. Raises ``WarehouseError`` if another process kept the database locked
        for a minute, the schema does not have the current version, or the file is damaged.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._reporting_damage(), self._connect(read_only=False) as connection:
            prepare(connection)
            connection.begin()
            try:
                yield connection
            except BaseException:
                with suppress(duckdb.Error):  # the first error is more useful than a failed rollback
                    connection.rollback()
                raise
            connection.commit()

    @contextmanager
    def reader(self) -> Generator[duckdb.DuckDBPyConnection]:
        """Open a connection for reading; callers must close it within milliseconds, because it blocks all writers.

        Raises ``WarehouseError`` if the database is missing, damaged, or locked by another process for a minute.
        """
        if not self._exists():
            raise WarehouseError(f"{self.path}: the database does not exist yet; run `care run` first")
        with self._reporting_damage(), self._connect(read_only=True) as connection:
            yield connection

    def usable(self) -> bool:
        """Return whether the database exists, has the current schema and is not marked as damaged.

        Raises ``WarehouseError`` if the database stayed locked for a minute, or a later release of CARE built it.
        """
        if not self._exists():
            return False
        try:
            with self.reader() as connection:
                return version_of(connection) == SCHEMA_VERSION
        except DamagedError as error:
            _log.warning("%s", error)
            return False

    def check(self) -> None:
        """Read every row of every table; raise ``DamagedError`` if a row cannot be read."""
        with self.reader() as connection:
            for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                connection.execute(f'SELECT bit_xor(hash(t)) FROM "{table}" t').fetchall()

    def remove(self) -> None:
        """Delete the files of the database; quarantine any folder found at the path of such a file."""
        _log.info("%s: CARE deletes the database, and can rebuild it from the files of scores and fits.", self.path)
        for path in (self.path, self._sibling(".wal"), self._mark):
            if path.is_dir():
                quarantine(path, "there is a folder in place of the database")
            path.unlink(missing_ok=True)

    def replace_by(self, other: Warehouse) -> None:
        """Replace this database by another database in one step; readers see either the old or the new file.

        If a killed writer has left a write-ahead log, the old database is deleted first, because the new database must
        not read that log. In this case no database exists for a moment.
        """
        _log.info("%s: the rebuilt database replaces the old database.", self.path)
        if self.path.is_dir() or self._sibling(".wal").exists():
            self.remove()
        other.path.replace(self.path)
        self._mark.unlink(missing_ok=True)

    def _exists(self) -> bool:
        try:
            return self.path.stat().st_size > 0
        except FileNotFoundError:
            return False

    def _sibling(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    @property
    def _mark(self) -> Path:
        return self._sibling(".damaged")

    @contextmanager
    def _reporting_damage(self) -> Generator[None]:
        """Convert DuckDB's errors about a damaged file to ``DamagedError``, and mark the database as damaged."""
        if self._mark.exists() and self.path.exists():
            raise DamagedError(f"{self.path}: the database is damaged; {_REBUILD}")
        try:
            yield
        except duckdb.Error as error:
            if not isinstance(error, _DAMAGE_ERRORS) and "corrupt" not in str(error).lower():
                raise
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            if _LATER_DUCKDB_MESSAGE in str(error):
                raise WarehouseError(
                    f"{self.path}: the database was written by a release of DuckDB later than {duckdb.__version__} "
                    f"({reason}). Install the release of CARE that you used before, or a later release; or delete the "
                    f"database and {_REBUILD}"
                ) from None
            if (refused := refusal(error, self.path)) is not None:
                raise WarehouseError(refused) from None
            with suppress(OSError):  # without the marker, the next process finds the damage by itself
                self._mark.write_text(f"{reason}\n", encoding="utf-8")
            raise DamagedError(f"{self.path}: the database is damaged ({reason}); {_REBUILD}") from None

    def _connect(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        deadline = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                connection = duckdb.connect(str(self.path), read_only=read_only)
                connection.execute("SET enable_progress_bar = false")  # commands draw their own progress bar
                return connection
            except duckdb.IOException as error:
                if _LOCK_MESSAGE not in str(error):
                    raise
                if time.monotonic() > deadline:
                    raise WarehouseError(
                        f"{self.path}: another process has locked the database for {_LOCK_WAIT_S:.0f} s; close the "
                        "program that uses the database, then run the same command again"
                    ) from error
                time.sleep(random.uniform(0.005, 0.05))


def prepare(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables in an empty database.

    Raises ``WarehouseError`` if the database has an older schema: CARE rebuilds a database instead of migrating it.
    """
    version = version_of(connection)
    if version == SCHEMA_VERSION:
        return
    if version is not None:
        raise WarehouseError(
            f"the database has schema {version}, but this release of CARE needs schema {SCHEMA_VERSION}; run "
            "`care run` to rebuild the database from the files of scores and fits"
        )
    connection.begin()
    connection.execute(resources.files(__name__.rpartition(".")[0]).joinpath("schema.sql").read_text(encoding="utf-8"))
    connection.execute("INSERT INTO schema_version VALUES (?, ?)", [SCHEMA_VERSION, release()])
    connection.commit()


def version_of(connection: duckdb.DuckDBPyConnection) -> int | None:
    """Return the version of a database's schema, or None if the database has no tables yet.

    Raises ``WarehouseError`` if a later release of CARE built the database, because this release may not be able to
    rebuild the whole database.
    """
    tables = connection.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'schema_version'").fetchall()
    if tables == [(0,)]:
        return None
    row = connection.execute("SELECT * FROM schema_version ORDER BY version DESC LIMIT 1").fetchone()
    if row is None:
        return None
    if row[0] > SCHEMA_VERSION:
        raise WarehouseError(
            f"the database was built by CARE {row[1]} (schema {row[0]}); this is CARE {release()} (schema "
            f"{SCHEMA_VERSION}). Install CARE {row[1]} or later. Or delete the database and run `care run`: CARE "
            "then rebuilds it from all files of scores and fits that this release can read"
        )
    return int(row[0])
