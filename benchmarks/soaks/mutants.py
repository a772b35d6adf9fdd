"""Measure how many mutants of the code the tests kill.

``python -m benchmarks.soaks.mutants [--count N] [--seed N] [--again]``

A *mutant* is the code with one small change: another comparison or operator, a negated condition, a number increased by
one, a removed statement or a removed return value. A mutant is *killed* if a test that passes without the change fails
or does not end. Mutants are drawn with a seed, equally many from each stratum, and run in a copy of the repository. The
fast tests that cover the mutant's line run against it, the shortest first, up to a time limit. Results are stored in
``build/mutants``, and the next call continues; ``--again`` runs tests written since then against the survivors. Figures
are written to ``benchmarks/results/mutants.md``; ``benchmarks/soaks/mutants.yaml`` has a person's judgements of the
survivors. Texts, annotations, decorators, raised errors, log messages and imports are never changed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.mutants import STRATA, Mutant, candidates_of, draw, ending_of

ROOT = Path(__file__).parents[2]

KEPT = ROOT / "build" / "mutants"

RESULTS = ROOT / "benchmarks" / "results" / "mutants.md"

JUDGED = Path(__file__).with_name("mutants.yaml")

TESTS = (
    "tests/care_ops/test_*.py",
    *(f"tests/warehouse/test_{name}.py" for name in ("item_texts", "storage", "store")),
)

TESTS_S, MIN_S = 30.0, 120.0
"""Seconds of tests for a mutant, measured under coverage; its time limit is ``MIN_S`` plus four times these seconds."""

_FILES_AT_ONCE = 8
"""Number of test files whose coverage is measured between two writes of the results."""

_LIBRARIES = (
    *("numpy", "scipy.optimize", "scipy.stats", "scipy.sparse.linalg", "pyarrow.parquet", "pyarrow.csv"),
    *("pyarrow.compute", "pyarrow.dataset", "duckdb", "hypothesis", "sklearn.linear_model", "pandas", "alembic.script"),
    *("pydantic", "jinja2", "threadpoolctl", "cvxpy", "tensorly", "httpx", "typer.testing", "rich.progress"),
)
"""Slow imports of the tests, which are imported before the first test."""


def main() -> None:
    """Draw mutants, test those without a result, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=44)
    parser.add_argument("--minutes", type=float, default=math.inf, help="report the results after these minutes")
    parser.add_argument("--again", action="store_true", help="test the survivors again")
    given = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    candidates = {stratum: list(candidates_of(stratum)) for stratum in STRATA}
    drawn = draw(candidates, given.count, given.seed)
    for library in _LIBRARIES:
        with suppress(ModuleNotFoundError):
            importlib.import_module(library)
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        tree = copied(Path(folder))
        covered = kept_map()["tests"] if given.again else cover(tree)
        new = new_tests(tree, covered) if given.again else []
        found, judged, until = known(), judgements(), time.monotonic() + 60 * given.minutes
        for number, mutant in enumerate(drawn, start=1):
            once_more = given.again and not judged.get(mutant.name, "").startswith("equivalent")
            if time.monotonic() > until:
                break
            if (once_more and found.get(mutant.key) == "survived") or (mutant.key not in found and not given.again):
                found[mutant.key] = ending = walk(mutant, tree, covered, new)
                with (KEPT / "found.jsonl").open("a") as file:
                    file.write(json.dumps([mutant.key, ending]) + "\n")
                print(f"{number}/{len(drawn)} {ending}: {mutant.file}:{mutant.lines[0]} {mutant.name}", flush=True)
    RESULTS.write_text(report(candidates, drawn, found, given.seed))
    print(RESULTS.read_text())


def known() -> dict[str, str]:
    """Return earlier results, keyed by the mutants' keys; the last result of a mutant counts."""
    path = KEPT / "found.jsonl"
    return dict(map(json.loads, path.read_text().splitlines())) if path.exists() else {}


def judgements() -> dict[str, str]:
    """Return a person's judgements of survivors, keyed by the mutants' names."""
    return (yaml.safe_load(JUDGED.read_text()) or {}) if JUDGED.exists() else {}


def copied(folder: Path) -> Path:
    """Copy the repository's files, including untracked files, and return the copy."""
    named = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(named, cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, done.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def cover(tree: Path) -> dict[str, dict[str, Any]]:
    """Return, for each test function, its seconds and the lines that it covers by file.

    Only test files that have changed since their last measurement are run. Failing tests are left out.
    """
    hashes = {str(p.relative_to(tree)): _hash(p) for pattern in TESTS for p in sorted(tree.glob(pattern))}
    kept: dict[str, dict[str, Any]] = kept_map()
    stale = [name for name, content in hashes.items() if kept["hashes"].get(name) != content]
    for files in (stale[k : k + _FILES_AT_ONCE] for k in range(0, len(stale), _FILES_AT_ONCE)):
        tests = {name: what for name, what in kept["tests"].items() if name.partition("::")[0] not in files}
        tests |= _covered_now(tree, files)
        kept = {"hashes": kept["hashes"] | {name: hashes[name] for name in files}, "tests": tests}
        (KEPT / "covered.json").write_text(json.dumps(kept))
    return {name: what for name, what in kept["tests"].items() if name.partition("::")[0] in hashes}


def kept_map() -> dict[str, dict[str, Any]]:
    """Return the stored coverage: ``hashes`` of the test files, and ``tests`` with covered lines."""
    path = KEPT / "covered.json"
    return json.loads(path.read_text()) if path.exists() else {"hashes": {}, "tests": {}}


def new_tests(tree: Path, covered: Mapping[str, object]) -> list[str]:
    """Return the test functions that have no stored coverage."""
    found = list[str]()
    for path in sorted(path for pattern in TESTS for path in tree.glob(pattern)):
        functions = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        found += [f"{path.relative_to(tree)}::{name}" for name in functions if name.startswith("test_")]
    old = {name.partition("::")[0] for name in covered}
    return [name for name in found if name not in covered and name.partition("::")[0] in old]


def _covered_now(tree: Path, files: Sequence[str]) -> dict[str, dict[str, object]]:
    data, log = KEPT / "coverage", KEPT / "seconds.jsonl"
    data.unlink(missing_ok=True)
    log.write_text("")
    command = [sys.executable, "-m", "coverage", "run", f"--data-file={data}", "--source=care_ops,warehouse"]
    command += ["-m", "pytest", "-q", "-m", "not slow", "-p", "benchmarks.soaks.mutants", "-p", "no:xdist", *files]
    subprocess.run(command, cwd=tree, env={**os.environ, "CARE_MUTANTS_LOG": str(log)}, check=False)
    return _walked(tree, data, log)


def _walked(tree: Path, data: Path, log: Path) -> dict[str, dict[str, object]]:
    """Return seconds and covered lines of each test function that passed."""
    from coverage import CoverageData

    seconds, failed = Counter[str](), set[str]()
    for name, took, passed in map(json.loads, log.read_text().splitlines()):
        seconds[name] += took
        failed |= set() if passed else {name}
    read = CoverageData(str(data))
    read.read()
    lines: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for path in read.measured_files():
        for line, contexts in read.contexts_by_lineno(path).items():
            for context in contexts:
                lines[context][str(Path(path).relative_to(tree))].append(line)
    whole: dict[str, dict[str, object]] = {}
    for name in seconds:
        if name not in failed:
            mine, of_file = lines[name], lines[name.partition("::")[0]]
            walked = {path: sorted({*mine.get(path, []), *of_file.get(path, [])}) for path in {*mine, *of_file}}
            whole[name] = {"seconds": seconds[name], "lines": walked}
    return whole


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record lines that fixtures cover for the test file, because several tests may share a fixture."""
    _switch(item.nodeid.partition("::")[0])


def pytest_runtest_call(item: pytest.Item) -> None:
    _switch(item.nodeid.partition("[")[0])


def _switch(context: str) -> None:
    import coverage

    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context(context)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    with Path(os.environ["CARE_MUTANTS_LOG"]).open("a") as file:
        passed = report.outcome != "failed"
        file.write(json.dumps([report.nodeid.partition("[")[0], report.duration, passed]) + "\n")


def chosen(mutant: Mutant, covered: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Choose the tests that cover a mutant's line, the shortest first.

    If no test covers the line, as in compiled code, choose those of its function, else of its file, else of its folder.
    """

    def walking(name: str, first: int, last: int) -> bool:
        return any(first <= line <= last for line in covered[name]["lines"].get(mutant.file, ()))  # type: ignore[attr-defined]

    def in_folder(name: str) -> bool:
        return any(Path(path).parent == Path(mutant.file).parent for path in covered[name]["lines"])  # type: ignore[attr-defined]

    tests = [name for name in covered if walking(name, *mutant.lines)]
    tests = tests or [name for name in covered if mutant.within != (0, 0) and walking(name, *mutant.within)]
    tests = tests or [name for name in covered if mutant.file in covered[name]["lines"]]  # type: ignore[operator]
    tests = tests or [name for name in covered if in_folder(name)]
    stem = Path(mutant.file).stem
    own = [name for name in tests if stem in Path(name.partition("::")[0]).stem]
    meets, total = list[str](), 0.0
    for name in sorted(tests, key=lambda name: (name not in own, covered[name]["seconds"])):
        total += float(covered[name]["seconds"])  # type: ignore[arg-type]
        if total > TESTS_S and meets:
            break
        meets.append(name)
    return meets


def walk(mutant: Mutant, tree: Path, covered: Mapping[str, Mapping[str, object]], new: Sequence[str] = ()) -> str:
    """Run a mutant against the tests that cover its line, and return how the mutant ended.

    If there are ``new`` tests, run only these: those whose file names the mutant's module or, without such, all.
    """
    named = [name for name in new if Path(mutant.file).stem in (tree / name.partition("::")[0]).read_text()]
    tests = named or new or chosen(mutant, covered)
    seconds = sum(float(covered[name]["seconds"]) for name in tests if name in covered)  # type: ignore[arg-type]
    return ending_of(mutant, tree, tests, MIN_S + 4 * seconds) if tests else "survived"


def report(
    candidates: Mapping[str, Sequence[Mutant]], drawn: Sequence[Mutant], found: Mapping[str, str], seed: int
) -> str:
    """Return the report in Markdown; mutants without a result are only counted."""
    judged, asked = judgements(), len(drawn)
    drawn = [mutant for mutant in drawn if mutant.key in found]
    rows = [_row(s, len(candidates[s]), [m for m in drawn if m.stratum == s], found, judged) for s in STRATA]
    rows.append(_row("all", sum(map(len, candidates.values())), drawn, found, judged))
    survivors = [mutant for mutant in drawn if found[mutant.key] == "survived"]
    lines = [
        f"- {m.file}:{m.lines[0]}, {m.name.partition(' ')[2]}. *{judged.get(m.name, 'not judged')}*" for m in survivors
    ]
    return "\n".join(
        [
            "# Mutants",
            "",
            f"`make mutants` (seed {seed}, {time.strftime('%Y-%m-%d')}) tested {len(drawn)} of {asked} mutants. A "
            "mutant is the code with one small mistake. The fast tests that cover its line run against it, for at most "
            f"{TESTS_S:.0f} s. A mutant is *equivalent* if a person judges that no test can detect it.",
            "",
            "| stratum | places | mutants | killed | of these by timeout | survivors | equivalent | killed, % | "
            "killed without equivalent mutants, % |",
            "|---|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            "## Survivors and judgements",
            "",
            *sorted(lines),
            "",
        ]
    )


def _row(
    stratum: str, places: int, mutants: Sequence[Mutant], found: Mapping[str, str], judged: Mapping[str, str]
) -> str:
    endings = Counter(found[mutant.key] for mutant in mutants)
    survived, late = endings["survived"], endings["did not end"]
    killed = len(mutants) - survived
    alive = [mutant for mutant in mutants if found[mutant.key] == "survived"]
    same = sum(judged.get(mutant.name, "").startswith("equivalent") for mutant in alive)
    shares = f"{100 * killed / len(mutants):.0f} | {100 * killed / max(len(mutants) - same, 1):.0f}"
    return f"| {stratum} | {places:,} | {len(mutants)} | {killed} | {late} | {survived} | {same} | {shares} |"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
