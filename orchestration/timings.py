"""Where the time of nights went, read from Dagster's own record of runs and steps; nothing is measured a second time.

A night is a day (UTC) on which runs began, as it is for the bills of judges.
"""

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
"""Name of the time of a night in which no step was at work: looking for what is stale, starting, waiting."""

_LONG_GAP_S = 3600.0
"""Runs of one day that lie further apart are no work of one night."""

_SLOWER, _LEAST_S = 1.2, 1.0
"""A stage is slower if it took a fifth longer than in the slowest night of the week before, and a second more."""


@dataclass(frozen=True)
class Step:
    """One step of one run; times in seconds since 1970. Of a range of partitions it has the first one."""

    asset: str
    partition: str
    begins: float
    ends: float
    succeeded: bool
    attempts: int

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ends - self.begins


def ended_runs(instance: dg.DagsterInstance, since: datetime) -> list[dg.RunRecord]:
    """Runs that were last changed after this time and have ended, the earliest first."""
    status = dg.DagsterRunStatus
    wanted = dg.RunsFilter(updated_after=since, statuses=[status.SUCCESS, status.FAILURE, status.CANCELED])
    return [*instance.get_run_records(wanted, ascending=True)]


def steps_of(workspace: Workspace, instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[Step]:
    """The steps of a run that make something of this workspace and have ended."""
    found = list[Step]()
    for one in instance.get_run_step_stats(run.run_id):
        asset = workspace.mount.asset(one.step_key)
        if one.start_time and one.end_time and asset is not None:
            is_good = one.status is not None and one.status.value == "SUCCESS"
            found.append(Step(asset, partition_of(run), one.start_time, one.end_time, is_good, one.attempts or 1))
    return found


def nights(workspace: Workspace, instance: dg.DagsterInstance, since: datetime) -> dict[str, list[Step]]:
    """The steps of each night, by its date, the latest last."""
    found = defaultdict[str, list[Step]](list)
    for record in ended_runs(instance, since):
        for step in steps_of(workspace, instance, record.dagster_run):
            found[night_of(step.begins)].append(step)
    return dict(sorted(found.items()))


def night_of(seconds: float) -> str:
    """The date of the night to which this moment belongs."""
    return f"{datetime.fromtimestamp(seconds, UTC):%F}"


def stages_of_last_night(workspace: Workspace, instance: dg.DagsterInstance) -> tuple[str, list[dict[str, Any]]]:
    """Date and stages of the last night with a run; no date where there was none."""
    latest = instance.get_run_records(limit=1)
    since = latest[0].update_timestamp - _WEEK - timedelta(days=1) if latest else datetime.now(UTC)
    found = nights(workspace, instance, since)
    date = max(found, default="")
    first = f"{datetime.fromisoformat(date) - _WEEK:%F}" if date else ""
    return date, stages(found.get(date, []), [found[night] for night in found if first <= night < date])


def stages(night: Sequence[Step], week: Sequence[Sequence[Step]]) -> list[dict[str, Any]]:
    """What each stage of a night took, the longest first; beside it the median of a week's nights, in seconds."""
    before, rows = [_seconds(steps) for steps in week], list[dict[str, Any]]()
    for name, seconds in _seconds(night).items():
        own = sorted((step for step in night if step.asset == name), key=lambda step: step.seconds)
        past = [each[name] for each in before if name in each]
        slower = bool(past) and seconds > max(_SLOWER * max(past), max(past) + _LEAST_S)
        longest = own[-1].partition if own else ""
        rows.append({"stage": name, "steps": len(own), "seconds": seconds, "longest": longest})
        rows[-1] |= {"week before": median(past) if past else None, "slower": slower}
    return rows


def _seconds(night: Sequence[Step]) -> dict[str, float]:
    """Seconds of each stage, and of the time between them, the longest first."""
    found, until = defaultdict[str, float](float), 0.0
    for step in sorted(night, key=lambda step: step.begins):
        found[step.asset] += step.seconds
        found[BETWEEN] += gap if 0.0 < (gap := step.begins - until) < _LONG_GAP_S else 0.0
        until = max(until, step.ends)
    return dict(sorted(found.items(), key=lambda entry: -entry[1]))
