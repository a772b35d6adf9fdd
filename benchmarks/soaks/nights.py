"""Twenty nights, each a process of its own with a small change: what it leaves open and on disk. ``make soak-nights``.

Printed, by night: descriptors that are open when ``care run`` has ended, processes it has left, its peak memory, and
the disk by kind. Then the slope of each over the nights with its 95 % interval. Descriptors, processes and memory must
not grow; nor may the disk on nights on which nothing changed, of which there are five at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import linregress, t

from benchmarks.soaks.team import change, workspace

_KINDS = {
    "score parts": "parts/scores",
    "item parts": "parts/items",
    "kept fits": "parts/fits",
    "stages of a fit": "fits",
    "database": "care.duckdb",
    "Dagster": "dagster",
    "pages": "report",
}
_FLAT = ("descriptors", "processes left", "peak MiB")
_KIB = 1024.0

Measured = dict[str, float]


def main() -> None:
    """Live through the nights; exit 1 where something grows that must not."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, default=20)
    parser.add_argument("--quiet", type=int, default=5, help="nights without a change that follow")
    parser.add_argument("--night", type=Path, help="live through one night in this process, and print what it leaves")
    options = parser.parse_args()
    if options.night is not None:
        _live(options.night)
        return
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as root:
        folder = workspace(Path(root) / "ws", testsets=2, judges=8)
        _night(folder, "the first")
        nights = [_night(folder, change(folder, rng, night)) for night in range(1, options.nights + 1)]
        quiet = [_night(folder, "nothing") for _ in range(options.quiet)]
    wrong = _slopes(nights)
    grown = {kind: quiet[-1][kind] - quiet[0][kind] for kind in (*_KINDS, "anything else")}
    print(f"on disk after {len(quiet)} nights without a change, KiB more than after the first of them: {grown}")
    sys.exit(bool(wrong) or any(grown.values()))


def _night(folder: Path, what: str) -> Measured:
    """One night in a process of its own; prints its row."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.soaks.nights", "--night", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    said, _ = process.communicate()
    assert process.returncode == 0, f"{what}: the night failed"
    measured: Measured = json.loads(said.splitlines()[-1])
    measured["processes left"] = float(len(_of_session(process.pid)))
    measured |= _disk(folder / "data")
    print(", ".join(f"{name} {value:.0f}" for name, value in measured.items()), f"| {what}", flush=True)
    return measured


def _live(folder: Path) -> None:
    """``care run`` as a person types it, and what this process holds once it has ended."""
    from orchestration.cli.app import app

    assert not app(["run", "--workspace", str(folder)], standalone_mode=False), "care run failed"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB
    descriptors = len(list(Path("/proc/self/fd").iterdir())) - 1  # one is the list itself
    print(json.dumps({"descriptors": descriptors, "peak MiB": peak}))


def _of_session(session: int) -> list[int]:
    """Processes that were started by the leader of a session and still run."""
    living: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == session:
                    living.append(int(entry.name))
            except ProcessLookupError:  # it has ended meanwhile
                continue
    return living


def _disk(data: Path) -> Measured:
    """KiB by kind."""
    sizes = dict.fromkeys((*_KINDS, "anything else"), 0.0)
    for path in data.rglob("*"):
        if path.is_file():
            name = path.relative_to(data).as_posix()
            kind = next((kind for kind, start in _KINDS.items() if name.startswith(start)), "anything else")
            sizes[kind] += path.stat().st_size / _KIB
    return sizes


def _slopes(nights: list[Measured]) -> list[str]:
    """Print how each measure grows a night; returns those that grow and must not."""
    wrong: list[str] = []
    width = float(t.ppf(0.975, len(nights) - 2))
    for name in nights[0]:
        values = [night[name] for night in nights]
        fit = linregress(np.arange(len(nights)), values)
        half = width * fit.stderr if len(set(values)) > 1 else 0.0
        grows = fit.slope - half > 0
        if grows and name in _FLAT:
            wrong.append(name)
        verdict = "GROWS" if name in wrong else "grows" if grows else "flat"
        print(f"{name}: {fit.slope:+.2f} +- {half:.2f} a night, {verdict}")
    return wrong


if __name__ == "__main__":
    main()
