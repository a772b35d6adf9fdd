"""The scenarios of the soak: a workspace that is as small as possible, and one command on it that is disturbed.

Belongs here: the scenarios, how each is made ready and what it comes to when nothing disturbs it. Belongs elsewhere:
faults.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.soaks.faults.children import care, child, log_of, state
from tests.support.faults import Fault, Point, State, points, settings
from tests.support.workspaces import make, write_items, write_judge

ITEMS = 12
"""Number of items: the fewest with which the aggregators still answer after one item is forgotten."""
JUDGES = ("length", "conciseness", "redundancy")
CARE = "fit: {resamples: 0, aggregators: [care, avg]}\nreview: {hold: false}\n"


@dataclass(frozen=True)
class Scenario:
    """A prepared workspace, the command that is disturbed, and the commands that follow it.

    Attributes
    ----------
    prepare : callable
        Prepares a copy of a workspace after its first night (for the scenario ``fresh``, before it).
    command : tuple of str
        Words of the ``care`` command, without the option for the workspace.
    then : tuple of commands
    """

    prepare: Callable[[Path], None]
    command: tuple[str, ...] = ("run",)
    then: tuple[tuple[str, ...], ...] = ()


def fresh_workspace(folder: Path) -> Path:
    """Make a workspace on which no night has run yet."""
    return make(folder, judges=JUDGES, n=ITEMS, care=CARE)


def _nothing(folder: Path) -> None:
    """Leave the workspace as it is."""


def _judge(folder: Path) -> None:
    write_judge(folder, "thoroughness")


def _item(folder: Path) -> None:
    write_items(folder, ITEMS, edited=3)


def _edition(folder: Path) -> None:
    (folder / "care.yaml").write_text(CARE.replace("[care, avg]", "[care, avg, median]"))


def _old_editions(folder: Path) -> None:
    """Make two editions that are not among the last ten published, and parts of a judge that another one replaced."""
    for change in (_item, _edition):
        change(folder)
        assert care(folder, ("run",)) == 0
    (folder / "judges" / "length.yaml").unlink()
    _judge(folder)
    assert care(folder, ("run",)) == 0
    assert child(lambda: _promote_often(folder), log_of(folder)) == 0


def _promote_often(folder: Path) -> int:
    from assets.publication.editions import promote
    from orchestration.workspace import load_workspace

    workspace = load_workspace(folder)
    edition = workspace.fits.editions("one")[-1]
    for number in range(10):
        promote(workspace, edition, by="promote", why=f"number {number}", pinned=False)
    return 0


GC = ("admin", "gc", "--yes", "--editions", "1", "--months", "0", "--days", "0")
SCENARIOS = {
    "fresh": Scenario(_nothing),
    "judge": Scenario(_judge),
    "item": Scenario(_item),
    "edition": Scenario(_edition),
    "gc": Scenario(_old_editions, GC, (("run",),)),
    "forget": Scenario(_nothing, ("admin", "forget", "i3", "--testset", "one"), (("run",),)),
}


@dataclass(frozen=True)
class Calm:
    """The end of a scenario that nothing disturbs, and the changes that its command makes."""

    state: State
    points: list[Point]


def finish(scenario: Scenario, folder: Path) -> int | None:
    """Run a scenario's command and those that follow; returns the exit code of the first that fails, or 0."""
    for command in (scenario.command, *scenario.then):
        code = care(folder, command)
        if code != 0:
            return code
    return 0


def undisturbed(scenario: Scenario, ready: Path, folder: Path) -> Calm:
    """Run a scenario in a folder of its own, and count the changes that it makes.

    Raises
    ------
    RuntimeError
        The scenario fails although nothing disturbs it.
    """
    calm, notes = shutil.copytree(ready, folder / "calm"), folder / "counted"
    codes = [care(calm, scenario.command, settings(calm, notes, Fault()))]
    codes += [care(calm, command) for command in scenario.then]
    holds = state(calm)
    if any(codes) or not holds.files:
        raise RuntimeError(f"exit codes {codes} undisturbed; {holds.rows[:1]}\n{log_of(calm).read_text()[-2000:]}")
    return Calm(holds, points(notes))


def write_calm(path: Path, calm: Calm) -> None:
    """Write the undisturbed end to a file, so that the next start need not run the scenario again."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(asdict(calm)))
    temporary.replace(path)


def read_calm(path: Path) -> Calm | None:
    """Read the undisturbed end from a file; None if there is no file."""
    if not path.exists():
        return None
    document = json.loads(path.read_text())
    return Calm(State(**document["state"]), [Point(**point) for point in document["points"]])
