"""Kill and fail commands at random changes of a workspace and run them again: ``python -m benchmarks.soaks.kills``.

An undisturbed run of each scenario counts the calls by which a command changes a file of the workspace. Each trial
draws one of these calls with the seed; half of the draws are outside Dagster's storage. At this call, the command is
killed, or the disk is full or fails. In two other trials, the disk is read-only or the clock is a day behind. The
command must print an error message. The same command then runs without a fault. Afterwards every file, every row and
Dagster's records must be the same as in an undisturbed workspace.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assets.publication.fit_versions import promote
from orchestration.workspace import load_workspace
from tests.support.faults import Fault, Point, Ran, build, compare, run_under, state_of
from tests.support.workspaces import make, run, write_items, write_judge

ITEMS = 12
"""Number of items: the minimum with which the aggregators have an estimate after one item is removed."""
CARE = "fit: {resamples: 0, aggregators: [care, avg]}\nreview: {hold: false}\n"
DAY_S = 86_400
UNDISTURBED = Fault()
_MESSAGE = re.compile(r"^(error|failed): .", re.MULTILINE)

Command = tuple[str, ...]


@dataclass(frozen=True)
class Scenario:
    """Change of a workspace after its first run, the command that gets a fault, and the commands that follow it."""

    prepare: Callable[[Path], object]
    command: Command = ("run",)
    then: tuple[Command, ...] = ()


def _edit(folder: Path) -> None:
    write_items(folder, ITEMS, edited=3)


def _add_aggregator(folder: Path) -> None:
    (folder / "care.yaml").write_text(CARE.replace("[care, avg]", "[care, avg, median]"))


def _make_old_fits(folder: Path) -> None:
    """Create two fits that are older than the last ten published fits, and parts of a replaced judge."""
    for change in (_edit, _add_aggregator):
        change(folder)
        run(folder)
    (folder / "judges" / "length.yaml").unlink()
    write_judge(folder, "thoroughness")
    run(folder)
    workspace = load_workspace(folder)
    for number in range(10):
        promote(workspace, workspace.fits.fit_versions("one")[-1], by="promote", why=f"number {number}", pinned=False)


GC = ("admin", "gc", "--yes", "--fit-versions", "1", "--days", "0")
SCENARIOS = {
    "first run": Scenario(lambda folder: shutil.rmtree(folder / "data")),
    "judge added": Scenario(lambda folder: write_judge(folder, "thoroughness")),
    "item edited": Scenario(_edit),
    "fit published": Scenario(_add_aggregator),
    "gc": Scenario(_make_old_fits, GC, (("run",),)),
    "forget": Scenario(lambda folder: None, ("admin", "forget", "i3", "--testset", "one"), (("run",),)),
}


def faults(points: Sequence[Point], kills: int, failures: int, seed: int) -> Iterator[tuple[str, Fault]]:
    """Draw the faults, and yield the name and the fault of each trial."""
    chance = random.Random(seed)
    places = [[p for p in points if p.path.startswith("data/dagster/") is inside] for inside in (False, True)]

    def drawn(count: int) -> list[int]:
        return [chance.choice(places[k % 2] or points).number for k in range(count)]

    for at in drawn(kills):
        yield f"kill {at}", Fault("kill", at)
    for errno in ("ENOSPC", "EIO"):
        for on in (False, True):
            for at in drawn(failures):
                name = f"{errno} {'from then on' if on else 'once'} {at}"
                yield name, Fault("fail", at, errno=errno, half=chance.random() < 0.5, from_then_on=on)
    for point in chance.choices([point for point in points if "write" in point.call], k=failures):
        yield f"kill within write {point.number}", Fault("kill", point.number, half=True)
    yield "read-only", Fault("readonly")
    yield "a day back", Fault(clock=-DAY_S)


class Soak:
    """Trials of a scenario: its prepared workspace, and the state in which an undisturbed run ends."""

    def __init__(self, scenario: Scenario, ready: Path, library: Path) -> None:
        self._scenario, self._ready, self._library = scenario, ready, library
        calm = shutil.copytree(ready, ready.with_name("calm"), symlinks=True)
        ran = self._care(calm, scenario.command)
        self.points = ran.points
        for end in (ran, *(self._care(calm, command) for command in scenario.then)):
            if end.code != 0:
                raise RuntimeError(f"the scenario fails without a fault:\n{end.output[-2000:]}")
        self._calm = state_of(calm)

    def attempt(self, fault: Fault) -> list[str]:
        """Run the command with a fault and then without, and return descriptions of all errors."""
        workspace = shutil.copytree(self._ready, self._ready.with_name("rough"), symlinks=True)
        met = self._care(workspace, self._scenario.command, fault)
        wrong = ["a traceback"] if "Traceback (most recent call last)" in met.output else []
        if met.code not in (0, -signal.SIGKILL) and not _MESSAGE.search(met.output):
            wrong.append(f"exit code {met.code} without an error message")
        for command in (self._scenario.command, *self._scenario.then):
            again = self._care(workspace, command)
            if again.code != 0:
                wrong.append(f"exit code {again.code} afterwards: {again.output[-500:]}")
        difference = compare(self._calm, state_of(workspace))
        wrong += [f"{kind}: {row[:160]}" for kind, rows in vars(difference).items() for row in rows[:3]]
        shutil.rmtree(workspace)
        return wrong

    def _care(self, workspace: Path, command: Command, fault: Fault = UNDISTURBED) -> Ran:
        words = [sys.executable, "-W", "ignore", "-m", "orchestration.cli", *command, "--workspace", str(workspace)]
        return run_under(self._library, words, workspace, workspace.with_name("notes"), fault)


def main() -> int:
    """Print the failed trials and a table of all scenarios; return 1 if a trial failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soaks.kills")
    parser.add_argument("--scenario", choices=SCENARIOS, action="append", help="only this scenario; repeatable")
    parser.add_argument("--kills", type=int, default=20, help="number of kills in each scenario")
    parser.add_argument("--failures", type=int, default=2, help="calls of a scenario at which each error is tried")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    bad = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="soak_kills_") as name:
        folder = Path(name)
        library = build(folder)
        ran = make(folder / "ran", judges=("length", "conciseness", "redundancy"), n=ITEMS, care=CARE)
        run(ran)
        print("| scenario | calls that change a file | trials | failed trials |\n|---|---|---|---|")
        for title in given.scenario or SCENARIOS:
            ready = shutil.copytree(ran, folder / title / "ready", symlinks=True)
            SCENARIOS[title].prepare(ready)
            soak, trials = Soak(SCENARIOS[title], ready, library), 0
            for what, fault in faults(soak.points, given.kills, given.failures, given.seed):
                trials += 1
                if wrong := soak.attempt(fault):
                    bad[title] += 1
                    print(f"{title}, {what}: {'; '.join(wrong)}", file=sys.stderr, flush=True)
            print(f"| {title} | {len(soak.points):,} | {trials} | {bad[title]} |", flush=True)
            shutil.rmtree(ready.parent)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
