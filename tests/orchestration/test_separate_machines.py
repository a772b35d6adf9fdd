"""Tests of the demo on Ray nodes and Dask workers that share no files with the workspace; some are killed.

The addresses in care.yaml connect the machines, which see neither the workspace's folder nor another shared folder. The
results must equal those of one process to the last digit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pytest

from assets.fit.kept import read_moments
from judges import panels
from orchestration.workspace import load_workspace
from tests.support.faults import compare, state_of
from tests.support.servers import free_port, kill, wait_until
from tests.support.workspaces import begins_with, make_programs, query, run, score_rows, summed_by

ROOT = Path(__file__).parents[2]
_HEALTH = {"RAY_health_check_period_ms": "500", "RAY_health_check_failure_threshold": "4"}
_QUIET = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
_ADDRESSES = ("RAY_ADDRESS", "DASK_SCHEDULER_ADDRESS")


def works() -> bool:
    """Return whether bubblewrap can isolate processes on this machine."""
    command = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "true"]
    return (
        shutil.which("bwrap") is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not works(), reason="bubblewrap cannot separate processes on this machine; install it"),
]

ITEMS = 72
PATIENT = ("commas", "figures", "capitals")
"""Judges that are slow programs of the workspace."""

FAST = "fit: {resamples: 0}\nreview: {hold: false}\n"
SPREAD = """
from assets.fit import moments

moments.ROWS_A_SHARD = 5
"""
"""Code that computes moments of the small demo in many blocks."""

FIELDS = ("n", "shift", "count1", "sum1", "count2", "sum2", "partial2", "square2", "count3", "sum3")
SCORES = (
    "SELECT judge, item_id, value, status FROM scores JOIN judges USING (judge_ix) "
    "JOIN items USING (item_ix) ORDER BY ALL"
)
ESTIMATES = "SELECT testset, item_id, aggregator, estimate, sd, p_quality FROM latest_aggregates ORDER BY ALL"

HELD = """
import time
from pathlib import Path

from care_ops.moments import sharded

if not hasattr(sharded, "summed"):  # it may be run more than once
    sharded.summed = sharded.shard_moments


def held(shard, judges, shift):
    state = sharded.summed(shard, judges, shift)
    if isinstance(state, sharded.UnreadableError):
        return state
    Path("held").write_text(f"{shard.start} {shard.part is not None}")
    time.sleep(600)
    return state


sharded.shard_moments = held
"""
"""Code for a Dask worker that reports its first rows, and then never answers."""


def environment() -> dict[str, str]:
    """Return the environment of a process that finds CARE, and no cluster except a named one."""
    kept = {name: value for name, value in os.environ.items() if name not in _ADDRESSES}
    return {**kept, **_QUIET, "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True)
class Machine:
    """Process that represents a machine.

    Attributes
    ----------
    folder : Path
        Only writable folder of the machine; the test sees it too.
    process : Popen
        Process of the machine.
    """

    folder: Path
    process: subprocess.Popen[bytes]

    def log(self) -> str:
        """Return the output of the machine."""
        return self.folder.with_suffix(".log").read_text(encoding="utf-8", errors="replace")

    def titles(self) -> list[str]:
        """Return the titles of its processes; an actor's title states its current work."""
        found: list[str] = []
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                    found.append(" ".join(child.cmdline()).strip())
        return found

    def kill(self) -> None:
        """Kill all its processes at once, as a power failure does."""
        kill(self.process)
        self.process.wait(60)


@dataclass
class Machines:
    """Machines that are ended when the block ends.

    Parameters
    ----------
    hidden : Path
        The folder that is empty on all of them.
    """

    hidden: Path
    _until_end: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *exc: object) -> None:
        self._until_end.close()

    def start(self, name: str, command: Iterable[str], **more: str) -> Machine:
        """Start a machine for one command, with a folder that no other machine sees."""
        folder = self.hidden / "machines" / name
        folder.mkdir(parents=True)
        with folder.with_suffix(".log").open("wb") as log:
            process = subprocess.Popen(
                [*self._isolated(folder), *command],
                env={**environment(), **more},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        machine = Machine(folder, process)
        self._until_end.callback(machine.kill)
        return machine

    def output_of(self, name: str, shell: str) -> str:
        """Run a shell command on a machine, and return its output and errors."""
        folder = self.hidden / "machines" / name
        folder.mkdir(parents=True, exist_ok=True)
        command = [*self._isolated(folder), "sh", "-c", f"({shell}) 2>&1"]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout

    def ray(self) -> tuple[str, list[Machine]]:
        """Start a Ray cluster of a head and a node; return its address for clients, and both machines."""
        port, clients = free_port(), free_port()
        ray = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus=2"]
        ray += ["--node-ip-address=127.0.0.1"]
        served = [f"--port={port}", f"--ray-client-server-port={clients}", "--include-dashboard=false"]
        nodes: list[Machine] = []
        for name, options in (("head", ["--head", *served]), ("node", [f"--address=127.0.0.1:{port}"])):
            nodes.append(self.start(name, [*ray, *options], **_HEALTH))
            wait_until(lambda: "Ray runtime started" in nodes[-1].log(), lambda: nodes[-1].log())
        return f"ray://127.0.0.1:{clients}", nodes

    def dask(self, preload: str = "") -> tuple[str, list[Machine]]:
        """A Dask scheduler and two workers of one thread; returns its address, and the workers.

        Parameters
        ----------
        preload : str, optional
            Source that the first worker runs before it begins.
        """
        dask, address = [sys.executable, "-m", "dask"], f"tcp://127.0.0.1:{free_port()}"
        options = ["--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--no-dashboard"]
        scheduler = self.start("scheduler", [*dask, "scheduler", *options])
        wait_until(lambda: "Scheduler at" in scheduler.log(), scheduler.log)
        workers: list[Machine] = []
        for name, source in (("first", preload), ("second", "")):
            options = ["--nthreads", "1", "--no-dashboard", "--no-nanny", *(["--preload", source] if source else [])]
            workers.append(self.start(name, [*dask, "worker", address, *options]))
            wait_until(lambda: "Registered to" in workers[-1].log(), lambda: workers[-1].log())
        return address, workers

    def _isolated(self, folder: Path) -> list[str]:
        """Return the beginning of a command that runs on a machine with this folder."""
        disk = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        disk += ["--tmpfs", str(self.hidden), "--bind", str(folder), str(folder), "--chdir", str(folder)]
        return ["bwrap", *disk, "--unshare-pid", "--die-with-parent"]


def demo(folder: Path, care: str) -> Path:
    """Create the demo with twelve judges, and three more with programs in the workspace's folder."""
    make_programs(folder, FAST + care, "source: {kind: demo, countries: 6}\nscale: [0, 10]\n")
    (folder / "programs").mkdir()
    for name, counts in zip(PATIENT, ("','.__eq__", "str.isdigit", "str.isupper"), strict=True):
        (folder / "programs" / f"{name}.py").write_text(
            "import time\n\n\ndef program_judge(query, response):\n    time.sleep(0.05)\n"
            f"    return min(10, sum(map({counts}, response)) / 2)\n"
        )
        (folder / "judges" / f"{name}.yaml").write_text(
            f"engine: {{kind: program, file: programs/{name}.py, timeout_s: 30}}\nbatch_size: 4\n"
        )
    return folder


@pytest.fixture(scope="module")
def one_process(tmp_path_factory) -> Path:
    """Run the demo in one process."""
    folder = demo(tmp_path_factory.mktemp("alone") / "ws", "dask: {workers: 0}\njudging: {mode: inline}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assets.fit.moments.ROWS_A_SHARD", 5)
        assert not run(folder).failures
    return folder


@pytest.fixture
def machines(tmp_path):
    """Yield machines that do not see the workspace in ``tmp_path``."""
    with Machines(tmp_path) as machines:
        yield machines


def command(folder: Path) -> subprocess.Popen[str]:
    """Run ``care run`` in the workspace's folder, as a person does."""
    return subprocess.Popen(
        [sys.executable, "-m", "orchestration.cli", "run"],
        cwd=folder,
        env=begins_with(folder.parent / "first", SPREAD, environment()),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def must_be_equal(folder: Path, one_process: Path) -> None:
    """Check that each judge scored each item once, and that all results equal those of one process."""
    judged = Counter((judge, item) for judge, item, _ in score_rows(folder))
    assert set(judged.values()) == {1}
    assert len(judged) == ITEMS * (len(panels.find("demo").programs) + len(PATIENT))
    assert sorted(score_rows(folder)) == sorted(score_rows(one_process))
    assert query(folder, SCORES) == query(one_process, SCORES)
    one, other = (read_moments(load_workspace(f).fit_folder("demo")) for f in (one_process, folder))
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(other, name), getattr(one, name), err_msg=name)
    estimates = query(folder, ESTIMATES)
    assert len(estimates) >= ITEMS
    assert estimates == query(one_process, ESTIMATES)
    assert not compare(state_of(one_process), state_of(folder))


def scoring(machine: Machine) -> bool:
    """Return whether an actor on the machine is scoring a batch."""
    return any(title.startswith("ray::Worker.score") for title in machine.titles())


def test_worker_machines_cannot_read_the_workspace(tmp_path, machines):
    """The other tests depend on this condition."""
    folder = demo(tmp_path / "ws", "{}")
    seen = machines.output_of(
        "curious", f"ls -A {tmp_path} {folder}; touch {ROOT}/new; mkdir {ROOT}/new; pwd; touch own"
    )
    assert "machines" in seen
    assert "No such file or directory" in seen
    assert seen.count("Read-only file system") >= 1
    assert "ws\n" not in seen
    assert str(tmp_path / "machines" / "curious") in seen
    assert (tmp_path / "machines" / "curious" / "own").exists()
    assert not (ROOT / "new").exists()


def demo_on_both(folder: Path, machines: Machines) -> tuple[str, list[Machine]]:
    """Create the demo for a Ray cluster and Dask workers; return Dask's address, and Ray's head and node."""
    ray, nodes = machines.ray()
    dask, _ = machines.dask()
    demo(folder, f"ray: {{address: {ray!r}}}\ndask: {{address: {dask!r}}}\njudging: {{mode: ray, actors: 4}}\n")
    return dask, nodes


def must_end_as_in_one_process(nightly_run: subprocess.Popen[str], folder: Path, dask: str, one_process: Path) -> None:
    output = nightly_run.communicate()[0]
    assert nightly_run.returncode == 0, output
    assert summed_by(folder) == [f"Dask ({dask})"]
    must_be_equal(folder, one_process)


def test_the_demo_on_separate_machines_equals_the_demo_in_one_process(tmp_path, machines, one_process):
    folder = tmp_path / "ws"
    dask, nodes = demo_on_both(folder, machines)
    nightly_run, at_work = command(folder), set[Path]()
    while nightly_run.poll() is None:
        at_work |= {node.folder for node in nodes if scoring(node)}
        time.sleep(0.05)
    assert at_work == {node.folder for node in nodes}
    must_end_as_in_one_process(nightly_run, folder, dask, one_process)


def test_a_killed_node_loses_and_repeats_no_score(tmp_path, machines, one_process):
    folder = tmp_path / "ws"
    dask, (_, node) = demo_on_both(folder, machines)
    nightly_run = command(folder)
    parts = folder / "data" / "parts" / "scores"

    def in_the_middle() -> bool:
        assert nightly_run.poll() is None, nightly_run.communicate()[0]
        begun = [name for name in PATIENT if 0 < len(list(parts.glob(f"judge={name}/**/*.parquet"))) < ITEMS // 8]
        return bool(begun) and scoring(node)

    wait_until(in_the_middle, node.log)
    node.kill()
    must_end_as_in_one_process(nightly_run, folder, dask, one_process)


def test_a_killed_worker_does_not_change_the_moments(tmp_path, machines, one_process):
    dask, (worker, _) = machines.dask(HELD)
    folder = demo(tmp_path / "ws", f"dask: {{address: {dask!r}}}\njudging: {{mode: inline}}\n")
    nightly_run = command(folder)

    def in_the_middle() -> bool:
        assert nightly_run.poll() is None, nightly_run.communicate()[0]
        return (worker.folder / "held").exists()

    wait_until(in_the_middle, worker.log)
    assert (worker.folder / "held").read_text().endswith(" True"), "these rows came as bytes"
    worker.kill()
    must_end_as_in_one_process(nightly_run, folder, dask, one_process)
