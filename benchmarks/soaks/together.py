"""Eight processes at once on one tiny workspace, for ten minutes. ``make soak-together``.

``care run``, ``care status``, the reading commands, ``gc``, ``forget`` and ``accept``, runs as Dagster's daemon starts
them, and a reader of the database (``reading_together``), each again and again, while items and judges
are edited. In the end no score that was ever written may be missing without a reason, none may be there twice, no
command may have ended with anything but success or one clear sentence, and one more ``care run`` must give what a fresh
workspace of the same inputs gives.
"""

from __future__ import annotations

import argparse
import itertools
import json
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

from orchestration.locks import PATIENCE
from tests.support.faults import State, compare, state_of
from tests.support.workspaces import QUICK, make, write_items, write_judge

_CARE = QUICK + "panel: {max_missing: 0.9}\n"
"""A run of Dagster may make a panel before the judges have scored new items, so many scores may be missing."""
_CHAIN = "panel,moments,structure,aggregates,review,evaluation,intervals,systems,factors,report"
_COMING = ("readability", "grade_level")
"""Judges that come and go."""
_FAULTS = re.compile(r"Traceback|Could not set lock|database is locked|has held the warehouse|OperationalError")
_CURRENT = ("testsets:", "items:", "scores:", "slices:", "panels:")
"""Tables that hold the present state and no history."""
_PUBLICATIONS = "parts/fits/testset=one/publications.jsonl"
_HISTORY = ("report/trend.html", "fits/testset=one/review.json", _PUBLICATIONS)
"""Files that hold history."""

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
        """Whether the command showed a traceback or a lock error, or failed without one clear sentence."""
        looks = self.words[:2] in (["fits", "list"], ["fits", "diff"]) or self.words[0] == "report"
        return bool(_FAULTS.search(self.output)) or not (self.code == 0 or (looks and "error:" in self.output))


@dataclass
class SharedSoak:
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
        """Run a command of ``care``."""
        return self._do(list(words), ["orchestration.cli", *words, "--workspace", str(self.folder)])

    def dagster(self, select: str, partition: str | None) -> Ended:
        """Run assets as the daemon does: in a process over the real definitions."""
        words = ["asset", "materialize", "-m", "orchestration.definitions", "--select", select]
        where = ["--partition", partition] if partition is not None else []
        return self._do(["dagster", select], ["dagster", *words, *where])

    def _do(self, words: list[str], module: list[str]) -> Ended:
        home = str(self.folder / "data" / "dagster")  # made by the commands, which read the workspace as it is
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
    """Run the soak and check its result; exit with 1 if a score was lost or written twice, or a command misbehaved."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        soak = SharedSoak(make(Path(root) / "ws", care=_CARE), Path(root) / "notes")
        soak.notes.mkdir()
        (soak.notes / "forgotten").touch()
        reader = _at_once(soak, 60 * options.minutes)
        _tell(soak, reader)
        findings = [*_lost(soak), *_against_a_fresh_one(soak, Path(root) / "fresh")]
        print("\n".join(findings) or "nothing lost, nothing twice; one more run gives what a fresh workspace gives")
    sys.exit(bool(findings) or reader != 0 or any(ended.wrong for ended in soak.ended))


def _at_once(soak: SharedSoak, seconds: float) -> int:
    """Run all threads and the reader for this many seconds; returns the reader's exit code."""
    command = [sys.executable, "-m", "benchmarks.soaks.reading_together", str(soak.folder / "data"), str(soak.notes)]
    reader = subprocess.Popen(command)
    work: list[Callable[[SharedSoak], object]] = [_runs, _states, _looks, _collects, _forgets, _accepts, _daemons]
    threads = [threading.Thread(target=each, args=(soak,)) for each in (*work, _edits, _watches)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    soak.stop.set()
    for thread in threads:
        thread.join()
    (soak.notes / "stop").touch()
    return reader.wait()


def _again(soak: SharedSoak, pause: float) -> Iterator[int]:
    """Count from 0 until the soak is over, with a pause in seconds between two numbers."""
    for number in itertools.count():
        if soak.stop.wait(pause if number else 0):
            return
        yield number


def _runs(soak: SharedSoak) -> None:
    for _ in _again(soak, 0.1):
        soak.care("run")


def _states(soak: SharedSoak) -> None:
    for _ in _again(soak, 2):
        soak.care("status")


def _looks(soak: SharedSoak) -> None:
    for number in _again(soak, 2):
        soak.care(*(("report",), ("fits", "list", "one"), ("fits", "diff", "one"))[number % 3])


def _collects(soak: SharedSoak) -> None:
    for _ in _again(soak, 5):
        soak.care("admin", "gc", "--yes", "--editions", "2", "--months", "0", "--days", "0")


def _forgets(soak: SharedSoak) -> None:
    for number in _again(soak, 25):
        if number:
            item = f"i{number}"
            soak.care("admin", "forget", item, "--testset", "one")
            with (soak.notes / "forgotten").open("a") as file:
                file.write(f"{item}\n")


def _accepts(soak: SharedSoak) -> None:
    for number in _again(soak, 15):
        if number:
            soak.care("fits", "accept", "one", "--why", "looked at")


def _daemons(soak: SharedSoak) -> None:
    chosen = (("items,gold", "one"), ("judge_inference", "length"), ("scores", "length|one"), (_CHAIN, "one"))
    for number in _again(soak, 1):
        if (soak.folder / "data" / "fits" / "testset=one" / "fit.json").exists():  # there are partitions by then
            soak.dagster(*chosen[number % len(chosen)])


def _edits(soak: SharedSoak) -> None:
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


def _watches(soak: SharedSoak) -> None:
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


def _lost(soak: SharedSoak) -> list[str]:
    """Rows that were written and are missing, although neither ``forget`` nor ``gc`` has removed them."""
    kept = {row for path in (soak.folder / "data" / "parts" / "scores").rglob("*.parquet") for row in _rows(path)}
    forgotten = set((soak.notes / "forgotten").read_text().split())
    gc = "\n".join(ended.output for ended in soak.ended if ended.words[:2] == ["admin", "gc"])
    collected = set(re.findall(r"parts of (\S+) on one", gc))
    missing = soak.written.keys() - kept
    lost = [row for row in missing if row[1] not in forgotten and row[0] not in collected]
    print(
        f"{len(soak.written)} rows were written; {len(missing)} are missing: "
        f"{sum(row[1] in forgotten for row in missing)} forgotten, the others of judges "
        f"whose parts gc listed ({', '.join(sorted(collected)) or 'none'}); "
        f"{len(lost)} without a reason"
    )
    return [f"lost without a reason: {row}" for row in sorted(lost)]


def _against_a_fresh_one(soak: SharedSoak, fresh: Path) -> list[str]:
    """How the workspace differs from a fresh one with the same inputs, after one more run of each.

    A page says what has changed since the edition that was published before, which a fresh workspace does not have; so
    the pages that are compared are drawn after all fits and publications but the last are forgotten.
    """
    for name in ("care.yaml", "one.csv", "judges", "testsets"):
        source, copy = soak.folder / name, fresh / name
        copy.parent.mkdir(exist_ok=True)
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
    forgotten = soak.folder / "data" / "forgotten.jsonl"
    if forgotten.exists():
        (fresh / "data").mkdir()
        shutil.copy(forgotten, fresh / "data")
    soak.care("run")
    publications = soak.folder / "data" / _PUBLICATIONS
    last = publications.read_text().splitlines(keepends=True)[-1]
    publications.write_text(last)
    for path in publications.parent.glob("*=*"):  # the index has a mark for each fit, published or not
        if json.loads(last)["edition"] not in path.name:
            path.unlink()
    shutil.rmtree(soak.folder / "data" / "report")
    soak.care("run")
    SharedSoak(fresh, soak.notes).care("run")
    expected, actual = state_of(fresh), state_of(soak.folder)
    difference = compare(_now(expected), _now(actual))
    extra = sorted(set(_current(actual)) - set(_current(expected)))
    changed = [finding for finding in difference.different if finding.endswith("says something else")]
    return [
        *(f"lacks {row}" for row in difference.lost),
        *(f"is there twice: {row}" for row in difference.double),
        *(f"is there and should not: {row}" for row in (*extra, *difference.left_behind)),
        *changed,
    ]


def _now(state: State) -> State:
    """The state without the files that hold history."""
    return replace(state, files={name: text for name, text in state.files.items() if name not in _HISTORY})


def _current(state: State) -> list[str]:
    return [row for row in state.rows if row.startswith(_CURRENT)]


def _tell(soak: SharedSoak, reader: int) -> None:
    """Print one line for each command."""
    kinds: dict[str, list[Ended]] = {}
    for ended in soak.ended:
        kinds.setdefault(ended.words[0], []).append(ended)
    print(f"{soak.edits} edits; the reader ended with {reader}")
    print("command, times, median s, longest s, waited, ended with a sentence, wrong")
    for kind, all_ in sorted(kinds.items()):
        seconds = [ended.seconds for ended in all_]
        waited = sum("waiting for" in ended.output for ended in all_)
        sentences, wrong = sum(e.code != 0 and not e.wrong for e in all_), sum(e.wrong for e in all_)
        print(
            f"{kind}, {len(all_)}, {statistics.median(seconds):.1f}, {max(seconds):.1f}, {waited}, {sentences}, {wrong}"
        )


if __name__ == "__main__":
    main()
