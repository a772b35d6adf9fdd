"""The nightly schedule: what is missing is asked for, whatever happened before; models behind an API are asked again.

Belongs here: schedules. Does not: what is missing (``assets.reconcile``).
"""

from collections.abc import Callable, Iterator

import dagster as dg

from assets.judging.canary import watched
from assets.state.reconcile import Missing, missing
from assets.workspace import Workspace
from orchestration.launches import ORDER
from orchestration.workspace import NightlySettings

REASON = "care/reason"
"""Tag of the runs that a night asks for."""


def build_schedules(load: Callable[[], Workspace], nightly: NightlySettings | None) -> list[dg.ScheduleDefinition]:
    """The schedule; stopped where care.yaml names no hour."""
    settings = nightly or NightlySettings()

    @dg.schedule(
        name="nightly",
        cron_schedule=settings.cron(),
        execution_timezone=settings.zone,
        job_name="__ASSET_JOB",  # the only job that holds assets of different partitions
        default_status=dg.DefaultScheduleStatus.STOPPED if nightly is None else dg.DefaultScheduleStatus.RUNNING,
        description="Compares the warehouse with the workspace and asks for what is missing.",
    )
    def nightly_schedule(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest]:
        workspace, tonight = load(), context.scheduled_execution_time.isoformat()
        yield dg.RunRequest(f"{tonight} night", asset_selection=[dg.AssetKey("night")], tags={REASON: "nightly"})
        for judge in watched(workspace):
            key = f"{tonight} canary {judge}"
            yield dg.RunRequest(
                key, asset_selection=[dg.AssetKey("canary")], partition_key=judge, tags={REASON: "canary"}
            )
        yield from requests(missing(workspace) if workspace.warehouse.usable() else {}, tonight)

    return [nightly_schedule]


def requests(lost: Missing, tonight: str) -> Iterator[dg.RunRequest]:
    """One run a partition, with all of its assets, in the order of the stages."""
    by_partition: dict[str | None, list[str]] = {}
    for asset in ORDER:
        for partition in sorted(lost.get(asset, set()), key=str):
            by_partition.setdefault(partition, []).append(asset)
    for partition, assets in by_partition.items():
        yield dg.RunRequest(
            run_key=f"{tonight} {partition}",
            asset_selection=[dg.AssetKey(asset) for asset in assets],
            partition_key=partition,
            tags={REASON: "missing"},
        )
