"""The asset ``moments`` over a panel in a file: CPU seconds and peak memory beyond those of a tiny panel, by size.

``python -m benchmarks.speed.moments_asset [--items N] [--judges P] [--code FOLDER]``. ``FOLDER`` is a checkout of
another commit. The asset runs twice, each time in a process of its own: over a panel that is new, and again after the
scores of one item in a hundred have changed.

Belongs here: the asset as Dagster calls it. Belongs elsewhere: the sums over a file (``speed.parquet``), and how many
items are worth a cluster (``speed.moments_dask``).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

_MEASURE = """
import json, os, resource, sys, time
from pathlib import Path
import dagster as dg
from assets.fit.moments import moments
from orchestration.workspace import load_workspace
began = time.process_time(), time.perf_counter()
workspace = load_workspace(Path(sys.argv[1]))
context = dg.build_asset_context(partition_key=sys.argv[2])
result = moments(context, workspace)
children = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = time.process_time() - began[0] + children.ru_utime + children.ru_stime
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
summed = result.metadata["summed"]
print(json.dumps([cpu, time.perf_counter() - began[1], peak / 1024, summed, result.metadata["ran_on"]]))
"""

_TINY = 100


def write_workspace(folder: Path) -> None:
    """A workspace with the test sets ``tiny`` and ``many``, and nothing that is judged."""
    (folder / "judges").mkdir()
    (folder / "testsets").mkdir()
    (folder / "care.yaml").write_text("{}\n", encoding="ascii")
    (folder / "none.csv").write_text("item_id,response\n", encoding="ascii")
    for testset in ("tiny", "many"):
        source = "source: {kind: files, items: none.csv}\nscale: [0, 10]\n"
        (folder / "testsets" / f"{testset}.yaml").write_text(source, encoding="ascii")


def write_panel(folder: str, testset: str, items: int, judges: int, changed: bool) -> None:
    """Write what the asset ``panel`` leaves; if ``changed``, the scores of every hundredth item are other ones."""
    from assets.fit.documents import PanelDocument
    from care_ops.scores import ScoreMatrix
    from orchestration.workspace import load_workspace

    rng = np.random.default_rng(0)
    values = rng.normal(size=(items, judges)) + rng.normal(size=(items, 1))
    if changed:
        values[::100] += 0.5
    ids = tuple(f"i{k:09d}" for k in range(items))
    panel = ScoreMatrix(values, ids, tuple(f"judge {j:03d}" for j in range(judges)))
    fit_folder = load_workspace(Path(folder)).fit_folder(testset)
    fit_folder.write_panel(panel)
    PanelDocument({}, "", "", panel.fingerprint()).write(fit_folder)


def measure(items: int, judges: int, code: Path) -> list[dict[str, object]]:
    """A row for a new panel and one for a changed one."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        write_workspace(Path(folder))
        _written(code, folder, "tiny", _TINY, judges, changed=False)
        empty = _measured(code, folder, "tiny")
        for changed in (False, True):
            _written(code, folder, "many", items, judges, changed)
            cpu, wall, peak, summed, where = _measured(code, folder, "many")
            rows.append(
                {
                    "items": items,
                    "judges": judges,
                    "panel": "changed" if changed else "new",
                    "cpu_s": cpu - empty[0],
                    "wall_s": wall - empty[1],
                    "mib_beyond_empty": peak - empty[2],
                    "summed": summed,
                    "where": where,
                }
            )
    return rows


def _written(code: Path, folder: str, testset: str, items: int, judges: int, changed: bool) -> None:
    arguments = (folder, testset, items, judges, changed)
    source = f"import runpy; runpy.run_path({__file__!r})['write_panel'](*{arguments!r})"
    _run(code, source)


def _measured(code: Path, folder: str, testset: str) -> tuple[float, float, float, str, str]:
    return tuple(json.loads(_run(code, _MEASURE, folder, testset).splitlines()[-1]))


def _run(code: Path, source: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(code), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", source, *arguments]
    return subprocess.run(command, cwd="/", env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=5_000_000)
    parser.add_argument("--judges", type=int, default=24)
    parser.add_argument("--code", type=Path, default=Path(__file__).parents[2], help="a checkout of another commit")
    options = parser.parse_args()
    rows = measure(options.items, options.judges, options.code.resolve())
    print(" | ".join(rows[0]))
    for row in rows:
        print(" | ".join(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values()))


if __name__ == "__main__":
    main()
