"""Steps of each day's runs (UTC), from Dagster's record."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from assets.workspace import Workspace
from orchestration.alert_causes import partition_of


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
