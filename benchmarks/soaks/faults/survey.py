"""One run of a scenario, stopped at every change that it makes: which states would a kill leave?

A kill leaves what was written and nothing of what was in memory, so a stop, at which the files are read, sees what a
kill would leave. States that are equal to whoever reads the workspace afterwards (``tests.support.logical``) count as
one; the first point of each is kept, and a drawn sample of the others, by which that equality is checked.

Belongs here: the stops. Belongs elsewhere: what a later run makes of a state.
"""

from __future__ import annotations

import json
import os
import random
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.soaks.faults.children import child, ended, start
from tests.support.faults import Fault, Point, aim, counted, open_log, parsed, settings
from tests.support.logical import DAGSTER, Reader, digest_of
from tests.support.snapshots import Snapshots


@dataclass(frozen=True)
class Kept:
    """A point of a run, with the snapshot of the workspace at that point.

    Attributes
    ----------
    number, call, path
        The change before which a kill would come.
    state : str
        Digest of the state that a kill would leave.
    first : bool
        Whether it is the first point with this state; otherwise it belongs to the random sample.
    snapshot : str
    """

    number: int
    call: str
    path: str
    state: str
    first: bool
    snapshot: str


@dataclass(frozen=True)
class Survey:
    """The points of a scenario.

    Attributes
    ----------
    points : int
        Number of changes that the run made.
    stops : int
        Number of changes at which the run was stopped; if two processes write at once, one stop may serve both.
    kept : list of Kept
    """

    points: int
    stops: int
    kept: list[Kept]

    @property
    def states(self) -> int:
        """Number of different states that a kill may leave."""
        return sum(one.first for one in self.kept)


def sample(found: list[Point], size: int, seed: int) -> set[int]:
    """Draw the numbers of points at random, half of them outside Dagster's storage, which has most of the points."""
    chance = random.Random(seed)
    inside = [point.number for point in found if point.path.startswith(DAGSTER)]
    outside = [point.number for point in found if not point.path.startswith(DAGSTER)]
    drawn = chance.sample(outside, min(size // 2, len(outside)))
    return {*drawn, *chance.sample(inside, min(size - len(drawn), len(inside)))}


def make_survey(name: str, command: tuple[str, ...], folder: Path, kept: Path, drawn: set[int]) -> Survey:
    """Run a command on a copy of the scenario's ready workspace and stop at every point.

    This runs in a child process, because reading databases starts threads, which a later fork would not survive.

    Parameters
    ----------
    folder : Path
        Folder for the run and for copies of its databases; it is fastest in memory.
    kept : Path
        Folder of the snapshots, one of which is ``NAME-ready``.
    drawn : set of int
        Numbers of points that are kept even if their state is known already.
    """

    def job() -> int:
        survey = _stopped_everywhere(name, command, folder, Snapshots(kept), drawn)
        temporary = kept / f".{name}.survey.tmp"
        temporary.write_text(json.dumps(asdict(survey)))
        temporary.replace(survey_file(kept, name))
        return 0

    folder.mkdir()
    if child(job, folder / "survey.txt") != 0:
        raise RuntimeError(f"{name} could not be surveyed:\n{(folder / 'survey.txt').read_text()[-2000:]}")
    survey = read_survey(kept, name)
    assert survey is not None
    return survey


def survey_file(kept: Path, name: str) -> Path:
    """Path of the file that holds the survey of a scenario, beside the snapshots."""
    return kept / f"{name}.survey"


def read_survey(kept: Path, name: str) -> Survey | None:
    """The survey of a scenario, or None before there is one."""
    file = survey_file(kept, name)
    if not file.exists():
        return None
    document = json.loads(file.read_text())
    kept_points = [Kept(**entry) for entry in document.pop("kept")]
    return Survey(**document, kept=kept_points)


def _stopped_everywhere(
    name: str, command: tuple[str, ...], folder: Path, snapshots: Snapshots, drawn: set[int]
) -> Survey:
    workspace, notes = snapshots.restore(f"{name}-ready", folder / "rough"), folder / "notes"
    pid = start(workspace, command, settings(workspace, notes, Fault("stop", at=1)))
    reader = Reader(workspace, folder / "scratch")
    states: set[str] = set()
    kept: list[Kept] = []
    since_read: set[str] = set()  # a call is told of before it is made: what it wrote is seen a stop later
    since_kept: set[str] = set()
    stops = 0
    with open_log(notes) as log:
        while (code := ended(pid, stops=True)) is None:
            stops += 1
            new = parsed(log)
            now = {point.path for point in new}
            state = digest_of(reader.read(since_read | now))
            since_kept |= now
            if new and (state not in states or drawn & {point.number for point in new}):
                here = new[-1]
                snapshot = f"{name}-{here.number}"
                snapshots.keep(workspace, snapshot, since_kept)
                kept.append(Kept(here.number, here.call, here.path, state, state not in states, snapshot))
                states.add(state)
                since_kept = set(now)
            since_read = now
            aim(notes, counted(notes) + 1)
            os.killpg(pid, signal.SIGCONT)
    if code != 0:
        raise RuntimeError(f"exit code {code}; stops should not change how a command ends")
    return Survey(counted(notes), stops, kept)
