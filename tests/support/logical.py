"""What of a workspace somebody could still read, as digests: two moments with equal ones are one state to a later run.

Of a database that is its rows: a copy is opened, so that SQLite and DuckDB recover from their own logs as they would
after a kill. Of Dagster's event log it is the events about assets and runs in the index of all runs, which sensors
and ``care`` read; the lines in which its engine tells how a step went, the log that each run has beside that (of which
only the tables count, since the end of a killed run is written there) and the captured outputs below
``dagster/storage`` are for the pages on which people look at one run. Of every other file it is the content, and of
folders that they are there. A file named as temporary counts by its name: nobody reads it.

Belongs here: reading that, again only where something changed. Belongs elsewhere: what two runs of one command may
differ in (``tests.support.faults``); both moments are of one run here, so that ids and times may stay.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path

DAGSTER = "data/dagster/"
_FOR_PEOPLE = f"{DAGSTER}storage/"
_DATABASE = re.compile(r"(?P<file>.*\.(?:db|duckdb))(?:-wal|-journal|-shm|\.wal[\w.]*)?")
"""A database and the files in which it keeps what it has not yet brought home."""
_INDEX = "index.db"
_EVENTS = "WHERE dagster_event_type LIKE 'ASSET%' OR dagster_event_type LIKE 'PIPELINE%'"
"""Events about assets and, by the old name, about runs."""
_LOG = "event_logs"

Signature = tuple[int, int, int]


def files_below(root: Path) -> Iterator[tuple[str, Signature]]:
    """Every file and folder below a root: its name there (a folder's ends in a slash), and what changes with it."""
    folders = [str(root)]
    skip = len(folders[0]) + 1
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    yield f"{entry.path[skip:]}/", (0, 0, 0)
                else:
                    about = entry.stat(follow_symlinks=False)
                    yield entry.path[skip:], (about.st_mtime_ns, about.st_size, about.st_ino)


def database_of(name: str) -> str | None:
    """The database that a file is, or keeps something for; None where it is another kind of file."""
    match = _DATABASE.fullmatch(name)
    return match["file"] if match else None


def is_temporary(name: str) -> bool:
    """Whether a file is named as one that is swept (``warehouse.storage.replacing``)."""
    return Path(name).name.startswith(".") and name.endswith(".tmp")


class Reader:
    """The logical state of one workspace over the course of a run.

    Parameters
    ----------
    root : Path
        The workspace; nobody may change it while it is read.
    scratch : Path
        Folder, best in memory, that databases are copied to.
    """

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root, self._scratch = root, scratch
        self._signatures: dict[str, tuple[tuple[str, Signature], ...]] = {}
        self._said: dict[str, str] = {}

    def read(self, touched: Collection[str] = ()) -> dict[str, str]:
        """Digest by file, folder and database.

        Parameters
        ----------
        touched : collection of str
            Files that were written to since the last time. Two writes within one tick of the clock leave the same
            date and may leave the same size.
        """
        members: dict[str, list[tuple[str, Signature]]] = {}
        for name, signature in files_below(self._root):
            if not name.startswith(_FOR_PEOPLE) and not name.endswith("-shm"):
                members.setdefault(database_of(name) or name, []).append((name, signature))
        changed = {database_of(name) or name for name in touched}
        said: dict[str, str] = {}
        for whole, parts in members.items():
            signature = tuple(sorted(parts))
            if whole in changed or self._signatures.get(whole) != signature:
                self._said[whole] = self._says(whole, [name for name, _ in signature])
                self._signatures[whole] = signature
            said[whole] = self._said[whole]
        return said

    def _says(self, whole: str, parts: list[str]) -> str:
        if whole.endswith("/"):
            return "folder"
        if is_temporary(whole):
            return "temporary"
        if database_of(whole) is None:
            return _digest([(self._root / whole).read_bytes()])
        if whole not in parts:
            return f"only {', '.join(parts)}"
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        for name in parts:
            shutil.copyfile(self._root / name, self._scratch / Path(name).name)
        copy = self._scratch / Path(whole).name
        return duckdb_says(copy) if whole.endswith(".duckdb") else sqlite_says(copy)


def digest_of(said: dict[str, str]) -> str:
    """One name for a state."""
    return _digest(f"{name}={value}\n".encode() for name, value in sorted(said.items()))


def sqlite_says(copy: Path) -> str:
    """Digest of what a SQLite database holds after it has recovered; that it cannot be opened is a state of its own."""
    connection = sqlite3.connect(copy)
    try:
        tables = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        rows = [repr([tables, connection.execute("PRAGMA journal_mode").fetchone()]).encode()]
        for name, sql in tables:
            if sql and sql.startswith("CREATE TABLE") and not name.startswith("sqlite_"):
                if name == _LOG and copy.name != _INDEX:
                    continue
                wanted = _EVENTS if name == _LOG else ""
                rows += [repr(row).encode() for row in connection.execute(f"SELECT * FROM {name} {wanted}")]
        return _digest(rows)
    except sqlite3.DatabaseError as error:
        return f"cannot be read: {error}"
    finally:
        connection.close()


def duckdb_says(copy: Path) -> str:
    """Digest of what a DuckDB database holds after it has recovered; that it cannot be opened is a state of its own."""
    import duckdb

    try:
        with duckdb.connect(str(copy), read_only=True, config={"threads": 1}) as connection:
            tables = sorted(t for (t,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall())
            rows = [(t, sorted(map(repr, connection.execute(f"SELECT * FROM {t}").fetchall()))) for t in tables]
        return _digest([repr(rows).encode()])
    except duckdb.Error as error:
        return f"cannot be read: {type(error).__name__}"


def _digest(pieces: Iterator[bytes] | list[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
