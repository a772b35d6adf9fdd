"""Detection of stale partitions of assets, with reasons.

The daemon, ``care run``, ``care status`` and verdicts all use this module. An asset is stale if it is missing, or if
its inputs, settings or code have changed since it was built. The module reads stored state, not events, so it also
works if a run was killed, the database was deleted, or the workspace was copied.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from assets.fit.documents import FitDocument, PanelDocument, StructureDocument
from assets.fit.made import RESULTS, SOLVED, built_from, result_version
from assets.fit.stages import fit_code
from assets.hashing import content_hash
from assets.judge_keys import judge_key
from assets.judging.batches import open_batches
from assets.judging.failures import IncompleteScores, has_abstained, incomplete_scores, slice_name
from assets.publication.documents import ReviewDocument
from assets.publication.fit_versions import blocked_fit
from assets.report.names import items_name, page_name
from assets.versions import items_code, judge_version, panel_version, readable_source_version, settings_version
from assets.workspace import Workspace
from care_ops.errors import CareError, WarehouseError
from care_ops.records import Evaluation, Intervals
from judges.items import MAY_PASS

if TYPE_CHECKING:
    import duckdb

    from warehouse.artifacts import FitFolder

_FILES = ("review", "factors", "systems")
"""Assets whose results a report reads from documents of the same name."""

LOOK_EVERY_S = 1800.0
"""Seconds between two checks of an open batch at an endpoint."""

Partition = tuple[str, str | None]
"""Name of an asset, and its partition or None."""


@dataclass(frozen=True)
class StalePartition:
    """Partition of an asset that must be materialised again.

    Attributes
    ----------
    version : str
        Hash of the partition's current inputs. A failed partition is retried only after this hash has changed.
    changed : tuple of str
        Names of changed inputs; empty if the partition is missing.
    reason : str
        Reason in a sentence, if no input has changed.
    testsets : tuple of str
        Test sets with missing scores, if the partition is a judge.
    only_waits : bool
        Whether all items without a score are in open batches at the judge's endpoint.
    """

    asset: str
    partition: str | None
    version: str
    changed: tuple[str, ...] = ()
    reason: str = ""
    testsets: tuple[str, ...] = ()
    only_waits: bool = False

    @property
    def key(self) -> Partition:
        """Name of the asset and name of the partition."""
        return self.asset, self.partition

    @property
    def why(self) -> str:
        """Reason for materialising the partition, in words."""
        return f"{', '.join(self.changed)} changed" if self.changed else self.reason or "it is missing"


@dataclass(frozen=True)
class State:
    """Stale partitions and incomplete scores of a test set.

    Attributes
    ----------
    stale : tuple of StalePartition
        Stale partitions in the order in which CARE builds them, including each judge with missing scores.
    incomplete : tuple of IncompleteScores
        Counts of missing and failed scores, for each judge that has any.
    items_hash : str or None
        Hash of the test set's items in the database.
    """

    stale: tuple[StalePartition, ...]
    incomplete: tuple[IncompleteScores, ...] = ()
    items_hash: str | None = None


def states(workspace: Workspace) -> dict[str, State]:
    """Read the state of each test set; without a usable database, check only the assets ``items`` and ``gold``."""
    names = sorted(workspace.testsets)
    if not workspace.warehouse.usable():
        return {testset: State(tuple(_stale_items(workspace, testset, None))) for testset in names}
    with workspace.warehouse.reader() as connection:
        return {testset: state_of(workspace, connection, testset) for testset in names}


def state_of(workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str) -> State:
    """Read the stale partitions and incomplete scores of a test set."""
    row = connection.execute("SELECT source_version, items_hash FROM testsets WHERE testset = ?", [testset]).fetchone()
    incomplete, found = incomplete_scores(workspace, connection, testset), [*_stale_items(workspace, testset, row)]
    if row is None or not workspace.parts.items_file(testset).is_file():  # there is nothing to score
        return State(tuple(found), tuple(incomplete), None if row is None else row[1])
    sql = "SELECT item_key FROM items WHERE testset = ?"
    item_keys = cache(lambda: {*connection.sql(sql, params=[testset]).to_arrow_table()["item_key"].to_pylist()})
    for entry in incomplete:
        found += _stale_judge(workspace, item_keys, testset, entry, row[1])
    found += _without_scores(workspace, connection, testset, row[1])
    found += _stale_fit(workspace, connection, testset, row[1])
    return State(tuple(found), tuple(incomplete), row[1])


def stale_partitions(workspace: Workspace, known: Mapping[str, State]) -> dict[Partition, StalePartition]:
    """Return the stale partitions of all test sets; a judge with missing scores has one entry for all test sets."""
    incomplete: dict[str, list[str]] = {}
    found: dict[Partition, StalePartition] = {}
    for testset, state in known.items():
        for entry in state.stale:
            if entry.asset == "judge_inference":
                incomplete.setdefault(str(entry.partition), []).append(testset)
            else:
                found[entry.key] = entry
    for judge, testsets in incomplete.items():
        items = {testset: known[testset].items_hash for testset in workspace.testsets_of(judge)}
        missing = [entry for testset in testsets for entry in known[testset].incomplete if entry.judge == judge]
        waits = all(entry.only_waits for entry in missing)
        version = content_hash([judge_version(workspace, judge), items, *([int(time.time() / LOOK_EVERY_S)] * waits)])
        reason = f"{'an open batch' if waits else 'missing scores'} of {', '.join(testsets)}"
        found["judge_inference", judge] = StalePartition(
            "judge_inference", judge, version, reason=reason, testsets=tuple(testsets), only_waits=waits
        )
    return found


def _stale_items(workspace: Workspace, testset: str, row: tuple[str | None, str] | None) -> Iterator[StalePartition]:
    """Yield the assets ``items`` and ``gold`` if they are stale; CARE always reads them together."""
    changed: list[str] = []
    reason = ""
    try:
        version = readable_source_version(workspace, testset)
        if row is not None and workspace.parts.items_file(testset).is_file():
            changed += ["source"] if row[0] not in (None, version) else []
            changed += ["code"] if workspace.parts.items_version(testset, "code") != items_code() else []
            if not changed:
                return
    except WarehouseError as error:  # a damaged file was quarantined
        version, reason = content_hash(str(error)), str(error)
    except CareError as error:  # `items` fails with this message, and other test sets go on
        version, reason = content_hash(str(error)), f"its source cannot be read: {error}"
    version = content_hash([version, items_code()])
    for asset in ("items", "gold"):
        yield StalePartition(asset, testset, version, tuple(changed), reason)


def _stale_judge(
    workspace: Workspace, item_keys: Callable[[], set[str]], testset: str, entry: IncompleteScores, items_hash: str
) -> Iterator[StalePartition]:
    if not (entry.incomplete or entry.to_ask or entry.why or entry.in_batch):
        return  # every missing score was requested as often as the judge's `attempts` allow
    key = "" if entry.why else judge_key(workspace, entry.judge, testset)
    done, has_answered = workspace.parts.done(entry.judge, testset, key) if key else set[str](), False
    if key and (len(done) >= entry.items or not entry.incomplete):
        has_answered = item_keys() <= done
        if not entry.incomplete:  # it failed on some items, and they may be scored since
            answered = workspace.parts.done(entry.judge, testset, key, MAY_PASS)
            has_answered = len(item_keys() - answered) < entry.to_ask + entry.given_up
    if not has_answered:
        yield StalePartition("judge_inference", entry.judge, "")
        if len(done) <= max(entry.in_batch, entry.items - entry.unscored if entry.loaded else 0):
            return  # otherwise the scores that it has given so far are loaded
    version = content_hash([key, items_hash, entry.to_ask, len(done)])
    yield StalePartition("scores", slice_name(entry.judge, testset), version, reason="the judge has new scores")


def _without_scores(
    workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str, items_hash: str
) -> Iterator[StalePartition]:
    """Yield each partition of ``scores`` that contains no score; loading it again reports why no item has a score."""
    rows = connection.execute(
        "SELECT judge, judge_key FROM slices WHERE testset = ? AND n_ok = 0 AND n_items > 0 ORDER BY judge", [testset]
    ).fetchall()
    for judge, key in rows:
        if judge not in workspace.judges_of(testset) or open_batches(workspace, judge, testset):
            continue
        statuses = connection.execute(
            "SELECT DISTINCT status FROM scores JOIN judges USING (judge_ix) JOIN items USING (item_ix) "
            "WHERE testset = ? AND judge = ?",
            [testset, judge],
        ).fetchall()
        if not has_abstained(workspace, judge, [status for (status,) in statuses]):
            version = content_hash([key, items_hash, "no score"])
            yield StalePartition("scores", slice_name(judge, testset), version, reason="no item has a score")


def _stale_fit(
    workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str, items_hash: str
) -> Iterator[StalePartition]:
    from warehouse.panel_rows import slice_versions

    folder, judges = workspace.fit_folder(testset), set(workspace.judges_of(testset))
    seen = {judge: content for judge, content in slice_versions(connection, testset).items() if judge in judges}
    panel, fit = folder.find(PanelDocument), folder.find(FitDocument)
    if panel is None and not seen:
        return  # it has no scores
    settings = panel_version(workspace, testset)
    changed = _changes(panel, {"judges or admission rule": ("settings", settings)}, fit_code())
    rescored = panel is None or panel.slices != seen
    if panel is not None and rescored and panel.settings == settings:
        changed = ("scores", *changed)
    panel_is_stale = panel is None or rescored or bool(changed) or not _is_whole(folder, panel)
    if panel_is_stale:
        yield StalePartition("panel", testset, content_hash([seen, settings, fit_code()]), changed)
    fingerprint = panel.panel if panel is not None else ""
    if unread := workspace.unread_labels(testset):  # `aggregates` fails with this message, and other test sets go on
        yield StalePartition("aggregates", testset, content_hash(unread), reason=f"its labels cannot be read: {unread}")
        return
    fit_settings = settings_version(workspace, testset)
    inputs = {"panel": ("panel", fingerprint), "settings or labels": ("settings", fit_settings)}
    changed = _changes(fit, inputs, fit_code())
    whole = fit is not None and _whole(workspace, connection, testset, fit)
    refit = rescored or bool(changed) or not whole
    if refit:
        version = content_hash([fingerprint, fit_settings, fit_code()])
        kept = whole and not (rescored or panel_is_stale)
        for asset in SOLVED:
            kept = kept and built_from(folder, asset).version == result_version(workspace, testset, asset)
            if not kept:
                yield StalePartition(asset, testset, version, changed)
        yield StalePartition("aggregates", testset, version, changed)
    yield from _stale_results(workspace, connection, testset, fit, refit=refit)


def _is_whole(folder: FitFolder, panel: PanelDocument) -> bool:
    try:
        return folder.panel_summary().fingerprint == panel.panel
    except WarehouseError:  # it is gone, or was quarantined
        return False


def _changes(
    document: PanelDocument | FitDocument | None, inputs: Mapping[str, tuple[str, str]], code: str
) -> tuple[str, ...]:
    if document is None:
        return ()
    changed = [words for words, (name, version) in inputs.items() if getattr(document, name) != version]
    return (*changed, *(["code"] if document.code != code else []))


def _stale_results(
    workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str, fit: FitDocument | None, *, refit: bool
) -> Iterator[StalePartition]:
    folder = workspace.fit_folder(testset)
    lost = set() if fit is None else _lost_findings(workspace, connection, testset, fit)
    stale: list[str] = []
    for asset in ("review", *RESULTS, "report"):
        if asset == "report" and not refit and "review" not in stale and blocked_fit(workspace, testset) is not None:
            return
        version = result_version(workspace, testset, asset)
        is_there = asset not in _FILES or (folder.path / f"{asset}.json").is_file()
        other = built_from(folder, asset).version != version
        if asset == "review":
            review = folder.find(ReviewDocument)
            was_published = review is not None and review.state == "published"
            is_there = is_there and not (was_published and not workspace.fits.publications(testset))
        if asset == "report":
            pages = (page_name(testset), items_name(page_name(testset)))
            is_there = fit is None or all((workspace.report_folder / page).is_file() for page in pages)
        if refit or other or not is_there or asset in lost or (asset == "report" and stale):
            stale.append(asset)
            why = "the fit is stale" if refit else "its inputs changed" if other else ""
            yield StalePartition(asset, testset, version, reason=why)


def _whole(workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str, fit: FitDocument) -> bool:
    row = connection.execute("SELECT 1 FROM fit_versions WHERE fit_version = ?", [fit.fit_version]).fetchone()
    folder = workspace.fit_folder(testset)
    structure = folder.find(StructureDocument)
    solved = structure is not None and structure.solution is not None
    kept = workspace.fits.has_fit_version(testset, fit.fit_version, list(fit.by_aggregator.values()))
    return row is not None and kept and folder.has_fit(solved=solved)


def _lost_findings(
    workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str, fit: FitDocument
) -> set[str]:
    """Return the results (evaluation, intervals) that are in the database but whose files are missing."""
    known = connection.execute(
        "SELECT fit_id, 'evaluation' FROM evaluations WHERE list_contains($ids, fit_id) UNION "
        "SELECT fit_id, 'intervals' FROM weights WHERE list_contains($ids, fit_id) AND lo IS NOT NULL",
        {"ids": list(fit.by_aggregator.values())},
    ).fetchall()
    kinds = {"evaluation": Evaluation, "intervals": Intervals}
    return {kind for fit_id, kind in known if not workspace.fits.has_annotation(testset, fit_id, kinds[kind])}
