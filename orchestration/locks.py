"""Who may work on a workspace: one command alone, or several runs of Dagster together; and one daemon.

The system releases a lock when the process that holds it dies, however it dies, so nobody has to clean up after one.
A command holds ``workspace.lock`` alone; runs of Dagster share it. Everybody takes ``turnstile.lock`` first, and a
command that waits for the workspace keeps it meanwhile: runs that come later queue behind the command, so a busy
daemon cannot keep a command waiting for ever. Each process that holds the workspace or waits for it keeps a file, its
note, that says who it is.

While a process opens Dagster's storage, which it may have to make, it holds ``opening.lock``.

Where the data lie in a store, whoever holds the workspace has the store's lease too (``stores``), which keeps other
machines away.
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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from assets.workspace import Workspace
from care_ops.errors import InputError, WarehouseError
from orchestration.stores import store_held
from orchestration.workspace import load_workspace
from warehouse.remote.address import locks_at_once

PATIENCE = "CARE_LOCK_WAIT"
"""Environment variable: for how many seconds a command waits for others to end their work on the workspace."""

_PATIENCE_S = 3600.0

_WORKING, _WAITING = "working", "waiting"
"""Folders of the notes."""

Say = Callable[[str], object]
"""Passes a sentence on to a person."""

_logger = logging.getLogger(__name__)


@contextmanager
def workspace_alone(root: Path, what: str) -> Generator[Workspace]:
    """Hold the workspace in a folder alone, for a command that changes it; read once nobody else is at work on it."""
    workspace = load_workspace(root)
    with alone(workspace, what) as waited:
        yield load_workspace(root) if waited else workspace


@contextmanager
def alone(workspace: Workspace, what: str = "care") -> Generator[bool]:
    """Hold the workspace's lock; where others hold it, say on standard error who they are and wait for them.

    Yields whether there was a wait: what was read of the workspace before may be outdated. Those who wait for this
    command are told ``what`` it is. Raises ``WarehouseError`` where others held the lock for an hour, or for as long as
    ``CARE_LOCK_WAIT`` says; the message names them.
    """
    say = partial(print, file=sys.stderr, flush=True)
    claim = _Claim(workspace, fcntl.LOCK_EX, f"`{what}`", say, patience=_patience())
    with claim.held():
        yield claim.waited


@contextmanager
def together(workspace: Workspace, run_id: str, say: Say) -> Generator[None]:
    """Share the workspace's lock with other runs of Dagster; where a command holds it, wait until that has ended.

    Whom this run waits for is told once, by ``say``. The id is empty of a run that has none.
    """
    who = f"Dagster's run {run_id[:8]}" if run_id else "Dagster"
    with _Claim(workspace, fcntl.LOCK_SH, who, say, run_id).held():
        yield


def runs_that_wait(workspace: Workspace) -> set[str]:
    """Runs of Dagster that have started and wait for a command to end."""
    return {note["run"] for note in _living(_folder(workspace) / _WAITING) if note["run"]}


def hold_daemon_lock(workspace: Workspace) -> int:
    """Become the one daemon of a workspace, until this process ends, or the program that it executes in its place.

    Returns the descriptor of the lock, which such a program inherits; raises ``WarehouseError`` where there is a
    daemon.
    """
    descriptor = os.open(_folder(workspace) / "daemon.lock", os.O_RDWR | os.O_CREAT, 0o644)
    if not locks_at_once(descriptor, fcntl.LOCK_EX):
        os.close(descriptor)
        raise WarehouseError(
            f"{workspace.root} has a daemon already (`care admin daemon` or `care ui`); there may be one only"
        )
    os.set_inheritable(descriptor, True)
    return descriptor


@contextmanager
def opening(home: Path) -> Generator[None]:
    """Keep other processes from opening Dagster's storage in a folder: two that make it at once break it for good."""
    with ExitStack() as until_opened:
        with suppress(OSError):  # what cannot be written to has its storage already, or gets none
            (home / "locks").mkdir(parents=True, exist_ok=True)
            lock = until_opened.enter_context((home / "locks" / "opening.lock").open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass
class _Claim:
    """A wish to hold the workspace's lock.

    Attributes
    ----------
    mode : int
        ``LOCK_EX`` to hold it alone, ``LOCK_SH`` to share it.
    who, run_id : str
        What the note says; a run of Dagster has an id.
    say : callable
        Called once, with a sentence that names those who hold the lock.
    patience : float, optional
        Seconds after which the wait is given up; by default it has no end.
    waited : bool
        Whether others held the lock when it was first tried.
    """

    workspace: Workspace
    mode: int
    who: str
    say: Say
    run_id: str = ""
    patience: float | None = None
    waited: bool = False

    @contextmanager
    def held(self) -> Generator[None]:
        """Take the lock as soon as it can be had, and hold it."""
        folder, started = _folder(self.workspace), time.monotonic()
        with (folder / "workspace.lock").open("a+") as lock:
            with (folder / "turnstile.lock").open("a+") as turnstile, ExitStack() as until_taken:
                for file in (turnstile, lock):
                    while not locks_at_once(file, self.mode):
                        self._wait(until_taken, time.monotonic() - started)
            for notes in (_WORKING, _WAITING):
                _living(folder / notes)  # this removes the notes of processes that were killed
            _logger.debug("%s holds the workspace after %.1f s.", self.who, time.monotonic() - started)
            with (
                _note(folder / _WORKING, self.who, self.run_id),
                store_held(self.workspace, self.who, self.say, self.patience, alone=self.mode == fcntl.LOCK_EX),
            ):
                yield

    def _wait(self, until_taken: ExitStack, seconds: float) -> None:
        """Wait a little; the first time, say for whom. Give up where the wait has lasted ``patience`` seconds.

        The note of the wait stays ``until_taken`` ends, as it does when the lock has been taken.
        """
        folder = _folder(self.workspace)
        if self.patience is not None and seconds >= self.patience:
            holders = _holders(folder)
            raise WarehouseError(f"{holders} is at work on {self.workspace.root}; wait for it to end, or stop it")
        if not self.waited:
            self.waited = True
            until_taken.enter_context(_note(folder / _WAITING, self.who, self.run_id))
            holders = _holders(folder)
            _logger.info("%s waits for %s.", self.who, holders)
            self.say(f"waiting for {holders}")
        time.sleep(random.uniform(0.05, 0.25))


def _holders(folder: Path) -> str:
    """Who is at work, by the notes; between taking the lock and writing the note a holder has none."""
    return ", ".join(note["who"] for note in _living(folder / _WORKING)) or "another command"


@contextmanager
def _note(folder: Path, who: str, run_id: str) -> Generator[None]:
    """Keep a note, a file that says who this process is; others read it for as long as this process holds its lock."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{uuid.uuid4().hex}.json"
    text = f"{who} (process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M:%S})"
    with ExitStack() as until_end:
        while True:
            file = path.open("w")
            fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists():
                break
            file.close()  # a reader removed the note before it was locked, as that of a process that is gone
        until_end.enter_context(file)
        until_end.callback(path.unlink, missing_ok=True)
        file.write(json.dumps({"who": text, "run": run_id}))
        file.flush()
        yield


def _living(folder: Path) -> list[dict[str, Any]]:
    """The notes of processes that are alive, oldest first; those of others are removed."""
    notes: list[dict[str, Any]] = []
    for path in folder.glob("*.json"):
        with suppress(FileNotFoundError), path.open("r+") as file:  # its process may end and remove it just now
            if locks_at_once(file, fcntl.LOCK_SH):
                path.unlink()
            elif text := file.read():  # an empty one is being written
                notes.append(json.loads(text))
    return sorted(notes, key=lambda note: note["who"].rpartition("since")[2])


def _folder(workspace: Workspace) -> Path:
    """The folder of locks and notes, made on first use."""
    folder = workspace.data / "dagster" / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _patience() -> float:
    """Seconds that a command waits for the lock."""
    text = os.environ.get(PATIENCE, str(_PATIENCE_S))
    with suppress(ValueError):
        if float(text) >= 0:
            return float(text)
    raise InputError(f"{PATIENCE}={text}: give the seconds that a command waits for others, 0 for none")
