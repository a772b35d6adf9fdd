"""A data folder as a copy of a store: what is written reaches the store first, and what the store has is fetched.

The store is the record. A finished file is uploaded before it gets its name in the folder, and an object is deleted
before the file, so the folder never has what the store lacks. A process that is killed between the two leaves the store
one file ahead, which the next command fetches. What can be made again without the store stays in the folder only: the
database, Dagster's record of runs, hashes, locks, lists of parts, temporary files.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from care_ops.errors import InputError
from warehouse.remote.address import INDEX_FOLDER, locks_at_once
from warehouse.remote.index import UNCERTAIN, Index
from warehouse.remote.lease import Lease
from warehouse.remote.objects import Listed, Objects
from warehouse.storage import Record, records, temporary_of

RECORD_OF_RUNS = "dagster.tar"
"""Key of a snapshot of Dagster's record of runs, which is no file of the folder."""

_FOLDERS = ("parts", "fits", "report", "experiments")
"""Folders of the data folder whose files are objects."""

_FILES = ("forgotten.jsonl", "forgetting.json")
"""Files of the data folder that are objects."""

_LOCAL = ("manifest",)
"""Names of files that can be made again from their neighbours."""

_SIDE_BY_SIDE = 8
"""Objects that are fetched at the same time."""

_PASSES = 3
"""How often a reader compares the folder with a store that another machine is writing to."""

_VERDICTS = "report/verdicts.json"
"""The one file outside the parts that the database is made of."""

_ADDRESS, _READY, _BEHIND = "address", "ready", "database is behind"

_log = logging.getLogger(__name__)


def copy_of(folder: Path, address: str) -> StoreCopy:
    """This process's copy of a store in a folder; from now on what ``storage`` writes there reaches the store first."""
    known = records.get(folder)
    if not isinstance(known, StoreCopy) or known.address != address:
        known = records[folder] = StoreCopy(folder, address)
    return known


class StoreCopy(Record):
    """The copy of one store in one data folder; ``copy_of`` makes it."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address
        self.objects = Objects(address)
        self.index = Index(folder / INDEX_FOLDER / "index.sqlite")
        self.lease = Lease(self.objects, self.index)

    @contextmanager
    def writing(
        self, who: str, say: Callable[[str], object], patience: float | None, caught_up: Callable[[], None]
    ) -> Generator[None]:
        """Hold the lease; what the store has and the folder lacks is fetched first.

        Other processes of this machine may hold it at the same time: the first takes it (``Lease.take``) and fetches,
        and calls ``caught_up`` before the others go on; the last gives it back.
        """
        with self._lock() as lock:
            while not locks_at_once(lock, fcntl.LOCK_EX):
                fcntl.flock(lock, fcntl.LOCK_SH)  # waits for one who takes the lease just now
                if self.index.fact(_READY) is not None:
                    break
            else:
                self._begin(who, say, patience, caught_up)
                fcntl.flock(lock, fcntl.LOCK_SH)
            self.lease.begin_renewing(who)
            try:
                yield
            finally:
                self.lease.end_renewing()
                if locks_at_once(lock, fcntl.LOCK_EX):
                    self._end()

    @contextmanager
    def looking(self) -> Generator[bool]:
        """Fetch what the folder lacks, for a command that writes nothing; whether that was done.

        Nothing is fetched while a command of this machine writes: the folder is ahead of everybody then.
        """
        with self._lock() as lock:
            if not locks_at_once(lock, fcntl.LOCK_EX):
                yield False
                return
            for _ in range(_PASSES):  # what names a file is written after it, and may be listed before it
                if not self._compare(upload=False):
                    break
            yield True

    @property
    def database_is_behind(self) -> bool:
        """Whether files that the database is made of came or went since ``database_caught_up`` was called.

        It is kept with the folder, so that a process that is killed, or cut off, leaves it to the next.
        """
        return self.index.fact(_BEHIND) is not None

    def database_caught_up(self) -> None:
        """Take note that the database has been made of the files that are there."""
        self.index.keep(_BEHIND, None)

    @contextmanager
    def replacing(self, path: Path, content: Path) -> Generator[None]:
        """Upload the content of a file; the block then gives it its name."""
        key = self._key(path)
        if key is None:
            yield
            return
        self.lease.must_hold()
        version = self.objects.put(key, content)
        self.index.note(key, UNCERTAIN)
        yield
        self.index.note(key, version.tag)

    @contextmanager
    def removing(self, paths: Iterable[Path]) -> Generator[None]:
        """Delete the objects of files; the block then deletes the files."""
        keys = [key for path in paths if (key := self._key(path)) is not None and self.index.knows(key)]
        if keys:
            self.lease.must_hold()
        self.objects.delete(keys)
        yield
        for key in keys:
            self.index.drop(key)

    def moved(self, path: Path, arrived: Sequence[Path]) -> None:
        """Do in the store what was done in the folder: files that are new, and one that is gone.

        A command that does not hold the lease leaves it to the next that does, which fetches the file again.
        """
        if not self.lease.holds:
            return
        for file in (file for file in arrived if file.is_file()):
            with self.replacing(file, file):
                pass
        with self.removing([path]):
            pass

    def _begin(
        self, who: str, say: Callable[[str], object], patience: float | None, caught_up: Callable[[], None]
    ) -> None:
        """Take the lease and fetch, while no other process of this machine does anything."""
        self.index.keep(_READY, None)
        self.lease.take(who, say, patience)
        self.lease.begin_renewing(who)
        try:
            self._compare(upload=True)
            caught_up()
            self.index.keep(_READY, who)
        except BaseException:
            self.lease.end_renewing()
            self._end()
            raise
        self.lease.end_renewing()

    def _end(self) -> None:
        """Give the lease back, as the last process of this machine that has it."""
        self.index.keep(_READY, None)
        self.lease.give_back()

    def _compare(self, *, upload: bool) -> bool:
        """Make the folder what the store is, and say whether anything came.

        Files that the store has never had are uploaded, or left alone.
        """
        listed = {key: entry for key, entry in self.objects.listed().items() if _is_an_object(key)}
        files = {file.relative_to(self.folder).as_posix() for file in self._files()}
        self._must_be_of_this_store(files, listed)
        tags = self.index.tags()
        came = [key for key, entry in sorted(listed.items()) if key not in files or tags.get(key) != entry.tag]
        gone = sorted(files & tags.keys() - listed.keys())
        if any(key.startswith("parts/") or key == _VERDICTS for key in (*came, *gone)):
            self.index.keep(_BEHIND, "yes")  # before the first of them changes
        self._fetch(came, listed)
        uploaded: set[str] = set()
        for key in sorted(files - listed.keys()):
            path = self.folder / key
            if key in tags:
                path.unlink(missing_ok=True)
            elif upload:
                with self.replacing(path, path):
                    uploaded.add(key)
        for key in tags.keys() - listed.keys() - uploaded:
            self.index.drop(key)
        counts = self.address, len(came), len(gone), len(uploaded)
        _log.info("%s: %d files fetched, %d deleted, %d uploaded.", *counts)
        return bool(came)

    def _must_be_of_this_store(self, files: Collection[str], listed: Collection[str]) -> None:
        """Refuse a folder that is a copy of another store, or one with files of its own beside a store with others."""
        kept = self.index.fact(_ADDRESS)
        if kept is not None and kept != self.address:
            raise InputError(
                f"{self.folder} is a copy of {kept}, and care.yaml says `data: {self.address}`; move the folder away, "
                "and the next command fetches a copy of that one"
            )
        if kept is None and files and listed:
            raise InputError(
                f"{self.folder} holds files of its own, and {self.address} holds others; move the folder away to work "
                "with those of the store, or give an address where nothing is yet to have the folder copied there"
            )
        if kept is None:
            self.index.keep(_ADDRESS, self.address)

    def _fetch(self, keys: Sequence[str], listed: Mapping[str, Listed]) -> None:
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as threads:
            for key, (temporary, tag) in zip(keys, threads.map(self._download, keys), strict=True):
                moment = listed[key].changed
                os.utime(temporary, (moment, moment))  # what may be deleted goes by the time at which it was written
                self.index.note(key, UNCERTAIN)
                temporary.replace(self.folder / key)
                self.index.note(key, tag)

    def _download(self, key: str) -> tuple[Path, str]:
        temporary = temporary_of(self.folder / key)
        temporary.parent.mkdir(parents=True, exist_ok=True)
        try:
            return temporary, self.objects.fetch(key, temporary).tag
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _files(self) -> Iterator[Path]:
        """Files of the folder that are objects."""
        for name in _FOLDERS:
            for file in (self.folder / name).rglob("*"):
                if _is_an_object(file.relative_to(self.folder).as_posix()) and file.is_file():
                    yield file
        yield from (self.folder / name for name in _FILES if (self.folder / name).is_file())

    def _key(self, path: Path) -> str | None:
        """The key of a file; None where it stays in the folder only."""
        key = path.absolute().relative_to(self.folder).as_posix()
        return key if _is_an_object(key) else None

    @contextmanager
    def _lock(self) -> Generator[IO[str]]:
        folder = self.folder / INDEX_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lease.lock").open("a+") as lock:  # NFS shares a lock only on a file that is open for reading
            yield lock


def _is_an_object(key: str) -> bool:
    """Whether a file of this name in the data folder is an object of the store."""
    folder, _, rest = key.partition("/")
    name = key.rpartition("/")[2]
    if not rest:
        return key in _FILES
    return folder in _FOLDERS and name not in _LOCAL and not name.startswith(".")
