"""A panel of language models with real weights, judged, killed in the middle, compared and measured: ``make live``.

The workspace of ``examples/live`` is laid in a folder that git ignores, with weights that a package index carries. It
scores 1,000 comments of CivilComments where ``CARE_DATA_DIR`` is set, and the demo's answers otherwise. Whoever starts it
again goes on where it was stopped. The figures go to ``benchmarks/results/live.md``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.soak_judging import kill, rows

EXAMPLE = Path("examples/live")
FOLDER = Path("build/live")
RESULT = Path("benchmarks/results/live.md")
ITEMS = 1_000
LONGEST = 500
"""Characters of the longest comment that is drawn, so that all comments stay in vLLM's cache from judge to judge."""

KILLED_AT = 0.3
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "2",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_CPU_KVCACHE_SPACE": "6",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}


def lay(folder: Path, kind: str, count: int) -> Path:
    """Write the workspace, for ``comments`` or ``answers``, unless it is there; ``count`` comments are drawn."""
    if not (folder / "care.yaml").exists():
        for name in (".", kind):
            shutil.copytree(EXAMPLE / name, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("comments", "answers", "*.py", "*.md"))
        if kind == "comments":
            pq.write_table(comments(count), folder / "items.parquet")
    return folder


def comments(count: int) -> pa.Table:
    """Comments of CivilComments with gold, drawn at random among those that are not long; nobody's scores are read."""
    path = Path(os.environ["CARE_DATA_DIR"]) / "care_civilcomments" / "items.parquet"
    table = pq.read_table(path, columns=["item_id", "text", "gold"])
    short = table.filter(pc.less_equal(pc.utf8_length(table["text"]), LONGEST))
    return short.take(np.random.default_rng(0).permutation(short.num_rows)[:count])


def judge(folder: Path, wanted: int) -> None:
    """Have everything judged; the first time the whole tree of processes is killed once with -9 in the middle."""
    told = folder / "killed.json"
    run = start(folder)
    while run.poll() is None and not told.exists():
        time.sleep(0.5)
        if len(rows(folder)) >= KILLED_AT * wanted and kill(run, "tree"):
            told.write_text(json.dumps({"there": len(rows(folder)), "parts": kept(folder)}))
            run = start(folder)
    if run.wait() != 0:
        raise SystemExit((folder / "log.txt").read_text()[-3000:])


def kept(folder: Path) -> dict[str, int]:
    """When each part of scores was written, in nanoseconds."""
    parts = (folder / "data" / "parts" / "scores").rglob("*.parquet")
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in parts}


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start ``care run`` in a process session of its own."""
    command = [sys.executable, "-m", "orchestration.cli", "run", "--verbose", "--workspace", str(folder)]
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            command, start_new_session=True, stdout=log, stderr=log, env={**os.environ, **ENVIRONMENT}
        )


def main() -> None:
    kind = "comments" if os.environ.get("CARE_DATA_DIR") else "answers"
    folder = lay(FOLDER, kind, ITEMS)
    judges = len(list((folder / "judges").glob("*.yaml")))
    judge(folder, judges * ITEMS)


if __name__ == "__main__":
    main()
