"""The nightly schedule: asks for what is missing, whatever happened before, and for the canaries of remote models."""

from collections.abc import Callable, Iterator, Set

import dagster as dg

from assets.judging.canary import watched
from assets.partitions import JUDGES, TESTSETS
from assets.state.reconcile import Missing, missing
from assets.workspace import Workspace
from orchestration.dagster_internals import IMPLICIT_ASSET_JOB
from orchestration.launches import ORDER, REASON, RETRY, split_partition
from orchestration.workspace import NightlySettings


def build_schedules(load: Callable[[], Workspace], nightly: NightlySettings | None) -> list[dg.ScheduleDefinition]:
    """The schedule, which is stopped where care.yaml names no hour; ``load`` reads the workspace at each tick."""
    settings = nightly or NightlySettings()

    @dg.schedule(
        name="nightly",
        cron_schedule=settings.cron(),
        execution_timezone=settings.zone,
        job_name=IMPLICIT_ASSET_JOB,  # the only job that holds assets of different partitions
        default_status=dg.DefaultScheduleStatus.STOPPED if nightly is None else dg.DefaultScheduleStatus.RUNNING,
        description="Compares the warehouse with the workspace and asks for what is missing.",
    )
    def nightly_schedule(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest]:
        workspace, tonight = load(), context.scheduled_execution_time.isoformat()
        yield dg.RunRequest(f"{tonight} night", asset_selection=[dg.AssetKey("night")], tags={REASON: "nightly"})
        judges = {*context.instance.get_dynamic_partitions(str(JUDGES.name))}
        testsets = {*context.instance.get_dynamic_partitions(str(TESTSETS.name))}
        for judge in sorted(judges.intersection(watched(workspace))):
            key = f"{tonight} canary {judge}"
            yield dg.RunRequest(
                key, asset_selection=[dg.AssetKey("canary")], partition_key=judge, tags={REASON: "canary"}
            )
        absent = missing(workspace) if workspace.warehouse.usable() else {}
        yield from requests(absent, tonight, judges, testsets)

    return [nightly_schedule]


def requests(absent: Missing, tonight: str, judges: Set[str], testsets: Set[str]) -> Iterator[dg.RunRequest]:
    """One run for each partition, with all of its assets that are absent, in the order of the stages.

    A judge or a test set that has only just come is none of Dagster's partitions yet. The workspace's sensor adds it
    with its next look, and what it needs is asked for then; a request of tonight would fail the whole tick.

    Parameters
    ----------
    absent : dict asset -> set of partitions
    tonight : str
        Begins the key of each run, so that a night asks for it once.
    judges, testsets : set of str
        Those that Dagster knows.
    """
    assets_of: dict[str | None, list[str]] = {}
    for asset in ORDER:
        for partition in sorted(absent.get(asset, set()), key=str):
            judge, testset = split_partition(asset, partition) if partition is not None else (None, None)
            if (judge is None or judge in judges) and (testset is None or testset in testsets):
                assets_of.setdefault(partition, []).append(asset)
    for partition, assets in assets_of.items():
        yield dg.RunRequest(
            run_key=f"{tonight} {partition}",
            asset_selection=[dg.AssetKey(asset) for asset in assets],
            partition_key=partition,
            tags={REASON: "missing", **RETRY},
        )
