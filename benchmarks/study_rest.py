"""What the daemon takes while nothing changes: CPU seconds and bytes on disk an hour.

``python -m benchmarks.study_rest [--judges P] [--testsets T] [--items N] [--minutes M]`` makes a workspace of recorded
judges, brings it up to date with ``care run``, starts ``care daemon`` with the settings of a new workspace, lets it
settle, and then looks at it for so many minutes. CPU seconds are those of the daemon, its code server and whatever they
start. Bytes are those by which the workspace's folder grows.

Belongs here: a daemon at rest. Belongs elsewhere: what a night takes (``study_recorded_nights``), exactly what a daemon
runs (``verify_nights``).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.study_recorded_nights import Recordings

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


def at_rest(folder: Path, minutes: float) -> tuple[float, float]:
    """CPU seconds and bytes an hour of a daemon over a workspace in which nothing is to be done."""
    command = [sys.executable, "-W", "ignore", "-m", "orchestration.cli", "daemon", "--workspace", str(folder)]
    with (folder.parent / "daemon.log").open("w") as log:
        daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        time.sleep(_SETTLES_S)
        process = psutil.Process(daemon.pid)
        began, cpu, on_disk = time.monotonic(), cpu_seconds(process), size(folder)
        time.sleep(60 * minutes)
        if daemon.poll() is not None:
            sys.exit(f"the daemon ended: {(folder.parent / 'daemon.log').read_text()[-2000:]}")
        hours = (time.monotonic() - began) / 3600
        return (cpu_seconds(process) - cpu) / hours, (size(folder) - on_disk) / hours
    finally:
        if daemon.poll() is None:
            os.killpg(daemon.pid, signal.SIGINT)
        daemon.wait(60)


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
        cpu, grown = at_rest(folder, options.minutes)
    panel = f"{options.judges} judges x {options.testsets} test sets of {options.items} items"
    print(f"{panel}: {cpu:.0f} CPU-s an hour ({cpu / 36:.2f} % of a core), {grown / 2**20:.2f} MiB an hour on disk")


if __name__ == "__main__":
    main()
