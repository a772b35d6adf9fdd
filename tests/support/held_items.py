"""CARE's definitions with an asset ``items`` that can be paused.

While a given file exists, ``items`` pauses after writing its part and before writing the database. A test can then
kill the code server of this module at exactly this point.
"""

from __future__ import annotations

import time
from typing import Any

from assets.inputs import items
from assets.workspace import Workspace
from orchestration.definitions import defs as defs

HOLD = "hold"
"""Name of the file, in the folder of the workspace."""

_load_items = items.load_items


def _held(workspace: Workspace, *arguments: Any) -> None:
    while (workspace.root / HOLD).exists():
        time.sleep(0.1)
    _load_items(workspace, *arguments)


items.load_items = _held
