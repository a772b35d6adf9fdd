"""The nightly schedule, which requests stale partitions and deletes old runs."""

from collections.abc import Callable, Iterator

import dagster as dg

from assets.mount import Mount
from assets.workspace import Workspace
from orchestration.dagster_internals import IMPLICIT_ASSET_JOB
from orchestration.plan import REASON
from orchestration.workspace import NightlySettings, Settings


def build_schedules(mount: Mount, load: Callable[[], Workspace], settings: Settings) -> list[dg.ScheduleDefinition]:
    """Build the nightly schedule, stopped without `nightly` in care.yaml.

    ``load`` reads the workspace at each tick.
    """
    nightly = settings.nightly or NightlySettings.model_construct()

    @dg.schedule(
        name=mount.name("nightly"),
        cron_schedule=nightly.cron(),
        execution_timezone=nightly.zone,
        job_name=IMPLICIT_ASSET_JOB,  # the only job that holds assets of different partitions
        default_status=dg.DefaultScheduleStatus.STOPPED
        if settings.nightly is None
        else dg.DefaultScheduleStatus.RUNNING,
        description="Requests stale assets at its hour; `stale_assets_sensor` then requests downstream assets.",
    )
    def nightly_schedule(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest]:
        from orchestration.instance import delete_old_runs
        from orchestration.requests import Cursor, request_stale

        tick = context.scheduled_execution_time.isoformat()
        yield dg.RunRequest(f"{tick} night", asset_selection=[mount.key("night")], tags={REASON: "nightly"})
        # A daemon that was down runs several ticks at once; partitions of unfinished runs are not requested again.
        workspace = load()
        asked, _ = request_stale(workspace, context.instance, Cursor(), run_key=tick)
        yield from asked
        delete_old_runs(workspace, context.instance, settings.keep_runs_days)

    return [nightly_schedule]
