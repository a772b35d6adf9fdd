"""From how many items on Dask is worth its start, and one panel through two workers that are joined by address.

``python -m benchmarks.speed.moments_dask [--items N ...] [--joined N ...]``. For each of ``--items`` it prints the wall
and CPU seconds of this process alone and of a local cluster of as many workers as cores, the start of either included.
For each of ``--joined`` a scheduler and two workers, each in a folder of its own, sum a panel by their address, and the
largest relative difference from one process is printed, unless the panel has more than ten million items.

Belongs here: which sizes and clusters are compared. Belongs elsewhere: the asset as a whole (``speed.moments_asset``).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from benchmarks.speed.parquet import JUDGES, write_scores
from care_ops.moments.sharded import moments_of_shards, shards_of
from care_ops.moments.state import Moments

_MOST_COMPARED = 10_000_000
_SUMS = ("count1", "sum1", "count2", "sum2", "partial2", "square2", "count3", "sum3")


def summed(path: str, where: str) -> None:
    """Sum a file in this process (``where`` is "here") or on a local cluster; print wall and CPU seconds as JSON."""
    from assets.fit.moments import LEAST_ROWS, dask_client
    from assets.workspace import DaskConfig

    began = time.perf_counter()
    with dask_client(LEAST_ROWS, DaskConfig(workers=0 if where == "here" else None)) as client:
        moments_of_shards(shards_of(Path(path)), JUDGES, client)
    wall = time.perf_counter() - began
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps([wall, sum(u.ru_utime + u.ru_stime for u in usage)]))


def compare(items: Sequence[int], folder: Path) -> None:
    """Print a row for each size."""
    print("items | here: wall s, CPU s | as many workers as cores: wall s, CPU s", flush=True)
    for n in items:
        path = folder / "panel.parquet"
        write_scores(path, n, 0.0)
        cells: list[str] = []
        for where in ("here", "cluster"):
            source = f"from benchmarks.speed.moments_dask import summed; summed({str(path)!r}, {where!r})"
            done = subprocess.run(
                [sys.executable, "-c", _guarded(source)], check=True, stdout=subprocess.PIPE, text=True
            )
            cells.append(", ".join(f"{seconds:.1f}" for seconds in json.loads(done.stdout.splitlines()[-1])))
        print(f"{n:,} | {' | '.join(cells)}", flush=True)


def _guarded(source: str) -> str:
    """Source that starts processes, which import it anew."""
    return f"if __name__ == '__main__':\n    {source}"


def join(items: Sequence[int], folder: Path) -> None:
    """Print a row for each size."""
    from distributed import Client

    print("items | two workers by address: wall s | largest relative difference from one process", flush=True)
    with joined_workers(folder) as address, Client(address) as client:
        client.wait_for_workers(2, timeout=60)
        for n in items:
            path = folder / "panel.parquet"
            write_scores(path, n, 0.0)
            began = time.perf_counter()
            there = moments_of_shards(shards_of(path), JUDGES, client)
            wall = time.perf_counter() - began
            told = "not compared"
            if n <= _MOST_COMPARED:
                told = f"{_difference(there, moments_of_shards(shards_of(path), JUDGES)):.1e}"
            print(f"{n:,} | {wall:.1f} | {told} | {_figures(there)}", flush=True)


def _difference(one: Moments, other: Moments) -> float:
    pairs = [(getattr(one, name), getattr(other, name)) for name in _SUMS]
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def _figures(state: Moments) -> str:
    """What tells that all rows came: their number, and how far mean and variance are from 0 and 1."""
    mean, variance = np.abs(state.mean()).max(), np.abs(state.variance() - 1).max()
    return f"n {state.n:,}, |mean| at most {mean:.1e}, |variance - 1| at most {variance:.1e}"


@contextmanager
def joined_workers(folder: Path) -> Generator[str]:
    """A scheduler and two workers of one thread, each a process in a folder of its own; gives the address."""
    with ExitStack() as stack:
        file = folder / "scheduler.json"
        scheduler = ["scheduler", "--scheduler-file", str(file), "--port", "0", "--no-dashboard"]
        worker = ["worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-dashboard"]
        for number, options in enumerate((scheduler, worker, worker)):
            own = folder / f"process-{number}"
            own.mkdir()
            command = [sys.executable, "-m", "dask", *options]
            process = subprocess.Popen(command, cwd=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        while not file.exists() or not file.read_text(encoding="utf-8"):
            time.sleep(0.1)
        yield json.loads(file.read_text(encoding="utf-8"))["address"]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="*", default=[1_000_000, 5_000_000, 20_000_000])
    parser.add_argument("--joined", type=int, nargs="*", default=[10_000_000])
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as name:
        compare(options.items, Path(name))
        join(options.joined, Path(name))


if __name__ == "__main__":
    main()
