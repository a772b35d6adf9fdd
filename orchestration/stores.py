"""Functions that read and lock workspaces with data in a remote store.

Each command updates a local copy of the store. Dagster's record of runs stays on the machine that writes it.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from assets.workspace import Workspace
from orchestration.workspace import load_workspace
from warehouse.remote.address import INDEX_FOLDER

if TYPE_CHECKING:
    from warehouse.remote.copy import StoreCopy

_log = logging.getLogger(__name__)


def read_workspace(root: Path) -> Workspace:
    """Read a workspace without a lock, and fetch new data from its store.

    Raises ``InputError`` if a file of the workspace is missing or invalid, and ``WarehouseError`` if the store does not
    answer.
    """
    workspace = load_workspace(root)
    if workspace.copy is not None:
        workspace.copy.fetch(partial(_catch_up, workspace, workspace.copy))
    return workspace


@contextmanager
def store_lease(
    workspace: Workspace, who: str, say: Callable[[str], object], patience: float | None
) -> Generator[None]:
    """Hold the write lease of the workspace's store, if the workspace has a store.

    Only one machine may write at a time. ``who`` names this process in messages on other machines. If this process must
    wait, ``say`` is called once with the lease holder's name. Raises ``WarehouseError`` after ``patience`` seconds.
    """
    copy = workspace.copy
    if copy is None:
        # The index of a former store becomes wrong, because this process will write data that the store lacks.
        shutil.rmtree(workspace.data / INDEX_FOLDER, ignore_errors=True)
        yield
        return

    holder = f"{who} on {socket.gethostname()} (process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M:%S})"
    with copy.writing(holder, say, patience, partial(_catch_up, workspace, copy)):
        yield


def _catch_up(workspace: Workspace, copy: StoreCopy) -> None:
    from assets.state.rebuild import rebuild_warehouse
    from warehouse.remote.copy import BEHIND

    if copy.fact(BEHIND) is not None:  # another machine has changed the data, or a rebuild was interrupted
        for judge, why in rebuild_warehouse(workspace).items():
            _log.warning("the scores of judge %s are left out of the database: %s", judge, why)
        copy.keep(BEHIND, None)
