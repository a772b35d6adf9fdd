"""The score matrix and the admission results, read from the warehouse.

Scores are fetched as one long column and placed into the matrix by the ordinals of item and judge. This is many times
cheaper than a PIVOT in the database.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import WarehouseError
from care_ops.records import JudgeCheck
from care_ops.scores import ScoreMatrix

if TYPE_CHECKING:
    import duckdb

_CELLS_A_BATCH = 1_048_576
"""Number of scores that are placed into the matrix at once."""


def read_scores(connection: duckdb.DuckDBPyConnection, testset: str, judges: set[str] | None = None) -> ScoreMatrix:
    """Return the scores of a test set by all judges, or only by ``judges``; items are in source order, judges sorted.

    Raises ``WarehouseError`` if the test set is not in the warehouse, or no judge has scored it.
    """
    items = connection.sql(
        "SELECT item_ix, item_id FROM items WHERE testset = $testset ORDER BY row_ix", params={"testset": testset}
    ).to_arrow_table()
    if not items.num_rows:
        raise WarehouseError(f"test set {testset!r} is not in the warehouse; materialise `items` and `scores`")
    known = connection.execute(
        "SELECT j.judge_ix, j.judge, j.family FROM slices s JOIN judges j USING (judge) "
        "WHERE s.testset = ? ORDER BY j.judge",
        [testset],
    ).fetchall()
    known = [row for row in known if judges is None or row[1] in judges]
    if not known:
        raise WarehouseError(f"test set {testset!r} has no scores in the warehouse; materialise `scores`")
    names = tuple(row[1] for row in known)
    families = {row[1]: row[2] for row in known if row[2]}
    values = _read_values(connection, items.column("item_ix").to_numpy(), np.array([row[0] for row in known]))
    return ScoreMatrix(values, tuple(items.column("item_id").to_pylist()), names, families)


def read_flags(connection: duckdb.DuckDBPyConnection, testset: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return, for each judge, the number of scores outside its scale and the number of scores of a different text."""

    def count(flag: str) -> dict[str, int]:
        counts = connection.execute(
            "SELECT j.judge, count(*) FROM scores s JOIN items i USING (item_ix) JOIN judges j USING (judge_ix) "
            f"WHERE {flag} AND i.testset = ? GROUP BY j.judge ORDER BY j.judge",
            [testset],
        ).fetchall()
        return dict(counts)

    return count("s.status = 'out_of_range'"), count("s.text_mismatch")


def _read_values(
    connection: duckdb.DuckDBPyConnection, item_ix: NDArray[np.int32], judge_ix: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Return the matrix of scores with a row per item and a column per judge; NaN marks a missing score.

    The range of the ordinals lets DuckDB skip most scores of other test sets; this function removes the remaining ones.
    """
    row_of, column_of = _positions(item_ix), _positions(judge_ix)
    values = np.full((len(item_ix), len(judge_ix)), np.nan)
    cells = connection.sql(
        "SELECT item_ix, judge_ix, value FROM scores "
        "WHERE item_ix BETWEEN $first AND $last AND judge_ix <= $last_judge",
        params={"first": int(item_ix.min()), "last": int(item_ix.max()), "last_judge": int(judge_ix.max())},
    )
    for batch in cells.to_arrow_reader(_CELLS_A_BATCH):
        rows = row_of[batch.column("item_ix").to_numpy()]
        columns = column_of[batch.column("judge_ix").to_numpy()]
        scores = batch.column("value").to_numpy(zero_copy_only=False)
        if min(rows.min(initial=0), columns.min(initial=0)) < 0:
            wanted = (rows >= 0) & (columns >= 0)
            rows, columns, scores = rows[wanted], columns[wanted], scores[wanted]
        values[rows, columns] = scores
    return values


def read_admission(connection: duckdb.DuckDBPyConnection, testset: str) -> list[JudgeCheck]:
    """Return the admission results of a test set's judges, sorted."""
    columns = ", ".join(column.name for column in fields(JudgeCheck))
    rows = connection.execute(f"SELECT {columns} FROM panels WHERE testset = ? ORDER BY judge", [testset]).fetchall()
    return [JudgeCheck(*row) for row in rows]


def _positions(ordinals: NDArray[np.int32]) -> NDArray[np.intp]:
    """Return the position of each ordinal; -1 for an ordinal that does not occur."""
    places = np.full(int(ordinals.max()) + 1, -1, dtype=np.intp)
    places[ordinals] = np.arange(len(ordinals))
    return places
