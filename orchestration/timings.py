"""Where the time of nights went, read from Dagster's own record of runs and steps; nothing is measured a second time.

A night is a day (UTC) on which runs began, as it is for the bills of judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING

import dagster as dg

from orchestration.standing import partition_of

if TYPE_CHECKING:
    from assets.workspace import Workspace

LAST_WEEK = timedelta(days=7)

BETWEEN = "between stages"
"""Name of the time of a night in which no step was at work: looking for what is stale, starting, waiting."""

_SLOWER, _LEAST_S = 1.2, 1.0
"""A stage is slower if it took a fifth longer than in the slowest night of the week before, and a second more."""


@dataclass(frozen=True)
class Step:
    """One step of one run; times are seconds since 1970.

    Attributes
    ----------
    asset, partition : str
        What it made; of a range of partitions the first one, and empty where there are none.
    attempts : int
        How often it was begun.
    """

    run_id: str
    asset: str
    partition: str
    begins: float
    ends: float
    succeeded: bool
    attempts: int


@dataclass(frozen=True)
class Stage:
    """What one stage took in a night, and in those of the week before it.

    Attributes
    ----------
    steps : int
    seconds : float
        Of all its steps together.
    longest : str
        The partition that took longest.
    last_week : float or None
        Median of the nights of the seven days before; None where it ran in none of them.
    slower : bool
        Whether it took longer than in any of these.
    """

    stage: str
    steps: int
    seconds: float
    longest: str
    last_week: float | None
    slower: bool


def ended_runs(instance: dg.DagsterInstance, since: datetime) -> list[dg.RunRecord]:
    """Runs that were last changed after this time and have ended, the earliest first."""
    status = dg.DagsterRunStatus
    wanted = dg.RunsFilter(updated_after=since, statuses=[status.SUCCESS, status.FAILURE, status.CANCELED])
    return [*instance.get_run_records(wanted, ascending=True)]


def as_utc(moment: datetime) -> datetime:
    """A time of Dagster's record, which is in UTC and does not always say so."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def steps_of(workspace: Workspace, instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[Step]:
    """The steps of a run that make something of this workspace and have ended."""
    return [
        Step(run.run_id, asset, partition_of(run), one.start_time, one.end_time, _succeeded(one), one.attempts or 1)
        for one in instance.get_run_step_stats(run.run_id)
        if one.start_time and one.end_time and (asset := workspace.mount.asset(one.step_key)) is not None
    ]


def _succeeded(stats: object) -> bool:
    return getattr(getattr(stats, "status", None), "value", "") == "SUCCESS"


def nights(workspace: Workspace, instance: dg.DagsterInstance, since: datetime) -> dict[str, list[Step]]:
    """The steps of each night, by its date, the latest last."""
    found: dict[str, list[Step]] = {}
    for record in ended_runs(instance, since):
        for step in steps_of(workspace, instance, record.dagster_run):
            found.setdefault(night_of(step.begins), []).append(step)
    return dict(sorted(found.items()))


def night_of(seconds: float) -> str:
    """The date of the night to which this moment belongs."""
    return f"{datetime.fromtimestamp(seconds, UTC):%F}"


def last_night_and_week(workspace: Workspace, instance: dg.DagsterInstance) -> tuple[str, list[Stage]]:
    """Date and stages of the last night with a run, the longest stage first; no date where there was none."""
    latest = instance.get_run_records(limit=1)
    if not latest:
        return "", []
    found = nights(workspace, instance, latest[0].update_timestamp - LAST_WEEK - timedelta(days=1))
    date = max(found, default="")
    first = f"{datetime.fromisoformat(date) - LAST_WEEK:%F}" if date else ""
    week = [steps for night, steps in found.items() if first <= night < date]
    return date, stages(found[date], week) if date else []


def stages(night: Sequence[Step], week: Sequence[Sequence[Step]]) -> list[Stage]:
    """What each stage of a night took, beside the nights of a week."""
    before = [_seconds(steps) for steps in week]
    return [_stage(name, night, seconds, before) for name, seconds in _seconds(night).items()]


def _stage(name: str, night: Sequence[Step], seconds: float, before: Sequence[Mapping[str, float]]) -> Stage:
    own = [step for step in night if step.asset == name]
    longest = max(own, key=lambda step: step.ends - step.begins, default=None)
    past = [each[name] for each in before if name in each]
    slower = bool(past) and seconds > max(_SLOWER * max(past), max(past) + _LEAST_S)
    partition = longest.partition if longest else ""
    return Stage(name, len(own), seconds, partition, median(past) if past else None, slower)


def _seconds(night: Sequence[Step]) -> dict[str, float]:
    """Seconds of each stage, and of the time between them, the longest first."""
    found: dict[str, float] = {}
    for step in night:
        found[step.asset] = found.get(step.asset, 0.0) + step.ends - step.begins
    found[BETWEEN] = sum(_gaps(night))
    return dict(sorted(found.items(), key=lambda entry: -entry[1]))


def _gaps(night: Sequence[Step]) -> Iterator[float]:
    """Times in which no step was at work, within an hour of the one before: runs of one day may lie hours apart."""
    until = min((step.begins for step in night), default=0.0)
    for step in sorted(night, key=lambda step: step.begins):
        if 0.0 < step.begins - until < 3600.0:
            yield step.begins - until
        until = max(until, step.ends)
