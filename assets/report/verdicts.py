"""Verdicts on the test sets of a workspace, computed from the stored state.

If only the verdict has changed, CARE replaces the verdict on the page without rendering the rest again.
"""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from assets.fit.documents import FitDocument
from assets.fit.made import built_from, result_version
from assets.fit.stages import result_code
from assets.hashing import content_hash
from assets.judging.failures import IncompleteScores
from assets.judging.retests import changed_judges
from assets.publication.documents import ReviewDocument
from assets.publication.fit_versions import BlockedFit, blocked_fit
from assets.report.documents import BLOCKED, FactsDocument, FailuresDocument, HeldDocument
from assets.report.names import labels_name, page_name
from assets.report.staleness import State, states
from assets.results.documents import SystemsDocument
from assets.workspace import Workspace
from care_ops.errors import capital
from care_ops.results.attribution import of_judges
from care_ops.results.decide import FitStatus, decide
from care_ops.results.fit_facts import FitFacts
from care_ops.results.verdict import PASS_MARK, Reason, Remedies, Step, Verdict, label_values
from warehouse.documents import renamed
from warehouse.fits import FitVersion
from warehouse.storage import find_sound, read_document, write_bytes

_MADE_FROM = ("items", "panel", "aggregates")
"""Assets that can be stale because an input changed; a verdict names such inputs."""

FILE = "verdicts.json"
"""File with all verdicts as JSON, in the folder of the index."""

INPUTS = "index.made.json"
"""File with the version of the index's inputs, in the folder of the index."""


def shown(workspace: Workspace) -> list[str]:
    """List the test sets with a page, a review or a failure, sorted."""
    return [
        name
        for name in sorted(workspace.testsets)
        if (workspace.report_folder / page_name(name)).is_file()
        or workspace.fit_folder(name).find(ReviewDocument) is not None
        or known_failures(workspace, name)
    ]


def verdict_on(workspace: Workspace, testset: str, state: State) -> Verdict:
    """Compute the current verdict on a test set from the stored state and facts."""
    folder, held = workspace.fit_folder(testset), blocked_fit(workspace, testset)
    first = held is not None and held.published is None
    document, published = folder.find(FactsDocument), workspace.fits.published(testset)
    facts = None if document is None else document.facts
    todo = remedies(workspace, testset, first=first, texts=facts is None or not facts.blind)
    status = _status(workspace, testset, state, held)
    if held is None:
        latest = folder.find(FitDocument)
        pinned = published[1] if published is not None and published[0].pinned else None
        if latest is None or pinned is None or latest.fit_version == pinned.fit_version:
            return decide(facts, status, todo)
        return _of_pinned(workspace, pinned, latest.fit_version, facts, status, todo)
    read = held.published
    if read and (theirs := workspace.fits.find_annotation(testset, read.fit_version, FitFacts)) is not None:
        sentence = f"Verdict on the published fit: {decide(theirs, FitStatus(), todo).headline}"
        status = replace(status, notes=(Reason("publication", sentence), *status.notes))
    waiting = folder.find(HeldDocument)
    if waiting is None or waiting.facts.fit_version != held.fit_version:  # its report has not been built yet
        return decide(None, status, todo)
    return decide(waiting.facts, replace(status, changes=waiting.changes, estimate_changes=waiting.moves), todo)


def _of_pinned(
    workspace: Workspace, pinned: FitVersion, newer: str, drawn: FitFacts | None, status: FitStatus, todo: Remedies
) -> Verdict:
    facts = workspace.fits.find_annotation(pinned.testset, pinned.fit_version, FitFacts)
    sentence = (
        f"A person pinned fit {pinned.fit_version}, so this verdict is on that fit, and the newer fit {newer} is not "
        f"published. To publish the newer fit, run `{todo.decide.command}`."
    )
    if drawn is None or drawn.fit_version != pinned.fit_version:
        sentence += " The tables on the page describe another fit."
        todo = replace(todo, use=Step("Read the estimates in the view `latest_aggregates` of the database."))
    notes = (Reason("publication", sentence), *status.notes)
    if facts is None and not status.failures:
        unknown = f"A person pinned fit {pinned.fit_version}, but the verdict on this fit is not stored."
        return Verdict("held back", unknown, notes, (todo.decide,), pinned.fit_version, pinned.made_at)
    return decide(facts, replace(status, notes=notes), todo)


def _status(workspace: Workspace, testset: str, state: State, held: BlockedFit | None) -> FitStatus:
    unverified = workspace.testset(testset).unverified()
    stale = [_unscored(entry) for entry in state.incomplete if entry.unscored and not entry.why]
    with_file = workspace.testset(testset).recorded is not None
    broken = {entry.judge: entry.why for entry in state.incomplete if with_file and entry.why}
    unread = {judge: why for judge, why in broken.items() if workspace.judge(judge).engine.needs.recordings}
    incomplete = [entry for entry in state.incomplete if entry.judge not in unread]
    notes = [
        Reason("owing judge", sentence, (entry.judge,)) for entry in incomplete for sentence in _partly_scored(entry)
    ]
    unlabelled, known = workspace.unread_labels(testset), known_failures(workspace, testset)
    failed = {asset: why for asset, why in known.items() if not (unlabelled and asset == "aggregates")}
    failures = [f"Recorded scores cannot be read: {why}" for why in dict.fromkeys(unread.values())]
    failures += [f"`{asset}` could not be built: {why}" for asset, why in failed.items()]
    failures += [f"Labels cannot be read: {unlabelled}"] if unlabelled else []
    several = () if unlabelled else workspace.labels_of(testset).repeats
    notes += [Reason("labels", f"{capital(sentence.removeprefix('warning: '))}.") for sentence in several]
    judges = changed_judges(workspace, testset)
    remedy = "Gates are blocked. Change `revision` in the judge's file to score all items again."
    named = zip(judges, of_judges(judges), strict=True)
    notes += [Reason("judge changed", sentence, (judge,), remedy) for judge, sentence in named]
    compared = workspace.fit_folder(testset).find(SystemsDocument)
    if compared is not None and compared.refused:
        notes.append(Reason("no systems", f"Systems are not compared: {compared.refused.removeprefix('systems: ')}."))
    return FitStatus(
        failures=tuple(failures),
        blocking_checks=held.messages if held else (),
        blocked_fit_version=held.fit_version if held else None,
        blocked_built_at=held.made_at if held else None,
        published_version=held.reading() if held else "",
        incomplete_judges=tuple(e.judge for e in incomplete if held and held.lacks_scores and (e.unscored or e.to_ask)),
        stale=(*_changed_since(workspace, testset, state), *stale),
        notes=(*([Reason("source", unverified)] if unverified else []), *notes),
    )


def _changed_since(workspace: Workspace, testset: str, state: State) -> list[Reason]:
    names = [name for one in state.stale if one.asset in _MADE_FROM for name in one.changed]
    if not names or workspace.fit_folder(testset).find(FitDocument) is None:
        return []
    changed = f"{capital(', '.join(dict.fromkeys(names)))} changed since the last run."
    return [Reason("stale", changed, detail="Run `care run` to bring the test set up to date.")]


def _unscored(entry: IncompleteScores) -> Reason:
    why = (
        "The judge is new, its file has changed, or its last run failed or was stopped. The next `care run` requests "
        "the missing scores, and reports an error if it fails."
    )
    if entry.only_waits:
        why = "A batch with the scores is open at the judge's endpoint. `care run` collects the scores that are ready."
    sentence = f"Judge {entry.judge} has not scored {entry.unscored:,} of {entry.items:,} items yet."
    return Reason("stale", sentence, (entry.judge,), why)


def _partly_scored(entry: IncompleteScores) -> list[str]:
    if entry.why:
        return [f"Judge {entry.judge} cannot be used: {entry.why}"]
    sentences: list[str] = []
    if entry.to_ask:
        sentences.append(
            f"Judge {entry.judge} failed on {entry.to_ask:,} of {entry.items:,} items (timeouts or errors of its "
            "engine); the next `care run` requests these scores again."
        )
    if entry.given_up:
        sentences.append(
            f"Judge {entry.judge} failed on {entry.given_up:,} of {entry.items:,} items as often as `attempts` in its "
            "file allows; these scores count as missing. Raise `attempts` to request them again."
        )
    return sentences


def remedies(workspace: Workspace, testset: str, *, first: bool = False, texts: bool = True) -> Remedies:
    """Return the next steps with commands, for a ``first`` or a later fit, and for items with or without ``texts``."""
    where, name = workspace.option, shlex.quote(testset)
    run = f"care run{where}"
    labels, used = workspace.report_folder / labels_name(testset), workspace.labels_file(testset)
    path = f"{'check' if used else 'set'} the path of the label file for {testset} under `labels` in care.yaml, and "
    if used == labels:
        texts, path = False, ""  # `care label` cannot write to this file
    compare = (
        f"Compare the two fits with `care fits diff {name}{where}`. If the new fit is right, publish it. Otherwise "
        f"correct the inputs and run `{run}`; the published fit stays until then."
    )
    if first:
        compare = f"Correct the inputs that the checks name, and run `{run}`; or publish this fit if it is right."
    if workspace.store is not None:
        labels = labels.relative_to(workspace.root)
    file = os.path.relpath(workspace.root / labels, workspace.root)  # the reason is the same in a copy of the workspace
    right = workspace.higher_is_right(testset)
    with_labels = "" if used else f" --labels {shlex.quote(file)}"
    return Remedies(
        label=Step(
            f"Label about twenty {'more ' if used else ''}items: {'run this command, or ' if texts else ''}fill in "
            f"{labels}. Then {path}run again.",
            f"care label {name}{where}" if texts else run,
        ),
        use=Step(
            "Read the estimates on the page, or in the view `latest_aggregates` of the database.",
            f"care report --open{where}",
        ),
        again=Step("Bring the test set up to date; a step that fails reports the reason.", run),
        decide=Step(compare, f"care fits accept {name}{where}"),
        report=f"run `care judges report {name} --workspace .{with_labels} --cut VALUE` in the workspace's folder; "
        f"{PASS_MARK} (leave out `--cut` if scores have only two values)",
        cut=f"`cut: VALUE` in testsets/{testset}.yaml; {PASS_MARK}",
        label_values=label_values(pairs=right or len(workspace.testset(testset).systems) == 2, right=right),
    )


def keep(workspace: Workspace, verdicts: Mapping[str, Verdict]) -> None:
    """Store verdicts in the database, and hide deleted test sets from the database's views."""
    from warehouse.fit_rows import leave_to, store_verdict

    with workspace.warehouse.writer() as connection:
        leave_to(connection, workspace.testsets)
        for testset, verdict in verdicts.items():
            store_verdict(connection, testset, asdict(verdict))


def stored_verdicts(workspace: Workspace) -> dict[str, dict[str, Any]]:
    """Read the stored verdicts as JSON values; return an empty dict if the file is missing or damaged."""
    try:
        verdicts = json.loads((workspace.report_folder / FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(verdicts, dict):
        return {}
    return {name: renamed("Verdict", verdict) for name, verdict in verdicts.items() if isinstance(verdict, dict)}


def write_to_pages(workspace: Workspace, verdicts: Mapping[str, Verdict]) -> None:
    """Write all verdicts to one JSON file next to the index, and each verdict to the page of its test set."""
    from assets.report.page import replace_verdict

    for testset, verdict in verdicts.items():
        page = workspace.report_folder / page_name(testset)
        if page.is_file():
            replace_verdict(page, verdict)
    write_bytes(workspace.report_folder / FILE, _as_json(verdicts).encode())


def _as_json(verdicts: Mapping[str, Verdict]) -> str:
    return json.dumps({testset: asdict(verdict) for testset, verdict in verdicts.items()}, indent=1)


def current_verdicts(workspace: Workspace, known: Mapping[str, State] | None = None) -> dict[str, Verdict]:
    """Compute the current verdict on each test set in ``shown(workspace)``; return {} if there is no database."""
    known = states(workspace) if known is None else known
    if not any(state.items_hash for state in known.values()) and not workspace.warehouse.usable():
        return {}
    return {name: verdict_on(workspace, name, known[name]) for name in shown(workspace)}


def index_differs(workspace: Workspace, current: Mapping[str, Verdict], *, steps: bool = False) -> bool:
    """Return whether the index is missing or stale; if ``steps`` is true, also compare the next steps."""
    if not current:
        return False
    if not (workspace.report_folder / "index.html").is_file() or any(lacks_facts(workspace, t) for t in current):
        return True
    made_from = find_sound(workspace.report_folder / INPUTS, read_document)
    if made_from is None or made_from.get("version") != index_version(workspace, current):
        return True
    now, last = json.loads(_as_json(current)), stored_verdicts(workspace)
    left_out = {} if steps else {"next_steps": None}
    return any({**now[name], **left_out} != {**last.get(name, {}), **left_out} for name in now)


def lacks_facts(workspace: Workspace, testset: str) -> bool:
    """Return whether the latest fit is blocked while the stored facts about this fit are missing or stale."""
    if blocked_fit(workspace, testset) is None:
        return False
    folder = workspace.fit_folder(testset)
    fit, held = folder.find(FitDocument), folder.find(HeldDocument)
    is_there = fit is not None and held is not None and held.facts.fit_version == fit.fit_version
    return not is_there or built_from(folder, BLOCKED).version != result_version(workspace, testset, "report")


def index_version(workspace: Workspace, verdicts: Mapping[str, Verdict]) -> str:
    """Return a hash of the inputs of the index: code, verdicts without steps and times, pages and reviews."""
    folders = {testset: workspace.fit_folder(testset) for testset in sorted(workspace.testsets)}
    pages = {t: [built_from(folder, asset).version for asset in ("report", "review")] for t, folder in folders.items()}
    shown = {testset: asdict(replace(verdict, next_steps=(), made_at=None)) for testset, verdict in verdicts.items()}
    return content_hash([result_code(), pages, shown])


def note_failures(workspace: Workspace, testset: str, failures: Mapping[str, str]) -> None:
    """Store the errors of a test set's last run; if no asset failed, delete the errors that were stored earlier."""
    folder = workspace.fit_folder(testset)
    if not failures:
        folder.remove(FailuresDocument)
    elif failures != known_failures(workspace, testset):
        folder.write(FailuresDocument(dict(failures)))


def note_failure(workspace: Workspace, testset: str, asset: str, why: str) -> None:
    """Add the error of one asset to the stored errors of a test set."""
    note_failures(workspace, testset, {**known_failures(workspace, testset), asset: why})


def known_failures(workspace: Workspace, testset: str) -> dict[str, str]:
    """Return the stored errors of a test set's assets, by asset."""
    known = workspace.fit_folder(testset).find(FailuresDocument)
    return {} if known is None else known.why
