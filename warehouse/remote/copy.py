"""Synchronization of a data folder with a remote store, and the lease that allows one machine to write.

The files in the store are authoritative. CARE makes each change in the store first: it uploads a finished file before
renaming the local file, and deletes an object before the local file. If a process is killed between these two steps,
the next command makes the same change in the folder. Files that can be rebuilt are not uploaded: the database,
Dagster's record of runs, hashes, locks, temporary files and quarantined files.

The subfolder ``store`` of the data folder contains the ETag of each copied object. Never delete this subfolder alone:
CARE needs the ETags to distinguish files that were deleted from the store from files that were never uploaded.

The lease is an object that names the only machine that may write; that machine renews it. Because of a conditional
write, only one of several machines can take the lease. A waiting machine takes over the lease if its own clock counts a
minute without a renewal. A machine need not wait if the lease already names it. If the store is a folder, there is no
conditional write: two machines may both hold the lease until one of them renews it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from care_ops.errors import InputError, WarehouseError
from warehouse.remote.address import INDEX_FOLDER, locks_at_once
from warehouse.remote.objects import Objects, Version
from warehouse.storage import DAMAGED, Record, records, replacing, temporary_of

_FOLDERS = ("parts", "fits", "report", "experiments")
_FILES = ("forgotten.jsonl", "forgetting.json")
"""Folders and files of the data folder that CARE uploads to the store."""

_PARALLEL_FETCHES = 8
_PASSES = 3
"""Maximum number of comparisons with the store, because another machine may write to it at the same time."""

_INPUTS = ("parts/", "report/verdicts.json")
"""Prefixes of the keys of files from which the database is built."""

_ADDRESS, _MACHINE, _READY, BEHIND = "address", "machine", "ready", "behind"
_TAGS = "tags/"
"""Folder with the tag of each object; an empty tag means that a transfer of the object was interrupted."""

LEASE = "lease.json"
VALID_S = 60.0
"""Time in seconds after which another machine may take over a lease that is not renewed."""

_RENEWED_EVERY_S, _POLL_S = 15.0, 1.0
_log = logging.getLogger(__name__)


def copy_of(folder: Path, address: str) -> StoreCopy:
    """Return the ``StoreCopy`` of a data folder, and register it; ``storage`` then writes to the remote store first."""
    known = records.get(folder)
    if not isinstance(known, StoreCopy) or known.address != address:
        known = records[folder] = StoreCopy(folder, address)
    return known


class StoreCopy(Record):
    """Data folder that is a copy of a remote store; create instances with ``copy_of``."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address
        self.objects = Objects(address)
        self._renewed: float | None = None  # time of the last renewal, while this process renews the lease

    @contextmanager
    def writing(
        self, who: str, report: Callable[[str], object], patience: float | None, caught_up: Callable[[], None]
    ) -> Generator[None]:
        """Hold the lease on the store during a ``with`` block; first download the files that the folder lacks.

        Several processes of this machine may hold the lease together. The first process takes the lease, downloads
        files, and updates the database with ``caught_up``; other processes wait. The last process releases the lease.
        """
        with self._lock() as lock:
            is_first = True
            while is_first and not locks_at_once(lock, fcntl.LOCK_EX):
                fcntl.flock(lock, fcntl.LOCK_SH)  # waits for a process that is taking the lease
                is_first = self.fact(_READY) is None
            if is_first:
                self.keep(_READY, None)
                self._take_lease(who, report, patience)
            self._renewed, ending = time.monotonic(), threading.Event()
            renewal = threading.Thread(target=self._renew_lease, args=(who, ending), name="lease", daemon=True)
            renewal.start()
            try:
                if is_first:
                    self._compare()
                    caught_up()
                    self.keep(_READY, who)
                    fcntl.flock(lock, fcntl.LOCK_SH)
                yield
            finally:
                ending.set()
                renewal.join()
                self._renewed = None
                if locks_at_once(lock, fcntl.LOCK_EX):
                    self.keep(_READY, None)
                    self._release_lease()

    def fetch(self, caught_up: Callable[[], None]) -> None:
        """Download the files that the folder lacks, and update the database with the function ``caught_up``.

        If another command on this machine holds the lease, do nothing, because the folder is then up to date.
        """
        with self._lock() as lock:
            if locks_at_once(lock, fcntl.LOCK_EX):
                for _ in range(_PASSES):  # a file may be listed before the files that it names
                    if not self._compare():
                        break
                caught_up()

    @contextmanager
    def replacing(self, path: Path, content: Path) -> Generator[None]:
        """Upload the file ``content`` as ``path``, before the ``with`` block renames the local file."""
        key = self._key(path)
        if not _is_an_object(key):
            yield
            return
        self._refuse_without_lease()
        version = self.objects.put(key, content) or {}
        self.keep(_TAGS + key, "")
        yield
        self.keep(_TAGS + key, version.get("e_tag") or "")

    @contextmanager
    def removing(self, paths: Iterable[Path]) -> Generator[None]:
        """Delete files in the store, before the ``with`` block deletes the local files."""
        keys = sorted(key for key in {*map(self._key, paths)} if self.fact(_TAGS + key) is not None)
        for key in keys:
            self._refuse_without_lease()
            self.objects.delete(key)
        yield
        for key in keys:
            self.keep(_TAGS + key, None)

    def fact(self, name: str) -> str | None:
        """Return a value that ``keep`` stored locally under a name; None if there is no value."""
        with suppress(FileNotFoundError):
            return (self.folder / INDEX_FOLDER / name).read_text()
        return None

    def keep(self, name: str, value: str | None) -> None:
        """Store a value locally under a name; delete the stored value if ``value`` is None."""
        path = self.folder / INDEX_FOLDER / name
        if value is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary_of(path).write_text(value)
        temporary_of(path).replace(path)

    def _compare(self) -> bool:
        """Synchronize the data folder with the remote store; return whether any file was downloaded.

        A process that holds the lease also uploads files that the store never had.
        """
        listed = {key: entry for key, entry in self.objects.list().items() if _is_an_object(key)}
        files = _keys_in(self.folder)
        tags = {key: self.fact(_TAGS + key) for key in _keys_in(self.folder / INDEX_FOLDER / _TAGS)}
        if (kept := self.fact(_ADDRESS)) is None and files and listed:
            raise InputError(
                f"{self.folder} and {self.address} contain different files. To work with the store's files, move the "
                "folder away. To copy the folder to a store, set `data` to the URL of an empty store"
            )
        if kept not in (None, self.address):
            raise InputError(
                f"{self.folder} is a copy of {kept}, but care.yaml has `data: {self.address}`. Move the folder away; "
                "the next command then downloads a copy of the new store"
            )
        self.keep(_ADDRESS, self.address)
        came = [key for key, (tag, _) in sorted(listed.items()) if key not in files or tags.get(key) != tag]
        gone = sorted(tags.keys() - listed.keys())
        if any(key.startswith(_INPUTS) for key in (*came, *gone)):
            self.keep(BEHIND, "yes")  # before the first file changes
        with ThreadPoolExecutor(_PARALLEL_FETCHES) as threads:
            list(threads.map(self._download, came, [listed[key][1] for key in came]))
        for key in gone:
            (self.folder / key).unlink(missing_ok=True)
            self.keep(_TAGS + key, None)
        new = sorted(files - tags.keys() - listed.keys()) if self._renewed is not None else []
        for key in new:
            with self.replacing(self.folder / key, self.folder / key):
                pass
        _log.info("%s: files downloaded: %d, deleted: %d, uploaded: %d.", self.address, len(came), len(gone), len(new))
        return bool(came)

    def _download(self, key: str, moment: float) -> None:
        with replacing(self.folder / key, Record()) as temporary:
            tag = self.objects.fetch(key, temporary)
            os.utime(temporary, (moment, moment))  # retention uses the time of writing
            self.keep(_TAGS + key, "")
        self.keep(_TAGS + key, tag)

    def _key(self, path: Path) -> str:
        return path.absolute().relative_to(self.folder).as_posix()

    def lease(self) -> tuple[dict[str, str], Version | None]:
        """Return the lease (a mapping with ``machine`` and ``who``) and its version, or ({}, None) if there is none."""
        content, version = self.objects.get(LEASE) or (b"{}", None)
        return json.loads(content), version

    def _take_lease(self, who: str, report: Callable[[str], object], patience: float | None) -> None:
        started = seen = time.monotonic()
        waited_for: Version | None = None
        while True:
            holder, version = self.lease()
            now = time.monotonic()
            is_old = version == waited_for and now - seen > VALID_S
            if is_old or holder.get("machine") in (None, self._machine()):
                if self._write_lease(who, version):
                    return
                continue
            if patience is not None and now - started >= patience:
                raise WarehouseError(f"{holder['who']} is using {self.address}; let that command end, or stop it")
            if waited_for is None:
                report(f"waiting for {holder['who']}, which is using {self.address}")
            if version != waited_for:
                waited_for, seen = version, now
            time.sleep(_POLL_S)

    def _renew_lease(self, who: str, ending: threading.Event) -> None:
        while not ending.wait(_RENEWED_EVERY_S):
            began = time.monotonic()
            try:
                holder, version = self.lease()
                if holder.get("machine") != self._machine():
                    self._renewed = float("-inf")
                elif self._write_lease(who, version):  # otherwise another process of this machine has renewed it
                    self._renewed = began
            except WarehouseError as error:
                _log.info("CARE could not renew its lease on the store and will retry: %s", error)

    def _release_lease(self) -> None:
        try:
            if self.lease()[0].get("machine") == self._machine():
                self.objects.delete(LEASE)
        except WarehouseError as error:
            _log.warning("CARE could not release its lease (%s); other machines must wait %.0f s.", error, VALID_S)

    def _write_lease(self, who: str, over: Version | None) -> bool:
        content = {"machine": self._machine(), "who": who, "written": time.time()}
        return self.objects.put(LEASE, json.dumps(content).encode(), over or "create") is not None

    def _refuse_without_lease(self) -> None:
        if self._renewed is None:
            raise WarehouseError(
                f"CARE wrote nothing to {self.address}, because this command does not hold the lease on it; run "
                "`care run`, which takes the lease"
            )
        if time.monotonic() - self._renewed > VALID_S:
            raise WarehouseError(
                f"this process has lost the lease on {self.address}: CARE could not reach the store for {VALID_S:.0f} "
                "s, or another machine has taken the lease; run the same command again to continue"
            )

    def _machine(self) -> str:
        """Return the unique name of this data folder; the first command that takes the lease creates the name."""
        if self.fact(_MACHINE) is None:
            self.keep(_MACHINE, uuid.uuid4().hex)
        return str(self.fact(_MACHINE))

    @contextmanager
    def _lock(self) -> Generator[IO[str]]:
        folder = self.folder / INDEX_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lease.lock").open("a+") as lock:  # NFS needs a file open for reading to share a lock
            yield lock


def _keys_in(folder: Path) -> set[str]:
    """Return the object keys of all files that CARE uploads from a data folder."""
    paths = [folder / name for name in _FILES] + [path for name in _FOLDERS for path in (folder / name).rglob("*")]
    keys = {path.relative_to(folder).as_posix() for path in paths if path.is_file()}
    return set(filter(_is_an_object, keys))


def _is_an_object(key: str) -> bool:
    folder, *rest = key.split("/")
    return key in _FILES or bool(rest and folder in _FOLDERS and DAMAGED not in rest and not rest[-1].startswith("."))
