"""One trial: the next run recovers the state that a kill has left, or a command meets a fault and is run again.

Belongs here: what a trial is, how it is carried out, and its result. Belongs elsewhere: which trials are carried out
and in which order (``benchmarks.soaks.kills``).
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.soaks.faults.children import care, log_of, state
from benchmarks.soaks.faults.scenarios import SCENARIOS, Calm, finish
from benchmarks.soaks.faults.survey import Kept, sample
from tests.support.faults import Fault, compare, settings
from tests.support.snapshots import Snapshots

DAY_S = 86_400
FINDINGS = ("lost", "double", "different", "left_behind")
_TOLD = re.compile(r"^(error|failed): .", re.MULTILINE)
"""Beginning of the sentence in which ``care`` reports an error."""


@dataclass(frozen=True)
class Trial:
    """One disturbance of a scenario that is to be tried.

    Attributes
    ----------
    scenario : str
        Name of the scenario.
    kind : str
        ``kill``, or the fault that occurs while the command runs.
    number : int
        Number of the point; 0 if the fault is present from the start.
    call, path : str
        The system call at the point, and the file that it changes.
    snapshot : str
        Name of the snapshot from which the trial starts.
    state : str
        Digest of the state that a kill leaves; empty for other faults.
    first : bool
        Whether a kill represents its state; otherwise it checks that equal states end alike.
    fault : Fault or None
        The fault to inject; None for a kill.
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
        """Key of the trial in the state file."""
        return self.scenario, self.kind, self.number


@dataclass(frozen=True)
class Result:
    """The result of a trial, which is one line of the state file; the first fields are those of ``Trial``.

    Attributes
    ----------
    version : str
        Version of the code that was run.
    code : int or None
        Exit code of the undisturbed run at the end.
    lost, double, different, left_behind : list of str
        How the workspace differs from an undisturbed one.
    fault_code : int or None
        Exit code of the run that met the fault; None for a kill.
    said : str
        Last line that this run printed; empty for a kill.
    traceback : bool
        Whether this run showed a traceback.
    unsaid : bool
        Whether this run failed without a sentence that says why.
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
        """Differences from an undisturbed workspace, by kind."""
        return {kind: getattr(self, kind) for kind in FINDINGS if getattr(self, kind)}

    @property
    def key(self) -> tuple[str, str, int]:
        """Key of the trial in the state file."""
        return self.scenario, self.kind, self.number

    @property
    def bad(self) -> bool:
        """Whether the trial found any fault in ``care``."""
        return self.code != 0 or bool(self.findings) or self.traceback or self.unsaid

    def text(self) -> str:
        """The result in one line, with the first finding of each kind."""
        words = [f"{kind} {len(rows)}: {rows[0][:160]}" for kind, rows in self.findings.items()]
        words += ["a traceback"] * self.traceback + ["failed without a sentence"] * self.unsaid
        code = "" if self.code == 0 else f" [exit code {self.code}]"
        return (
            f"{self.scenario} {self.kind} {self.number} {self.call} {self.path}:{code} "
            f"{'; '.join(words) or 'as undisturbed'}"
        )


def kills(scenario: str, kept: list[Kept]) -> Iterator[Trial]:
    """One trial for each state that a kill may leave, and one for each point of the random sample."""
    for point in kept:
        yield Trial(scenario, "kill", point.number, point.call, point.path, point.snapshot, point.state, point.first)


def failures(scenario: str, calm: Calm, each: int, seed: int) -> Iterator[Trial]:
    """Trials of faults that do not end the process: some strike at a point, others are present throughout.

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
