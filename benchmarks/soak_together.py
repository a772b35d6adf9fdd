"""Eight processes at once on one tiny workspace, for ten minutes. ``make soak-together``.

``care run``, ``care status``, the reading commands, ``care gc``, ``care forget``, ``care accept``, runs as Dagster's
daemon starts them, and a reader of the database (``reading_together``), each again and again, while items and judges
are edited. In the end no score that was ever written may be missing without a reason, none may be there twice, no
command may have ended with anything but success or one clear sentence, and one more ``care run`` must give what a fresh
workspace of the same inputs gives.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq

from orchestration.instance import dagster_home
from orchestration.locks import PATIENCE
from orchestration.workspace import load_workspace
from tests.support.faults import State, compare, state_of
from tests.support.workspaces import make, write_items, write_judge

_CHAIN = "panel,moments,structure,aggregates,review,evaluation,intervals,systems,factors,report"
_COMING = ("readability", "grade_level")
"""Judges that come and go."""
_FAULTS = re.compile(r"Traceback|Could not set lock|database is locked|has held the warehouse|OperationalError")
_CURRENT = ("testsets:", "items:", "scores:", "slices:", "panels:")
"""Tables that hold what is, not what was."""
_HISTORY = ("report/trend.html", "fits/testset=one/review.json", "parts/fits/testset=one/publications.jsonl")
"""Files that tell what was."""

Row = tuple[str, str, str, str]


@dataclass
class Ended:
    """How a command ended."""

    words: list[str]
    code: int
    output: str
    seconds: float

    @property
    def wrong(self) -> bool:
        """Whether a person saw what no person should: a traceback, a lock's error, or failure without a sentence."""
        looks = self.words[0] in ("report", "history", "diff")
        return bool(_FAULTS.search(self.output)) or not (self.code == 0 or (looks and "error:" in self.output))


@dataclass
class Soak:
    """One workspace and what has happened to it.

    Attributes
    ----------
    written : dict row -> file
        Every row of a score part that was ever seen: judge, item, the keys of both.
    """

    folder: Path
    notes: Path
    stop: threading.Event = field(default_factory=threading.Event)
    ended: list[Ended] = field(default_factory=list[Ended])
    written: dict[Row, str] = field(default_factory=dict[Row, str])
    edits: int = 0

    def care(self, *words: str) -> Ended:
        """A command of ours."""
        return self._do(list(words), ["orchestration.cli", *words, "--workspace", str(self.folder)])

    def dagster(self, select: str, partition: str | None) -> Ended:
        """A run as the daemon starts it: a process over the real definitions."""
        words = ["asset", "materialize", "-m", "orchestration.definitions", "--select", select]
        where = ["--partition", partition] if partition is not None else []
        return self._do(["dagster", select], ["dagster", *words, *where])

    def _do(self, words: list[str], module: list[str]) -> Ended:
        home = str(dagster_home(load_workspace(self.folder)))
        environment = {**os.environ, "CARE_WORKSPACE": str(self.folder), "DAGSTER_HOME": home, PATIENCE: "600"}
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", *module],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        ended = Ended(words, done.returncode, done.stdout, time.monotonic() - started)
        self.ended.append(ended)
        if ended.wrong:
            print(f"WRONG: {' '.join(words)} ended with {ended.code}:\n{ended.output[-3000:]}", flush=True)
        return ended


def main() -> None:
    """Soak, then look; exit 1 where anything was lost, done twice, or seen by a person that should not be."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        soak = Soak(make(Path(root) / "ws"), Path(root) / "notes")
        soak.notes.mkdir()
        (soak.notes / "forgotten").touch()
        reader = _at_once(soak, 60 * options.minutes)
        _tell(soak, reader)
        said = [*_lost(soak), *_against_a_fresh_one(soak, Path(root) / "fresh")]
        print("\n".join(said) or "nothing lost, nothing twice; one more run gives what a fresh workspace gives")
    sys.exit(bool(said) or reader != 0 or any(ended.wrong for ended in soak.ended))


def _at_once(soak: Soak, seconds: float) -> int:
    """Everything at once for so long; returns how the reader ended."""
    command = [sys.executable, "-m", "benchmarks.reading_together", str(soak.folder / "data"), str(soak.notes)]
    reader = subprocess.Popen(command)
    work: list[Callable[[Soak], object]] = [_runs, _states, _looks, _collects, _forgets, _accepts, _daemons]
    threads = [threading.Thread(target=each, args=(soak,)) for each in (*work, _edits, _watches)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    soak.stop.set()
    for thread in threads:
        thread.join()
    (soak.notes / "stop").touch()
    return reader.wait()


def _again(soak: Soak, pause: float) -> Iterator[int]:
    """Counts until the soak is over, with a pause between."""
    for number in itertools.count():
        if soak.stop.wait(pause if number else 0):
            return
        yield number


def _runs(soak: Soak) -> None:
    for _ in _again(soak, 0.1):
        soak.care("run")


def _states(soak: Soak) -> None:
    for _ in _again(soak, 2):
        soak.care("status")


def _looks(soak: Soak) -> None:
    for number in _again(soak, 2):
        soak.care(*(("report",), ("history", "one"), ("diff", "one"))[number % 3])


def _collects(soak: Soak) -> None:
    for _ in _again(soak, 5):
        soak.care("gc", "--yes", "--editions", "2", "--months", "0", "--days", "0")


def _forgets(soak: Soak) -> None:
    for number in _again(soak, 25):
        if number:
            item = f"i{number}"
            soak.care("forget", item, "--testset", "one")
            with (soak.notes / "forgotten").open("a") as file:
                file.write(f"{item}\n")


def _accepts(soak: Soak) -> None:
    for number in _again(soak, 15):
        if number:
            soak.care("accept", "one", "--why", "looked at")


def _daemons(soak: Soak) -> None:
    chosen = (("items,gold", "one"), ("judge_inference", "length"), ("scores", "length|one"), (_CHAIN, "one"))
    for number in _again(soak, 1):
        if (soak.folder / "data" / "fits" / "testset=one" / "fit.json").exists():  # there are partitions by then
            soak.dagster(*chosen[number % len(chosen)])


def _edits(soak: Soak) -> None:
    """Items edited and added, judges that come and go; each file is replaced whole, as an editor does."""
    chance, n = random.Random(0), 40
    for _ in _again(soak, 4):
        if chance.random() < 0.5:
            n += chance.random() < 0.5
            write_items(soak.notes, n, edited=chance.randrange(n))
            (soak.notes / "one.csv").replace(soak.folder / "one.csv")
        else:
            judge = soak.folder / "judges" / f"{chance.choice(_COMING)}.yaml"
            if judge.exists():
                judge.unlink()
            else:
                (soak.notes / "judges").mkdir(exist_ok=True)
                write_judge(soak.notes, judge.stem)
                (soak.notes / "judges" / judge.name).replace(judge)
        soak.edits += 1


def _watches(soak: Soak) -> None:
    """Remember every row of every score part as soon as it is there."""
    seen: set[tuple[str, int]] = set()
    for _ in _again(soak, 0.2):
        for path in (soak.folder / "data" / "parts" / "scores").rglob("*.parquet"):
            try:
                if path.name.startswith(".") or (known := (path.name, path.stat().st_mtime_ns)) in seen:
                    continue
                soak.written.update(dict.fromkeys(_rows(path), path.name))
            except FileNotFoundError:  # deleted just now
                continue
            seen.add(known)


def _rows(path: Path) -> list[Row]:
    judge = path.parent.parent.name.removeprefix("judge=")
    table = pq.ParquetFile(path).read(columns=["item_id", "item_key", "judge_key"])
    return [(judge, row["item_id"], row["item_key"], row["judge_key"]) for row in table.to_pylist()]


def _lost(soak: Soak) -> list[str]:
    """Rows that were written and are neither there, nor forgotten, nor of a judge whose parts gc said it deleted."""
    there = {row for path in (soak.folder / "data" / "parts" / "scores").rglob("*.parquet") for row in _rows(path)}
    forgotten = set((soak.notes / "forgotten").read_text().split())
    gc = "\n".join(ended.output for ended in soak.ended if ended.words[0] == "gc")
    collected = set(re.findall(r"parts of (\S+) on one", gc))
    gone = soak.written.keys() - there
    lost = [row for row in gone if row[1] not in forgotten and row[0] not in collected]
    print(
        f"{len(soak.written)} rows were written; {len(gone)} are gone: {sum(row[1] in forgotten for row in gone)} "
        f"forgotten, the others of judges whose parts gc listed ({', '.join(sorted(collected)) or 'none'}); "
        f"{len(lost)} without a reason"
    )
    return [f"lost without a reason: {row}" for row in sorted(lost)]


def _against_a_fresh_one(soak: Soak, fresh: Path) -> list[str]:
    """What the workspace lacks of a fresh one with the same inputs, or has beside it, after one more run of each."""
    for name in ("care.yaml", "one.csv", "judges", "testsets"):
        source, copy = soak.folder / name, fresh / name
        copy.parent.mkdir(exist_ok=True)
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
    forgotten = soak.folder / "data" / "forgotten.jsonl"
    if forgotten.exists():
        (fresh / "data").mkdir()
        shutil.copy(forgotten, fresh / "data")
    soak.care("run")
    Soak(fresh, soak.notes).care("run")
    calm, rough = state_of(fresh), state_of(soak.folder)
    found = compare(_now(calm), _now(rough))
    extra = sorted(set(_current(rough)) - set(_current(calm)))
    changed = [said for said in found.different if said.endswith("says something else")]
    return [
        *(f"lacks {what}" for what in found.lost),
        *(f"is there twice: {what}" for what in found.double),
        *(f"is there and should not: {what}" for what in (*extra, *found.left_behind)),
        *changed,
    ]


def _now(state: State) -> State:
    """Without what tells of the past."""
    return replace(state, files={name: text for name, text in state.files.items() if name not in _HISTORY})


def _current(state: State) -> list[str]:
    return [row for row in state.rows if row.startswith(_CURRENT)]


def _tell(soak: Soak, reader: int) -> None:
    """A line a command."""
    kinds: dict[str, list[Ended]] = {}
    for ended in soak.ended:
        kinds.setdefault(ended.words[0], []).append(ended)
    print(f"{soak.edits} edits; the reader ended with {reader}")
    print("command, times, median s, longest s, waited, ended with a sentence, wrong")
    for kind, all_ in sorted(kinds.items()):
        seconds = [ended.seconds for ended in all_]
        waited = sum("waiting for" in ended.output for ended in all_)
        told, wrong = sum(e.code != 0 and not e.wrong for e in all_), sum(e.wrong for e in all_)
        print(f"{kind}, {len(all_)}, {statistics.median(seconds):.1f}, {max(seconds):.1f}, {waited}, {told}, {wrong}")


if __name__ == "__main__":
    main()
