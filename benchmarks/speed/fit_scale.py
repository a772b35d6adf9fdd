"""Measure ``care fit`` on many items: CPU seconds and peak memory by stage, against an earlier commit.

``python -m benchmarks.speed.fit_scale [--items N ...] [--before COMMIT] [--quick]`` writes
``benchmarks/results/fit-scale.md``. For each size and layout, a table shows time and memory of every stage
(``fit_stages``), with and without the pipeline's libraries. Other tables compare each aggregate with a fit without
these libraries, and with a fit of all items instead of a sample.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from care_ops.metrics import rank_correlation

RESULT = Path("benchmarks/results/fit-scale.md")
JUDGES = 24
_HERE = Path(__file__).parents[2]

_TELLING_SECONDS = 0.1
"""Minimum CPU seconds of a stage for which growth is printed."""

Measured = Mapping[str, Sequence[float]]
"""CPU seconds and peak memory in MiB, keyed by stage."""


def main() -> None:
    """Write the tables of each size."""
    options = _options()
    with tempfile.TemporaryDirectory() as name, RESULT.open("w", encoding="utf-8") as written, redirect_stdout(written):
        print("# `care fit` on many items\n\n`make bench-scale` wrote this page: 24 simulated judges,", end=" ")
        print("one BLAS thread, one run for each column.")
        folder = Path(name)
        wide: dict[int, Measured] = {}
        before = None if options.before is None else _checkout(options.before, folder / "before")
        for items in options.items:
            tables = write_tables(folder, items)
            if options.quick:
                del tables["long"]
            for layout, path in tables.items():
                runs = {} if before is None else {"before": _fit(before, path, folder / "before-fit")}
                runs["now"] = _fit(_HERE, path, folder / f"now-{layout}")
                if layout == "wide":
                    runs["now, without the pipeline's libraries"] = _fit(_HERE, path, folder / "bare", "--bare")
                _print_stages(f"{items:,} items x {JUDGES} judges, {layout} table", runs)
                if layout == "wide":
                    wide[items] = runs["now"]
            _print_differences(folder / "now-wide", folder / "bare", "a fit without the pipeline's libraries")
            if options.quick:
                continue
            whole = folder / "whole"
            _fit(_HERE, tables["wide"], whole, "--whole")
            _print_differences(folder / "now-wide", whole, "a fit of all items, without a sample")
    _print_growth(wide)


def write_tables(folder: Path, items: int) -> dict[str, Path]:
    """Write scores that follow quality and a confounder, as a wide and a long table."""
    rng = np.random.default_rng(0)
    quality, confounder = rng.normal(size=items), rng.normal(size=items)
    ids = pa.array([f"i{k}" for k in range(items)])
    scores = [
        np.round(5 + quality * rng.uniform(0.4, 1) + confounder * rng.uniform(0, 0.8) + rng.normal(size=items), 3)
        for _ in range(JUDGES)
    ]
    names = pa.array([f"judge {j}" for j in range(JUDGES)])
    wide, long = folder / "wide.parquet", folder / "long.parquet"
    pq.write_table(pa.table([ids, *scores], names=["item_id", *names.to_pylist()]), wide)
    item = pa.DictionaryArray.from_arrays(np.repeat(np.arange(items, dtype=np.int32), JUDGES), ids)
    judge = pa.DictionaryArray.from_arrays(np.tile(np.arange(JUDGES, dtype=np.int32), items), names)
    table = pa.table({"item_id": item, "judge": judge, "score": np.column_stack(scores).ravel()})
    pq.write_table(table, long, store_schema=False)
    return {"wide": wide, "long": long}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="care fit on many items")
    parser.add_argument("--items", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--before", help="earlier commit to measure for comparison")
    parser.add_argument("--quick", action="store_true", help="fit only the wide table, also without libraries")
    return parser.parse_args()


def _checkout(commit: str, folder: Path) -> Path:
    archive = subprocess.run(["git", "archive", commit], cwd=_HERE, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def _fit(checkout: Path, scores: Path, out: Path, *options: str) -> Measured:
    """Fit with the code of a checkout in another process with one BLAS thread; return the figures of each stage."""
    result = out.with_suffix(".json")
    subprocess.run(
        [sys.executable, str(_HERE / "benchmarks/speed/fit_stages.py"), str(scores), str(out), str(result), *options],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "OPENBLAS_NUM_THREADS": "1"},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return json.loads(result.read_text(encoding="ascii"))


def _print_stages(title: str, runs: Mapping[str, Measured]) -> None:
    print(
        f"\n{title}\n\n| stage | {' | '.join(f'{run}: CPU s | MiB' for run in runs)} |\n|{'---|' * (1 + 2 * len(runs))}"
    )
    for stage in dict.fromkeys(stage for measured in runs.values() for stage in measured):
        cells = [measured.get(stage, (0.0, 0.0)) for measured in runs.values()]
        print(f"| {stage} | {' | '.join(f'{cpu:.1f} | {peak:,.0f}' for cpu, peak in cells)} |")
    totals = [
        (sum(cpu for cpu, _ in measured.values()), max(peak for _, peak in measured.values()))
        for measured in runs.values()
    ]
    print(f"| all | {' | '.join(f'{cpu:.1f} | {peak:,.0f}' for cpu, peak in totals)} |")


def _print_growth(runs: Mapping[int, Measured]) -> None:
    """Print the growth of each stage's time from the smallest to the largest number of items."""
    few, many = min(runs), max(runs)
    if few == many:
        return
    print(f"\n| stage | {many:,} over {few:,} items, which are {many / few:g} times as many |\n|---|---|")
    for stage, (cpu, _) in runs[few].items():
        reported = (
            f"{runs[many].get(stage, (0.0, 0.0))[0] / cpu:.1f}" if cpu >= _TELLING_SECONDS else "too fast to measure"
        )
        print(f"| {stage} | {reported} |")


def _print_differences(fitted: Path, other: Path, what: str) -> None:
    """Print the differences between the aggregates of two fits."""
    print(f"\n| compared with {what} | largest difference | 1 - rank correlation |\n|---|---|---|")
    tables = [pq.read_table(folder / "aggregates.parquet") for folder in (fitted, other)]
    for name in tables[0].column("aggregator").unique().to_pylist():
        chosen = pc.field("aggregator") == name
        first, second = (table.filter(chosen).column("estimate").to_numpy() for table in tables)
        print(f"| {name} | {np.nanmax(np.abs(first - second)):.1e} | {1 - rank_correlation(first, second):.1e} |")


if __name__ == "__main__":
    main()
