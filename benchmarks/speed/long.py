"""What judging a long test set takes of memory and time, in the process that runs the judges. ``make bench-long``.

A program, and a stand-in for vLLM that sleeps (``tests.support.stub_vllm``) in a real Ray actor, each over a test set
of a thousand items and over one of a hundred thousand, whose texts have about 1,700 characters. The items are read and
stored before; what is measured is ``care run --select judge_inference``, in a process of its own. Every item has to be
stored once.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.placement import declared_gpus

SIZES = 1_000, 100_000
ROWS = 5_000
SENTENCE = "The library is open from nine to five on weekdays, and until noon on the first Saturday of the month. "


def main() -> None:
    """Print a row for each judge and size."""
    print("| judge | items | s | CPU s | peak memory of `care run`, MiB | times loaded |\n|---|---|---|---|---|---|")
    for items in SIZES:
        with tempfile.TemporaryDirectory() as name:
            folder = _workspace(Path(name), items)
            _measured(folder, "run", "--select", "items")
            _row(folder, "program", items)
            with declared_gpus(1, folder / "loads", load_s=1.0, score_s=0.02):
                os.environ["RAY_ADDRESS"] = _address()
                _row(folder, "stub", items)


def _row(folder: Path, judge: str, items: int) -> None:
    """Have one judge score everything, and print what that took."""
    seconds, cpu_seconds, peak = _measured(folder, "run", "--select", "judge_inference", "--judge", judge)
    assert _stored(folder, judge) == items, "an item is lost or was stored twice"
    log = folder / "loads"
    loads = len(log.read_text().splitlines()) if log.exists() else 0
    print(f"| {judge} | {items:,} | {seconds:.0f} | {cpu_seconds:.0f} | {peak:.0f} | {loads} |", flush=True)


def _workspace(folder: Path, items: int) -> Path:
    """A workspace with one test set of so many different items, three answers to each question."""
    for name in ("judges", "testsets", "model"):
        (folder / name).mkdir()
    (folder / "care.yaml").write_text("{}\n")
    (folder / "testsets" / "long.yaml").write_text(
        "source: {kind: files, items: items.parquet, columns: {prompt: question, response: answer}}\n"
        "scale: [1, 10]\nprompt: quality\n"
    )
    (folder / "judges" / "program.yaml").write_text("engine: {kind: program, program: length}\n")
    (folder / "judges" / "stub.yaml").write_text(
        f"engine: {{kind: vllm, model: {folder / 'model'}, min_valid_mass: 0.0}}\n"
    )
    questions = items // 3 + 1
    schema = pa.schema([(name, pa.string()) for name in ("item_id", "question", "answer")])
    with pq.ParquetWriter(folder / "items.parquet", schema) as file:
        for first in range(0, items, ROWS):  # a process that was large once makes those that it starts seem so
            numbers = range(first, min(first + ROWS, items))
            rows = {
                "item_id": [f"i{k}" for k in numbers],
                "question": [f"Question {k % questions}: when is it open? {SENTENCE * 8}" for k in numbers],
                "answer": [f"Answer {k}. {SENTENCE * (4 + k % 9)}" for k in numbers],
            }
            file.write_table(pa.table(rows, schema))
    return folder


def _measured(folder: Path, *words: str) -> tuple[float, float, float]:
    """Wall and CPU time of a ``care`` command, and the most memory that its process had, in MiB."""
    started = time.perf_counter()
    care = [sys.executable, "-c", "from orchestration.cli.app import main; main()"]
    pid = os.posix_spawn(sys.executable, [*care, *words, "--workspace", str(folder)], os.environ)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}"
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def _stored(folder: Path, judge: str) -> int:
    """Number of different items among a judge's rows, which must be the number of rows."""
    parts = (folder / "data" / "parts" / "scores" / f"judge={judge}").rglob("*.parquet")
    ids = [name for part in parts for name in pq.read_table(part, columns=["item_id"]).column(0).to_pylist()]
    assert len(ids) == len(set(ids)), "an item was stored twice"
    return len(ids)


def _address() -> str:
    import ray

    return ray.get_runtime_context().gcs_address


if __name__ == "__main__":
    main()
