"""``report_index``: the index of all pages, and the page of changes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.code import code_version
from assets.metadata import table
from assets.report.names import items_name, labels_name, page_name
from assets.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from assets.report.staleness import State
    from care_ops.results.verdict import Verdict

_RUNS_SHOWN = 60


@dg.asset(
    deps=[dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping()) for asset in ("report", "review")],
    group_name="report",
    kinds={"html", "duckdb"},
    pool="warehouse_writer",
    code_version=code_version(__name__, "care_ops"),
    description="The index of all pages, and the changes from fit to fit.",
)
def report_index(workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """List the test sets with their verdicts."""
    verdicts = write_verdicts(workspace)
    return dg.MaterializeResult(
        metadata={
            "page": dg.MetadataValue.path(str(workspace.report_folder / "index.html")),
            "testsets": len(verdicts),
            "verdicts": table([{"testset": name, "verdict": v.headline} for name, v in verdicts.items()]),
        }
    )


def write_verdicts(workspace: Workspace, known: "Mapping[str, State] | None" = None) -> "dict[str, Verdict]":
    """Write the verdict on every test set to its page, to the index and to the database.

    ``known`` are the states of the test sets, if the caller has already read them.
    """
    from assets.publication.fit_versions import trend
    from assets.report.page import write_index, write_trend
    from assets.report.to_label import is_filled_in
    from assets.report.verdict_facts import store_blocked_facts
    from assets.report.verdicts import INPUTS, current_verdicts, index_version, keep, lacks_facts, write_verdicts
    from warehouse.storage import delete, write_document

    for testset in sorted(workspace.testsets):
        if lacks_facts(workspace, testset):
            store_blocked_facts(workspace, testset)
    folder, verdicts = workspace.report_folder, current_verdicts(workspace, known)
    version = index_version(workspace, verdicts)
    with workspace.warehouse.reader() as connection:
        rows = [{**_index_row(connection, workspace, name), "verdict": verdicts[name]} for name in verdicts]
    fit_versions = {name: trend(workspace, name, _RUNS_SHOWN) for name in verdicts}
    write_index(folder, rows)
    write_trend(folder, fit_versions, {name: _evidence(workspace, name) for name in verdicts})
    write_verdicts(workspace, verdicts)
    keep(workspace, verdicts)  # last: a verdict in the database is also on the pages
    for path in gone(workspace):
        if path.suffix != ".csv" or not is_filled_in(path):
            delete(path)
    write_document(folder / INPUTS, {"version": version})
    return verdicts


def gone(workspace: Workspace) -> list[Path]:
    """List pages and tables of deleted test sets; tables with labels of people are never deleted."""
    pages = [page_name(testset) for testset in workspace.testsets]
    live = {*pages, *map(items_name, pages), *map(labels_name, workspace.testsets)}
    patterns = ("testset-*.html", "items-*.html", "to_label-*.csv")
    found = (path for pattern in patterns for path in workspace.report_folder.glob(pattern))
    return sorted(path for path in found if path.name not in live)


def _evidence(workspace: Workspace, name: str) -> list[str]:
    """Describe evidence of changed judges or systems; empty if neither is measured."""
    from assets.judging.retests import retests
    from assets.results.attribution import changes
    from care_ops.results.attribution import FALSE_ALARMS, of_judges, of_systems

    judges, systems = changes(workspace, name)
    looked = workspace.testset(name).systems or any(retests(workspace, j).rows for j in workspace.judges_of(name))
    evidence = [*of_judges(judges), *of_systems(systems, judges)]
    rate = f"Where none changed, a change is reported with a probability of at most {FALSE_ALARMS:.0%}, over all runs."
    return [*(evidence or ["There is no evidence that a judge or a system changed."]), rate] if looked else []


def _index_row(connection: "duckdb.DuckDBPyConnection", workspace: Workspace, name: str) -> dict[str, Any]:
    """Return the facts of the published fit, which is not always the latest."""
    from care_ops.results.verdict import minute_of

    page = page_name(name)
    published = workspace.fits.published(name)
    panel = published[1].inputs.panel if published else ()
    rows = connection.execute(
        "SELECT f.aggregator, coalesce(e.auc, e.tau), (SELECT count(*) FROM aggregates a WHERE a.fit_id = f.fit_id) "
        "FROM latest_fits f LEFT JOIN evaluations e USING (fit_id) WHERE f.testset = ?",
        [name],
    ).fetchall()
    order = {aggregator: value for aggregator, value, _ in rows if value is not None}
    return {
        "name": name,
        "page": page if (workspace.report_folder / page).is_file() else None,
        "description": workspace.testset(name).description,
        "made": minute_of(published[1].made_at) if published else None,
        "items": max((count for *_, count in rows), default=0),
        "judges": sum(row.admitted for row in panel),
        "excluded": sum(not row.admitted for row in panel),
        "order": {a: order[a] for a in workspace.fit.aggregators if a in order},
    }
