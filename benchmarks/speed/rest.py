"""What the daemon takes while nothing changes: CPU seconds and bytes on disk an hour.

``python -m benchmarks.speed.rest [--judges P] [--testsets T] [--items N] [--minutes M]`` makes a workspace of
recorded judges, brings it up to date with ``care run``, starts the daemon with the settings of a new workspace, lets
it settle, and then looks at it for so many minutes. CPU seconds are those of the daemon, its code server and whatever
they start. Bytes are those by which the workspace's folder grows. Beside it, at the same time, runs Dagster's own
daemon over definitions of nothing, which is what Dagster takes by itself.

Belongs here: a daemon at rest. Belongs elsewhere: what a night takes (``speed.recorded_nights``), exactly what a
daemon runs (``soaks.seven_nights``).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.speed.recorded_nights import Recordings

_SETTLES_S = 180.0
"""Seconds until the daemon has started its code server and each of its parts has looked at the workspace."""


def cpu_seconds(process: psutil.Process) -> float:
    """CPU seconds of a process and all that it has started, those that have ended included."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        times = each.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


def size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@contextmanager
def running(name: str, command: list[str], folder: Path) -> Generator[psutil.Process]:
    """A daemon whose instance, or workspace, is a folder, and whose output is a file beside it."""
    log = folder.with_name(f"{folder.name}.log")
    environment = {**os.environ, "DAGSTER_HOME": str(folder)}
    with log.open("w") as output:
        daemon = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
    try:
        yield psutil.Process(daemon.pid)
        if daemon.poll() is not None:
            sys.exit(f"{name} ended: {log.read_text()[-2000:]}")
    finally:
        if daemon.poll() is None:
            os.killpg(daemon.pid, signal.SIGINT)
        daemon.wait(60)


def at_rest(workspace: Path, nothing: Path, minutes: float) -> dict[str, tuple[float, float]]:
    """CPU seconds and bytes an hour of a daemon over a workspace without work, and of Dagster's over ``nothing``."""
    (nothing / "nothing.py").write_text("import dagster as dg\n\ndefs = dg.Definitions()\n")
    (nothing / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    python = [sys.executable, "-W", "ignore", "-m"]
    ours = [*python, "orchestration.cli", "admin", "daemon", "--workspace", str(workspace)]
    alone = [str(Path(sys.executable).with_name("dagster-daemon")), "run", "-f", str(nothing / "nothing.py")]
    with running("care admin daemon", ours, workspace) as daemon, running("Dagster's daemon", alone, nothing) as empty:
        time.sleep(_SETTLES_S)
        looked_at = {"care admin daemon": (daemon, workspace), "Dagster's over nothing": (empty, nothing)}
        began = time.monotonic()
        before = {name: (cpu_seconds(process), size(folder)) for name, (process, folder) in looked_at.items()}
        time.sleep(60 * minutes)
        hours = (time.monotonic() - began) / 3600
        return {
            name: ((cpu_seconds(process) - before[name][0]) / hours, (size(folder) - before[name][1]) / hours)
            for name, (process, folder) in looked_at.items()
        }


def main() -> None:
    """Print what the daemon takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judges", type=int, default=12)
    parser.add_argument("--testsets", type=int, default=1)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "workspace"
        settings = "review: {hold: false}\nfit: {aggregators: [avg], resamples: 0}"
        Recordings(folder, options.testsets, options.items, settings).write(options.judges)
        run = [sys.executable, "-W", "ignore", "-m", "orchestration.cli", "run", "--workspace", str(folder)]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        nothing = Path(name) / "nothing"
        nothing.mkdir()
        taken = at_rest(folder, nothing, options.minutes)
    print(f"{options.judges} judges x {options.testsets} test sets of {options.items} items, an hour:")
    for daemon, (cpu, grown) in taken.items():
        print(f"  {daemon}: {cpu:.0f} CPU-s ({cpu / 36:.2f} % of a core), {grown / 2**20:.2f} MiB on disk")


if __name__ == "__main__":
    main()
