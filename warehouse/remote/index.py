"""What a data folder knows of the store that it is a copy of: which content of each object it holds.

The index is a small SQLite file in the folder. It can be deleted together with the folder, and never alone: without
it nobody can tell a file that the store has lost from one that the store has never had.
"""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from care_ops.errors import WarehouseError
from warehouse.refusals import refusal

UNCERTAIN = ""
"""Tag of a file that was being written or deleted; only the store knows whether it exists, and with which content."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS objects (key TEXT PRIMARY KEY, tag TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
)
_LOCK_WAIT_S = 60.0


class Index:
    """The notes of one folder, in an SQLite file; several threads and processes may use them at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def tags(self) -> dict[str, str]:
        """The tag of each object that the folder has a copy of, or ``UNCERTAIN``, by key."""
        with self._connection() as connection:
            return dict(connection.execute("SELECT key, tag FROM objects").fetchall())

    def knows(self, key: str) -> bool:
        """Whether the folder has, or may have, a copy of this object."""
        with self._connection() as connection:
            return connection.execute("SELECT 1 FROM objects WHERE key = ?", (key,)).fetchone() is not None

    def note(self, key: str, tag: str) -> None:
        """Keep that the folder has the object's content with this tag."""
        with self._connection() as connection:
            connection.execute("INSERT OR REPLACE INTO objects VALUES (?, ?)", (key, tag))

    def drop(self, key: str) -> None:
        """Forget an object."""
        with self._connection() as connection:
            connection.execute("DELETE FROM objects WHERE key = ?", (key,))

    def fact(self, name: str) -> str | None:
        """What ``keep`` kept under a name."""
        with self._connection() as connection:
            row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def keep(self, name: str, value: str | None) -> None:
        """Keep a value under a name; None removes it."""
        with self._connection() as connection:
            if value is None:
                connection.execute("DELETE FROM facts WHERE name = ?", (name,))
            else:
                connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        """A connection of its own for each use: the folder may be deleted between two."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(self.path, timeout=_LOCK_WAIT_S, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = OFF")  # what a failure of the power loses is fetched again
                for statement in _TABLES:
                    connection.execute(statement)
                yield connection
        except sqlite3.DatabaseError as error:
            raise WarehouseError(
                refusal(error, self.path)
                or f"{self.path}: what is known of the copy cannot be read or written ({error}); delete the folder "
                f"{self.path.parent.parent}, and the next command fetches it from the store"
            ) from None
