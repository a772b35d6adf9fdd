"""What has happened to a test set since its page was drawn; the page stays that of the published fit.

A page is not drawn again while a fit is held back or a judge fails, so what a reader must know of that lies in a small
script beside the pages (``state.js``), which the index writes and every page reads.

Belongs here: those sentences, and whether they are on disk. Does not: the findings (``assets.publication``,
``assets.judging.failures``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from assets.judging.failures import Unheard
from assets.publication.editions import held_back
from assets.report.names import page_name

if TYPE_CHECKING:
    from assets.workspace import Workspace

FILE = "state.js"


Owing = Mapping[str, Sequence[Unheard]]
"""What ``assets.judging.failures.unheard`` finds, by test set."""


def drawn(workspace: Workspace) -> list[str]:
    """Test sets that have a page, sorted."""
    return [name for name in sorted(workspace.testsets) if (workspace.report_folder / page_name(name)).exists()]


def notes(workspace: Workspace, testset: str, owing: Sequence[Unheard]) -> list[str]:
    """Sentences for whoever reads a test set's page: a fit that is held back, judges that owe scores."""
    held = held_back(workspace, testset)
    return [*([held.text(testset)] if held else []), *(said for entry in owing for said in _of_judge(entry))]


def _of_judge(entry: Unheard) -> list[str]:
    name = f"Judge {entry.judge}"
    if entry.why:
        return [f"{name} cannot be asked: {entry.why}"]
    sentences: list[str] = []
    if entry.unscored:
        sentences.append(
            f"{name} has not scored {entry.unscored:,} of {entry.items:,} items: its last run failed or was stopped. "
            "The next `care run` asks for them and says why, should it fail again."
        )
    if entry.to_ask:
        sentences.append(
            f"{name} failed on {entry.to_ask:,} of {entry.items:,} items (timeouts or errors of its engine); the next "
            "`care run` asks for them again."
        )
    if entry.given_up:
        sentences.append(
            f"{name} was asked about {entry.given_up:,} of {entry.items:,} items as often as `attempts` in its file "
            "allows, in vain; they count as missing. Raise `attempts` to ask again."
        )
    return sentences


def script(notes_by_testset: Mapping[str, Sequence[str]]) -> str:
    """The script beside the pages, which holds the notes of each page."""
    notes_by_page = {page_name(name): sentences for name, sentences in notes_by_testset.items() if sentences}
    return f"window.careNotes = {json.dumps(notes_by_page, indent=1)};\n"


def states_differ(workspace: Workspace, owing: Owing) -> bool:
    """Whether there are pages whose index or notes are missing or out of date."""
    names = drawn(workspace)
    if not names:
        return False
    path = workspace.report_folder / FILE
    if not path.is_file() or not (workspace.report_folder / "index.html").is_file():
        return True
    expected = script({name: notes(workspace, name, owing[name]) for name in names})
    return path.read_bytes() != expected.encode()
