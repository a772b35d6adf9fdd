"""A workspace whose data lie in a store elsewhere: a command fetches what its folder lacks before it does anything.

Dagster's record of runs is no result and stays on the machine that writes it. ``care run`` leaves a snapshot of it in
the store all the same, which the next machine takes over, so that it knows what has been made and makes nothing again.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import socket
import sqlite3
import tarfile
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from assets.workspace import Workspace
from orchestration.workspace import load_workspace
from warehouse.remote.address import INDEX_FOLDER, locks_at_once

if TYPE_CHECKING:
    from warehouse.remote.copy import StoreCopy

_RUNS = "record of runs"
"""Under this name the index keeps which snapshot the folder was made from, or has made."""

_FETCHED = "fetched"

_log = logging.getLogger(__name__)


def workspace_to_look_at(root: Path) -> Workspace:
    """The workspace in a folder, for a command that changes nothing; what its store has been given since is fetched.

    Raises ``InputError`` where care.yaml or what it names is missing or invalid, and ``WarehouseError`` where the store
    does not answer.
    """
    workspace = load_workspace(root)
    if workspace.copy is not None:
        with workspace.copy.looking() as fetched:
            if fetched:
                if not (workspace.data / "dagster" / "history").exists():
                    _take_over_record_of_runs(workspace, workspace.copy)
                _catch_up(workspace, workspace.copy)
    return workspace


@contextmanager
def store_held(
    workspace: Workspace, who: str, say: Callable[[str], object], patience: float | None, *, alone: bool
) -> Generator[None]:
    """Be the one machine that writes to the workspace's store; do nothing where its data lie in a folder alone.

    Other machines are told ``who`` works here. Where another one is waited for, ``say`` is called once with a sentence
    that names it, and after ``patience`` seconds, if it has an end, the wait is given up. Where nobody else on this
    machine is at work on the workspace (``alone``), the record of runs may be taken over.
    """
    copy = workspace.copy
    if copy is None:
        # What it knew of a store it had before: it is about to hold what that store does not.
        shutil.rmtree(workspace.data / INDEX_FOLDER, ignore_errors=True)
        yield
        return

    def caught_up() -> None:
        if alone:
            _take_over_record_of_runs(workspace, copy)
        _catch_up(workspace, copy)

    told = f"{who} on {socket.gethostname()} (process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M:%S})"
    with copy.writing(told, say, patience, caught_up):
        yield


def leave_record_of_runs(workspace: Workspace) -> None:
    """Put a snapshot of Dagster's record of runs into the workspace's store, if it has one.

    The caller holds the workspace alone, and the record is in the workspace's folder and not a deployment's.
    """
    from warehouse.remote.copy import RECORD_OF_RUNS

    copy, home = workspace.copy, workspace.data / "dagster"
    if copy is None:
        return
    making = _emptied(workspace.data / "making" / "dagster")
    for database in sorted(home.rglob("*.db")):
        target = making / database.relative_to(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(target)) as snapshot:
            source.backup(snapshot)
    archive = making.with_suffix(".tar")
    with tarfile.open(archive, "w") as file:
        file.add(making, arcname=".")
    version = copy.objects.put(RECORD_OF_RUNS, archive)
    copy.index.keep(_RUNS, version.tag if version else None)
    shutil.rmtree(making.parent)


def _take_over_record_of_runs(workspace: Workspace, copy: StoreCopy) -> None:
    """Replace Dagster's record of runs by the snapshot that another machine has left; not under a living daemon."""
    from warehouse.remote.copy import RECORD_OF_RUNS

    listed = copy.objects.head(RECORD_OF_RUNS)
    home = workspace.data / "dagster"
    if listed is None or listed.tag == copy.index.fact(_RUNS) or _has_daemon(home):
        return
    fetched = _emptied(home / _FETCHED)
    archive = fetched.with_suffix(".tar")
    tag = copy.objects.fetch(RECORD_OF_RUNS, archive).tag
    with tarfile.open(archive) as file:
        file.extractall(fetched, filter="data")
    archive.unlink()
    for entry in sorted(fetched.iterdir()):
        target = home / entry.name
        if target.is_dir():
            shutil.rmtree(target)
        entry.replace(target)
    fetched.rmdir()
    copy.index.keep(_RUNS, tag)
    _log.info("Dagster's record of runs was taken over from %s.", copy.address)


def _catch_up(workspace: Workspace, copy: StoreCopy) -> None:
    """Make the database anew where another machine has changed what it is made of; also after a look that was cut."""
    from assets.state.rebuild import rebuild_warehouse

    if copy.database_is_behind:
        for judge, why in rebuild_warehouse(workspace).items():
            _log.warning("the scores of judge %s are left out of the database: %s", judge, why)
        copy.database_caught_up()


def _has_daemon(home: Path) -> bool:
    """Whether a daemon or the UI of this machine has the record of runs open."""
    try:
        with (home / "locks" / "daemon.lock").open("a") as lock:
            return not locks_at_once(lock, fcntl.LOCK_EX)
    except FileNotFoundError:
        return False


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
