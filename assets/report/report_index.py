"""Dagster asset ``report_index``: the index of all pages."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.fit.stages import result_code
from assets.metadata import table
from assets.report.names import items_name, page_name
from assets.workspace import Workspace
from care_ops.results.verdict import Verdict, minute_of

if TYPE_CHECKING:
    from assets.report.staleness import State


@dg.asset(
    deps=[dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping()) for asset in ("report", "review")],
    group_name="report",
    kinds={"html", "duckdb"},
    pool="warehouse_writer",
    code_version=result_code(),
    description="The index of all pages.",
)
def report_index(workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Write the index of all test sets with their verdicts."""
    verdicts = write_verdicts(workspace)
    return dg.MaterializeResult(
        metadata={
            "page": dg.MetadataValue.path(str(workspace.report_folder / "index.html")),
            "testsets": len(verdicts),
            "verdicts": table([{"testset": name, "verdict": v.headline} for name, v in verdicts.items()]),
        }
    )


def write_verdicts(workspace: Workspace, current: "Mapping[str, State] | None" = None) -> dict[str, Verdict]:
    """Write the verdict on every test set to its page, to the index and to the database.

    ``current`` contains the states of the test sets if the caller has already read them.
    """
    from assets.report.page import write_index
    from assets.report.verdict_facts import store_blocked_facts
    from assets.report.verdicts import INPUTS, current_verdicts, index_version, keep, lacks_facts, write_to_pages
    from warehouse.storage import delete, write_document

    for testset in sorted(workspace.testsets):
        if lacks_facts(workspace, testset):
            store_blocked_facts(workspace, testset)
    folder, verdicts = workspace.report_folder, current_verdicts(workspace, current)
    version = index_version(workspace, verdicts)
    rows = [{**_index_row(workspace, name), "verdict": verdicts[name]} for name in verdicts]
    write_index(folder, rows)
    write_to_pages(workspace, verdicts)
    keep(workspace, verdicts)  # last: a verdict in the database is also on the pages
    pages = [page_name(testset) for testset in workspace.testsets]
    for path in {*folder.glob("testset-*.html"), *folder.glob("items-*.html")}:  # of deleted test sets
        if path.name not in (*pages, *map(items_name, pages)):
            delete(path)
    write_document(folder / INPUTS, {"version": version})
    return verdicts


def _index_row(workspace: Workspace, name: str) -> dict[str, Any]:
    page, published = page_name(name), workspace.fits.published(name)
    return {
        "name": name,
        "page": page if (workspace.report_folder / page).is_file() else None,
        "description": workspace.testset(name).description,
        "made": minute_of(published[1].made_at) if published else None,
    }
