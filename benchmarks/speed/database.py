"""The database over ten million scores, and ten thousand small parts: before, now, and DuckDB's bare statements.

``python -m benchmarks.speed.database [--before FOLDER]``; CPU seconds of one run each, all threads counted. ``FOLDER``
is a checkout of an earlier commit, whose code then makes the same steps with the same parts. DuckDB's statement does
what no database could leave out: it joins the parts to the items and inserts numbers, without checksums, hashes, or a
choice among several rows of an item.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from warehouse.database import SCHEMA_VERSION, Warehouse
from warehouse.items import ItemRecord
from warehouse.matrix import read_scores
from warehouse.parts import SCORE_SCHEMA, PartStore
from warehouse.storage import write_table

try:
    from warehouse.panel_rows import replace_slice, replace_testset
except ImportError:  # an earlier checkout
    from warehouse.database import replace_slice, replace_testset  # pyright: ignore

_JUDGES = 24
_ITEMS, _MATRIX_ITEMS = 417_000, 1_000_000
_SMALL, _SMALL_PARTS, _ROWS_OF_SMALL = "scattered", 10_000, 32
_BY_ITEM_ID = ("item_id",) if SCHEMA_VERSION < 8 else ()  # what the code of an earlier checkout reads, too
_COLUMNS = (*_BY_ITEM_ID, "item_key", "judge_key", "score", "status", "text_mismatch", "created_at")
"""Columns that the asset ``scores`` reads."""


def run(before: Path | None = None) -> list[dict[str, object]]:
    """A row for each step: the earlier code if it is given, this code, DuckDB alone."""
    with tempfile.TemporaryDirectory() as folder:
        _write_parts(Path(folder))
        _write_small_parts(Path(folder))
        checkouts = {"this code": Path(__file__).parents[2]}
        if before is not None:
            checkouts = {"before": before.resolve(), **checkouts}
        columns = {name: _in_process_of(checkout, Path(folder)) for name, checkout in checkouts.items()}
        columns["DuckDB alone"] = _bare_steps(Path(folder))
    return [
        {"step": step, **{name: steps.get(step, "") for name, steps in columns.items()}}
        for step in columns["this code"]
    ]


def main() -> None:
    """Print a line for each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    parser.add_argument("--steps-in", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.steps_in is not None:
        print(json.dumps({**_steps(arguments.steps_in), **_steps_of_small_parts(arguments.steps_in)}))
        return
    rows = run(arguments.before)
    print(" | ".join(rows[0]))
    for row in rows:
        print(" | ".join(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values()))


def _in_process_of(checkout: Path, folder: Path) -> dict[str, float]:
    """The steps, made by the code of a checkout in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--steps-in", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def _keys(n: int) -> list[str]:
    return [hashlib.sha256(str(k).encode()).hexdigest()[:32] for k in range(n)]


def _write_parts(folder: Path) -> None:
    """A part for each judge, its rows in another order than the items."""
    store, keys, random = PartStore(folder), np.array(_keys(_ITEMS), dtype=object), np.random.default_rng(0)
    ids = np.array([f"item {k}" for k in range(_ITEMS)], dtype=object)
    for judge in range(_JUDGES):
        order = random.permutation(_ITEMS)
        columns = {
            "item_id": pa.array(ids[order], pa.string()),
            "item_key": pa.array(keys[order], pa.string()),
            "judge_key": pa.array([f"key {judge}"] * _ITEMS, pa.string()),
            "score": pa.array(random.normal(size=_ITEMS).round(3)),
            "status": pa.array(["ok"] * _ITEMS, pa.string()),
            "text_mismatch": pa.array(np.zeros(_ITEMS, dtype=bool)),
            "created_at": pa.array(np.zeros(_ITEMS, dtype=np.int64), pa.timestamp("us", tz="UTC")),
        }
        absent = {name: pa.nulls(_ITEMS, SCORE_SCHEMA.field(name).type) for name in SCORE_SCHEMA.names}
        table = pa.table({**absent, **columns}).select(SCORE_SCHEMA.names)
        write_table(store.scores_folder(f"judge {judge}", "t") / "part.parquet", table.cast(SCORE_SCHEMA))


def _write_small_parts(folder: Path) -> None:
    """The parts of a judge whose answers came in batches of 32."""
    store = PartStore(folder)
    for part in range(_SMALL_PARTS):
        ids = range(_ROWS_OF_SMALL * part, _ROWS_OF_SMALL * (part + 1))
        rows = [{"item_id": f"i{k}", "item_key": f"k{k}", "score": float(k % 11), "status": "ok"} for k in ids]
        store.write_scores(_SMALL, "t", "K", "engine", rows)


def _steps_of_small_parts(folder: Path) -> dict[str, float]:
    """CPU seconds of listing, reading and merging small parts, on a copy of them."""
    with tempfile.TemporaryDirectory() as scratch:
        store = PartStore(Path(scratch))
        shutil.copytree(PartStore(folder).scores_folder(_SMALL, "t"), store.scores_folder(_SMALL, "t"))
        time.sleep(3)  # a file that was written just now is not remembered
        what = f"{_SMALL_PARTS:,} parts"
        seconds = {
            f"{what} listed: first": _cpu(lambda: _list_small(store)),
            f"{what} listed: again": _cpu(lambda: _list_small(store)),
            f"{what} read": _cpu(lambda: store.read_scores(_SMALL, "t")),
            f"{what} merged": _cpu(lambda: store.compact(_SMALL, "t")),
        }
        seconds["then listed"] = _cpu(lambda: _list_small(store))
        seconds["then read"] = _cpu(lambda: store.read_scores(_SMALL, "t"))
        return seconds


def _list_small(store: PartStore) -> None:
    assert len(store.done(_SMALL, "t", "K")) == _SMALL_PARTS * _ROWS_OF_SMALL


def _steps(folder: Path) -> dict[str, float]:
    """CPU seconds of each step with the code that is imported."""
    seconds: dict[str, float] = {}
    store, keys = PartStore(folder), _keys(_ITEMS)
    records = [ItemRecord(f"item {k}") for k in range(_ITEMS)]
    with tempfile.TemporaryDirectory() as scratch:
        database = Warehouse(Path(scratch) / "care.duckdb")

        def load(judge: int) -> None:
            with database.writer() as connection:
                _load(connection, store, judge)

        def rebuild() -> None:
            with database.writer() as connection:
                replace_testset(connection, "t", records, keys)
                for judge in range(_JUDGES):
                    _load(connection, store, judge)

        seconds["rebuilt: 417,000 items, 24 judges"] = _cpu(rebuild)
        seconds["one judge replaced"] = _cpu(lambda: load(7))
        seconds["matrix of 417,000 x 24 read"] = _cpu(lambda: _read(database))
    with tempfile.TemporaryDirectory() as scratch:
        database = Warehouse(Path(scratch) / "care.duckdb")
        with database.writer() as connection:
            _fill(connection)
        seconds["matrix of 1,000,000 x 24 read"] = _cpu(lambda: _read(database))
    return seconds


def _load(connection: duckdb.DuckDBPyConnection, store: PartStore, judge: int) -> None:
    parts = store.read_scores(f"judge {judge}", "t", _COLUMNS)
    replaced = replace_slice(
        connection, f"judge {judge}", "t", f"key {judge}", parts, family=None, spec_json=f'"{judge}"'
    )
    assert replaced.n_ok == _ITEMS


def _read(database: Warehouse) -> None:
    with database.reader() as connection:
        assert not np.isnan(read_scores(connection, "t").values).any()


def _fill(connection: duckdb.DuckDBPyConnection) -> None:
    """A test set of a million items, whose scores are made inside the database."""
    records = [ItemRecord(f"item {k}") for k in range(_MATRIX_ITEMS)]
    replace_testset(connection, "t", records, [record.item_id for record in records])
    connection.execute("INSERT INTO judges SELECT range, 'judge ' || range, NULL, '{}' FROM range(?)", [_JUDGES])
    connection.execute(
        "INSERT INTO slices (testset, judge, judge_key, content_hash, n_items, n_ok) "
        "SELECT 't', judge, 'K', '', 0, 0 FROM judges"
    )
    connection.execute(
        "INSERT INTO scores (item_ix, judge_ix, value, status, text_mismatch) "
        "SELECT i.range, j.range, (hash(i.range, j.range) % 1000) / 7, 'ok', false FROM range(?) j, range(?) i",
        [_JUDGES, _MATRIX_ITEMS],
    )


def _bare_steps(folder: Path) -> dict[str, float]:
    """CPU seconds of DuckDB's own statements for the same steps."""
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch, duckdb.connect(str(Path(scratch) / "bare.duckdb")) as connection:
        items = pa.table({"item_ix": range(_ITEMS), "item_key": _keys(_ITEMS)})
        connection.register("new_items", items)

        def rebuild() -> None:
            connection.execute("CREATE TABLE items AS SELECT * FROM new_items")
            connection.execute("CREATE TABLE scores (item_ix INTEGER, judge_ix INTEGER, value DOUBLE)")
            for judge in range(_JUDGES):
                load(judge)

        def load(judge: int) -> None:
            connection.execute("DELETE FROM scores WHERE judge_ix = ?", [judge])
            connection.execute(
                "INSERT INTO scores SELECT item_ix, ?, score FROM read_parquet(?) JOIN items USING (item_key)",
                [judge, str(PartStore(folder).scores_folder(f"judge {judge}", "t") / "part.parquet")],
            )

        def read() -> None:
            connection.execute("SELECT item_ix, judge_ix, value FROM scores").fetchnumpy()

        seconds["rebuilt: 417,000 items, 24 judges"] = _cpu(rebuild)
        seconds["one judge replaced"] = _cpu(lambda: load(7))
        seconds["matrix of 417,000 x 24 read"] = _cpu(read)
    return seconds


def _cpu(act: Callable[[], object]) -> float:
    started = time.process_time()
    act()
    return time.process_time() - started


if __name__ == "__main__":
    main()
