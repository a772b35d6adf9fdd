"""Memory while the scores of many judges are replaced in the database: one transaction, or one every million rows.

``python -m benchmarks.speed.long_write [--judges P] [--items N]`` replaces the scores of P judges on N items twice,
each way in a process of its own, and prints peak memory beyond that of one judge, and CPU seconds.

Belongs here: the writes of one stage. Belongs elsewhere: how long they take at ten million scores
(``speed.database``), whole nights (``speed.recorded_nights``).
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from warehouse import panel_rows
from warehouse.database import Warehouse
from warehouse.items import ItemRecord
from warehouse.panel_rows import LongWrite, replace_slice, replace_testset


def replace_twice(folder: Path, judges: int, items: int) -> None:
    """Replace every judge's scores, and once more; prints the peak of the process in MiB, and its CPU seconds."""
    warehouse = Warehouse(folder / "care.duckdb")
    keys = [f"{k:034x}" for k in range(items)]
    with warehouse.writer() as connection:
        replace_testset(connection, "t", [ItemRecord(f"item-{k}") for k in range(items)], keys)
    rng = np.random.default_rng(0)
    part = {
        "item_key": pa.array(keys),
        "judge_key": pa.array(["k"] * items),
        "status": pa.array(["ok"] * items),
        "text_mismatch": pa.array([False] * items),
        "created_at": pa.array([datetime.now(UTC)] * items, pa.timestamp("us", tz="UTC")),
    }
    del keys
    began = time.process_time()
    for _ in range(2):
        with warehouse.writer() as connection:
            transactions = LongWrite(connection)
            for judge in range(judges):
                scores = pa.table({**part, "score": rng.normal(size=items).round(2)})
                slice_ = replace_slice(connection, f"j{judge}", "t", "k", scores, family=None, spec_json="{}")
                transactions.wrote(slice_)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.process_time() - began)


def measured(judges: int, items: int, rows_a_transaction: int) -> tuple[float, float]:
    """Peak memory in MiB and CPU seconds of a process that replaces these scores twice."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", "-m", __spec__.name, "--judges", str(judges), "--items", str(items)]
        command += ["--rows", str(rows_a_transaction), "--folder", folder]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    peak, cpu = map(float, done.stdout.split())
    return peak, cpu


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judges", type=int, default=24)
    parser.add_argument("--items", type=int, default=250_000)
    parser.add_argument("--rows", type=int, default=panel_rows.ROWS_A_TRANSACTION, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is not None:
        panel_rows.ROWS_A_TRANSACTION = options.rows
        replace_twice(options.folder, options.judges, options.items)
        return
    one_judge, _ = measured(1, options.items, panel_rows.ROWS_A_TRANSACTION)
    print(f"{options.judges} judges on {options.items:,} items, twice | MiB beyond one judge | CPU s")
    for name, rows in (("one transaction", sys.maxsize), ("one every million rows", panel_rows.ROWS_A_TRANSACTION)):
        peak, cpu = measured(options.judges, options.items, rows)
        print(f"{name} | {peak - one_judge:,.0f} | {cpu:.1f}", flush=True)


if __name__ == "__main__":
    main()
