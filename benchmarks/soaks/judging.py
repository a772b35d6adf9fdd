"""Kill -9 of judging, ten times, and what is left of the scores. ``make soak-judging``.

A panel of three tiny models (two in transformers, one in vLLM, each in a Ray actor) and three programs scores 2,000
items. Undisturbed once; then on a fresh workspace an actor, the driver or the whole tree of processes is killed at
random moments. In the end every (item, judge) must be there once, with the score of the undisturbed run.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from tests.support.tiny import build

ITEMS = 2_000
KILLS = 10
PROGRAMS = ("length", "conciseness", "redundancy")


def workspace(folder: Path, models: dict[str, Path]) -> Path:
    """Make a workspace with items, three models and three programs."""
    for name in ("judges", "testsets"):
        (folder / name).mkdir(parents=True)
    rows = ["item_id,question,answer"]
    rows += [
        f"i{k},What is the capital of land {k % 40}?,It is city {k} and {'old ' * (k % 9)}large." for k in range(ITEMS)
    ]
    (folder / "one.csv").write_text("\n".join(rows) + "\n")
    (folder / "care.yaml").write_text("panel: {admit: all}\nfit: {resamples: 0, aggregators: [avg]}\n")
    (folder / "testsets" / "one.yaml").write_text(
        "source: {kind: files, items: one.csv, columns: {prompt: question, response: answer}}\n"
        "scale: [0, 10]\nprompt: answer_rating\n"
    )
    for number, (name, model) in enumerate(models.items()):
        kind = "vllm" if number == 2 else "transformers"
        (folder / "judges" / f"{name}.yaml").write_text(
            f"batch_size: 50\nengine: {{kind: {kind}, model: {model}, num_gpus: 0, dtype: float32, "
            "min_valid_mass: 0}\n"
        )
    for name in PROGRAMS:
        (folder / "judges" / f"{name}.yaml").write_text(f"batch_size: 50\nengine: {{kind: program, program: {name}}}\n")
    return folder


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start ``care run`` in a process session of its own."""
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    command = [sys.executable, "-m", "orchestration.cli", "run", "--workspace", str(folder)]
    log = (folder / "log.txt").open("ab")
    return subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log, env=environment)


def rows(folder: Path) -> list[tuple[str, str, float | None]]:
    """All rows of all score parts, as (judge, item, score)."""
    rows: list[tuple[str, str, float | None]] = []
    for path in sorted((folder / "data" / "parts" / "scores").rglob("*.parquet")):
        judge = path.parent.parent.name.removeprefix("judge=")
        table = pq.ParquetFile(path).read(columns=["item_id", "score"]).to_pylist()
        rows += [(judge, row["item_id"], row["score"]) for row in table]
    return rows


def children(pid: int) -> list[int]:
    """Ids of all descendants of a process, including those that its Ray has started."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(path.name))
    descendants, waiting = [], [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        descendants += below
        waiting += below
    return descendants


def actors(pid: int) -> list[int]:
    """Ids of the processes that hold an engine."""
    pids = []
    for child in children(pid):
        with contextlib.suppress(OSError):
            if b"_Worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                pids.append(child)
    return pids


def kill(run: subprocess.Popen[bytes], kind: str) -> bool:
    """Kill an actor, the driver or the whole tree of processes; returns whether there was one to kill."""
    if run.poll() is not None:
        return False
    victims = {"actor": actors(run.pid)[:1], "driver": [run.pid], "tree": [*children(run.pid), run.pid]}[kind]
    for victim in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    if kind != "actor" and victims:
        run.wait()
    return bool(victims)


def soak(seed: int = 0) -> dict[str, object]:
    """Judge once undisturbed and once with kills, and compare the scores."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as root:
        models = {f"tiny{k}": build(Path(root) / f"tiny{k}", seed=k, chat=k == 1) for k in range(3)}
        undisturbed_folder, killed_folder = (workspace(Path(root) / name, models) for name in ("calm", "rough"))
        started = time.perf_counter()
        assert start(undisturbed_folder).wait() == 0, (undisturbed_folder / "log.txt").read_text()[-3000:]
        undisturbed = time.perf_counter() - started
        kills: Counter[str] = Counter()
        started = time.perf_counter()
        run = start(killed_folder)
        while sum(kills.values()) < KILLS:
            before = len(rows(killed_folder))
            wanted = ITEMS * 6
            kind = ("actor", "driver", "tree")[sum(kills.values()) % 3]
            pause = time.monotonic() + chance.uniform(2.0, 15.0)
            # Each kill waits for new rows: without progress between kills the run would never end.
            while (len(rows(killed_folder)) <= before or time.monotonic() < pause) and run.poll() is None:
                time.sleep(0.2)
            if run.poll() is not None and len(rows(killed_folder)) >= wanted:
                break
            if kill(run, kind):
                kills[kind] += 1
                print(f"killed: {kind}, {len(rows(killed_folder))} of {wanted} rows are there", flush=True)
            if run.poll() is not None:
                run = start(killed_folder)
        code = run.wait()
        if code != 0:  # an actor that is killed too often ends the run; the next run continues
            code = start(killed_folder).wait()
        seconds = time.perf_counter() - started
        kept = rows(killed_folder)
        by_key = {(judge, item): score for judge, item, score in kept}
        expected = {(judge, item): score for judge, item, score in rows(undisturbed_folder)}
        differences = [abs((by_key[key] or 0.0) - (score or 0.0)) for key, score in expected.items() if key in by_key]
        return {
            "kills": dict(kills),
            "last run's exit code": code,
            "rows": len(kept),
            "different (item, judge)": len(by_key),
            "wanted": ITEMS * 6,
            "same keys as undisturbed": by_key.keys() == expected.keys(),
            "largest difference of a score": max(differences),
            "undisturbed, s": round(undisturbed),
            "with kills, s": round(seconds),
        }


def main() -> int:
    """Print the outcome; returns 1 if a score was lost, written twice or changed."""
    outcome = soak()
    for name, value in outcome.items():
        print(f"{name}: {value}")
    exact = (
        outcome["rows"] == outcome["different (item, judge)"] == outcome["wanted"]
        and outcome["same keys as undisturbed"]
    )
    return 0 if exact and float(str(outcome["largest difference of a score"])) < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
