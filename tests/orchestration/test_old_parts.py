"""Tests that parts without a column of later releases can be read."""

import pyarrow.parquet as pq
import pytest

from orchestration.workspace import load_workspace
from tests.support.workspaces import ran, run, score_rows
from warehouse.storage import notes_below, write_table


def drop_columns(pattern, folder, *names):
    """Rewrite all parts that match a pattern without the named columns."""
    paths = sorted((folder / "data" / "parts").glob(pattern))
    assert paths
    for path in paths:
        write_table(path, pq.ParquetFile(path).read().drop_columns(list(names)))


@pytest.mark.parametrize(
    "column", ["score", *(pytest.param(name, marks=pytest.mark.slow) for name in ("status", "judge_key"))]
)
def test_a_score_part_without_a_column_is_quarantined_and_rebuilt(workspace_after_run, column):
    before = score_rows(workspace_after_run)
    drop_columns("scores/judge=length/*/*.parquet", workspace_after_run, column)
    load_workspace(workspace_after_run).warehouse.remove()
    outcome = run(workspace_after_run)
    assert not outcome.failures
    assert ran(outcome, "judge_inference") == ["length"]
    assert score_rows(workspace_after_run) == before
    (note,) = notes_below(workspace_after_run / "data" / "parts")
    assert f"the file has no column {column}" in note.read_text()
