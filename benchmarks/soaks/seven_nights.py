"""Seven nights under a real Dagster daemon: exactly the listed runs, no others. ``make verify``; a quarter of an hour.

The daemon, its code server and its run launcher are the real ones, over a workspace's own instance; a night
is over when nothing has been under way and nothing new was materialised for a while.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from orchestration.instance import dagster_home, under_way, workspace_instance
from orchestration.launches import ORDER
from orchestration.workspace import load_workspace
from tests.support.nights import PlannedNight, nights, workspace
from tests.support.workspaces import QUICK, score_rows

_QUIET_S = 45.0
_LONGEST_NIGHT_S = 900.0
_CARE = QUICK + "on_change: true\n"


def main() -> None:
    """Print a line a night; exit 1 where a night ran anything else."""
    with tempfile.TemporaryDirectory() as root:
        folder = workspace(Path(root) / "ws", care=_CARE)
        daemons = [_daemon(folder)]
        wrong = 0
        try:
            for number, night in enumerate(nights()):
                said, seconds = _live_through(folder, night)
                wrong += bool(said)
                print(f"{night.what}: {said or 'exactly what it must'}, quiet after {seconds:.0f} s", flush=True)
                if number == 0:
                    daemons.append(_daemon(folder))
                    print("a second daemon was started by mistake", flush=True)
        finally:
            for daemon in daemons:
                print(f"daemon {daemon.pid}: {'running' if daemon.poll() is None else f'ended {daemon.returncode}'}")
                if daemon.poll() is None:
                    os.killpg(daemon.pid, signal.SIGINT)
            for daemon in daemons:
                daemon.wait(60)
    sys.exit(bool(wrong))


def _daemon(folder: Path) -> subprocess.Popen[bytes]:
    loaded = load_workspace(folder)
    home = dagster_home(loaded)
    environment = {**os.environ, "DAGSTER_HOME": str(home), "CARE_WORKSPACE": str(folder)}
    command = [sys.executable, "-m", "orchestration.cli", "admin", "daemon", "--workspace", str(folder)]
    with (home / f"daemon-{time.time_ns()}.log").open("w") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def _live_through(folder: Path, night: PlannedNight) -> tuple[str, float]:
    """Live through one night; returns what ran but should not have, or the other way round, and how long all took."""
    with workspace_instance(load_workspace(folder)) as instance:
        before, since = _last_event(instance), datetime.now(UTC)
        night.happen(folder)
        began = quiet_since = time.monotonic()
        seen, waits_for = -1, bool(night.runs)
        while time.monotonic() - began < _LONGEST_NIGHT_S:
            count = len(_materialised(instance, before))
            if count != seen or under_way(instance):
                seen, quiet_since = count, time.monotonic()
            if time.monotonic() - quiet_since > _QUIET_S and (count or not waits_for):
                break
            time.sleep(2)
        materialised = _materialised(instance, before)
        failed = _failed_steps(instance, since)
    ran: dict[str, set[str]] = {}
    for asset, partition, _ in materialised:
        ran.setdefault(asset, set()).add(partition)
    findings: list[str] = []
    for asset in ORDER:
        did, must = ran.get(asset, set()), night.runs.get(asset, set())
        if did != must:
            findings.append(f"{asset}: too many {sorted(did - must)}, lacking {sorted(must - did)}")
    loads = Counter(partition for asset, partition, _ in materialised if asset == "judge_inference")
    findings += [f"{judge} was loaded {n} times" for judge, n in loads.items() if n > 1]
    expected = Counter({asset: 2 for asset, _ in night.fails})  # a failed judge is tried once more and then left alone
    if failed != expected:
        findings.append(f"failures {dict(failed)}, expected {dict(expected)}")
    rows = score_rows(folder)
    if len(rows) != len(set(rows)):
        findings.append(f"{len(rows) - len(set(rows))} rows scored twice")
    return "; ".join(findings), quiet_since - began


def _last_event(instance: dg.DagsterInstance) -> int:
    latest = [
        record.storage_id
        for asset in ORDER
        for record in instance.fetch_materializations(dg.AssetKey(asset), limit=1).records
    ]
    return max(latest, default=0)


def _materialised(instance: dg.DagsterInstance, after: int) -> list[tuple[str, str, str]]:
    """Materialisations since an event, as (asset, partition, run)."""
    return [
        (asset, record.partition_key or "", record.run_id)
        for asset in ORDER
        for record in instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), after_storage_id=after), limit=10_000
        ).records
    ]


def _failed_steps(instance: dg.DagsterInstance, since: datetime) -> Counter[str]:
    """Steps that failed in runs made since then."""
    runs = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], created_after=since))
    logs = [instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE) for run in runs]
    return Counter(str(e.dagster_event.step_key) for entries in logs for e in entries if e.dagster_event is not None)


if __name__ == "__main__":
    main()
