"""One disturbance and what became of it: a kill's state recovered, or a command that met a fault and was run again.

Belongs here: what is tried, how, and what is written down of it. Does not: which are tried and in which order
(``benchmarks.soak_faults``).
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.faults.children import care, log_of, state
from benchmarks.faults.scenarios import SCENARIOS, Calm, finish
from benchmarks.faults.survey import Kept, sample
from tests.support.faults import Fault, compare, settings
from tests.support.snapshots import Snapshots

DAY_S = 86_400
FINDINGS = ("lost", "double", "different", "left_behind")
_TOLD = re.compile(r"^(error|failed): .", re.MULTILINE)
"""How ``care`` begins a sentence about what went wrong."""


@dataclass(frozen=True)
class Trial:
    """Something to be tried.

    Attributes
    ----------
    scenario, kind : str
        The kind is "kill", or what goes wrong while the command runs.
    number : int
        The point; 0 where the fault is there from the start.
    call, path : str
        Of the point.
    snapshot : str
        Where it starts.
    state : str
        Of a kill: digest of what it leaves.
    first : bool
        Of a kill: whether it stands for its state, and not for a check that equal states end alike.
    fault : Fault or None
    """

    scenario: str
    kind: str
    number: int
    call: str
    path: str
    snapshot: str
    state: str = ""
    first: bool = True
    fault: Fault | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """What it is known by in the state file."""
        return self.scenario, self.kind, self.number


@dataclass(frozen=True)
class Result:
    """What came out; a line of the state file.

    Attributes
    ----------
    version : str
        Of the code that was run.
    code : int or None
        Of the undisturbed run at the end.
    fault_code : int or None
        Of the run that met the fault; None for a kill.
    said : str
        What that run said last; for a kill empty.
    traceback, unsaid : bool
        Whether that run showed one; whether it failed, and was not killed, without a sentence.
    """

    scenario: str
    kind: str
    number: int
    call: str
    path: str
    state: str
    first: bool
    version: str
    code: int | None
    lost: list[str]
    double: list[str]
    different: list[str]
    left_behind: list[str]
    fault_code: int | None = None
    said: str = ""
    traceback: bool = False
    unsaid: bool = False

    @property
    def findings(self) -> dict[str, list[str]]:
        """What is not as in an undisturbed workspace, by kind."""
        return {kind: getattr(self, kind) for kind in FINDINGS if getattr(self, kind)}

    @property
    def key(self) -> tuple[str, str, int]:
        """What it is known by in the state file."""
        return self.scenario, self.kind, self.number

    @property
    def bad(self) -> bool:
        """Whether anything is not as it should be."""
        return self.code != 0 or bool(self.findings) or self.traceback or self.unsaid

    def text(self) -> str:
        """In one line, with the first of each kind of finding."""
        words = [f"{kind} {len(what)}: {what[0][:160]}" for kind, what in self.findings.items()]
        words += ["a traceback"] * self.traceback + ["failed without a sentence"] * self.unsaid
        code = "" if self.code == 0 else f" [exit code {self.code}]"
        return (
            f"{self.scenario} {self.kind} {self.number} {self.call} {self.path}:{code} "
            f"{'; '.join(words) or 'as undisturbed'}"
        )


def kills(scenario: str, kept: list[Kept]) -> Iterator[Trial]:
    """One trial for each state, and for each of the sample."""
    for one in kept:
        yield Trial(scenario, "kill", one.number, one.call, one.path, one.snapshot, one.state, one.first)


def failures(scenario: str, calm: Calm, each: int, seed: int) -> Iterator[Trial]:
    """Faults while the command runs: at points of it, and such as are there throughout.

    Parameters
    ----------
    each : int
        Points at which a full and a broken disk, once or from then on, and a kill in the middle of a write are tried.
    """
    ready = f"{scenario}-ready"
    chance = random.Random(seed)
    by_number = {point.number: point for point in calm.points}
    for errno in ("ENOSPC", "EIO"):
        for on in (False, True):
            kind = f"{errno} {'from then on' if on else 'once'}"
            for number in sorted(sample(calm.points, each, chance.randrange(1 << 30))):
                fault = Fault("fail", number, errno=errno, half=chance.random() < 0.5, from_then_on=on)
                point = by_number[number]
                yield Trial(scenario, kind, number, point.call, point.path, ready, fault=fault)
    writes = [point for point in calm.points if "write" in point.call]
    for number in sorted(sample(writes, each, chance.randrange(1 << 30))):
        point = by_number[number]
        fault = Fault("kill", number, half=True)
        yield Trial(scenario, "kill within a write", number, point.call, point.path, ready, fault=fault)
    yield Trial(scenario, "read-only", 0, "", "", ready, fault=Fault("readonly"))
    yield Trial(scenario, "a day back", 0, "", "", ready, fault=Fault(clock=-DAY_S))


def attempt(trial: Trial, snapshots: Snapshots, calm: Calm, folder: Path, version: str) -> Result:
    """Try one thing in a folder of its own, which is removed afterwards."""
    folder.mkdir()
    scenario = SCENARIOS[trial.scenario]
    workspace = snapshots.restore(trial.snapshot, folder / "rough")
    met: dict[str, Any] = {}
    if trial.fault is not None:
        code = care(workspace, scenario.command, settings(workspace, folder / "notes", trial.fault))
        printed = log_of(workspace).read_text(errors="replace")
        met = {
            "fault_code": code,
            "said": next((line for line in reversed(printed.splitlines()) if line.strip()), "")[:300],
            "traceback": "Traceback (most recent call last)" in printed,
            "unsaid": code is not None and code > 0 and not _TOLD.search(printed),
        }
    code = finish(scenario, workspace)
    found = asdict(compare(calm.state, state(workspace)))
    about = (trial.scenario, trial.kind, trial.number, trial.call, trial.path, trial.state, trial.first)
    result = Result(*about, version, code, **found, **met)
    if result.bad:
        snapshots.note(f"{trial.scenario}-{trial.number}-{trial.kind}", log_of(workspace))
    shutil.rmtree(folder)
    return result
