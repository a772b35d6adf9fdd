"""Queries that read the score matrix and the admission results from the database.

CARE fetches the scores as one long column and fills the matrix itself; this is many times faster than DuckDB's PIVOT.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from care_ops.errors import WarehouseError
from care_ops.records import JudgeCheck
from care_ops.scores import ScoreMatrix

if TYPE_CHECKING:
    import duckdb

_CELLS_A_BATCH = 1_048_576


def read_scores(connection: duckdb.DuckDBPyConnection, testset: str, judges: set[str] | None = None) -> ScoreMatrix:
    """Return a test set's score matrix, with items in source order and judges (by default all) sorted by name.

    Raises ``WarehouseError`` if the test set is not in the database, or no judge has scored it.
    """
    items = connection.execute("SELECT item_id FROM items WHERE testset = ? ORDER BY row_ix", [testset]).fetchall()
    if not items:
        raise WarehouseError(f"test set {testset!r} is not in the database; run `care run`")
    known = connection.execute(
        "SELECT j.judge_ix, j.judge, j.family FROM slices s JOIN judges j USING (judge) "
        "WHERE s.testset = ? ORDER BY j.judge",
        [testset],
    ).fetchall()
    known = [row for row in known if judges is None or row[1] in judges]
    if not known:
        raise WarehouseError(f"test set {testset!r} has no scores in the database; run `care run`")
    column_of = np.zeros(max(row[0] for row in known) + 1, dtype=np.intp)
    column_of[[row[0] for row in known]] = np.arange(len(known))
    values = np.full((len(items), len(known)), np.nan)
    cells = connection.sql(
        "SELECT i.row_ix, s.judge_ix, s.value FROM scores s JOIN items i USING (item_ix) "
        "WHERE i.testset = $testset AND list_contains($judges, s.judge_ix)",
        params={"testset": testset, "judges": [row[0] for row in known]},
    )
    for batch in cells.to_arrow_reader(_CELLS_A_BATCH):
        rows, columns, scores = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
        values[rows, column_of[columns]] = scores
    families = {row[1]: row[2] for row in known if row[2]}
    return ScoreMatrix(values, tuple(item for (item,) in items), tuple(row[1] for row in known), families)


def read_flags(connection: duckdb.DuckDBPyConnection, testset: str) -> tuple[dict[str, int], dict[str, int]]:
    """Count, for each judge, the scores outside the scale and the scores of texts that differ from the item's text."""
    rows = connection.execute(
        "SELECT j.judge, count_if(s.status = 'out_of_range'), count_if(s.text_mismatch) "
        "FROM scores s JOIN items i USING (item_ix) JOIN judges j USING (judge_ix) "
        "WHERE i.testset = ? AND (s.status = 'out_of_range' OR s.text_mismatch) GROUP BY j.judge ORDER BY j.judge",
        [testset],
    ).fetchall()
    return {judge: n for judge, n, _ in rows if n}, {judge: n for judge, _, n in rows if n}


def read_admission(connection: duckdb.DuckDBPyConnection, testset: str) -> list[JudgeCheck]:
    """Return the admission results of a test set's judges, sorted by judge."""
    columns = ", ".join(column.name for column in fields(JudgeCheck))
    rows = connection.execute(f"SELECT {columns} FROM panels WHERE testset = ? ORDER BY judge", [testset]).fetchall()
    return [JudgeCheck(*row) for row in rows]
