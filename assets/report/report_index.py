"""``report_index``: the index of all pages, and the page of nights."""

from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.code import code_version
from assets.report.names import page_name
from assets.workspace import Workspace

if TYPE_CHECKING:
    import duckdb

_NIGHTS_SHOWN = 60


@dg.asset(
    deps=[dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping()) for asset in ("report", "review")],
    group_name="report",
    kinds={"html"},
    code_version=code_version(__name__, "care_ops"),
    description="The index of all pages, and what moved from night to night.",
)
def report_index(workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """List the test sets that have a page."""
    from assets.publication.editions import trend
    from assets.report.page import write_index, write_trend

    written = [name for name in sorted(workspace.testsets) if (workspace.report_folder / page_name(name)).exists()]
    with workspace.warehouse.reader() as connection:
        rows = [_index_row(connection, workspace, name) for name in written]
    path = write_index(workspace.report_folder, rows)
    write_trend(workspace.report_folder, {name: trend(workspace, name, _NIGHTS_SHOWN) for name in written})
    return dg.MaterializeResult(metadata={"page": dg.MetadataValue.path(str(path)), "testsets": len(rows)})


def _index_row(connection: "duckdb.DuckDBPyConnection", workspace: Workspace, name: str) -> dict[str, Any]:
    counts = connection.execute(
        "SELECT (SELECT count(*) FROM items WHERE testset = ?), "
        "count(*) FILTER (admitted), count(*) FILTER (NOT admitted) FROM panels WHERE testset = ?",
        [name, name],
    ).fetchall()[0]
    order = connection.execute(
        "SELECT f.aggregator, coalesce(e.auc, e.tau) FROM latest_fits f JOIN evaluations e USING (fit_id) "
        "WHERE f.testset = ?",
        [name],
    ).fetchall()
    scores = dict(order)
    return {
        "name": name,
        "description": workspace.testset(name).description,
        "items": counts[0],
        "judges": counts[1],
        "excluded": counts[2],
        "order": {a: scores[a] for a in workspace.fit.aggregators if a in scores},
    }
