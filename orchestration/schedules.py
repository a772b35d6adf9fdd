"""The nightly schedule: begins a night, at which what failed is asked for once more, and asks for the canaries."""

from collections.abc import Callable, Iterator

import dagster as dg

from assets.judging.canary import watched
from assets.mount import Mount
from assets.partitions import JUDGES
from assets.workspace import Workspace
from orchestration.dagster_internals import IMPLICIT_ASSET_JOB
from orchestration.launches import REASON
from orchestration.workspace import NightlySettings


def build_schedules(
    mount: Mount, load: Callable[[], Workspace], nightly: NightlySettings | None
) -> list[dg.ScheduleDefinition]:
    """The schedule, which is stopped where care.yaml names no hour; ``load`` reads the workspace at each tick."""
    settings = nightly or NightlySettings.model_construct()

    @dg.schedule(
        name=mount.name("nightly"),
        cron_schedule=settings.cron(),
        execution_timezone=settings.zone,
        job_name=IMPLICIT_ASSET_JOB,  # the only job that holds assets of different partitions
        default_status=dg.DefaultScheduleStatus.STOPPED if nightly is None else dg.DefaultScheduleStatus.RUNNING,
        description="Begins a night: what failed before is asked for once more, and models of others are looked at.",
    )
    def nightly_schedule(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest]:
        workspace, tonight = load(), context.scheduled_execution_time.isoformat()
        yield dg.RunRequest(f"{tonight} night", asset_selection=[mount.key("night")], tags={REASON: "nightly"})
        judges = context.instance.get_dynamic_partitions(mount.name(str(JUDGES.name)))
        for judge in sorted({*judges}.intersection(watched(workspace))):
            key = f"{tonight} canary {judge}"
            yield dg.RunRequest(
                key, asset_selection=[mount.key("canary")], partition_key=judge, tags={REASON: "canary"}
            )

    return [nightly_schedule]
