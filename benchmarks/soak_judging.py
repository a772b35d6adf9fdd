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
    """Items, three models, three programs."""
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
            f"batch_size: 50\nengine: {{kind: {kind}, model: {model}, num_gpus: 0, dtype: float32, min_valid_mass: 0, "
            "gpu_memory: 0.3}\n"
        )
    for name in PROGRAMS:
        (folder / "judges" / f"{name}.yaml").write_text(f"batch_size: 50\nengine: {{kind: program, program: {name}}}\n")
    return folder


def start(folder: Path) -> subprocess.Popen[bytes]:
    """``care run`` in a session of its own."""
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
    """(judge, item, score) of every row of every part."""
    out: list[tuple[str, str, float | None]] = []
    for path in sorted((folder / "data" / "parts" / "scores").rglob("*.parquet")):
        judge = path.parent.parent.name.removeprefix("judge=")
        table = pq.ParquetFile(path).read(columns=["item_id", "score"]).to_pylist()
        out += [(judge, row["item_id"], row["score"]) for row in table]
    return out


def children(pid: int) -> list[int]:
    """All descendants of a process, and what its Ray started elsewhere."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(path.name))
    found, waiting = [], [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def actors(pid: int) -> list[int]:
    """Processes that hold an engine."""
    found = []
    for child in children(pid):
        with contextlib.suppress(OSError):
            if b"_Worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def kill(run: subprocess.Popen[bytes], kind: str) -> bool:
    """Kill what is asked for; False where it is not there."""
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
    """Ten kills; what came out."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as root:
        models = {f"tiny{k}": build(Path(root) / f"tiny{k}", seed=k, chat=k == 1) for k in range(3)}
        calm, rough = (workspace(Path(root) / name, models) for name in ("calm", "rough"))
        started = time.perf_counter()
        assert start(calm).wait() == 0, (calm / "log.txt").read_text()[-3000:]
        undisturbed = time.perf_counter() - started
        done: Counter[str] = Counter()
        started = time.perf_counter()
        run = start(rough)
        while sum(done.values()) < KILLS:
            before = len(rows(rough))
            wanted = ITEMS * 6
            kind = ("actor", "driver", "tree")[sum(done.values()) % 3]
            pause = time.monotonic() + chance.uniform(2.0, 15.0)
            # A kill before anything new is kept would let nothing ever end.
            while (len(rows(rough)) <= before or time.monotonic() < pause) and run.poll() is None:
                time.sleep(0.2)
            if run.poll() is not None and len(rows(rough)) >= wanted:
                break
            if kill(run, kind):
                done[kind] += 1
                print(f"killed: {kind}, {len(rows(rough))} of {wanted} rows are there", flush=True)
            if run.poll() is not None:
                run = start(rough)
        code = run.wait()
        if code != 0:  # a killed actor beyond its restarts ends a run; the next goes on
            code = start(rough).wait()
        seconds = time.perf_counter() - started
        kept = rows(rough)
        once = {(judge, item): score for judge, item, score in kept}
        calmly = {(judge, item): score for judge, item, score in rows(calm)}
        differences = [abs((once[key] or 0.0) - (score or 0.0)) for key, score in calmly.items() if key in once]
        return {
            "kills": dict(done),
            "last run's exit code": code,
            "rows": len(kept),
            "different (item, judge)": len(once),
            "wanted": ITEMS * 6,
            "same keys as undisturbed": once.keys() == calmly.keys(),
            "largest difference of a score": max(differences),
            "undisturbed, s": round(undisturbed),
            "with kills, s": round(seconds),
        }


def main() -> int:
    """Print the outcome; 1 where anything was lost, done twice or changed."""
    found = soak()
    for name, value in found.items():
        print(f"{name}: {value}")
    exact = found["rows"] == found["different (item, judge)"] == found["wanted"] and found["same keys as undisturbed"]
    return 0 if exact and float(str(found["largest difference of a score"])) < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
