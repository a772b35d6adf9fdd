"""Every kind of import under the name that people type.

Belongs here: the list. A new tool is a module with a function ``read``, and one line below.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from care_ops.errors import InputError
from warehouse.importers import alpaca_eval, deepeval, inspect_ai, langfuse, lm_eval, phoenix, promptfoo, released
from warehouse.importers.collected import ImportedScores

IMPORTERS: dict[str, Callable[[Path], ImportedScores]] = {
    "inspect_ai": inspect_ai.read,
    "lm_eval": lm_eval.read,
    "alpaca_eval": alpaca_eval.read,
    "promptfoo": promptfoo.read,
    "deepeval": deepeval.read,
    "phoenix": phoenix.read,
    "langfuse": langfuse.read,
    "care_release": released.read,
}


def read_import(kind: str, path: Path) -> ImportedScores:
    """Read another tool's files.

    Parameters
    ----------
    kind : str
        A name in ``IMPORTERS``; ``inspect-ai`` is ``inspect_ai``.
    path : Path
        A file, or a folder of files.

    Raises
    ------
    InputError
        The kind is not known, or the files are not those of the tool.
    """
    importer = IMPORTERS.get(kind.replace("-", "_"))
    if importer is None:
        raise InputError(f"there is no import {kind!r}; there are {', '.join(IMPORTERS)}")
    return importer(path)
