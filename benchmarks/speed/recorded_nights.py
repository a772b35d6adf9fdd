"""Measure runs of a workspace of recorded judges: first, unchanged, one more judge, some changed items or scores.

``python -m benchmarks nights [--judges P] [--testsets T] [--items N] [--code FOLDER]`` prints CPU and
wall seconds and the peak memory of every ``care run``. Each run is a process with one BLAS thread. ``FOLDER`` is a
checkout of another commit. ``--settings "fit: {aggregators: [avg], resamples: 0}"`` omits most of the fits, to measure
the other stages in less time. ``--profile FOLDER`` stores a profile of each run, which slows the run.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_HERE = Path(__file__).parents[2]


class Recordings:
    """Workspace of test sets with recorded scores in Parquet files."""

    def __init__(self, folder: Path, testsets: int, items: int, settings: str) -> None:
        self.folder, self._items = folder, items
        self._testsets = [f"set {t:02d}" for t in range(testsets)]
        for name in ("judges", "testsets"):
            (folder / name).mkdir(parents=True)
        (folder / "care.yaml").write_text(settings + "\n", encoding="ascii")
        for testset in self._testsets:
            source = (
                f"scale: [0, 10]\nsource:\n  kind: files\n  items: {testset} items.parquet\n"
                f"  scores: {{path: {testset} scores.parquet}}\n  columns: {{response: text}}\n"
            )
            (folder / "testsets" / f"{testset}.yaml").write_text(source, encoding="ascii")

    def write(self, judges: int, edited: int = 0, of_one_judge: int = 0) -> None:
        """Write items and scores of ``judges`` judges.

        Texts and scores of the first ``edited`` items change, and the first judge's scores of the first
        ``of_one_judge`` items.
        """
        for number, testset in enumerate(self._testsets):
            rng = np.random.default_rng(number)
            ids = [f"i{k}" for k in range(self._items)]
            texts = [f"text {k}{' edited' if k < edited else ''}" for k in range(self._items)]
            quality = rng.normal(size=self._items)
            columns: dict[str, object] = {"item_id": ids}
            for judge in range(judges):
                scores = np.clip(np.round(5 + 1.5 * quality + rng.normal(size=self._items), 2), 0, 10)
                other = slice(max(edited, of_one_judge if judge == 0 else 0))
                scores[other] = np.clip(scores[other] + 0.5, 0, 10)
                columns[f"judge {judge:03d}"] = scores
            pq.write_table(pa.table({"item_id": ids, "text": texts}), self.folder / f"{testset} items.parquet")
            pq.write_table(pa.table(columns), self.folder / f"{testset} scores.parquet")


def nightly_run(folder: Path, name: str, code: Path, profiles: Path | None) -> None:
    """Run ``care run`` once, and print its time and memory."""
    command = [sys.executable, "-W", "ignore"]
    if profiles is not None:
        command += ["-m", "cProfile", "-o", str(profiles / f"{name.replace(' ', '-')}.prof")]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [*command, "-m", "orchestration.cli", "run", "--workspace", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(code), "OPENBLAS_NUM_THREADS": "1"},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name} | {cpu:.1f} | {wall:.1f} | {after.ru_maxrss / 1024:,.0f}", flush=True)


def runs(options: argparse.Namespace, folder: Path) -> None:
    """Print a row for each requested run."""
    recordings = Recordings(folder, options.testsets, options.items, options.settings)
    steps = {
        "first": lambda: recordings.write(options.judges),
        "unchanged": lambda: None,
        "one judge more": lambda: recordings.write(options.judges + 1),
        "unchanged again": lambda: None,
        "1 % of one judge": lambda: recordings.write(options.judges, of_one_judge=options.items // 100),
        "1 % of items": lambda: recordings.write(options.judges + 1, edited=options.items // 100),
    }
    print("run | CPU s | wall s | peak MiB so far", flush=True)
    for name in options.runs or steps:
        steps[name]()
        nightly_run(folder, name, options.code.resolve(), options.profile)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the requested runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judges", type=int, default=100)
    parser.add_argument("--testsets", type=int, default=50)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--settings", default="review: {hold: false}", help="content of care.yaml")
    parser.add_argument("--runs", nargs="*", help="only these runs, in this order; the run `first` is necessary")
    parser.add_argument("--code", type=Path, default=_HERE)
    parser.add_argument("--profile", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        runs(options, Path(folder) / "workspace")


if __name__ == "__main__":
    main()
