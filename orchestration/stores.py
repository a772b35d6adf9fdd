"""Workspaces whose data lie in a remote store; commands first fetch new data into a local copy.

Dagster's record of runs stays on the machine that writes it. ``care run`` puts a snapshot of it into the store. The
next machine reads from it which partitions were materialised.
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
"""Index entry for the snapshot of Dagster's record of runs that this folder last wrote or restored."""

_log = logging.getLogger(__name__)


def read_workspace(root: Path) -> Workspace:
    """Read a workspace for a read-only command, after fetching new data from its store.

    Raises ``InputError`` if care.yaml or a file that it names is missing or invalid, and ``WarehouseError`` if the
    store does not answer.
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
def store_lease(
    workspace: Workspace, who: str, say: Callable[[str], object], patience: float | None, *, is_only: bool
) -> Generator[None]:
    """Hold the write lease of the workspace's store, if it has one, because one machine may write at a time.

    ``who`` names this process to other machines. ``say`` is called once with the holder's name, and after ``patience``
    seconds, if given, the wait is given up. The record of runs is restored only if no other process of this
    machine works on the workspace (``is_only``).
    """
    copy = workspace.copy
    if copy is None:
        # The index of a former store: the folder is about to hold what that store lacks.
        shutil.rmtree(workspace.data / INDEX_FOLDER, ignore_errors=True)
        yield
        return

    def caught_up() -> None:
        if is_only:
            _take_over_record_of_runs(workspace, copy)
        _catch_up(workspace, copy)

    holder = f"{who} on {socket.gethostname()} (process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M:%S})"
    with copy.writing(holder, say, patience, caught_up):
        yield


def leave_record_of_runs(workspace: Workspace) -> None:
    """Put a snapshot of Dagster's record of runs into the workspace's store, if it has one.

    The caller holds the workspace's lock, and the record is the workspace's own, not a deployment's.
    """
    from warehouse.remote.copy import RECORD_OF_RUNS
    from warehouse.storage import replacing

    copy, home = workspace.copy, workspace.data / "dagster"
    if copy is None:
        return
    making = workspace.data / "making" / "dagster"
    shutil.rmtree(making, ignore_errors=True)
    for database in sorted(home.rglob("*.db")):
        target = making / database.relative_to(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(target)) as snapshot:
            source.backup(snapshot)
    with replacing(workspace.data / RECORD_OF_RUNS) as archive, tarfile.open(archive, "w") as file:
        file.add(making, arcname=".")
    shutil.rmtree(making.parent)
    copy.index.keep(_RUNS, copy.index.tags().get(RECORD_OF_RUNS))


def _take_over_record_of_runs(workspace: Workspace, copy: StoreCopy) -> None:
    """Restore Dagster's record of runs from another machine's snapshot, unless a daemon is alive."""
    from warehouse.remote.copy import RECORD_OF_RUNS

    tag, home = copy.index.tags().get(RECORD_OF_RUNS), workspace.data / "dagster"
    if tag is None or tag == copy.index.fact(_RUNS) or _has_daemon(home):
        return
    fetched = home / "fetched"
    shutil.rmtree(fetched, ignore_errors=True)
    with tarfile.open(workspace.data / RECORD_OF_RUNS) as file:
        file.extractall(fetched, filter="data")
    for entry in sorted(fetched.iterdir()):
        target = home / entry.name
        if target.is_dir():
            shutil.rmtree(target)
        entry.replace(target)
    fetched.rmdir()
    copy.index.keep(_RUNS, tag)
    _log.info("Dagster's record of runs was restored from %s.", copy.address)


def _catch_up(workspace: Workspace, copy: StoreCopy) -> None:
    """Rebuild the database if another machine has changed its inputs, or a rebuild was interrupted."""
    from assets.state.rebuild import rebuild_warehouse

    if copy.database_is_behind:
        for judge, why in rebuild_warehouse(workspace).items():
            _log.warning("the scores of judge %s are left out of the database: %s", judge, why)
        copy.database_caught_up()


def _has_daemon(home: Path) -> bool:
    """Return whether a daemon or the UI of this machine has the record of runs open."""
    try:
        with (home / "locks" / "daemon.lock").open("a") as lock:
            return not locks_at_once(lock, fcntl.LOCK_EX)
    except FileNotFoundError:
        return False
