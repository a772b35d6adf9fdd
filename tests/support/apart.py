"""Nodes of Ray and workers of Dask as on machines of their own, which share nothing with a workspace but the network.

Each is a process in bubblewrap, with a folder, temporary files, shared memory and process numbers of its own. The rest
of the disk, and so the installation of CARE, is read-only, and one folder, which holds the workspaces, is empty.

Belongs here: starting, looking at and ending such processes. Belongs elsewhere: what is run through them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.support.servers import free_port

ROOT = Path(__file__).parents[2]
_PATIENCE_S = 180.0
_HEALTH = {"RAY_health_check_period_ms": "500", "RAY_health_check_failure_threshold": "4"}
_QUIET = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
_ADDRESSES = ("RAY_ADDRESS", "DASK_SCHEDULER_ADDRESS")


def works() -> bool:
    """Whether bubblewrap can separate processes on this machine."""
    command = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "true"]
    return (
        shutil.which("bwrap") is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def environment() -> dict[str, str]:
    """The environment of a process that finds CARE, and no cluster but the one that it is told."""
    kept = {name: value for name, value in os.environ.items() if name not in _ADDRESSES}
    return {**kept, **_QUIET, "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True)
class Machine:
    """A process that stands for a machine.

    Attributes
    ----------
    folder : Path
        The only one in which it may write; the test sees it too.
    process : Popen
    """

    folder: Path
    process: subprocess.Popen[bytes]

    def log(self) -> str:
        """What it has printed."""
        return self.folder.with_suffix(".log").read_text(encoding="utf-8", errors="replace")

    def titles(self) -> list[str]:
        """The titles of all its processes; an actor's says what it is doing."""
        found: list[str] = []
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                    found.append(" ".join(child.cmdline()).strip())
        return found

    def kill(self) -> None:
        """End it at once with all its processes, as a machine that loses its power."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
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
        """Start a machine that runs one command; its folder lies in the hidden one, where it sees that alone."""
        folder = self.hidden / "machines" / name
        folder.mkdir(parents=True)
        with folder.with_suffix(".log").open("wb") as log:
            process = subprocess.Popen(
                [*self._apart(folder), *command],
                env={**environment(), **more},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        machine = Machine(folder, process)
        self._until_end.callback(machine.kill)
        return machine

    def said(self, name: str, shell: str) -> str:
        """What a command of the shell prints on a machine, errors too."""
        folder = self.hidden / "machines" / name
        folder.mkdir(parents=True, exist_ok=True)
        command = [*self._apart(folder), "sh", "-c", f"({shell}) 2>&1"]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout

    def ray(self) -> tuple[str, list[Machine]]:
        """A Ray cluster of a head and one further node; returns the address for its clients, and both."""
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

    def _apart(self, folder: Path) -> list[str]:
        """The beginning of a command that runs on a machine with this folder."""
        disk = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        disk += ["--tmpfs", str(self.hidden), "--bind", str(folder), str(folder), "--chdir", str(folder)]
        return ["bwrap", *disk, "--unshare-pid", "--die-with-parent"]


def wait_until(done: Callable[[], object], say: Callable[[], str], seconds: float = _PATIENCE_S) -> None:
    """Wait until something has come true; where it does not, the test fails with what ``say`` returns."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, say()
        time.sleep(0.05)
