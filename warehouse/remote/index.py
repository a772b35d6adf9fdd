"""The index of a data folder: the version of each object of the store that the folder holds.

The index is an SQLite file in the folder and must not be deleted without the folder. It distinguishes files that the
store has lost from files that the store never had.
"""

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

from care_ops.errors import WarehouseError
from warehouse.refusals import refusal

UNCERTAIN = ""
"""Tag of a file that was being written or deleted; only the store knows its content."""

_TABLES = """
CREATE TABLE IF NOT EXISTS objects (key TEXT PRIMARY KEY, tag TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_LOCK_WAIT_S = 60.0


class Index:
    """The index of one folder, which several threads and processes may use at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def tags(self) -> dict[str, str]:
        """Return the tag of each object in the folder, or ``UNCERTAIN``, by key."""
        return dict(self._run("SELECT key, tag FROM objects"))

    def note(self, key: str, tag: str | None) -> None:
        """Record that the folder has the object's content with this tag; None removes the object's entry."""
        self._write("objects", key, tag)

    def fact(self, name: str) -> str | None:
        """Return the value that ``keep`` stored under a name."""
        return dict(self._run("SELECT name, value FROM facts WHERE name = ?", name)).get(name)

    def keep(self, name: str, value: str | None) -> None:
        """Store a value under a name; None removes it."""
        self._write("facts", name, value)

    def machine(self) -> str:
        """Return a unique name of this data folder, chosen on first use."""
        self._run("INSERT OR IGNORE INTO facts VALUES ('machine', ?)", uuid.uuid4().hex)
        return str(self.fact("machine"))

    def _write(self, table: str, name: str, value: str | None) -> None:
        if value is None:
            self._run(f"DELETE FROM {table} WHERE {'key' if table == 'objects' else 'name'} = ?", name)
        else:
            self._run(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", name, value)

    def _run(self, statement: str, *values: str) -> list[tuple[str, str]]:
        """Run a statement in a new connection: the folder may be deleted between two statements."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(self.path, timeout=_LOCK_WAIT_S, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = OFF")  # entries lost in a power failure are fetched again
                connection.executescript(_TABLES)
                return connection.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise WarehouseError(
                refusal(error, self.path)
                or f"{self.path}: the index of the copy cannot be read or written ({error}); delete the folder "
                f"{self.path.parent.parent}, and the next command fetches it from the store"
            ) from None
