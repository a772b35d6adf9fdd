"""``report`` and ``report_index``: a page a test set, and the index of all pages."""

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.common import file_name, source_hash
from assets.evaluation import aligned, evaluation, held_out_gold
from assets.factors import factors
from assets.intervals import intervals
from assets.moments import read_moments
from assets.partitions import TESTSETS
from assets.review import review
from assets.systems import systems
from assets.workspace import Workspace
from care_ops.errors import FitError

if TYPE_CHECKING:
    import duckdb

    from assets.report.data import ReportData
    from care_ops.aggregators import Aggregate
    from care_ops.metrics import Evaluation
    from care_ops.moments import Moments
    from care_ops.quality import JudgeCheck
    from care_ops.scores import Array, ScoreMatrix

_NIGHTS_SHOWN = 60


@dg.asset(
    partitions_def=TESTSETS,
    deps=[review, evaluation, intervals, systems, factors],
    group_name="results",
    kinds={"html"},
    code_version=source_hash("assets"),
    description="The page of a test set: who is right, who counts, what the confounders look like.",
)
def report(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Assemble the page from the warehouse and write it."""
    from assets.report.page import write_page

    data = gather(workspace, context.partition_key)
    path = workspace.report_folder / file_name(context.partition_key)
    write_page(data, path)
    warnings = data.warnings()
    workspace.fit_folder(context.partition_key).write_json("warnings", {"warnings": warnings})
    return dg.MaterializeResult(
        metadata={
            "page": dg.MetadataValue.path(str(path)),
            "aggregates": len(data.aggregates),
            "warnings": dg.MetadataValue.md("\n".join(f"- {w}" for w in warnings) or "none"),
        }
    )


@dg.asset(
    deps=[dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping()) for asset in (report, review)],
    group_name="results",
    kinds={"html"},
    code_version=source_hash("assets"),
    description="The index of all pages, and what moved from night to night.",
)
def report_index(workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """List the test sets that have a page."""
    from assets.editions import trend
    from assets.report.page import write_index, write_trend

    written = [name for name in sorted(workspace.testsets) if (workspace.report_folder / file_name(name)).exists()]
    with workspace.warehouse.reader() as connection:
        rows = [_index_row(connection, workspace, name) for name in written]
    path = write_index(workspace.report_folder, rows)
    write_trend(workspace.report_folder, {name: trend(workspace, name, _NIGHTS_SHOWN) for name in written})
    return dg.MaterializeResult(metadata={"page": dg.MetadataValue.path(str(path)), "testsets": len(rows)})


def gather(workspace: Workspace, testset: str) -> "ReportData":
    """All that a page shows, read back from what the stages stored."""
    import numpy as np

    from assets.report.data import ReportData
    from warehouse.matrix import read_item_columns

    folder, spec = workspace.fit_folder(testset), workspace.testset(testset)
    published = workspace.fits.published(testset)
    scores, state, fit = folder.read_panel(), read_moments(folder), folder.read_json("fit")
    fit_ids: dict[str, str] = dict(fit["fit_ids"])
    with workspace.warehouse.reader() as connection:
        columns = read_item_columns(connection, testset)
        checks = _checks(connection, testset)
        aggregates = {name: _aggregate(connection, fit_id, name, scores) for name, fit_id in fit_ids.items()}
        evaluations = {
            name: found for name, fit_id in fit_ids.items() if (found := _evaluation(connection, fit_id)) is not None
        }
        bounds = {name: found for name, f in fit_ids.items() if (found := _bounds(connection, f, scores))}
    gold = held_out_gold(columns.item_ids, columns.gold, columns.split_units, workspace.anchors_of(testset))
    texts = dict(zip(columns.item_ids, columns.responses, strict=True))
    order = dict(zip(columns.item_ids, gold, strict=True))
    return ReportData(
        title=testset,
        description=spec.description,
        scores=scores,
        correlation=correlation_of(scores, state),
        aggregates=aggregates,
        failures=fit["failures"],
        checks=checks,
        evaluations=evaluations,
        gold=np.array([order.get(i, np.nan) for i in scores.item_ids], dtype=np.float64),
        responses=[texts.get(i) for i in scores.item_ids],
        factor_features=folder.read_json("factors"),
        intervals=bounds,
        systems=folder.read_json("systems"),
        provenance={
            "testset": testset,
            "items": scores.shape[0],
            "missing_scores": float(np.isnan(scores.values).mean()),
            "labels_seen": len(workspace.anchors_of(testset)),
            "source": workspace.source_version(testset),
            "settings": workspace.settings_version(testset),
            "panel": scores.fingerprint(),
            "code": {"care_ops": source_hash("care_ops"), "assets": source_hash("assets")},
            "seed": workspace.fit.seed,
            "structure": folder.read_json("structure"),
            "fit_ids": fit_ids,
            "edition": fit["edition"],
            "published": published[1].edition if published else None,
        },
    )


def correlation_of(scores: "ScoreMatrix", state: "Moments") -> "Array | None":
    """Correlation in the order of ``scores.judges``, from moments in canonical order."""
    import numpy as np

    try:
        canonical = state.correlation()
    except FitError:
        return None
    position = {judge: k for k, judge in enumerate(sorted(scores.judges))}
    order = [position[judge] for judge in scores.judges]
    return canonical[np.ix_(order, order)]


def _aggregate(connection: "duckdb.DuckDBPyConnection", fit_id: str, name: str, scores: "ScoreMatrix") -> "Aggregate":
    import numpy as np

    from care_ops.aggregators import Aggregate
    from warehouse.matrix import read_fit

    stored = read_fit(connection, fit_id)
    weights = {
        judge: (weight, loadings)
        for judge, weight, loadings in connection.execute(
            "SELECT judge, weight, loadings FROM weights WHERE fit_id = ?", [fit_id]
        ).fetchall()
    }
    per_judge = [weights[judge] for judge in scores.judges]
    return Aggregate(
        name,
        aligned(scores.item_ids, stored.estimates),
        stored.threshold,
        weights=None if per_judge[0][0] is None else np.array([w for w, _ in per_judge]),
        loadings=None if per_judge[0][1] is None else np.array([list(x) for _, x in per_judge]),
        labels_used=stored.labels_used,
        details=json.loads(stored.details),
    )


def _bounds(
    connection: "duckdb.DuckDBPyConnection", fit_id: str, scores: "ScoreMatrix"
) -> "tuple[Array, Array] | None":
    """Intervals of a fit's weights in the order of the judges; None where it has none."""
    rows = connection.execute("SELECT judge, lo, hi FROM weights WHERE fit_id = ?", [fit_id]).fetchall()
    found = {judge: (lo, hi) for judge, lo, hi in rows}
    if all(lo is None for lo, _ in found.values()):
        return None
    lo, hi = ({judge: pair[k] for judge, pair in found.items()} for k in (0, 1))
    return aligned(scores.judges, lo), aligned(scores.judges, hi)


def _checks(connection: "duckdb.DuckDBPyConnection", testset: str) -> "list[JudgeCheck]":
    from care_ops.quality import JudgeCheck

    rows = connection.execute(
        "SELECT judge, admitted, reason, notes, missing_rate, mode_share, entropy, agreement, out_of_range "
        "FROM panels WHERE testset = ? ORDER BY judge",
        [testset],
    ).fetchall()
    undefined = float("nan")
    return [
        JudgeCheck(judge, admitted, reason, notes, missing, mode, bits, undefined if r is None else r, out)
        for judge, admitted, reason, notes, missing, mode, bits, r, out in rows
    ]


def _evaluation(connection: "duckdb.DuckDBPyConnection", fit_id: str) -> "Evaluation | None":
    from care_ops.metrics import Evaluation

    metrics = ", ".join(field.name for field in fields(Evaluation))
    row = connection.execute(f"SELECT {metrics} FROM evaluations WHERE fit_id = ?", [fit_id]).fetchone()
    return None if row is None else Evaluation(*row)


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
