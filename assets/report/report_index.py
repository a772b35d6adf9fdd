"""``report_index``: the index of all pages, and the page of nights."""

from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.code import code_version
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
    from assets.judging.failures import unheard
    from assets.publication.editions import trend
    from assets.report.page import write_index, write_trend
    from assets.report.states import FILE, drawn, notes, script
    from warehouse.storage import write_bytes

    folder, written = workspace.report_folder, drawn(workspace)
    with workspace.warehouse.reader() as connection:
        notes_by_testset = {name: notes(workspace, name, unheard(workspace, connection, name)) for name in written}
        rows = [{**_index_row(connection, workspace, name), "notes": notes_by_testset[name]} for name in written]
    path = write_index(folder, rows)
    write_trend(folder, {name: trend(workspace, name, _NIGHTS_SHOWN) for name in written})
    write_bytes(folder / FILE, script(notes_by_testset).encode())
    return dg.MaterializeResult(metadata={"page": dg.MetadataValue.path(str(path)), "testsets": len(rows)})


def _index_row(connection: "duckdb.DuckDBPyConnection", workspace: Workspace, name: str) -> dict[str, Any]:
    """Of the fit that people read, which is not always tonight's."""
    from assets.publication.editions import minute_of

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
        "description": workspace.testset(name).description,
        "made": minute_of(published[1].made_at) if published else None,
        "items": max((count for *_, count in rows), default=0),
        "judges": sum(row.admitted for row in panel),
        "excluded": sum(not row.admitted for row in panel),
        "order": {a: order[a] for a in workspace.fit.aggregators if a in order},
    }
