"""Run ten nightly runs on PostgreSQL, kill the daemon in each, and compare with an undisturbed workspace.

``make soak-postgres``, or ``python -m benchmarks.soaks.postgres [--seed N]``.

The deployment is that of ``deploy/`` without containers: a PostgreSQL server, the unchanged ``deploy/dagster.yaml``,
and processes for the code server and the daemon. Each nightly run begins with a change of the workspace: items, labels,
judges, settings and test sets are added, edited or removed. The daemon and its child processes then get SIGKILL at a
random time, drawn with the seed, while a run usually has work to do. The daemon starts again after up to ten seconds. A
nightly run is over when no partition has been missing and no run in progress for some seconds.

The undisturbed workspace (the twin) gets the same changes, and ``care run`` after each change, without a daemon and
without PostgreSQL. After each nightly run, the two workspaces must have the same rows of scores (none lost, none
duplicated), the same tables of items, scores and panels, the same published estimates, weights and evaluations, and the
same verdicts. No run may remain in progress.

For each nightly run, the command prints the change, the time of the kill, the runs in progress and the missing
partitions at that time, the duration, and the differences of the workspaces. It exits with 1 if there is a difference.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from orchestration.instance import unfinished_runs, workspace_instance
from orchestration.plan import find_stale
from orchestration.workspace import load_workspace
from tests.support.deployed import Deployment, postgres, postgres_binaries
from tests.support.servers import kill
from tests.support.workspaces import make, query, score_rows, write_items, write_judge, write_testset

_JUDGES = ("length", "conciseness", "redundancy", "question_coverage")
_ITEMS = 30
_FIT = "fit: {{resamples: 0, aggregators: [{}]}}\nreview: {{hold: false}}\non_change: true\n"
_CODE = "orchestration.definitions"
_EARLIEST_S, _LATEST_S, _LONGEST_AWAY_S = 1.0, 40.0, 10.0
_QUIET_S = 10.0
_LONGEST_NIGHT_S = 1_800.0

_PUBLISHED = {
    "items": "SELECT * EXCLUDE (item_ix) FROM items",
    "scores": "SELECT judge, testset, item_id, value, status FROM scores JOIN judges USING (judge_ix) "
    "JOIN items USING (item_ix)",
    "panels": "SELECT * FROM panels",
    "estimates": "SELECT testset, item_id, aggregator, estimate, sd, p_quality FROM latest_aggregates",
    "weights": "SELECT testset, aggregator, judge, weight, loadings FROM latest_fits JOIN weights USING (fit_id)",
    "evaluations": "SELECT testset, aggregator, e.* EXCLUDE (fit_id) "
    "FROM latest_fits JOIN evaluations e USING (fit_id)",
    "verdicts": "SELECT testset, state, sentence FROM verdicts",
}
"""Queries of published results, keyed by their names in messages."""


@dataclass(frozen=True)
class ChangedRun:
    """Change of the workspace at the beginning of a nightly run.

    Attributes
    ----------
    what : str
        Description of the change, for the output.
    happen : callable
        Function that changes the workspace in a folder.
    """

    what: str
    happen: Callable[[Path], object]


def _nightly_runs() -> list[ChangedRun]:
    return [
        ChangedRun("a fresh deployment", lambda folder: None),
        ChangedRun("an item is edited", lambda folder: write_items(folder, _ITEMS, edited=7)),
        ChangedRun("a judge comes", lambda folder: write_judge(folder, "thoroughness")),
        ChangedRun("a label changes", _other_label),
        ChangedRun("five items come", lambda folder: _items(folder, _ITEMS + 5)),
        ChangedRun("a judge leaves", lambda folder: (folder / "judges" / "length.yaml").unlink()),
        ChangedRun("a judge's program changes", _other_program),
        ChangedRun("a setting of the fit changes", lambda folder: _settings(folder, "care", "avg", "mv")),
        ChangedRun("a test set comes", _another_testset),
        ChangedRun("items leave, a label changes, a judge comes back", _several),
    ]


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text, f"{file} does not hold {old!r}"
    file.write_text(text.replace(old, new, 1))


def _other_label(folder: Path) -> None:
    _replace(folder / "one.csv", ",0\n", ",4\n")


def _items(folder: Path, n: int) -> None:
    write_items(folder, n, edited=7)
    _other_label(folder)


def _settings(folder: Path, *aggregators: str) -> None:
    (folder / "care.yaml").write_text(_FIT.format(", ".join(aggregators)))


def _other_program(folder: Path) -> None:
    _replace(folder / "judges" / "redundancy.yaml", "program: redundancy", "program: readability")


def _another_testset(folder: Path) -> None:
    write_items(folder, _ITEMS // 2, name="two")
    write_testset(folder, "two")


def _several(folder: Path) -> None:
    _items(folder, _ITEMS - 5)
    _replace(folder / "one.csv", ",1\n", ",3\n")
    write_judge(folder, "length")


class Soak:
    """Nightly runs of a deployment whose daemon is killed, and of its undisturbed twin.

    Parameters
    ----------
    deployment : Deployment
        Deployment with migrated storage.
    twin : Path
        Folder of a workspace with the same content.
    seed : int
        Seed of the times of the kills.
    """

    def __init__(self, deployment: Deployment, twin: Path, seed: int) -> None:
        self._deployment, self._twin, self._random = deployment, twin, random.Random(seed)
        _, self._port = deployment.start_code_server(_CODE)
        self._daemon = deployment.start_daemon(self._port)

    def live_through(self, number: int, nightly_run: ChangedRun) -> list[str]:
        """Run one nightly run, print its line, and return the differences between the two workspaces."""
        after = self._random.uniform(_EARLIEST_S, _LATEST_S)
        away = self._random.uniform(0.0, _LONGEST_AWAY_S)
        began = time.monotonic()
        for folder in (self._deployment.workspace, self._twin):
            nightly_run.happen(folder)
        command = [sys.executable, "-m", "orchestration.cli", "run", "--workspace", str(self._twin)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as calm:
            then, is_over = self._disturb(began + after, away)
            printed, _ = calm.communicate()
        findings = [] if calm.returncode == 0 else [f"the twin's run failed: {printed[-2000:]}"]
        findings += [] if is_over else [f"not over after {_LONGEST_NIGHT_S:.0f} s: {self._deployment.logs()}"]
        findings += _differences(self._twin, self._deployment.workspace)
        print(
            f"{number}. {nightly_run.what}: killed after {after:.1f} s for {away:.1f} s ({then}), "
            f"over after {time.monotonic() - began:.0f} s, {'; '.join(findings) or 'equal'}",
            flush=True,
        )
        return findings

    def _disturb(self, at: float, away: float) -> tuple[str, bool]:
        """Kill the daemon at time ``at`` of the monotonic clock, and start it again after ``away`` seconds.

        Returns
        -------
        (str, bool)
            Work that was left at the kill, and whether the nightly run ended.
        """
        with _opened(self._deployment) as instance:
            time.sleep(max(0.0, at - time.monotonic()))
            then = f"{len(unfinished_runs(instance))} runs in progress, {self._to_make()} partitions missing or stale"
            kill(self._daemon)
            self._daemon.wait()
            time.sleep(away)
            self._daemon = self._deployment.start_daemon(self._port)
            return then, self._wait_until_over(instance)

    def _to_make(self) -> int:
        return len(find_stale(load_workspace(self._deployment.workspace)))

    def _wait_until_over(self, instance: dg.DagsterInstance) -> bool:
        """Wait until no work has been left for some seconds; return False if that takes too long."""
        began = quiet_since = time.monotonic()
        while time.monotonic() - began < _LONGEST_NIGHT_S:
            if unfinished_runs(instance) or self._to_make():
                quiet_since = time.monotonic()
            if time.monotonic() - quiet_since > _QUIET_S:
                return True
            time.sleep(1)
        return False


@contextmanager
def _opened(deployment: Deployment):
    """Open the deployment's Dagster instance, as a command in a container does."""
    kept = dict(os.environ)
    os.environ |= deployment.environment
    try:
        with workspace_instance(load_workspace(deployment.workspace)) as instance:
            yield instance
    finally:
        os.environ.clear()
        os.environ |= kept


def _differences(calm: Path, rough: Path) -> list[str]:
    """Return descriptions of the differences between the published results of the workspace and the twin."""
    rows, wanted = Counter(score_rows(rough)), Counter(score_rows(calm))
    counts = {
        "lost": (wanted - rows).total(),
        "written twice": sum(times > 1 for times in rows.values()),
        "too many": (rows - wanted).total(),
    }
    findings = [f"{count} rows of scores {what}" for what, count in counts.items() if count]
    for name, sql in _PUBLISHED.items():
        one, other = (query(folder, f"{sql} ORDER BY ALL") for folder in (calm, rough))
        if not one:
            findings.append(f"{name}: the twin has no rows")
        if one != other:
            findings.append(f"{name}: {_first_difference(one, other)}")
    return findings


def _first_difference(one: list[tuple], other: list[tuple]) -> str:
    lacking, extra = ([row for row in a if row not in b] for a, b in ((one, other), (other, one)))
    return f"{len(lacking)} rows missing, such as {lacking[:1]}; {len(extra)} extra rows, such as {extra[:1]}"


def main() -> None:
    """Run all nightly runs; exit with 1 if the two workspaces differ after a run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    binaries = postgres_binaries()
    if binaries is None:
        sys.exit("PostgreSQL is not installed; install it (Debian's package `postgresql`)")
    began, wrong = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as root, postgres(binaries) as address:
        rough, calm = (
            make(Path(root) / name, judges=_JUDGES, n=_ITEMS, care=_FIT.format("care, avg")) for name in ("ws", "twin")
        )
        deployment = Deployment.of(rough, Path(root) / "home", address)
        deployment.command("dagster", "instance", "migrate")
        try:
            soak = Soak(deployment, calm, options.seed)
            nightly_runs = _nightly_runs()
            for number, nightly_run in enumerate(nightly_runs, start=1):
                wrong += bool(soak.live_through(number, nightly_run))
        finally:
            deployment.stop()
        rows, estimates = len(score_rows(rough)), query(rough, "SELECT count(*) FROM latest_aggregates")[0][0]
    print(
        f"{len(nightly_runs)} nightly runs with kills in {time.monotonic() - began:.0f} s: {rows} rows of scores, "
        f"{estimates} published estimates; {wrong} nightly runs differ from the twin"
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
