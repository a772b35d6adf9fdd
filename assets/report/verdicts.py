"""The verdict on each test set of a workspace: made from what is stored now, and shown in every place alike.

A page is not drawn again while a fit is held back or a judge fails, so the verdict at its top is replaced in the file.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from assets.code import code_version
from assets.fit.documents import FitDocument
from assets.fit.made import made, result_version
from assets.hashing import content_hash
from assets.judging.failures import Unheard
from assets.publication.documents import ReviewDocument
from assets.publication.editions import HeldBack, held_back
from assets.report.documents import BLOCKED, FactsDocument, FailuresDocument, HeldDocument
from assets.report.names import labels_name, page_name
from assets.report.outdated import State, states
from assets.results.attribution import changes
from assets.results.documents import SystemsDocument
from assets.workspace import Workspace
from care_ops.results.attribution import of_judges, of_systems
from care_ops.results.decide import Standing, decide
from care_ops.results.fit_facts import FitFacts
from care_ops.results.reasons import capital
from care_ops.results.verdict import Reason, Remedies, Step, Verdict
from warehouse.fits import Edition
from warehouse.storage import find_sound, read_document, write_bytes

_MADE_FROM = ("items", "panel", "aggregates")
"""Assets of which a verdict says what they were not made from; what follows from a fit is on its page or is not."""

FILE = "verdicts.json"
"""Every verdict as JSON, beside the index."""

MADE = "index.made.json"
"""What the index was made from, beside it."""


def shown(workspace: Workspace) -> list[str]:
    """Test sets of which there is something to say, sorted: those with a page, a review or a failure."""
    return [
        name
        for name in sorted(workspace.testsets)
        if (workspace.report_folder / page_name(name)).is_file()
        or workspace.fit_folder(name).find(ReviewDocument) is not None
        or known_failures(workspace, name)
    ]


def verdict_on(workspace: Workspace, testset: str, state: State) -> Verdict:
    """The verdict on a test set as it stands now."""
    folder, held = workspace.fit_folder(testset), held_back(workspace, testset)
    first = held is not None and held.published is None
    document, published = folder.find(FactsDocument), workspace.fits.published(testset)
    facts = None if document is None else document.facts
    todo = remedies(workspace, testset, first=first, texts=facts is None or not facts.blind)
    standing = _standing(workspace, testset, state, held)
    if held is None:
        latest = folder.find(FitDocument)
        if latest is None or published is None or not published[0].pinned or latest.edition == published[1].edition:
            return decide(facts, standing, todo)
        return _of_pinned(workspace, published[1], latest.edition, facts, standing, todo)
    read = held.published
    if read and (theirs := workspace.fits.find_annotation(testset, read.edition, FitFacts)) is not None:
        said = f"The published fit by itself: {decide(theirs, Standing(), todo).headline}"
        standing = replace(standing, notes=(Reason("publication", said), *standing.notes))
    waiting = folder.find(HeldDocument)
    if waiting is None or waiting.facts.edition != held.edition:  # its report has not been made yet
        return decide(None, standing, todo)
    return decide(waiting.facts, replace(standing, changes=waiting.changes, moves=waiting.moves), todo)


def _of_pinned(
    workspace: Workspace, pinned: Edition, newer: str, drawn: FitFacts | None, standing: Standing, todo: Remedies
) -> Verdict:
    """The verdict on the fit that a person pinned, and what is to be known of the newer one that stands aside."""
    facts, its = (workspace.fits.find_annotation(pinned.testset, e, FitFacts) for e in (pinned.edition, newer))
    said = f"A person pinned fit {pinned.edition}: these are its numbers, and the newer fit {newer} stands aside."
    said += f" `{todo.decide.command}` publishes that one."
    if drawn is None or drawn.edition != pinned.edition:
        said += " The tables of the page are of another fit."
        todo = replace(todo, use=Step("Read the estimates in the view `latest_aggregates` of the database."))
    notes = [Reason("publication", said), *standing.notes]
    if its is not None:
        notes.insert(1, Reason("publication", f"The newer fit by itself: {decide(its, Standing(), todo).headline}"))
    if facts is None and not standing.failures:
        unknown = f"No verdict is kept of fit {pinned.edition}, which a person pinned."
        return Verdict("held back", unknown, tuple(notes), (todo.decide,), pinned.edition, pinned.made_at)
    return decide(facts, replace(standing, notes=tuple(notes)), todo)


def _standing(workspace: Workspace, testset: str, state: State, held: HeldBack | None) -> Standing:
    unverified = workspace.testset(testset).unverified()
    stale = [_unscored(entry) for entry in state.owing if entry.unscored and not entry.why]
    with_file = workspace.testset(testset).recorded is not None
    recorded = [entry for entry in state.owing if with_file and workspace.judge(entry.judge).engine.needs.recordings]
    unread = {entry.judge: entry.why for entry in recorded if entry.why}
    owing = [entry for entry in state.owing if entry.judge not in unread]
    notes = [Reason("owing judge", said, (entry.judge,)) for entry in owing for said in _partly_scored(entry)]
    unlabelled, known = workspace.unread_labels(testset), known_failures(workspace, testset)
    told = {asset: why for asset, why in known.items() if not (unlabelled and asset == "aggregates")}
    failures = [f"Recorded scores cannot be read: {why}" for why in dict.fromkeys(unread.values())]
    failures += [f"`{asset}` could not be made: {why}" for asset, why in told.items()]
    failures += [f"Labels cannot be read: {unlabelled}"] if unlabelled else []
    several = () if unlabelled else workspace.anchors_of(testset).repeats
    notes += [Reason("labels", f"{capital(said.removeprefix('warning: '))}.") for said in several]
    judges, systems = changes(workspace, testset)
    anew = "What it says of systems is held until another `revision` in its file has everything scored anew."
    named = zip(judges, of_judges(judges), strict=True)
    notes += [Reason("judge changed", said, (judge,), anew) for judge, said in named]
    notes += [Reason("system changed", said) for said in of_systems(systems, judges)]
    compared = workspace.fit_folder(testset).find(SystemsDocument)
    if compared is not None and compared.refused:
        notes.append(Reason("no systems", f"Systems are not compared: {compared.refused.removeprefix('systems: ')}."))
    return Standing(
        failures=tuple(failures),
        held_back=held.says if held else (),
        held_edition=held.edition if held else None,
        held_made_at=held.made_at if held else None,
        reading=held.reading() if held else "",
        owing=tuple(e.judge for e in owing if held and held.lacks_scores and (e.unscored or e.to_ask)),
        stale=(*_changed_since(workspace, testset, state), *stale),
        notes=(*([Reason("source", unverified)] if unverified else []), *notes),
    )


def _changed_since(workspace: Workspace, testset: str, state: State) -> list[Reason]:
    """A reason about what the latest fit was not made from; none without a fit."""
    names = [name for one in state.outdated if one.asset in _MADE_FROM for name in one.changed]
    if not names or workspace.fit_folder(testset).find(FitDocument) is None:
        return []
    changed = f"{capital(', '.join(dict.fromkeys(names)))} changed since the last run."
    return [Reason("stale", changed, detail="`care run` brings it up to date.")]


def _unscored(entry: Unheard) -> Reason:
    """What is said of scores that the next night asks for, and that the fit therefore lacks."""
    why = (
        "As it is specified now it is new or has changed, or its last run failed or was stopped. The next `care run` "
        "asks for them and says why, should it fail again."
    )
    if entry.only_waits:
        why = "They are in a batch at its endpoint, which is given a day. The next `care run` collects what is there."
    said = f"Judge {entry.judge} has not scored {entry.unscored:,} of {entry.items:,} items yet."
    return Reason("stale", said, (entry.judge,), why)


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


def remedies(workspace: Workspace, testset: str, *, first: bool = False, texts: bool = True) -> Remedies:
    """What to do next, as commands that can be typed; ``first`` where no fit was published, ``texts`` where known."""
    where, name = workspace.option, shlex.quote(testset)
    run = f"care run{where}"
    labels = workspace.report_folder / labels_name(testset)
    compare = (
        f"Compare the two fits with `care fits diff {name}{where}`. If the new one is right, publish it; until then "
        "people go on reading the other, and mending what changed makes another fit."
    )
    if first:
        compare = f"Mend what is named, and `{run}` makes another fit; or publish this one, if it is right as it is."
    if workspace.store is not None:
        labels = labels.relative_to(workspace.root)
    return Remedies(
        label=Step(
            f"Label ten to twenty items: {'the command asks about them, or ' if texts else ''}fill in {labels}. Then "
            f"name the file of labels for {testset} under `anchors` in care.yaml, and run again.",
            f"care label {name}{where}" if texts else run,
        ),
        use=Step(
            "Read the estimates: the page has them, and so has the view `latest_aggregates` of the database.",
            f"care report --open{where}",
        ),
        again=Step("Bring the test set up to date; what cannot be made says why.", run),
        decide=Step(compare, f"care fits accept {name}{where}"),
    )


def keep(workspace: Workspace, verdicts: Mapping[str, Verdict]) -> None:
    """Store verdicts in the database, whose views then list the test sets of the workspace and no other."""
    from warehouse.fit_rows import leave_to, store_verdict

    with workspace.warehouse.writer() as connection:
        leave_to(connection, workspace.testsets)
        for testset, verdict in verdicts.items():
            store_verdict(connection, testset, asdict(verdict))


def told(workspace: Workspace) -> dict[str, dict[str, Any]]:
    """What was told of each test set last, as plain values; nothing where the file is gone or damaged."""
    try:
        said = json.loads((workspace.report_folder / FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def write_verdicts(workspace: Workspace, verdicts: Mapping[str, Verdict]) -> None:
    """Write every verdict as JSON beside the index, and into the page of its test set."""
    from assets.report.page import replace_verdict

    for testset, verdict in verdicts.items():
        page = workspace.report_folder / page_name(testset)
        if page.is_file():
            replace_verdict(page, verdict)
    write_bytes(workspace.report_folder / FILE, _as_json(verdicts).encode())


def _as_json(verdicts: Mapping[str, Verdict]) -> str:
    return json.dumps({testset: asdict(verdict) for testset, verdict in verdicts.items()}, indent=1)


def current_verdicts(workspace: Workspace, known: Mapping[str, State] | None = None) -> dict[str, Verdict]:
    """The verdict on each test set of which there is something to say, as it stands now; none without a database.

    ``known`` are their states, for a caller that has looked.
    """
    if not workspace.warehouse.usable():
        return {}
    known = states(workspace) if known is None else known
    return {name: verdict_on(workspace, name, known[name]) for name in shown(workspace)}


def index_differs(workspace: Workspace, current: Mapping[str, Verdict], *, steps: bool = False) -> bool:
    """Whether the index is missing, or was made from other verdicts, pages or code than those of now.

    Parameters
    ----------
    current : mapping
        Of ``current_verdicts``.
    steps : bool
        Whether the next steps count, whose commands name the folder of the workspace: in one that was copied, all that
        is new is that they name another one.
    """
    if not current:
        return False
    if not (workspace.report_folder / "index.html").is_file() or any(lacks_facts(workspace, t) for t in current):
        return True
    made_from = find_sound(workspace.report_folder / MADE, read_document)
    if made_from is None or made_from.get("version") != index_version(workspace, current):
        return True
    now, last = json.loads(_as_json(current)), told(workspace)
    left_out = {} if steps else {"next_steps": None}
    return any({**now[name], **left_out} != {**last.get(name, {}), **left_out} for name in now)


def lacks_facts(workspace: Workspace, testset: str) -> bool:
    """Whether a blocked fit, whose report Dagster does not run, has no facts for its verdict yet."""
    if held_back(workspace, testset) is None:
        return False
    folder = workspace.fit_folder(testset)
    fit, held = folder.find(FitDocument), folder.find(HeldDocument)
    is_there = fit is not None and held is not None and held.facts.edition == fit.edition
    return not is_there or made(folder, BLOCKED).version != result_version(workspace, testset, "report")


def index_version(workspace: Workspace, verdicts: Mapping[str, Verdict]) -> str:
    """Hash of what the index is made from: its code, verdicts without steps and moments, all pages and reviews."""
    code = code_version("assets.report.report_index", "care_ops")
    folders = {testset: workspace.fit_folder(testset) for testset in sorted(workspace.testsets)}
    pages = {t: [made(folder, asset).version for asset in ("report", "review")] for t, folder in folders.items()}
    said = {testset: asdict(replace(verdict, next_steps=(), made_at=None)) for testset, verdict in verdicts.items()}
    return content_hash([code, pages, said])


def note_failures(workspace: Workspace, testset: str, failures: Mapping[str, str]) -> None:
    """Remember what failed when a test set was last brought up to date, by asset, or that nothing did."""
    folder = workspace.fit_folder(testset)
    if not failures:
        folder.remove(FailuresDocument)
    elif failures != known_failures(workspace, testset):
        folder.write(FailuresDocument(dict(failures)))


def note_failure(workspace: Workspace, testset: str, asset: str, why: str) -> None:
    """Remember that one asset failed, beside what is remembered already."""
    note_failures(workspace, testset, {**known_failures(workspace, testset), asset: why})


def known_failures(workspace: Workspace, testset: str) -> dict[str, str]:
    """Why the assets of a test set that are remembered to have failed could not be made."""
    known = workspace.fit_folder(testset).find(FailuresDocument)
    return {} if known is None else known.why
