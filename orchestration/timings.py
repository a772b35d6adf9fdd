"""Time of each day's runs (UTC) by stage, from Dagster's record of steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

import dagster as dg

from assets.workspace import Workspace
from orchestration.alert_causes import partition_of

_WEEK = timedelta(days=7)

BETWEEN = "between stages"
"""Time between steps: finding what is stale, starting, waiting."""

_LONG_GAP_S = 3600.0
"""A longer gap is not counted as time between stages."""

_SLOWER, _SLOWER_BY_S = 1.2, 1.0
"""A stage is slower if it took a fifth and a second longer than on any day of the week before."""


@dataclass(frozen=True)
class Step:
    """One step of a run, with the first partition of its range; times in seconds since 1970."""

    asset: str
    partition: str
    begins: float
    ends: float
    succeeded: bool
    attempts: int

    @property
    def seconds(self) -> float:
        """Return the duration."""
        return self.ends - self.begins


def ended_runs(instance: dg.DagsterInstance, since: datetime) -> list[dg.RunRecord]:
    """Return the finished runs that were last updated after this time, the earliest first."""
    status = dg.DagsterRunStatus
    wanted = dg.RunsFilter(updated_after=since, statuses=[status.SUCCESS, status.FAILURE, status.CANCELED])
    return [*instance.get_run_records(wanted, ascending=True)]


def steps_of(workspace: Workspace, instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[Step]:
    """Return the finished steps of a run that belong to this workspace."""
    found = list[Step]()
    for one in instance.get_run_step_stats(run.run_id):
        asset = workspace.mount.asset(one.step_key)
        if one.start_time and one.end_time and asset is not None:
            is_good = one.status is not None and one.status.value == "SUCCESS"
            found.append(Step(asset, partition_of(run), one.start_time, one.end_time, is_good, one.attempts or 1))
    return found


def steps_by_day(workspace: Workspace, instance: dg.DagsterInstance, since: datetime) -> dict[str, list[Step]]:
    """Return the steps by date, the latest last."""
    found = defaultdict[str, list[Step]](list)
    for record in ended_runs(instance, since):
        for step in steps_of(workspace, instance, record.dagster_run):
            found[day_of(step.begins)].append(step)
    return dict(sorted(found.items()))


def day_of(seconds: float) -> str:
    """Return the date (UTC) of a moment."""
    return f"{datetime.fromtimestamp(seconds, UTC):%F}"


def latest_stages(workspace: Workspace, instance: dg.DagsterInstance) -> tuple[str, list[dict[str, Any]]]:
    """Return the last date with a run, and its stages; the date is empty without a run."""
    latest = instance.get_run_records(limit=1)
    since = latest[0].update_timestamp - _WEEK - timedelta(days=1) if latest else datetime.now(UTC)
    found = steps_by_day(workspace, instance, since)
    date = max(found, default="")
    first = f"{datetime.fromisoformat(date) - _WEEK:%F}" if date else ""
    return date, stages(found.get(date, []), [steps for day, steps in found.items() if first <= day < date])


def stages(steps: Sequence[Step], week: Sequence[Sequence[Step]]) -> list[dict[str, Any]]:
    """Return the seconds of each stage on a day, the longest first, and the median of the week before."""
    before, rows = [_seconds(day) for day in week], list[dict[str, Any]]()
    for name, seconds in _seconds(steps).items():
        own = sorted((step for step in steps if step.asset == name), key=lambda step: step.seconds)
        past = [each[name] for each in before if name in each]
        slower = bool(past) and seconds > max(_SLOWER * max(past), max(past) + _SLOWER_BY_S)
        longest = own[-1].partition if own else ""
        rows.append({"stage": name, "steps": len(own), "seconds": seconds, "longest": longest})
        rows[-1] |= {"week before": median(past) if past else None, "slower": slower}
    return rows


def _seconds(steps: Sequence[Step]) -> dict[str, float]:
    """Return the seconds of each stage and between stages, the longest first."""
    found, until = defaultdict[str, float](float), 0.0
    for step in sorted(steps, key=lambda step: step.begins):
        found[step.asset] += step.seconds
        found[BETWEEN] += gap if 0.0 < (gap := step.begins - until) < _LONG_GAP_S else 0.0
        until = max(until, step.ends)
    return dict(sorted(found.items(), key=lambda entry: -entry[1]))
