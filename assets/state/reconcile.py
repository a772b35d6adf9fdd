"""Which assets are missing or outdated, found by comparing what is stored with what the workspace asks for.

Conditions (``orchestration.conditions``) act on changes, and a change can be lost: a database is deleted, a run is
killed between two writes, a folder is copied. This comparison looks at the stored state alone, so it also finds what
such an accident has left undone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from assets.fit.documents import FitDocument, PanelDocument, StructureDocument
from assets.fit.stages import fit_code, stage_code
from assets.judging.failures import Unheard, unheard
from assets.partitions import slice_key
from assets.publication.documents import ReviewDocument
from assets.report.names import items_name, page_name
from assets.results.documents import SystemsDocument
from assets.versions import panel_version, settings_version, source_changed
from assets.workspace import Workspace

if TYPE_CHECKING:
    import duckdb

    from warehouse.fits import Edition

_log = logging.getLogger(__name__)

FIT = ("panel", "probes", "moments", "structure", "aggregates", "review")
RESULTS = ("evaluation", "intervals", "systems", "factors", "report")

Missing = dict[str, set[str | None]]


def missing(workspace: Workspace) -> Missing:
    """Partitions, by asset, that are missing or outdated.

    Parameters
    ----------
    workspace : Workspace
        Its database must be there and of the current schema.
    """
    from assets.report.verdicts import current_verdicts, verdicts_differ

    lost: Missing = {}
    with workspace.warehouse.reader() as connection:
        owing = {testset: unheard(workspace, connection, testset) for testset in workspace.testsets}
        for testset in workspace.testsets:
            for asset, partition in _missing_of(workspace, connection, testset, owing[testset]):
                lost.setdefault(asset, set()).add(partition)
    is_fitted = not lost.keys() & {"items", *FIT}  # a new fit is told when it is made
    if is_fitted and verdicts_differ(workspace, current_verdicts(workspace, owing)):
        lost["report_index"] = {None}
    return lost


def _missing_of(
    workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str, owing: Sequence[Unheard]
) -> list[tuple[str, str | None]]:
    from assets.report.documents import HeldDocument
    from warehouse.panel_rows import slice_versions

    testset_row = connection.execute("SELECT source_version FROM testsets WHERE testset = ?", [testset]).fetchone()
    if (
        testset_row is None
        or not workspace.parts.items_file(testset).is_file()
        or source_changed(workspace, testset, testset_row[0])
    ):
        return [("items", testset), ("gold", testset)]
    # A judge that cannot be built is left out: `judge_inference` fails and says why, asking every night mends nothing.
    incomplete = {entry.judge for entry in owing if entry.incomplete}
    to_make = [pair for judge in sorted(incomplete) for pair in _judged(judge, testset)]
    to_ask_again = [pair for entry in owing if entry.to_ask for pair in _judged(entry.judge, testset)]
    roster = set(workspace.judges_of(testset))
    seen = {judge: content for judge, content in slice_versions(connection, testset).items() if judge in roster}
    folder = workspace.fit_folder(testset)
    panel, fit = PanelDocument.find(folder), FitDocument.find(folder)
    if len(seen) < 2 or (panel is not None and incomplete & panel.slices.keys()):
        # no panel can be made of what is there, or what the fit has seen is about to come back
        return [*to_make, *to_ask_again]
    outdated = _outdated(workspace, testset, seen, panel, fit)
    if fit is None or outdated or not _whole(workspace, connection, testset, fit):
        _log.info("%s is to be fitted: %s", testset, outdated or "a file or a row of its latest fit is gone")
        return [*to_make, *to_ask_again, *_everything(testset)]
    if _lost_findings(workspace, connection, testset, list(fit.by_aggregator.values())):
        to_make += [(asset, testset) for asset in RESULTS]
    systems = SystemsDocument.find(folder)
    if systems is not None and systems.columns != workspace.testset(testset).systems:
        to_make += [("systems", testset), ("report", testset), ("report_index", None)]  # it compares other systems
    review = ReviewDocument.find(folder)
    if review is None or (review.state == "published" and not workspace.fits.publications(testset)):
        to_make.append(("review", testset))  # its verdict, or the publication that it made, is gone
    held = fit.edition not in {e.edition for e in _published(workspace, testset)}
    waiting = HeldDocument.find(folder)
    if review is not None and review.state == "held back" and (waiting is None or waiting.facts.edition != fit.edition):
        to_make += [("report", testset), ("report_index", None)]  # nobody has been told what the new fit would change
    if not held and not (folder.has_results() and _drawn(workspace, testset)):
        to_make += [*((asset, testset) for asset in RESULTS), ("report_index", None)]
    return [*to_make, *to_ask_again]


def _drawn(workspace: Workspace, testset: str) -> bool:
    """Whether a test set's page and the page of its items are there."""
    page = page_name(testset)
    return all((workspace.report_folder / name).is_file() for name in (page, items_name(page)))


def _outdated(
    workspace: Workspace, testset: str, seen: dict[str, str], panel: PanelDocument | None, fit: FitDocument | None
) -> str:
    """Why the latest panel or fit is not of what is there now; empty where it is.

    Parameters
    ----------
    seen : dict judge -> content hash
        The slices in the database of judges that are still in the workspace.
    """
    if panel is None or fit is None:
        return "it has no panel or no fit"
    if (panel.slices, panel.settings, panel.code) != (seen, panel_version(workspace, testset), stage_code("panel")):
        return "the scores, settings or code of its panel have changed"
    if (fit.panel, fit.settings, fit.code) != (panel.panel, settings_version(workspace, testset), fit_code()):
        return "the panel, settings or code of its fit have changed"
    return ""


def _everything(testset: str) -> list[tuple[str, str | None]]:
    """Every asset of a fit, and every asset that is made from it."""
    return [*((asset, testset) for asset in (*FIT, *RESULTS)), ("report_index", None)]


def _whole(workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str, fit: FitDocument) -> bool:
    """Whether the database knows the edition, and every file of it is there."""
    known = connection.execute("SELECT 1 FROM editions WHERE edition = ?", [fit.edition]).fetchone() is not None
    folder = workspace.fit_folder(testset)
    structure = StructureDocument.find(folder)
    solved = structure is not None and structure.solution is not None
    kept = workspace.fits.has_edition(testset, fit.edition, list(fit.by_aggregator.values()))
    return known and kept and folder.has_fit(solved=solved)


def _judged(judge: str, testset: str) -> list[tuple[str, str | None]]:
    """The assets that ask a judge and load its scores of a test set."""
    return [("judge_inference", judge), ("scores", str(slice_key(judge, testset)))]


def _published(workspace: Workspace, testset: str) -> list[Edition]:
    published = workspace.fits.published(testset)
    return [published[1]] if published else []


def _lost_findings(
    workspace: Workspace, connection: duckdb.DuckDBPyConnection, testset: str, fit_ids: Sequence[str]
) -> bool:
    """Whether the database knows an evaluation or intervals of these fits whose file, the record, is gone."""
    from care_ops.records import Evaluation, Intervals

    known = connection.execute(
        "SELECT fit_id, 'evaluation' FROM evaluations WHERE list_contains($ids, fit_id) UNION "
        "SELECT fit_id, 'intervals' FROM weights WHERE list_contains($ids, fit_id) AND lo IS NOT NULL",
        {"ids": list(fit_ids)},
    ).fetchall()
    kinds = {"evaluation": Evaluation, "intervals": Intervals}
    return not all(workspace.fits.has_annotation(testset, fit_id, kinds[kind]) for fit_id, kind in known)
