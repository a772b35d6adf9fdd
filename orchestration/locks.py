"""Who may work on a workspace: one command alone, or several runs of Dagster together; and one daemon.

The system lets go of a lock when its process dies, however it dies, and so nobody has to clean up after one.
``workspace.lock`` is held alone by a command and shared by runs. Whoever wants it alone first takes
``turnstile.lock``, which everybody passes: runs that come later queue behind it, and a busy daemon cannot keep
``care gc`` waiting for ever. Each holder, and each that waits, keeps a note that says who it is.

Belongs here: taking and naming these locks. Does not: the database's own lock (``warehouse.database``), or places in
Dagster's pools.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import sys
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from assets.workspace import Workspace
from care_ops.errors import InputError, WarehouseError
from orchestration.workspace import load_workspace

PATIENCE = "CARE_LOCK_WAIT"
"""Environment variable: for how many seconds a command waits for others to end their work on the workspace."""

_PATIENCE_S = 3600.0
_WORKING, _WAITING = "working", "waiting"

Say = Callable[[str], object]


@contextmanager
def workspace_alone(root: Path, what: str) -> Generator[Workspace]:
    """The workspace in a folder, for a command that changes it; as it is once nobody else is at work on it.

    Parameters
    ----------
    what : str
        As in ``alone``.
    """
    workspace = load_workspace(root)
    with alone(workspace, what) as waited:
        yield load_workspace(root) if waited else workspace


@contextmanager
def alone(workspace: Workspace, what: str = "care") -> Generator[bool]:
    """Hold the workspace's lock; where others hold it, say on standard error who they are and wait for them.

    Parameters
    ----------
    what : str
        The command that holds it, for whoever waits meanwhile.

    Yields
    ------
    bool
        Whether there was a wait: what was read of the workspace before may be outdated.

    Raises
    ------
    WarehouseError
        Others held it for an hour, or for as long as ``CARE_LOCK_WAIT`` says; the message names them.
    """
    claim = _Claim(workspace, fcntl.LOCK_EX, f"`{what}`", _to_stderr, patience=_patience())
    with claim.held():
        yield claim.waited


@contextmanager
def together(workspace: Workspace, run_id: str, say: Say) -> Generator[None]:
    """Share the workspace's lock with other runs of Dagster; where a command holds it, wait until that has ended.

    Parameters
    ----------
    run_id : str
    say : callable
        Told once who is waited for.
    """
    who = f"Dagster's run {run_id[:8]}" if run_id else "Dagster"
    with _Claim(workspace, fcntl.LOCK_SH, who, say, run_id).held():
        yield


def runs_that_wait(workspace: Workspace) -> set[str]:
    """Runs of Dagster that have started and wait for a command to end."""
    return {note["run"] for note in _living(_folder(workspace) / _WAITING) if note["run"]}


def hold_daemon_lock(workspace: Workspace) -> int:
    """Be the one daemon of a workspace, until this process and what it turns into end.

    Returns
    -------
    int
        Descriptor of the lock, inherited by a program that this process executes in its place.

    Raises
    ------
    WarehouseError
        There is a daemon already.
    """
    descriptor = os.open(_folder(workspace) / "daemon.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise WarehouseError(
            f"{workspace.root} has a daemon already (`care daemon` or `care ui`); there may be one only"
        ) from error
    os.set_inheritable(descriptor, True)
    return descriptor


@dataclass
class _Claim:
    """One that wants the workspace's lock.

    Attributes
    ----------
    workspace : Workspace
    mode : int
        ``LOCK_EX`` to hold it alone, ``LOCK_SH`` to share it.
    who, run_id : str
        For its note; a run of Dagster has an id.
    say : callable
        Told once who is waited for.
    patience : float, optional
        Seconds after which it gives up; without end by default.
    waited : bool
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
        with (folder / "workspace.lock").open("a") as lock:
            with (folder / "turnstile.lock").open("a") as turnstile, ExitStack() as until_taken:
                for wanted in (turnstile, lock):
                    while not self._take(wanted):
                        self._wait(until_taken, time.monotonic() - started)
            for notes in (_WORKING, _WAITING):
                _living(folder / notes)  # which removes those of processes that were killed
            with _note(folder / _WORKING, self.who, self.run_id):
                yield

    def _take(self, lock: IO[str]) -> bool:
        try:
            fcntl.flock(lock, self.mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait(self, until_taken: ExitStack, seconds: float) -> None:
        """Give up where patience has ended; else say who is at work, the first time, and wait a little."""
        folder = _folder(self.workspace)
        if self.patience is not None and seconds >= self.patience:
            who = _names(folder)
            raise WarehouseError(f"{who} is at work on {self.workspace.root}; wait for it to end, or stop it")
        if not self.waited:
            self.waited = True
            until_taken.enter_context(_note(folder / _WAITING, self.who, self.run_id))
            self.say(f"waiting for {_names(folder)}")
        time.sleep(random.uniform(0.05, 0.25))


def _names(folder: Path) -> str:
    """Who is at work; nobody is named between taking the lock and writing the note."""
    return ", ".join(note["who"] for note in _living(folder / _WORKING)) or "another command"


@contextmanager
def _note(folder: Path, who: str, run_id: str) -> Generator[None]:
    """A file that says who this is; it counts for as long as this process holds it, and is gone at the end."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{uuid.uuid4().hex}.json"
    text = f"{who} (process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M:%S})"
    with ExitStack() as until_end:
        while True:
            file = path.open("w")
            fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists():
                break
            file.close()  # a reader took it, not yet held, for one whose process is gone, and removed it
        until_end.enter_context(file)
        until_end.callback(path.unlink, missing_ok=True)
        file.write(json.dumps({"who": text, "run": run_id}))
        file.flush()
        yield


def _living(folder: Path) -> list[dict[str, Any]]:
    """The notes of processes that are alive, oldest first; those of others are removed."""
    notes: list[dict[str, Any]] = []
    for path in folder.glob("*.json"):
        with suppress(FileNotFoundError), path.open("r+") as file:  # it may end just now
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read()
                if text:  # otherwise it is being written
                    notes.append(json.loads(text))
            else:
                path.unlink()
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
    raise InputError(f"{PATIENCE}={text}: give the seconds that a command waits for others, 0 for none")


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
