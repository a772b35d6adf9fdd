"""A kill at every change of a workspace, and what the next run makes of it. ``python -m benchmarks.soaks.kills``.

A workspace as small as may be goes through one command (a first night, a judge more, an item edited, another edition
published, ``gc``, ``forget``). Every call by which the command changes a file below it is a point at which a kill may
come. One run is stopped at each of them, which shows what a kill would leave there; states that are equal to
whoever reads the workspace afterwards are tried once: the same command runs again, undisturbed, and must end as if
nothing had happened. A sample of points whose states are called equal is tried too. Faults that do not end a process (a
full disk, a broken one, one that is read-only, a clock set back) are tried at a sample of points: the command must say
in a sentence what is wrong, and once the fault is over one more run must end as undisturbed.

The state file gets a line for each trial; the states themselves lie in a folder beside it, so that a soak that was
stopped goes on without making them again. With other code it begins anew. Commands run in children of this process,
which has imported all that they need, on a copy of the code: somebody may edit it meanwhile.

Belongs here: the command line, the order of trials, the state file, the tables. Belongs elsewhere: the parts
(``benchmarks.soaks.faults``), the library and the comparison (``tests.support.faults``).
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.soaks.faults.children import fork, import_what_a_run_imports, log_of
from benchmarks.soaks.faults.scenarios import SCENARIOS, Calm, fresh_workspace, read_calm, undisturbed, write_calm
from benchmarks.soaks.faults.survey import Survey, make_survey, read_survey, sample
from benchmarks.soaks.faults.trials import FINDINGS, Result, Trial, attempt, failures, kills
from tests.support.faults import build
from tests.support.snapshots import Snapshots

PACKAGES = ("orchestration", "assets", "warehouse", "judges", "care_ops", "tests/support", "benchmarks")
_MEMORY = Path("/dev/shm")
_CODE = "SOAK_FAULTS_CODE"
_DRAWN = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}|(?<=judge=)\w+|\d+")
"""Parts of a path that do not distinguish kinds of files: run ids, hashes, numbers and names of judges."""


class FaultSoak:
    """The scenarios' surveys and undisturbed ends, and trials of them.

    Parameters
    ----------
    folder : Path
        Folder for workspaces, which is removed at the end.
    kept : Path
        Folder for snapshots, surveys and undisturbed ends, which the next start uses again.
    """

    def __init__(self, folder: Path, kept: Path, given: argparse.Namespace) -> None:
        self._folder, self._kept, self._given = folder, kept, given
        self._version = os.environ[_CODE]
        self._snapshots = Snapshots(kept)
        self._calm: dict[str, Calm] = {}
        self.surveys: dict[str, Survey] = {}
        self._fresh = fresh_workspace(folder / "fresh")
        self._night = shutil.copytree(self._fresh, folder / "night")
        import_what_a_run_imports(folder, self._night)

    def trials(self, name: str) -> list[Trial]:
        """All trials of a scenario; the scenario is surveyed first if it has not been yet."""
        folder = self._folder / f"of-{name}"
        folder.mkdir()
        calm_file = self._kept / f"{name}.calm"
        calm = read_calm(calm_file)
        if calm is None:
            calm = undisturbed(SCENARIOS[name], self._ready(name, folder), folder)
            write_calm(calm_file, calm)
        self._calm[name] = calm
        trials: list[Trial] = []
        if self._given.only != "failures":
            survey = read_survey(self._kept, name)
            if survey is None:
                drawn = sample(calm.points, self._given.sample, self._given.seed)
                command = SCENARIOS[name].command
                survey = make_survey(name, command, folder / "survey", self._kept, drawn)
            self.surveys[name] = survey
            trials += kills(name, survey.kept)
        if self._given.only != "kills":
            trials += failures(name, calm, self._given.failures, self._given.seed)
        shutil.rmtree(folder)
        return trials

    def _ready(self, name: str, folder: Path) -> Path:
        ready = folder / "ready"
        if self._snapshots.has(f"{name}-ready"):
            return self._snapshots.restore(f"{name}-ready", ready)
        shutil.copytree(self._fresh if name == "fresh" else self._night, ready)
        SCENARIOS[name].prepare(ready)
        self._snapshots.keep(ready, f"{name}-ready")
        return ready

    def results(self, trials: Sequence[Trial], until: float) -> Iterator[Result]:
        """Run the trials, several at a time, until the moment ``until``."""
        waiting, running = list(trials)[::-1], dict[int, tuple[Trial, Path]]()
        while running or (waiting and time.monotonic() < until):
            while waiting and len(running) < self._given.jobs and time.monotonic() < until:
                trial = waiting.pop()
                out = self._folder / f"trial-{len(waiting)}.json"
                running[fork(self._job(trial, out), log_of(out))] = (trial, out)
            pid, status = os.wait()
            trial, out = running.pop(pid)
            if status != 0:
                raise RuntimeError(f"{trial.key} could not be tried:\n{log_of(out).read_text()[-2000:]}")
            yield Result(**json.loads(out.read_text()))
            out.unlink()
            log_of(out).unlink()

    def _job(self, trial: Trial, out: Path) -> Callable[[], int]:
        def job() -> int:
            calm, folder = self._calm[trial.scenario], out.with_suffix("")
            out.write_text(json.dumps(asdict(attempt(trial, self._snapshots, calm, folder, self._version))))
            return 0

        return job


def in_turn(trials: dict[str, list[Trial]], seed: int) -> list[Trial]:
    """Order the trials of all scenarios so that a soak that is stopped early has tried every kind.

    The first trial of each kind comes first, then the second of each, and so on. A kind is a scenario, a fault, a call
    and a path without ids and hashes; the order within a kind is random.
    """
    all_trials = [trial for of_scenario in trials.values() for trial in of_scenario]
    random.Random(seed).shuffle(all_trials)
    so_far: Counter[tuple[str, ...]] = Counter()
    turns: list[tuple[int, Trial]] = []
    for trial in all_trials:
        kind = (trial.scenario, trial.kind, trial.call, _DRAWN.sub("#", trial.path))
        turns.append((so_far[kind], trial))
        so_far[kind] += 1
    return [trial for _, trial in sorted(turns, key=lambda turn: turn[0])]


def kill_table(surveys: dict[str, Survey], results: Iterable[Result]) -> str:
    """Table of points, states and results of the kills; empty if nothing was surveyed."""
    if not surveys:
        return ""
    columns = ("scenario", "points", "states", "tried", "equal, tried", "failed", *FINDINGS)
    rows: list[tuple[Any, ...]] = []
    kill_results = [result for result in results if result.kind == "kill"]
    for name, survey in surveys.items():
        of_scenario = [result for result in kill_results if result.scenario == name]
        first = [result for result in of_scenario if result.first]
        counts = (survey.points, survey.states, len(first), len(of_scenario) - len(first), *_wrong(of_scenario))
        rows.append((name, *counts))
    rows.append(("all", *(sum(column) for column in zip(*(counts for _, *counts in rows), strict=True))))
    return _table(columns, rows)


def failure_table(results: Iterable[Result]) -> str:
    """Table of the results of faults other than kills; empty if none was tried."""
    columns = ("fault", "tried", "failed then", "tracebacks", "unsaid", "failed after", *FINDINGS)
    by_kind: dict[str, list[Result]] = {}
    for result in results:
        if result.kind != "kill":
            by_kind.setdefault(result.kind, []).append(result)
    rows = [
        (
            kind,
            len(mine),
            sum(result.fault_code != 0 for result in mine),
            sum(result.traceback for result in mine),
            sum(result.unsaid for result in mine),
            *_wrong(mine),
        )
        for kind, mine in sorted(by_kind.items())
    ]
    return _table(columns, rows) if rows else ""


def _wrong(results: Sequence[Result]) -> list[int]:
    by_kind = [sum(kind in result.findings for result in results) for kind in FINDINGS]
    return [sum(result.code != 0 for result in results), *by_kind]


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    width = max(map(len, columns))
    head, *rest = (
        ("".join(f"{cell!s:>{width + 2}}" for cell in row)) for row in ([c.replace("_", " ") for c in columns], *rows)
    )
    return "\n".join([head, *rest])


def read_state(file: Path) -> dict[tuple[str, str, int], Result]:
    """Results of earlier trials of the same code, by key."""
    lines = file.read_text().splitlines() if file.exists() else []
    results = [Result(**json.loads(line)) for line in lines]
    return {result.key: result for result in results if result.version == os.environ[_CODE]}


def append(file: Path, line: dict[str, Any]) -> None:
    """Add a line to the state file."""
    with file.open("a") as out:
        out.write(json.dumps(line) + "\n")


def again_under_the_library(folder: Path) -> None:
    """Replace this process by one that has the fault library loaded and runs a copy of the code."""
    source, copy = Path(__file__).parents[2], folder / "code"
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(source / package, copy / package, ignore=ignored)
    (copy / "tests" / "__init__.py").touch()
    digest = hashlib.sha256()
    for path in sorted(copy.rglob("*.py")):
        if path.relative_to(copy).parts[0] not in ("tests", "benchmarks"):
            digest.update(path.read_bytes())
    environment = {
        **os.environ,
        "LD_PRELOAD": str(build(folder)),
        "PYTHONPATH": str(copy),
        "PYTHONWARNINGS": "ignore",
        "OPENBLAS_NUM_THREADS": "1",
        _CODE: digest.hexdigest()[:16],
    }
    # Run the file and not the module, because ``-m`` would put the current folder before the copy.
    this = copy / "benchmarks" / "soaks" / "kills.py"
    arguments = [sys.executable, str(this), *sys.argv[1:], "--folder", str(folder)]
    os.execve(sys.executable, arguments, environment)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soaks.kills")
    parser.add_argument("--scenario", choices=SCENARIOS, action="append", help="only this; may be given several times")
    parser.add_argument("--sample", type=int, default=20, help="points of a scenario tried although their state was")
    parser.add_argument("--failures", type=int, default=3, help="points of a scenario at which each failure is tried")
    parser.add_argument("--only", choices=("kills", "failures"), help="only these trials")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="trials at once")
    parser.add_argument("--trials", type=int, default=sys.maxsize, help="stop after so many; the next start goes on")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long; the next start goes on")
    parser.add_argument("--state", type=Path, default=Path("build/soak-faults.jsonl"), help="file to go on from")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.scenario = given.scenario or list(SCENARIOS)
    given.state = given.state.absolute()
    return given


def soak(given: argparse.Namespace) -> tuple[dict[str, Survey], list[Result]]:
    """Survey the chosen scenarios and run the trials that have no result yet."""
    until = time.monotonic() + given.minutes * 60
    kept = given.state.with_suffix(".states") / os.environ[_CODE]
    done = read_state(given.state)
    this = FaultSoak(given.folder.resolve(), kept, given)
    trials: dict[str, list[Trial]] = {}
    for name in given.scenario:
        started = time.monotonic()
        trials[name] = [trial for trial in this.trials(name) if trial.key not in done]
        survey = this.surveys.get(name)
        states = f"{survey.points} points, {survey.stops} stops, {survey.states} states, " if survey else ""
        print(f"{name}: {states}{len(trials[name])} to try ({time.monotonic() - started:.0f} s)", flush=True)
    for result in this.results(in_turn(trials, given.seed)[: given.trials], until):
        done[result.key] = result
        append(given.state, asdict(result))
        print(f"{time.strftime('%H:%M:%S')} {result.text()}", flush=True)
    return this.surveys, list(done.values())


def main() -> int:
    """Print the tables; returns 1 if a trial did not end like an undisturbed run."""
    given = arguments()
    if _CODE not in os.environ:
        memory = _MEMORY if _MEMORY.is_dir() else None
        again_under_the_library(Path(tempfile.mkdtemp(prefix="soak_faults_", dir=memory)))
    try:
        surveys, results = soak(given)
    finally:
        shutil.rmtree(given.folder, ignore_errors=True)
    results = [result for result in results if result.scenario in given.scenario]
    bad = [result for result in results if result.bad]
    worst = "\n".join(result.text() for result in bad[:12])
    tables = [kill_table(surveys, results), failure_table(results)]
    gc.unfreeze()  # otherwise the interpreter warns at exit that frozen objects were not collected
    print("", *(part for part in (worst, *tables) if part), sep="\n\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
