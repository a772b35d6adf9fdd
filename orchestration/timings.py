"""Duration of each day's runs (UTC) by stage, from Dagster's record of steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from assets.workspace import Workspace
from orchestration.alert_causes import partition_of

BETWEEN = "between stages"
"""Name of the time between steps, in which CARE finds stale partitions, starts runs or waits."""

_LONG_GAP_S = 3600.0
"""A longer gap is not counted as time between stages."""


@dataclass(frozen=True)
class Step:
    """Finished step of a run, with the first partition of its range; times are in seconds since 1970."""

    asset: str
    partition: str
    begins: float
    ends: float
    succeeded: bool

    @property
    def seconds(self) -> float:
        """Duration of the step."""
        return self.ends - self.begins


def steps_by_day(workspace: Workspace, instance: dg.DagsterInstance, since: datetime) -> dict[str, list[Step]]:
    """Return the finished steps of this workspace by date (UTC), in order of date."""
    status, found = dg.DagsterRunStatus, defaultdict[str, list[Step]](list)
    ended = dg.RunsFilter(updated_after=since, statuses=[status.SUCCESS, status.FAILURE, status.CANCELED])
    for record in instance.get_run_records(ended):
        for one in instance.get_run_step_stats(record.dagster_run.run_id):
            asset = workspace.mount.asset(one.step_key)
            if one.start_time and one.end_time and asset is not None:
                succeeded = one.status is not None and one.status.value == "SUCCESS"
                step = Step(asset, partition_of(record.dagster_run), one.start_time, one.end_time, succeeded)
                found[f"{datetime.fromtimestamp(step.begins, UTC):%F}"].append(step)
    return dict(sorted(found.items()))


def stages(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Return the seconds of each stage and between stages, longest first, with each stage's longest partition."""
    seconds, longest, until = defaultdict[str, float](float), dict[str, Step](), 0.0
    for step in sorted(steps, key=lambda step: step.begins):
        seconds[step.asset] += step.seconds
        longest[step.asset] = max(longest.get(step.asset, step), step, key=lambda step: step.seconds)
        seconds[BETWEEN] += gap if 0.0 < (gap := step.begins - until) < _LONG_GAP_S else 0.0
        until = max(until, step.ends)
    return [
        {"stage": name, "seconds": took, "longest": longest[name].partition if name in longest else ""}
        for name, took in sorted(seconds.items(), key=lambda entry: -entry[1])
    ]
