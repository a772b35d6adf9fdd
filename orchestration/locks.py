"""Locks of a workspace: an exclusive lock for a command, a shared lock for Dagster's runs, and a lock for the daemon.

The operating system releases the locks of a process that dies. A command holds ``workspace.lock`` exclusively, and
Dagster's runs share this lock. Each process acquires ``turnstile.lock`` first, and a waiting command keeps that lock:
later runs wait behind the command, so a busy daemon cannot block the command forever. Each process that holds
``workspace.lock`` or waits for the lock keeps a note: a JSON file with the name of the process.

A process holds ``opening.lock`` while it opens Dagster's storage. If the data are in a remote store, the process that
holds ``workspace.lock`` also holds the store's write lease (``stores``), which excludes other machines.
"""

import fcntl
import json
import logging
import os
import random
import sys
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from assets.workspace import Workspace
from care_ops.errors import InputError, WarehouseError
from orchestration.stores import store_lease
from orchestration.workspace import load_workspace
from warehouse.remote.address import locks_at_once

PATIENCE = "CARE_LOCK_WAIT"
"""Environment variable: the seconds for which a command waits until other processes release the workspace."""

_PATIENCE_S = 3600.0

_WORKING, _WAITING = "working", "waiting"
"""Folders for notes of processes that hold the workspace, and of processes that wait for it."""

Say = Callable[[str], object]
"""Function that prints or logs a message for a person."""

_logger = logging.getLogger(__name__)


@contextmanager
def locked_workspace(root: Path, what: str) -> Generator[Workspace]:
    """Lock a workspace exclusively for a command, named ``what`` in messages, and yield the workspace."""
    workspace = load_workspace(root)
    with exclusive_lock(workspace, what) as waited:
        yield load_workspace(root) if waited else workspace


def exclusive_lock(workspace: Workspace, what: str = "care") -> AbstractContextManager[bool]:
    """Lock the workspace exclusively, and print which processes hold the lock if the caller must wait.

    Yields whether the caller had to wait; the workspace may then have changed. ``what`` names this command in
    messages of other processes. Raises ``WarehouseError`` after an hour, or after ``CARE_LOCK_WAIT`` seconds.
    """
    say = partial(print, file=sys.stderr, flush=True)
    return _held(workspace, fcntl.LOCK_EX, f"`{what}`", say, patience=_patience())


def shared_lock(workspace: Workspace, run_id: str, say: Say) -> AbstractContextManager[bool]:
    """Share the workspace's lock with other Dagster runs, after waiting for a command that holds the lock exclusively.

    If this run must wait, ``say`` is called once with a message. ``run_id`` is empty outside of a run.
    """
    who = f"Dagster's run {run_id[:8]}" if run_id else "Dagster"
    return _held(workspace, fcntl.LOCK_SH, who, say, run_id)


def runs_that_wait(workspace: Workspace) -> set[str]:
    """Return the ids of Dagster runs that wait for a command to end."""
    return {note["run"] for note in _living(_folder(workspace) / _WAITING) if note["run"]}


def hold_daemon_lock(workspace: Workspace) -> int:
    """Acquire the lock of the workspace's daemon for the lifetime of this process.

    Returns the lock's file descriptor; a program that replaces this process inherits the lock. Raises
    ``WarehouseError`` if another daemon holds the lock.
    """
    descriptor = os.open(_folder(workspace) / "daemon.lock", os.O_RDWR | os.O_CREAT, 0o644)
    if not locks_at_once(descriptor, fcntl.LOCK_EX):
        os.close(descriptor)
        raise WarehouseError(f"{workspace.root} has a daemon already; stop that `care admin daemon` or `care ui` first")
    os.set_inheritable(descriptor, True)
    return descriptor


@contextmanager
def opening(home: Path) -> Generator[None]:
    """Hold a lock that keeps other processes from opening Dagster's storage.

    Two processes that create the storage at the same time damage it permanently.
    """
    with ExitStack() as until_opened:
        with suppress(OSError):  # a read-only folder already has its storage, or cannot get one
            (home / "locks").mkdir(parents=True, exist_ok=True)
            lock = until_opened.enter_context((home / "locks" / "opening.lock").open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _held(
    workspace: Workspace, mode: int, who: str, say: Say, run_id: str = "", patience: float | None = None
) -> Generator[bool]:
    folder, started, waited = _folder(workspace), time.monotonic(), False
    with (folder / "workspace.lock").open("a+") as lock:
        with (folder / "turnstile.lock").open("a+") as turnstile, ExitStack() as until_taken:
            for file in (turnstile, lock):
                while not locks_at_once(file, mode):
                    holders = _holders(folder)
                    if patience is not None and time.monotonic() - started >= patience:
                        raise WarehouseError(f"{holders} is using {workspace.root}; let that command end, or stop it")
                    if not waited:
                        until_taken.enter_context(_note(folder / _WAITING, who, run_id))
                        _logger.info("%s waits for %s.", who, holders)
                        say(f"waiting for {holders}")
                    waited = True
                    time.sleep(random.uniform(0.05, 0.25))
        for notes in (_WORKING, _WAITING):
            _living(folder / notes)  # deletes the notes of killed processes
        _logger.debug("%s holds the workspace after %.1f s.", who, time.monotonic() - started)
        with (
            _note(folder / _WORKING, who, run_id),
            store_lease(workspace, who, say, patience),
        ):
            yield waited


def _holders(folder: Path) -> str:
    return ", ".join(note["who"] for note in _living(folder / _WORKING)) or "another command"


@contextmanager
def _note(folder: Path, who: str, run_id: str) -> Generator[None]:
    from warehouse.storage import temporary_of

    folder.mkdir(exist_ok=True)
    path = folder / f"{uuid.uuid4().hex}.json"
    text = f"{who} (process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M:%S})"
    with temporary_of(path).open("w") as file, ExitStack() as until_end:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps({"who": text, "run": run_id}))
        file.flush()
        Path(file.name).rename(path)  # readers see only locked notes: an unlocked one is of a process that has ended
        until_end.callback(path.unlink, missing_ok=True)
        yield


def _living(folder: Path) -> list[dict[str, Any]]:
    """Return the notes in ``folder`` that running processes keep, oldest first; delete notes of ended processes."""
    notes: list[dict[str, Any]] = []
    for path in folder.glob("*.json"):
        with suppress(FileNotFoundError), path.open("r+") as file:  # the process may delete its note meanwhile
            if locks_at_once(file, fcntl.LOCK_SH):
                path.unlink()
            else:
                notes.append(json.load(file))
    return sorted(notes, key=lambda note: note["who"].rpartition("since")[2])


def _folder(workspace: Workspace) -> Path:
    folder = workspace.data / "dagster" / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _patience() -> float:
    text = os.environ.get(PATIENCE, str(_PATIENCE_S))
    with suppress(ValueError):
        if float(text) >= 0:
            return float(text)
    raise InputError(f"{PATIENCE}={text} is not a number of seconds; set it to a number, such as 60, or 0 for no wait")
