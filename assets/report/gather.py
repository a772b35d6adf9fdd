"""The record of a page, read back from what the stages of a night stored.

Belongs here: from files and warehouse to ``ReportData``. Does not: the record itself (``data``), HTML.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from assets.code import code_version
from assets.fit.kept import read_moments
from assets.fit.stages import fit_code
from assets.report.data import ReportData
from assets.results.gold import aligned, held_out_gold
from assets.versions import settings_version, source_version
from care_ops.admission import JudgeCheck
from care_ops.aggregators.base import Aggregate
from care_ops.errors import FitError
from care_ops.metrics import Evaluation
from warehouse.matrix import read_fit, read_item_columns

if TYPE_CHECKING:
    import duckdb

    from assets.workspace import Workspace
    from care_ops.moments.state import Moments
    from care_ops.scores import Array, ScoreMatrix


def gather(workspace: Workspace, testset: str) -> ReportData:
    """All that a page shows, read back from what the stages stored."""

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
            "source": source_version(workspace, testset),
            "settings": settings_version(workspace, testset),
            "panel": scores.fingerprint(),
            "code": {"fit": fit_code(), "report": code_version("assets.report.report", "care_ops")},
            "seed": workspace.fit.seed,
            "structure": folder.read_json("structure"),
            "fit_ids": fit_ids,
            "edition": fit["edition"],
            "published": published[1].edition if published else None,
        },
    )


def correlation_of(scores: ScoreMatrix, state: Moments) -> Array | None:
    """Correlation in the order of ``scores.judges``, from moments in canonical order."""

    try:
        canonical = state.correlation()
    except FitError:
        return None
    position = {judge: k for k, judge in enumerate(sorted(scores.judges))}
    order = [position[judge] for judge in scores.judges]
    return canonical[np.ix_(order, order)]


def _aggregate(connection: duckdb.DuckDBPyConnection, fit_id: str, name: str, scores: ScoreMatrix) -> Aggregate:

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


def _bounds(connection: duckdb.DuckDBPyConnection, fit_id: str, scores: ScoreMatrix) -> tuple[Array, Array] | None:
    """Intervals of a fit's weights in the order of the judges; None where it has none."""
    rows = connection.execute("SELECT judge, lo, hi FROM weights WHERE fit_id = ?", [fit_id]).fetchall()
    found = {judge: (lo, hi) for judge, lo, hi in rows}
    if all(lo is None for lo, _ in found.values()):
        return None
    lo, hi = ({judge: pair[k] for judge, pair in found.items()} for k in (0, 1))
    return aligned(scores.judges, lo), aligned(scores.judges, hi)


def _checks(connection: duckdb.DuckDBPyConnection, testset: str) -> list[JudgeCheck]:

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


def _evaluation(connection: duckdb.DuckDBPyConnection, fit_id: str) -> Evaluation | None:

    metrics = ", ".join(field.name for field in fields(Evaluation))
    row = connection.execute(f"SELECT {metrics} FROM evaluations WHERE fit_id = ?", [fit_id]).fetchone()
    return None if row is None else Evaluation(*row)
