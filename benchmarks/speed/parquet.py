"""Parquet to moments: items a CPU second, memory, Dask threads against a loop; one more judge and more items."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from care_ops.moments.sharded import moments_of_shards, shards_of
from care_ops.moments.state import Moments, accumulate_columns

P = 24
JUDGES = tuple(f"j{k:02d}" for k in range(P))
ROWS_A_GROUP = 131_072


def write_scores(path: Path, n: int, missing: float) -> None:
    """A wide file of standard normal scores, without a dictionary, as the warehouse writes it."""
    rng = np.random.default_rng(0)
    schema = pa.schema([(judge, pa.float64()) for judge in JUDGES])
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for start in range(0, n, ROWS_A_GROUP):
            x = rng.normal(size=(min(ROWS_A_GROUP, n - start), P))
            x[rng.random(x.shape) < missing] = np.nan
            writer.write_table(pa.table([pa.array(c, from_pandas=True) for c in x.T], schema=schema), ROWS_A_GROUP)


def measure(path: Path, threads: int) -> tuple[Moments, float, float, float]:
    """The moments, CPU and wall seconds, and GiB by which this process' peak memory rose."""
    shards = shards_of(path)
    accumulate_columns([np.ones((P, 300))], np.zeros(P), expected=10**9)  # compiled before the clock starts
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if threads:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(1, threads_per_worker=threads, processes=False, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            started, wall = time.process_time(), time.perf_counter()
            found = moments_of_shards(shards, JUDGES, client)
            cpu, wall = time.process_time() - started, time.perf_counter() - wall
    else:
        started, wall = time.process_time(), time.perf_counter()
        found = moments_of_shards(shards, JUDGES)
        cpu, wall = time.process_time() - started, time.perf_counter() - wall
    return found, cpu, wall, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20


def in_new_process(path: Path, threads: int) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and GiB of ``measure`` in a process of its own, where peaks start anew."""
    code = f"from benchmarks.speed.parquet import *; print(*measure(Path({str(path)!r}), {threads})[1:])"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    cpu, wall, memory = map(float, printed.split()[-3:])
    return cpu, wall, memory


def run() -> list[dict[str, object]]:
    """Medians over five processes; each reads a file that the page cache holds."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for n, missing in ((1_000_000, 0.0), (10_000_000, 0.0), (10_000_000, 0.05)):
            path = Path(folder) / "scores.parquet"
            write_scores(path, n, missing)
            loop = np.median([in_new_process(path, 0) for _ in range(5)], axis=0)
            dask = np.median([in_new_process(path, 2) for _ in range(5)], axis=0)
            rows.append(
                {
                    "n": n,
                    "missing": missing,
                    "mitems_per_cpu_s": n / float(loop[0]) / 1e6,
                    "extra_gib": float(loop[2]),
                    "dask_threads_over_loop_cpu": float(dask[0] / loop[0]),
                    "dask_threads_over_loop_wall": float(dask[1] / loop[1]),
                }
            )
    return rows
