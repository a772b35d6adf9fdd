"""Tests of work whose CPU time must not grow faster than the number of items."""

import time

import pyarrow as pa

from warehouse.database import Warehouse
from warehouse.items import ItemRecord
from warehouse.panel_rows import replace_slice, replace_testset

LINEAR, QUADRATIC = 4, 16
"""Factor of time for four times the items, if the growth is linear or quadratic."""


def load_cpu_seconds(folder, n: int) -> float:
    """Return the CPU time of loading ``n`` items, a judge's scores, and then ``n`` other items in their place."""
    warehouse = Warehouse(folder / f"{n}.duckdb")
    testsets = [[ItemRecord(f"{name}{k}", response=f"text {k}") for k in range(n)] for name in ("old", "new")]
    keys = [[f"key of {record.item_id}" for record in records] for records in testsets]
    scores = pa.table(
        {
            "item_id": [record.item_id for record in testsets[0]],
            "item_key": keys[0],
            "judge_key": pa.array(["K"] * n),
            "score": pa.array([1.0] * n),
            "status": pa.array(["ok"] * n),
            "text_mismatch": pa.array([False] * n),
            "created_at": pa.array([0] * n, pa.timestamp("us", tz="UTC")),
        }
    )
    started = time.process_time()
    with warehouse.writer() as connection:
        connection.execute("SET threads = 1")
        replace_testset(connection, "t", testsets[0], keys[0])
        assert replace_slice(connection, "j", "t", "K", scores, family=None, spec_json="{}").n_ok == n
        replace_testset(connection, "t", testsets[1], keys[1])
        assert connection.execute("SELECT (SELECT count(*) FROM items), (SELECT count(*) FROM scores)").fetchall() == [
            (n, 0)
        ]
    return time.process_time() - started


def test_loading_items_costs_no_more_than_their_number(tmp_path):
    for repetition in ("first", "second"):
        (tmp_path / repetition).mkdir()
    few, many = (
        min(load_cpu_seconds(tmp_path / repetition, n) for repetition in ("first", "second")) for n in (5_000, 20_000)
    )
    assert many < (LINEAR + QUADRATIC) / 2 * few, f"5,000 items take {few:.2f} CPU-s, 20,000 {many:.2f}"
