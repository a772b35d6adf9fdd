"""What is missing, whatever happened before: the warehouse compared with what the workspace asks for.

Conditions act on changes, and a change can be lost: a database deleted, a run killed between two writes, a
folder copied. This looks at the state alone, so that every night ends where it should.

Belongs here: the comparison. Does not: starting anything (``orchestration``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assets.fit.stages import fit_code, stage_code
from assets.judging.failures import unheard
from assets.partitions import slice_key
from assets.report.names import page_name
from assets.report.states import states_differ
from assets.workspace import Workspace
from care_ops.errors import CareError

if TYPE_CHECKING:
    import duckdb

    from warehouse.fits import Edition

FIT = ("panel", "moments", "structure", "aggregates", "review")
RESULTS = ("evaluation", "intervals", "systems", "factors", "report")

Missing = dict[str, set[str | None]]


def missing(workspace: Workspace) -> Missing:
    """Partitions by asset that are not what the workspace asks for.

    Parameters
    ----------
    workspace : Workspace
        Its database must be there and of the current schema.
    """
    found: Missing = {}
    with workspace.warehouse.reader() as connection:
        for testset in workspace.testsets:
            for asset, partition in _missing_of(workspace, connection, testset):
                found.setdefault(asset, set()).add(partition)
        if states_differ(workspace, connection):
            found["report_index"] = {None}
    return found


def _missing_of(
    workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str
) -> list[tuple[str, str | None]]:
    known = connection.execute("SELECT items_hash FROM testsets WHERE testset = ?", [testset]).fetchone()
    if known is None or not workspace.parts.items_file(testset).exists():
        return [("items", testset), ("gold", testset)]
    slices = {
        judge: (key, items, content, scored == n_items)
        for judge, key, items, content, scored, n_items in connection.execute(
            "SELECT judge, judge_key, items_hash, content_hash, n_scored, n_items FROM slices WHERE testset = ?",
            [testset],
        ).fetchall()
    }
    found: list[tuple[str, str | None]] = []
    failed = [entry.judge for entry in unheard(workspace, connection, testset) if entry.to_ask]
    again = [(a, p) for judge in failed for a, p in _judged(judge, testset)]
    for judge in workspace.judges_of(testset):
        try:
            wanted = workspace.judge_key(judge, testset)
        except CareError:  # `judge_inference` fails and says why; asking for it every night would not mend it
            continue
        if slices.get(judge, ())[:2] != (wanted, known[0]) or not slices[judge][3]:
            found += _judged(judge, testset)
    roster = set(workspace.judges_of(testset))
    seen = {judge: entry[2] for judge, entry in slices.items() if judge in roster}
    panel, fit = _document(workspace, testset, "panel"), _document(workspace, testset, "fit")
    settings = workspace.settings_version(testset)
    now = (seen, workspace.panel_version(testset), stage_code("panel"))
    reported = {judge for asset, judge in found if asset == "judge_inference"}
    if len(seen) < 2 or reported & panel.get("slices", {}).keys():
        return [*found, *again]  # no panel can be made of what is there, or what the fit has seen is about to come back
    made = (panel.get("slices"), panel.get("settings"), panel.get("code"))
    same_panel = (fit.get("panel"), fit.get("settings"), fit.get("code")) == (panel.get("panel"), settings, fit_code())
    kept = connection.execute("SELECT 1 FROM editions WHERE edition = ?", [fit.get("edition")]).fetchone()
    if made != now or not same_panel or kept is None:
        return [*found, *again, *((asset, testset) for asset in (*FIT, *RESULTS)), ("report_index", None)]
    held = fit.get("edition") not in {e.edition for e in _published(workspace, testset)}
    if not held and not (workspace.report_folder / page_name(testset)).exists():
        found += [*((asset, testset) for asset in RESULTS), ("report_index", None)]
    return [*found, *again]


def _judged(judge: str, testset: str) -> list[tuple[str, str | None]]:
    """A judge asked, and its slice loaded."""
    return [("judge_inference", judge), ("scores", str(slice_key(judge, testset)))]


def _published(workspace: Workspace, testset: str) -> list[Edition]:
    published = workspace.fits.published(testset)
    return [published[1]] if published else []


def _document(workspace: Workspace, testset: str, name: str) -> dict[str, Any]:
    folder = workspace.fit_folder(testset)
    return folder.read_json(name) if (folder.path / f"{name}.json").exists() else {}
