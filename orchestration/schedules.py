"""The nightly schedule: begins a night, at which what failed is asked for once more."""

import dagster as dg

from assets.mount import Mount
from orchestration.dagster_internals import IMPLICIT_ASSET_JOB
from orchestration.launches import REASON
from orchestration.workspace import NightlySettings


def build_schedules(mount: Mount, nightly: NightlySettings | None) -> list[dg.ScheduleDefinition]:
    """The schedule, which is stopped where care.yaml names no hour."""
    settings = nightly or NightlySettings.model_construct()

    @dg.schedule(
        name=mount.name("nightly"),
        cron_schedule=settings.cron(),
        execution_timezone=settings.zone,
        job_name=IMPLICIT_ASSET_JOB,  # the only job that holds assets of different partitions
        default_status=dg.DefaultScheduleStatus.STOPPED if nightly is None else dg.DefaultScheduleStatus.RUNNING,
        description="Begins a night: what failed before is asked for once more.",
    )
    def nightly_schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        tonight = context.scheduled_execution_time.isoformat()
        return dg.RunRequest(f"{tonight} night", asset_selection=[mount.key("night")], tags={REASON: "nightly"})

    return [nightly_schedule]
