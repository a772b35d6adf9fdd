"""The sensor that watches test sets, judges and settings, and the one that asks for what is stale.

Belongs here: sensors. Does not: what they compare (``observe``) or when an asset is stale
(``conditions``).
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import dagster as dg

from assets.workspace import Workspace
from orchestration.alerts import send, words
from orchestration.observe import observe
from orchestration.workspace import Settings

_DAY_S = 86_400.0


def build_sensors(
    load: Callable[[], Workspace], settings: Callable[[], tuple[Path, Settings]], watch_seconds: int
) -> list[dg.SensorDefinition]:
    """Sensors over the workspace that ``load`` reads, and care.yaml that ``settings`` does.

    Parameters
    ----------
    watch_seconds : int
        Shortest time between two looks.
    """

    @dg.sensor(
        name="workspace_sensor",
        minimum_interval_seconds=watch_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports new content of test sets, judges and settings; adds and deletes partitions.",
    )
    def workspace_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        found = observe(load(), context.instance)
        if not found.events and not found.requests:
            return dg.SkipReason("nothing has changed")
        return dg.SensorResult(asset_events=found.events, dynamic_partitions_requests=found.requests)

    automation = dg.AutomationConditionSensorDefinition(
        "stale_assets_sensor",
        target=dg.AssetSelection.all(),
        minimum_interval_seconds=watch_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for what is stale.",
    )

    @dg.run_failure_sensor(
        name="alert_on_failure",
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells of a failed run or a fit that is held back, where `alerts` in care.yaml says.",
    )
    def alert_on_failure(context: dg.RunFailureSensorContext) -> None:
        root, found = settings()
        send(found.alerts, root, failure_text(context.dagster_run, context.get_step_failure_events()))

    @dg.sensor(
        name="alert_when_stale",
        minimum_interval_seconds=600,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells once when no night has come to an end by its deadline.",
    )
    def alert_when_stale(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        root, found = settings()
        if found.nightly is None:
            return dg.SkipReason("care.yaml names no hour under `nightly`")
        last = last_night(context.instance)
        if last is None or time.time() - last < _DAY_S + 3600 * found.nightly.deadline_hours:
            return dg.SkipReason("the last night came to an end in time" if last else "no night has been yet")
        if context.cursor == str(last):
            return dg.SkipReason("told already")
        hours = (time.time() - last) / 3600
        send(found.alerts, root, f"CARE: the last night ended {hours:.0f} hours ago; is the daemon running?")
        context.update_cursor(str(last))
        return dg.SkipReason("told")

    return [workspace_sensor, automation, alert_on_failure, alert_when_stale]


def last_night(instance: dg.DagsterInstance) -> float | None:
    """When `night` was last materialised, in seconds since 1970."""
    event = instance.get_latest_materialization_event(dg.AssetKey("night"))
    return None if event is None else event.timestamp


def failure_text(run: dg.DagsterRun, failures: Sequence[dg.DagsterEvent]) -> str:
    """One line: what failed where, in the failure's own words."""
    where = run.tags.get("dagster/partition") or run.tags.get("dagster/asset_partition_range_start") or ""
    said = "; ".join(f"{event.step_key}: {words(event)}" for event in failures) or "the run was lost"
    return f"CARE: run {run.run_id[:8]} {where} failed. {said}"
