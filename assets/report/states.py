"""What has happened to a test set since its page was drawn; the page stays that of the published fit.

A page is not drawn again while a fit is held back or a judge fails, so what a reader must know of that lies in a small
script beside the pages (``state.js``), which the index writes and every page reads.

Belongs here: those sentences, and whether they are on disk. Does not: the findings (``assets.publication``,
``assets.judging.failures``).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from assets.judging.failures import Unheard, unheard
from assets.publication.editions import held_back
from assets.report.names import page_name

if TYPE_CHECKING:
    import duckdb

    from assets.workspace import Workspace

FILE = "state.js"


def notes(workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str) -> list[str]:
    """Sentences for whoever reads a test set's page: a fit that is held back, judges that owe scores."""
    held = held_back(workspace, testset)
    owing = [sentence for entry in unheard(workspace, connection, testset) for sentence in _of_judge(entry)]
    return [*([held.text(testset)] if held else []), *owing]


def _of_judge(entry: Unheard) -> list[str]:
    name = f"Judge {entry.judge}"
    if entry.why:
        return [f"{name} cannot be asked: {entry.why}"]
    said: list[str] = []
    if entry.unscored:
        said.append(
            f"{name} has not scored {entry.unscored:,} of {entry.items:,} items: its last run failed or was stopped. "
            "The next `care run` asks for them and says why, should it fail again."
        )
    if entry.to_ask:
        said.append(
            f"{name} failed on {entry.to_ask:,} of {entry.items:,} items (timeouts or errors of its engine); the next "
            "`care run` asks for them again."
        )
    if entry.given_up:
        said.append(
            f"{name} was asked about {entry.given_up:,} of {entry.items:,} items as often as `attempts` in its file "
            "allows, in vain; they count as missing. Raise `attempts` to ask again."
        )
    return said


def script(workspace: Workspace, connection: duckdb.DuckDBPyConnection) -> str:
    """The script beside the pages: notes by page, of test sets that have one."""
    found = {page_name(name): notes(workspace, connection, name) for name in _drawn(workspace)}
    return f"window.careNotes = {json.dumps({page: said for page, said in found.items() if said}, indent=1)};\n"


def states_differ(workspace: Workspace, connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether there are pages, and the index or the notes beside them are not there or say something else."""
    if not _drawn(workspace):
        return False
    path = workspace.report_folder / FILE
    if not path.is_file() or not (workspace.report_folder / "index.html").is_file():
        return True
    return path.read_text(encoding="utf-8") != script(workspace, connection)


def _drawn(workspace: Workspace) -> list[str]:
    return [name for name in sorted(workspace.testsets) if (workspace.report_folder / page_name(name)).exists()]
