"""Fuzz all functions that read input.

``python -m benchmarks.soaks.fuzz [MINUTES] [--seed N] [--target NAME] [--out FILE]``

A case is a finding if it raises an error that is not CARE's own, takes more than ten CPU seconds or two gigabytes, or
ends the process. A case is determined by seed, target and number; ``--target NAME --case K`` repeats a case.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LONGEST_S, MOST_BYTES, ADDRESSES = 10, 2 * 2**30, 6 * 2**30
ROOT = Path(__file__).parents[2]
_AT_ONCE = 100
_OURS = ("care_eval", "care_ops", "judges", "warehouse", "assets", "orchestration")


def main() -> None:
    """Fuzz for the given minutes and print the findings; exit with 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append")
    parser.add_argument("--case", type=int)
    parser.add_argument("--out", type=Path, help="Markdown file for the figures")
    parser.add_argument("--worker", nargs=2, type=int, metavar=("FIRST", "COUNT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        _work(given.target[0], given.seed, *given.worker)
        return
    if given.case is not None:
        with tempfile.TemporaryDirectory() as folder:
            from tests.support.fuzz_targets import try_case

            print(try_case(given.target[0], given.seed, given.case, _inside(folder)))
        return
    tried, spent, findings = fuzz(60 * given.minutes, given.seed, given.target)
    if given.out is not None:
        before = given.out.read_text() if given.out.exists() else ""
        given.out.write_text(report(before, tried, spent, findings, given.seed))
    print(f"{sum(tried.values()):,} cases: {', '.join(f'{target} {count:,}' for target, count in tried.items())}")
    for (target, what), cases in sorted(findings.items()):
        print(f"{target} x{len(cases)} (case {cases[0]}): {what}")
    print(f"{len(findings)} findings")
    sys.exit(1 if findings else 0)


def report(
    before: str, tried: dict[str, int], spent: dict[str, float], findings: dict[tuple[str, str], list[int]], seed: int
) -> str:
    """Return the table of cases and the findings in Markdown; a target that was not tried keeps its row."""
    rows = {line.split("|")[1].strip(): line for line in before.splitlines() if line.count("|") == 7}
    found, today = Counter(target for target, _ in findings), time.strftime("%Y-%m-%d")
    for target, count in tried.items():
        rows[target] = f"| {target} | {today} | {seed} | {spent[target] / 60:.1f} | {count:,} | {found[target]} |"
    lines = [f"- {name}, case {cases[0]} and {len(cases) - 1} more: {what}" for (name, what), cases in findings.items()]
    head = (
        "`make fuzz` gives each target the same time. A case passes if it returns a value or an error of one sentence "
        "of at most 400 characters, within 10 s and 2 GB, and if the process survives."
    )
    for title in ("target", "---"):
        rows.pop(title, None)
    table = ["| target | date | seed | minutes | cases | findings |", "|---|---|---|---|---|---|", *rows.values()]
    return "\n".join(["# Fuzzing", "", head, "", *table, "", *lines, ""][: None if lines else -1])


def fuzz(
    seconds: float, seed: int, targets: list[str] | None = None
) -> tuple[dict[str, int], dict[str, float], dict[tuple[str, str], list[int]]]:
    """Fuzz the targets for ``seconds`` in total, each target for the same time.

    Returns the number of cases and the seconds of each target, and the cases of each finding.
    """
    from tests.support.fuzz_targets import AT_ONCE, TARGETS

    names = targets or list(TARGETS)
    tried, spent = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    findings: dict[tuple[str, str], list[int]] = {}
    while sum(spent.values()) < seconds or not all(tried.values()):
        target, began = min(names, key=lambda name: spent[name]), time.monotonic()
        for case, what in _cases(target, seed, tried[target], AT_ONCE.get(target, _AT_ONCE)):
            tried[target] = case + 1
            if what is not None:
                findings.setdefault((target, what), []).append(case)
        spent[target] += time.monotonic() - began
    return tried, spent, findings


def _cases(target: str, seed: int, first: int, count: int) -> Iterator[tuple[int, str | None]]:
    """Run successive cases in another process; yield each case and its finding until the process ends."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.soaks.fuzz", "--target", target, "--seed", str(seed)]
    process = subprocess.run(
        [*command, "--worker", str(first), str(count)], cwd=ROOT, capture_output=True, check=False, timeout=1800
    )
    lines: list[dict[str, Any]] = [json.loads(line[1:]) for line in process.stdout.splitlines() if line[:1] == b"\x1e"]
    begun = [line["case"] for line in lines if "what" not in line]
    ended = {line["case"]: line["what"] for line in lines if "what" in line}
    if not begun:
        raise RuntimeError(process.stderr.decode(errors="replace")[-2000:])
    for case in begun:
        if case in ended:
            yield case, ended[case]
        else:
            name = signal.Signals(-process.returncode).name if process.returncode < 0 else f"exit {process.returncode}"
            late = name in ("SIGALRM", "SIGPROF")
            yield case, f"took more than {LONGEST_S} s" if late else f"ended the process ({name})"


def _work(target: str, seed: int, first: int, count: int) -> None:
    """Run cases in this process; an alarm ends the process if a case takes too long."""
    from tests.support.fuzz_targets import try_case

    output = sys.stdout
    sys.stdout = sys.stderr
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def emit(**line: Any) -> None:
        output.write("\x1e" + json.dumps(line) + "\n")
        output.flush()

    for case in range(first, first + count):
        emit(case=case)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        what: str | None = None
        with tempfile.TemporaryDirectory() as folder:
            home = _inside(folder)
            _limit_time(LONGEST_S if case > first else 3 * LONGEST_S)  # the first one imports
            try:
                try_case(target, seed, case, home)
            except BaseException as error:  # noqa: BLE001
                what = _described(error)
            _limit_time(0)
        grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        emit(case=case, what=what or (f"took {grown >> 20} MB of memory" if grown > MOST_BYTES else None))


def _limit_time(seconds: float) -> None:
    """End the process after these CPU seconds, or after these seconds times the load by the clock; 0: no limit."""
    shared = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * shared)


def _inside(folder: str) -> Path:
    """Enter a deep folder, which a random path such as ``../..`` cannot leave, and return it."""
    home = Path(folder, "some", "where", "inside")
    home.mkdir(parents=True)
    os.chdir(home)
    return home


def _described(error: BaseException) -> str:
    """Describe a finding by the class of its error and the last line in CARE's code."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_ours(frame.filename)]
    place = f"{Path(frames[-1].filename).relative_to(ROOT)}:{frames[-1].lineno}" if frames else "?"
    message = str(error) if type(error).__name__ == "FindingError" else ""
    return f"{type(error).__name__} at {place} {message[:90]!r}"


def _is_ours(filename: str) -> bool:
    path = Path(filename)
    return path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in _OURS


if __name__ == "__main__":
    main()
