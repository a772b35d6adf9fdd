"""Synchronization of a data folder with a store, which holds the authoritative files.

A finished file is uploaded before it gets its name in the folder, and an object is deleted before the file. The folder
therefore never has a file that the store lacks. If a process is killed between the two steps, the store is one file
ahead, and the next command fetches it. Files that can be rebuilt stay in the folder only: the database, Dagster's
record of runs, hashes, locks, temporary files and quarantined files.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import uuid
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

from care_ops.errors import InputError, WarehouseError
from warehouse.refusals import refusal
from warehouse.remote.address import INDEX_FOLDER, locks_at_once
from warehouse.remote.lease import Lease
from warehouse.remote.objects import Objects
from warehouse.storage import DAMAGED, Record, records, temporary_of

_FOLDERS = ("parts", "fits", "report", "experiments")
_FILES = ("forgotten.jsonl", "forgetting.json")
"""Folders and files of the data folder that the store also holds."""

_PARALLEL_FETCHES = 8
_PASSES = 3
"""Maximum number of comparisons with a store to which another machine may be writing."""

_INPUTS = ("parts/", "report/verdicts.json")
"""Prefixes of the keys of files that are inputs of the database."""

_ADDRESS, _READY, BEHIND = "address", "ready", "database is behind"
_TAG = "tag of "
"""Prefix of the names of tags in the index; the name of a tag ends with the key of the object."""

_UNCERTAIN = ""
"""Tag of a file whose upload was interrupted, so only the store knows its content."""

_LOCK_WAIT_S = 60.0
_log = logging.getLogger(__name__)


def copy_of(folder: Path, address: str) -> StoreCopy:
    """Return the copy of a store in a folder, and register it, so ``storage`` writes files to the store first."""
    known = records.get(folder)
    if not isinstance(known, StoreCopy) or known.address != address:
        known = records[folder] = StoreCopy(folder, address)
    return known


class StoreCopy(Record):
    """Copy of one store in one data folder; see ``copy_of``."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address
        self.objects = Objects(address)
        self.index = Index(folder / INDEX_FOLDER / "index.sqlite")
        self.lease = Lease(self.objects, self.index.machine)

    @contextmanager
    def writing(
        self, who: str, report: Callable[[str], object], patience: float | None, caught_up: Callable[[], None]
    ) -> Generator[None]:
        """Hold the lease of the store for a ``with`` block, after downloading the files that the folder lacks.

        Other processes of this machine may hold the lease at the same time. The first process takes the lease,
        fetches, and calls ``caught_up`` before the others continue. The last process releases it.
        """
        with self._lock() as lock:
            is_first = True
            while is_first and not locks_at_once(lock, fcntl.LOCK_EX):
                fcntl.flock(lock, fcntl.LOCK_SH)  # waits for a process that is taking the lease
                is_first = self.index.fact(_READY) is None
            if is_first:
                self.index.keep(_READY, None)
                self.lease.take(who, report, patience)
            try:
                with self.lease.renewing(who):
                    if is_first:
                        self._compare(upload=True)
                        caught_up()
                        self.index.keep(_READY, who)
                        fcntl.flock(lock, fcntl.LOCK_SH)
                    yield
            finally:
                if locks_at_once(lock, fcntl.LOCK_EX):
                    self.index.keep(_READY, None)
                    self.lease.give_back()

    @contextmanager
    def looking(self) -> Generator[bool]:
        """Download the files that the folder lacks, for a command that only reads, and yield whether this was possible.

        Nothing is fetched while a command of this machine writes, because the folder is then ahead of all others.
        """
        with self._lock() as lock:
            is_free = locks_at_once(lock, fcntl.LOCK_EX)
            for _ in range(_PASSES if is_free else 0):  # a file may be listed before the files that it names
                if not self._compare(upload=False):
                    break
            yield is_free

    @contextmanager
    def replacing(self, path: Path, content: Path) -> Generator[None]:
        """Upload the content of a file, before the ``with`` block renames the file to ``path``."""
        key = self._key(path)
        if not _is_an_object(key):
            yield
            return
        self.lease.must_hold()
        version = self.objects.put(key, content) or {}
        self.index.keep(_TAG + key, _UNCERTAIN)
        yield
        self.index.keep(_TAG + key, version.get("e_tag") or _UNCERTAIN)

    @contextmanager
    def removing(self, paths: Iterable[Path]) -> Generator[None]:
        """Delete the objects of files in the store, before the ``with`` block deletes the files."""
        keys = sorted({*map(self._key, paths)} & self.index.tags().keys())
        if keys:
            self.lease.must_hold()
        self.objects.delete(keys)
        yield
        for key in keys:
            self.index.keep(_TAG + key, None)

    def _compare(self, *, upload: bool) -> bool:
        """Make the folder equal to the store, and return whether any file was downloaded.

        With ``upload``, files that the store never had are uploaded.
        """
        listed = {key: entry for key, entry in self.objects.listed().items() if _is_an_object(key)}
        names = [*_FILES, *(self._key(path) for name in _FOLDERS for path in (self.folder / name).rglob("*"))]
        files = {key for key in names if _is_an_object(key) and (self.folder / key).is_file()}
        self._refuse_another_store(both_have_files=bool(files and listed))
        tags = self.index.tags()
        came = [key for key, (tag, _) in sorted(listed.items()) if key not in files or tags.get(key) != tag]
        gone = sorted(tags.keys() - listed.keys())
        if any(key.startswith(_INPUTS) for key in (*came, *gone)):
            self.index.keep(BEHIND, "yes")  # before the first file changes
        with ThreadPoolExecutor(_PARALLEL_FETCHES) as threads:
            for key, (temporary, tag) in zip(came, threads.map(self._download, came), strict=True):
                moment = listed[key][1]
                os.utime(temporary, (moment, moment))  # retention uses the time of writing
                self.index.keep(_TAG + key, _UNCERTAIN)
                temporary.replace(self.folder / key)
                self.index.keep(_TAG + key, tag)
        for key in gone:
            (self.folder / key).unlink(missing_ok=True)
            self.index.keep(_TAG + key, None)
        new = sorted(files - tags.keys() - listed.keys()) if upload else []
        for key in new:
            with self.replacing(self.folder / key, self.folder / key):
                pass
        _log.info("%s: %d files fetched, %d deleted, %d uploaded.", self.address, len(came), len(gone), len(new))
        return bool(came)

    def _refuse_another_store(self, *, both_have_files: bool) -> None:
        """Raise an error if the folder is a copy of another store, or its files conflict with the store's files."""
        kept = self.index.fact(_ADDRESS)
        if kept is not None and kept != self.address:
            raise InputError(
                f"{self.folder} is a copy of {kept}, but care.yaml has `data: {self.address}`. Move the folder away, "
                "and the next command fetches a copy of the new store"
            )
        if kept is None and both_have_files:
            raise InputError(
                f"{self.folder} and {self.address} hold different files. To work with the store's files, move the "
                "folder away. To copy the folder into a store, set `data` to the URL of an empty store"
            )
        self.index.keep(_ADDRESS, self.address)

    def _download(self, key: str) -> tuple[Path, str]:
        temporary = temporary_of(self.folder / key)
        temporary.parent.mkdir(parents=True, exist_ok=True)
        try:
            return temporary, self.objects.fetch(key, temporary)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _key(self, path: Path) -> str:
        return path.absolute().relative_to(self.folder).as_posix()

    @contextmanager
    def _lock(self) -> Generator[IO[str]]:
        folder = self.folder / INDEX_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lease.lock").open("a+") as lock:  # NFS needs a file open for reading to share a lock
            yield lock


class Index:
    """SQLite file with the tag of each object that a folder holds a copy of, and the state of the copy.

    The file must not be deleted without the folder: it distinguishes files that the store has lost from files that it
    never had. Several threads and processes may use it at a time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def tags(self) -> dict[str, str]:
        """Return the tag of each object in the folder, by key; the tag is empty after an interrupted upload."""
        known = self._run("SELECT name, value FROM facts WHERE name LIKE ?", f"{_TAG}%")
        return {name.removeprefix(_TAG): tag for name, tag in known}

    def fact(self, name: str) -> str | None:
        """Return the value that ``keep`` stored under a name, or None."""
        return dict(self._run("SELECT name, value FROM facts WHERE name = ?", name)).get(name)

    def keep(self, name: str, value: str | None) -> None:
        """Store a value under a name, or delete the name if the value is None."""
        if value is None:
            self._run("DELETE FROM facts WHERE name = ?", name)
        else:
            self._run("INSERT OR REPLACE INTO facts VALUES (?, ?)", name, value)

    def machine(self) -> str:
        """Return a unique name of this data folder, which is chosen on first use."""
        self._run("INSERT OR IGNORE INTO facts VALUES ('machine', ?)", uuid.uuid4().hex)
        return str(self.fact("machine"))

    def _run(self, statement: str, *values: str) -> list[tuple[str, str]]:
        """Run a statement in a new connection, because the folder may be deleted between two statements."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(self.path, timeout=_LOCK_WAIT_S, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = OFF")  # entries lost in a power failure are fetched again
                connection.execute("CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
                return connection.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise WarehouseError(
                refusal(error, self.path)
                or f"{self.path}: the index of the copy cannot be read or written ({error}); delete the folder "
                f"{self.path.parent.parent}, and the next command fetches it from the store"
            ) from None


def _is_an_object(key: str) -> bool:
    folder, *rest = key.split("/")
    return key in _FILES or bool(rest and folder in _FOLDERS and DAMAGED not in rest and not rest[-1].startswith("."))
