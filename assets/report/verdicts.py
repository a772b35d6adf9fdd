"""The verdict on each test set of a workspace: made from what is stored now, and shown in every place alike.

A page is not drawn again while a fit is held back or a judge fails, so the verdict at its top is replaced in the file.

Belongs here: what has happened to a test set since its fit was made, the verdict that follows, and keeping it. Does
not: what a fit says of itself (``verdict_facts``), the rules (``care_ops.results.verdict``), the index
(``report_index``).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from assets.judging.failures import Unheard
from assets.publication.documents import ReviewDocument
from assets.publication.editions import held_back
from assets.report.documents import FactsDocument, FailureDocument, VerdictDocument
from assets.report.names import labels_name, page_name
from care_ops.results.verdict import Reason, Remedies, Standing, Step, Verdict, decide

if TYPE_CHECKING:
    from assets.workspace import Workspace

FILE = "verdicts.json"
"""Every verdict as JSON, beside the index."""

Owing = Mapping[str, Sequence[Unheard]]
"""What ``assets.judging.failures.unheard`` finds, by test set."""


def shown(workspace: Workspace) -> list[str]:
    """Test sets of which there is something to say, sorted: those with a page, a review or a failure."""
    return [name for name in sorted(workspace.testsets) if _has_page(workspace, name) or _is_known(workspace, name)]


def _has_page(workspace: Workspace, testset: str) -> bool:
    return (workspace.report_folder / page_name(testset)).is_file()


def _is_known(workspace: Workspace, testset: str) -> bool:
    folder = workspace.fit_folder(testset)
    return ReviewDocument.find(folder) is not None or FailureDocument.find(folder) is not None


def verdict_on(workspace: Workspace, testset: str, owing: Sequence[Unheard], changed: Sequence[str] = ()) -> Verdict:
    """The verdict on a test set as it stands now.

    Parameters
    ----------
    owing : sequence of Unheard
        Judges whose scores are incomplete or partly failed.
    changed : sequence of str
        Whole sentences about what has changed since, where the caller has looked for that.
    """
    document = FactsDocument.find(workspace.fit_folder(testset))
    facts = None if document is None else document.facts
    return decide(facts, _standing(workspace, testset, owing, changed), remedies(workspace, testset))


def _standing(workspace: Workspace, testset: str, owing: Sequence[Unheard], changed: Sequence[str]) -> Standing:
    held = held_back(workspace, testset)
    failure = FailureDocument.find(workspace.fit_folder(testset))
    unverified = workspace.testset(testset).unverified()
    stale = [sentence for entry in owing if not entry.why for sentence in _unscored(entry)]
    notes = [Reason("owing judge", sentence, (entry.judge,)) for entry in owing for sentence in _partly_scored(entry)]
    return Standing(
        failures=failure.failures if failure is not None else (),
        held_back=tuple(held.says) if held else (),
        held_edition=held.edition if held else None,
        held_made_at=held.made_at if held else None,
        reading=held.reading() if held else "",
        stale=(*changed, *stale),
        notes=(*([Reason("source", unverified)] if unverified else []), *notes),
    )


def _unscored(entry: Unheard) -> list[str]:
    """Sentences about scores that the next night asks for, and that the fit therefore lacks."""
    if not entry.unscored:
        return []
    return [
        f"Judge {entry.judge} has not scored {entry.unscored:,} of {entry.items:,} items: its last run failed or was "
        "stopped. The next `care run` asks for them and says why, should it fail again."
    ]


def _partly_scored(entry: Unheard) -> list[str]:
    """Sentences about scores that are lacking, and which the fit goes without."""
    if entry.why:
        return [f"Judge {entry.judge} cannot be asked: {entry.why}"]
    sentences: list[str] = []
    if entry.to_ask:
        sentences.append(
            f"Judge {entry.judge} failed on {entry.to_ask:,} of {entry.items:,} items (timeouts or errors of its "
            "engine); the next `care run` asks for them again."
        )
    if entry.given_up:
        sentences.append(
            f"Judge {entry.judge} was asked about {entry.given_up:,} of {entry.items:,} items as often as `attempts` "
            "in its file allows, in vain; they count as missing. Raise `attempts` to ask again."
        )
    return sentences


def remedies(workspace: Workspace, testset: str) -> Remedies:
    """What to do next in a workspace, as commands that can be typed as they stand."""
    where = f"--workspace {shlex.quote(str(workspace.root))}"
    name, run = shlex.quote(testset), f"care run {where}"
    labels = workspace.report_folder / labels_name(testset)
    return Remedies(
        label=Step(
            f"Label ten to twenty items: the command asks about them, or fill in {labels}. Then name the file of "
            f"labels for {testset} under `anchors` in care.yaml, and run again.",
            f"care label {name} {where}",
        ),
        use=Step(
            "Read the estimates: the page has them, and so has the view `latest_aggregates` of the database.",
            f"care report --open {where}",
        ),
        again=Step("Bring the test set up to date; what cannot be made says why.", run),
        decide=Step(
            f"Compare the two fits with `care diff {name} {where}`. If the latest one is right, publish it.",
            f"care accept {name} {where}",
        ),
    )


def keep(workspace: Workspace, verdicts: Mapping[str, Verdict]) -> None:
    """Store verdicts in the database, and then beside each fit, where the next look finds what has been told."""
    from warehouse.fit_rows import store_verdict

    with workspace.warehouse.writer() as connection:
        for testset, verdict in verdicts.items():
            store_verdict(connection, testset, asdict(verdict))
    for testset, verdict in verdicts.items():
        VerdictDocument(verdict).write(workspace.fit_folder(testset))


def write_verdicts(workspace: Workspace, verdicts: Mapping[str, Verdict]) -> None:
    """Write every verdict as JSON beside the index, and into the page of its test set."""
    from assets.report.page import replace_verdict
    from warehouse.storage import write_bytes

    for testset, verdict in verdicts.items():
        if _has_page(workspace, testset):
            replace_verdict(workspace.report_folder / page_name(testset), verdict)
    text = json.dumps({testset: asdict(verdict) for testset, verdict in verdicts.items()}, indent=1)
    write_bytes(workspace.report_folder / FILE, text.encode())


def verdicts_differ(workspace: Workspace, owing: Owing) -> bool:
    """Whether there is a test set whose verdict is not the one that was told last, or no index.

    Commands do not count: they name the folder of the workspace, and one that was copied has nothing new to tell.
    """
    names = shown(workspace)
    if not names:
        return False
    if not all((workspace.report_folder / file).is_file() for file in (FILE, "index.html")):
        return True
    for name in names:
        told = VerdictDocument.find(workspace.fit_folder(name))
        if told is None or _said(told.verdict) != _said(verdict_on(workspace, name, owing[name])):
            return True
    return False


def _said(verdict: Verdict) -> Verdict:
    return replace(verdict, next_steps=())


def note_failures(workspace: Workspace, testset: str, failures: Sequence[str]) -> None:
    """Remember what failed when a test set was last brought up to date, or that nothing did."""
    folder = workspace.fit_folder(testset)
    known = FailureDocument.find(folder)
    if not failures:
        folder.remove_record(FailureDocument.NAME)
    elif known is None or tuple(failures) != known.failures:
        FailureDocument(tuple(failures)).write(folder)
