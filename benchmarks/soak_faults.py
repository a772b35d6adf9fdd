"""A kill at every kind of moment, and what the next run makes of it. ``python -m benchmarks.soak_faults``.

A workspace as small as may be goes through one command (a first night, a judge more, an item edited, another edition
published, ``care gc``, ``care forget``). Every change that the command makes to a file below it is a point at which a
kill may come. At chosen points the whole process group is stopped and the workspace copied: a copy has what a kill
would leave, since what was written stays and what is in memory is not copied. (``--kill`` kills instead, once a
point, from the start.) The copy then gets the same command again, undisturbed, and must end as an undisturbed one.

Points are many and most alike: a class is a call, a path without hashes, digits and names of judges and, for the
databases, what was last finished before. A few of each class are tried outside Dagster's own storage, a sample
within it; the table says how many points there are and how many were tried. Commands run in children of this
process, which has imported all that they need, on a copy of the code: somebody may edit it meanwhile.

Belongs here: scenarios, choice of points, the table. Does not: the library and the comparison
(``tests.support.faults``).
"""

from __future__ import annotations

import argparse
import atexit
import ctypes
import hashlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support.faults import Difference, Fault, Point, State, aim, build, compare, points, settings, state_of
from tests.support.workspaces import make, write_items, write_judge

ITEMS = 12
"""As many as the aggregators need to answer, also after one is forgotten."""
JUDGES = ("length", "conciseness", "redundancy")
CARE = "fit: {resamples: 0, aggregators: [care, avg]}\nreview: {hold: false}\n"
PACKAGES = ("orchestration", "assets", "warehouse", "judges", "care_ops", "tests/support", "benchmarks")
IMPORTED = """orchestration.cli.app orchestration.definitions orchestration.runner assets.state.retention
assets.report.gather assets.report.page assets.publication.editions care_ops.fit care_ops.frozen duckdb
pyarrow.parquet numpy scipy.stats scipy.optimize plotly.graph_objects jinja2""".split()
_CODE = "SOAK_FAULTS_CODE"
_HASHED = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}|(?<=compute_logs/)\w+|(?<=judge=)\w+|\d+")
"""What of a path does not matter for its class: run ids, hashes, names that Dagster draws, which judge, digits."""
_FINISHING = {"rename", "remove", "unlink"}


@dataclass(frozen=True)
class Scenario:
    """A prepared workspace, the command that is killed, and what follows when it has been run to its end.

    Attributes
    ----------
    prepare : callable
        Given a workspace after a good night (``fresh``: before it), makes it ready.
    command : tuple of str
        Of ``care``, without the workspace.
    then : tuple of commands
    """

    prepare: Callable[[Path], None]
    command: tuple[str, ...] = ("run",)
    then: tuple[tuple[str, ...], ...] = ()


def _nothing(folder: Path) -> None:
    """The workspace is ready as it is."""


def _judge(folder: Path) -> None:
    write_judge(folder, "thoroughness")


def _item(folder: Path) -> None:
    write_items(folder, ITEMS, edited=3)


def _edition(folder: Path) -> None:
    (folder / "care.yaml").write_text(CARE.replace("[care, avg]", "[care, avg, median]"))


def _old_editions(folder: Path) -> None:
    """Two editions that the last ten publications do not name, and the parts of a judge that is gone."""
    for change in (_item, _edition):
        change(folder)
        assert care(folder, ("run",)) == 0
    (folder / "judges" / "length.yaml").unlink()
    assert care(folder, ("run",)) == 0
    assert child(lambda: _promote_often(folder), folder.parent / "prepared.txt") == 0


def _promote_often(folder: Path) -> int:
    from assets.publication.editions import promote
    from orchestration.workspace import load_workspace

    workspace = load_workspace(folder)
    edition = workspace.fits.editions("one")[-1]
    for number in range(10):
        promote(workspace, edition, by="promote", why=f"number {number}", pinned=False)
    return 0


GC = ("gc", "--yes", "--editions", "1", "--months", "0", "--days", "0")
SCENARIOS = {
    "fresh": Scenario(_nothing),
    "judge": Scenario(_judge),
    "item": Scenario(_item),
    "edition": Scenario(_edition),
    "gc": Scenario(_old_editions, GC, (("run",),)),
    "forget": Scenario(_nothing, ("forget", "i3", "--testset", "one"), (("run",),)),
}


def fork(job: Callable[[], int], log: Path, environment: dict[str, str] | None = None) -> int:
    """Start a job in a child in a process group of its own; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        with log.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.environ.update(environment or {})
        ctypes.CDLL(None).faults_arm()
        code = job()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the parent's own clean-up is not the child's
    raise AssertionError


def ended(pid: int, *, stops: bool = False) -> int | None:
    """Wait for a child; its exit code (minus a signal's number), or None where it was stopped."""
    _, status = os.waitpid(pid, os.WUNTRACED if stops else 0)
    return None if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)


def child(job: Callable[[], int], log: Path, environment: dict[str, str] | None = None) -> int | None:
    """Run a job in a child to its end."""
    return ended(fork(job, log, environment))


def start(folder: Path, command: tuple[str, ...], environment: dict[str, str] | None = None) -> int:
    """Start a command of ``care`` in a child; returns its id."""

    def job() -> int:
        from orchestration.cli.app import app

        app([*command, "--workspace", str(folder)], standalone_mode=True)
        return 0

    return fork(job, folder.parent / f"{folder.name}.txt", environment)


def care(folder: Path, command: tuple[str, ...], environment: dict[str, str] | None = None) -> int | None:
    """Run a command of ``care`` to its end."""
    return ended(start(folder, command, environment))


def state(folder: Path) -> State:
    """What a workspace holds, read in a child: database and Arrow start threads, which a fork would not survive.

    One that cannot be read holds that it cannot.
    """
    out = folder.parent / f"{folder.name}.json"

    def job() -> int:
        out.write_text(json.dumps(asdict(state_of(folder))))
        return 0

    log = folder.parent / f"{folder.name}.txt"
    if child(job, log) != 0:
        return State(rows=[f"the workspace cannot be read: {log.read_text().strip().splitlines()[-1]}"])
    return State(**json.loads(out.read_text()))


def kinds(found: list[Point]) -> list[str]:
    """The class of each point."""
    stage, out = "", []
    for point in found:
        path = _HASHED.sub("#", point.path)
        database = path.startswith("data/dagster/") or ".duckdb" in path
        out.append(f"{point.call} {path}" + (f" after {stage}" if database else ""))
        if not database and point.call in _FINISHING:
            stage = path
    return out


def within(point: Point) -> bool:
    """Whether a point lies in Dagster's own storage."""
    return point.path.startswith("data/dagster/")


def chosen(found: list[Point], given: argparse.Namespace) -> list[int]:
    """Numbers of the points to be tried, rising: some of each class, and a sample of Dagster's."""
    chance = random.Random(given.seed)
    classes: dict[str, list[int]] = defaultdict(list)
    inside: list[int] = []
    for point, kind in zip(found, kinds(found), strict=True):
        if given.match in kind:
            (inside if within(point) else classes[kind]).append(point.number)
    if given.all:
        return sorted([*inside, *(n for numbers in classes.values() for n in numbers)])
    outside = [n for numbers in classes.values() for n in chance.sample(numbers, min(given.each, len(numbers)))]
    return sorted([*sorted(outside)[:: given.every], *chance.sample(inside, min(given.dagster, len(inside)))])


@dataclass(frozen=True)
class Tried:
    """One point and what came out; a line of the state file."""

    scenario: str
    number: int
    call: str
    path: str
    code: int | None
    lost: list[str]
    double: list[str]
    different: list[str]
    left_behind: list[str]


class Soak:
    """One scenario's workspaces in a folder."""

    def __init__(self, folder: Path, night: Path, name: str) -> None:
        self.folder, self.name, self.scenario = folder, name, SCENARIOS[name]
        folder.mkdir()
        self.ready = folder / "ready"
        shutil.copytree(night, self.ready)
        self.scenario.prepare(self.ready)
        self.calm = self._undisturbed()

    def _copy(self, name: str) -> Path:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return shutil.copytree(self.ready, self.folder / name)

    def _undisturbed(self) -> State:
        calm, notes = self._copy("calm"), self.folder / "counted"
        code = care(calm, self.scenario.command, settings(calm, notes, Fault()))
        codes = [code, *(care(calm, command) for command in self.scenario.then)]
        if any(codes):
            raise RuntimeError(f"{self.name} failed undisturbed:\n{(self.folder / 'calm.txt').read_text()[-2000:]}")
        self.found = points(notes)
        read = state(calm)
        if not read.files:
            raise RuntimeError(f"{self.name}: {read.rows}")
        return read

    def _check(self, folder: Path, point: Point) -> Tried:
        """Run the same again in what a kill left, and compare."""
        code = care(folder, self.scenario.command)
        for command in self.scenario.then:
            code = care(folder, command) or code
        found: Difference = compare(self.calm, state(folder))
        return Tried(self.name, point.number, point.call, point.path, code, **asdict(found))

    def by_stopping(self, numbers: list[int]) -> Iterator[Tried]:
        """Copy one run's workspace at each point."""
        rough, notes = self._copy("rough"), self.folder / "stopped"
        if not numbers:
            return
        pid = start(rough, self.scenario.command, settings(rough, notes, Fault("stop", at=numbers[0])))
        try:
            for number, after in zip(numbers, [*numbers[1:], 0], strict=True):
                if ended(pid, stops=True) is not None:
                    pid = 0
                    return  # this run made fewer changes than the one that was counted
                photo = shutil.copytree(rough, self.folder / "photo")
                yield self._check(photo, _numbered(points(notes), number))
                shutil.rmtree(photo)
                (self.folder / "photo.txt").unlink()
                aim(notes, after)
                os.killpg(pid, signal.SIGCONT)
            ended(pid)
            pid = 0
        finally:
            if pid:
                os.killpg(pid, signal.SIGKILL)
                ended(pid)

    def by_killing(self, numbers: list[int]) -> Iterator[Tried]:
        """Run from the start to each point."""
        for number in numbers:
            rough, notes = self._copy("killed"), self.folder / "notes"
            if care(rough, self.scenario.command, settings(rough, notes, Fault("kill", at=number))) == -signal.SIGKILL:
                yield self._check(rough, _numbered(points(notes), number))


def _numbered(found: list[Point], number: int) -> Point:
    return {point.number: point for point in found}[number]


def say(tried: Tried) -> str:
    """A point in one line, with the first of each kind of finding."""
    found = {
        kind: getattr(tried, kind) for kind in ("lost", "double", "different", "left_behind") if getattr(tried, kind)
    }
    words = "; ".join(f"{kind} {len(what)}: {what[0][:160]}" for kind, what in found.items())
    code = "" if tried.code == 0 else f" [exit code {tried.code}]"
    return f"{tried.scenario} {tried.number} {tried.call} {tried.path}:{code} {words or 'as undisturbed'}"


def table(there: dict[str, int], tried: list[Tried]) -> str:
    """Points there are and were tried, and at how many of them something was wrong."""
    columns = ("scenario", "points", "tried", "failed", "lost", "double", "different", "left behind")
    lines = ["  ".join(f"{c:>11}" for c in columns)]
    for name, total in there.items():
        mine = [t for t in tried if t.scenario == name]
        wrong = [sum(bool(getattr(t, kind)) for t in mine) for kind in ("lost", "double", "different", "left_behind")]
        cells = (name, total, len(mine), sum(t.code != 0 for t in mine), *wrong)
        lines.append("  ".join(f"{c:>11}" for c in cells))
    return "\n".join(lines)


def read(file: Path, code: str) -> tuple[dict[str, int], list[Tried]]:
    """What was counted and tried before, with this code."""
    there: dict[str, int] = {}
    tried: list[Tried] = []
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if lines and lines[0]["code"] != code:
        raise SystemExit(f"{file} is of another version of the code; name another file")
    if not lines:
        append(file, {"code": code})
    for line in lines[1:]:
        if "points" in line:
            there[line["scenario"]] = line["points"]
        else:
            tried.append(Tried(**line))
    return there, tried


def append(file: Path, line: dict[str, Any]) -> None:
    """Add a line to the state file."""
    with file.open("a") as out:
        out.write(json.dumps(line) + "\n")


def again_under_the_library(folder: Path) -> None:
    """Turn this process into one with the library loaded, on a copy of the code."""
    source, copy = Path(__file__).parent.parent, folder / "code"
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
    # As a file, not as a module: the folder that this was started in would come before the copy.
    this = copy / "benchmarks" / "soak_faults.py"
    arguments = [sys.executable, str(this), *sys.argv[1:], "--folder", str(folder)]
    os.execve(sys.executable, arguments, environment)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak_faults")
    parser.add_argument("--scenario", choices=SCENARIOS, action="append", help="only this; may be given several times")
    parser.add_argument("--each", type=int, default=2, help="points tried of each class outside Dagster's storage")
    parser.add_argument("--dagster", type=int, default=20, help="points tried within Dagster's storage")
    parser.add_argument("--every", type=int, default=1, help="of the points outside it only every so many-th")
    parser.add_argument("--match", default="", help="only points whose call and path, without digits, have this")
    parser.add_argument("--all", action="store_true", help="every point: days")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kill", action="store_true", help="kill at each point instead of copying at a stop")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long; go on with --state")
    parser.add_argument("--state", type=Path, help="file that gets a line a point, to go on from")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.scenario = given.scenario or list(SCENARIOS)
    given.state = given.state and given.state.absolute()
    return given


def soak(given: argparse.Namespace) -> tuple[dict[str, int], list[Tried]]:
    """Try the chosen points of the chosen scenarios."""
    until = time.monotonic() + given.minutes * 60
    folder = given.folder.resolve()
    file = given.state or folder / "state.jsonl"
    there, tried = read(file, os.environ[_CODE])
    for module in IMPORTED:
        importlib.import_module(module)
    fresh = make(folder / "fresh", judges=JUDGES, n=ITEMS, care=CARE)
    night = shutil.copytree(fresh, folder / "night")
    for name in given.scenario:
        if name != "fresh" and not (night / "data").exists() and care(night, ("run",)) != 0:
            raise RuntimeError((folder / "night.txt").read_text()[-2000:])
        this = Soak(folder / f"of-{name}", fresh if name == "fresh" else night, name)
        there[name] = len(this.found)
        append(file, {"scenario": name, "points": len(this.found)})
        numbers = sorted(set(chosen(this.found, given)) - {t.number for t in tried if t.scenario == name})
        print(
            f"{name}: {len(this.found)} points, {len(set(kinds(this.found)))} classes, {len(numbers)} to try",
            flush=True,
        )
        for one in (this.by_killing if given.kill else this.by_stopping)(numbers):
            tried.append(one)
            append(file, asdict(one))
            print(f"{time.strftime('%H:%M:%S')} {say(one)}", flush=True)
            if time.monotonic() > until:
                return there, tried
    return there, tried


def main() -> int:
    """Print the table; 1 where a point did not end as undisturbed."""
    given = arguments()
    if _CODE not in os.environ or given.folder is None:
        again_under_the_library(Path(tempfile.mkdtemp(prefix="soak_faults_")))
    try:
        there, tried = soak(given)
    finally:
        shutil.rmtree(given.folder, ignore_errors=True)
    bad = [t for t in tried if t.code != 0 or t.lost or t.double or t.different or t.left_behind]
    print("\n".join(["", *(say(t) for t in bad[:12]), "", table(there, tried)]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
