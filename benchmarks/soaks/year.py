"""A year of nights in one process: ten test sets, forty judges, sixty nights with a change. ``make soak-year``.

Printed: the time of all nights; by night whether disk or time grow while nothing changes, and, since time is noisy
and all nights share a process here, how many function calls such a night takes, and how much CPU in a process of its
own, at the start and at the end; and whether a database rebuilt from the files equals the one that lived through it.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.stats import linregress

from assets.state.rebuild import rebuild_warehouse
from benchmarks.soaks.team import change, workspace
from orchestration.workspace import load_workspace
from tests.support.workspaces import query, run, score_rows

_TABLES = ("latest_aggregates", "latest_fits", "history", "judge_card", "published")


def main() -> None:
    """Live through the nights; exit 1 where anything is lost, done twice, or grows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--changes", type=int, default=60)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    changed = set(rng.choice(np.arange(1, options.nights), options.changes, replace=False).tolist())
    with tempfile.TemporaryDirectory() as root:
        folder = workspace(Path(root) / "ws", testsets=10, judges=40)
        whole = 0.0
        quiet: list[tuple[int, float, float]] = []
        calls_at_start, alone_at_start = 0, 0.0
        for night in range(options.nights):
            what = change(folder, rng, night) if night in changed else ""
            before = _disk(folder)  # walks every file, of which there are more each time: not a part of the night
            started = time.perf_counter()
            outcome = run(folder)
            seconds = time.perf_counter() - started
            whole += seconds
            if not night:
                calls_at_start, alone_at_start = _calls(folder), _alone(folder)
            assert not outcome.failures, outcome.failures
            if night and not what:
                assert outcome.materialised == [], f"night {night}: nothing changed, and {outcome.materialised} ran"
                quiet.append((night, seconds, _disk(folder) - before))
            elif what or not night:
                print(
                    f"night {night}: {what or 'the first'}: {len(outcome.materialised)} in {seconds:.1f} s", flush=True
                )
        calls_at_end, alone_at_end = _calls(folder), _alone(folder)
        rows = score_rows(folder)
        assert len(rows) == len(set(rows)), "scored twice"
        same = _rebuilt_equals(folder)
        nights, seconds, grown = (np.array(column) for column in zip(*quiet, strict=True))
        slope = linregress(nights, seconds)
        print(
            f"{options.nights} nights in {whole:.0f} s; {len(quiet)} without a change, {np.median(seconds):.2f} s each"
        )
        print(f"time of such a night: slope {1e3 * slope.slope:.2f} +- {2e3 * slope.stderr:.2f} ms a night")
        print(f"calls of such a night: {calls_at_start:,} at the start, {calls_at_end:,} at the end")
        print(f"CPU of such a night by itself: {alone_at_start:.2f} s at the start, {alone_at_end:.2f} s at the end")
        print(f"disk of such a night: {int(grown.sum())} bytes in all, most {int(grown.max())}")
        print(f"{len(rows)} rows of scores, none twice; the database rebuilt from the files: {same or 'DIFFERENT'}")
        print(f"disk at the end: {_disk(folder) / 2**20:.0f} MiB")
    sys.exit(not same)


def _calls(folder: Path) -> int:
    """Function calls of a night without a change: its work, whatever the machine does meanwhile."""
    profile = cProfile.Profile()
    profile.runcall(run, folder)
    return int(pstats.Stats(profile).total_calls)  # pyright: ignore[reportAttributeAccessIssue]


def _alone(folder: Path) -> float:
    """CPU seconds of `care run` with nothing to do, the least of five."""
    seconds: list[float] = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "orchestration.cli", "run", "--workspace", str(folder)],
            check=True,
            capture_output=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def _disk(folder: Path) -> int:
    """Bytes of all files but Dagster's lock files."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock")


def _rebuilt_equals(folder: Path) -> str:
    def read() -> dict[str, list[str]]:
        return {t: sorted(map(repr, query(folder, f"SELECT * FROM {t}"))) for t in _TABLES}

    live = read()
    rebuild_warehouse(load_workspace(folder))
    rebuilt = read()
    for table in _TABLES:
        if live[table] != rebuilt[table]:
            print(f"{table} differs: {set(live[table]) ^ set(rebuilt[table])}"[:2000])
    return "equal" if live == rebuilt else ""


if __name__ == "__main__":
    main()
