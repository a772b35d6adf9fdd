"""What Dagster's daemon watches: the workspace's files, what is stale, runs that failed, nights that did not come."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import dagster as dg

from assets.workspace import Workspace
from care_ops.errors import CareError
from orchestration.alerts import failure_message, send
from orchestration.dagster_internals import RANGE_END_TAG, RANGE_START_TAG, WILL_RETRY_TAG
from orchestration.experiment_sensor import experiment_sensor
from orchestration.launches import REASON, RETRY
from orchestration.observe import observe
from orchestration.standing import (
    alert_waiting,
    forget_mended_failures,
    note_canceled_run,
    note_failed_run,
    untold_verdicts,
)
from orchestration.workspace import Settings

_DEADLINE_CHECKED_EVERY_S = 600

ReadSettings = Callable[[], tuple[Path, Settings]]
"""Reads care.yaml anew; returns the workspace's folder beside it."""


def build_sensors(
    load: Callable[[], Workspace], read_settings: ReadSettings, watch_seconds: int
) -> list[dg.SensorDefinition]:
    """Sensors over one workspace, which is read anew at each tick.

    Parameters
    ----------
    load : callable
        Reads the workspace.
    read_settings : callable
    watch_seconds : int
        Shortest time between two looks at the workspace.
    """
    return [
        _workspace_sensor(load, read_settings, watch_seconds),
        _stale_assets_sensor(watch_seconds),
        _alert_on_failure(load, read_settings),
        _note_canceled_runs(load),
        _alert_when_stale(read_settings),
        experiment_sensor(load, watch_seconds),
    ]


def _workspace_sensor(
    load: Callable[[], Workspace], read_settings: ReadSettings, watch_seconds: int
) -> dg.SensorDefinition:
    @dg.sensor(
        name="workspace_sensor",
        minimum_interval_seconds=watch_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        asset_selection=dg.AssetSelection.assets("report_index"),
        description="Reports new content of test sets, judges and settings; adds and deletes partitions. Asks for the "
        "index where a verdict is no longer what the pages say, and alerts of a fit that is held back.",
    )
    def workspace_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        workspace = load()
        observation = observe(workspace, context.instance)
        if not observation.events and not observation.requests:
            return _tell_verdicts(context, workspace, read_settings()[1])
        for sentence in observation.sentences():
            context.log.info(sentence)
        return dg.SensorResult(asset_events=observation.events, dynamic_partitions_requests=observation.requests)

    return workspace_sensor


def _tell_verdicts(
    context: dg.SensorEvaluationContext, workspace: Workspace, settings: Settings
) -> dg.SensorResult | dg.SkipReason:
    """Ask for the index once for each new state of the verdicts; the cursor is the state that it was last asked for.

    Not in the tick that reports a change: what follows from one within seconds is told by the run that it leads to.
    """
    from assets.report.verdicts import current_verdicts

    forget_mended_failures(workspace, context.instance)
    verdicts = current_verdicts(workspace)
    alert_waiting(workspace, verdicts, settings.alerts)
    state = untold_verdicts(workspace, verdicts)
    if not state or state == context.cursor:
        context.update_cursor(state)
        return dg.SkipReason("nothing has changed")
    return dg.SensorResult(run_requests=[dg.RunRequest(tags={REASON: "verdict"})], cursor=state)


def _stale_assets_sensor(watch_seconds: int) -> dg.SensorDefinition:
    return dg.AutomationConditionSensorDefinition(
        "stale_assets_sensor",
        target=dg.AssetSelection.all(),
        minimum_interval_seconds=watch_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for what is stale.",
        run_tags=RETRY,
    )


def _alert_on_failure(load: Callable[[], Workspace], read_settings: ReadSettings) -> dg.SensorDefinition:
    @dg.run_failure_sensor(
        name="alert_on_failure",
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends an alert of a run that failed and is not tried again, to where `alerts` in care.yaml says.",
    )
    def alert_on_failure(context: dg.RunFailureSensorContext) -> None:
        from orchestration.instance import CARE_RUN, LAUNCHED_BY

        tags = context.dagster_run.tags
        if tags.get(LAUNCHED_BY) == CARE_RUN or tags.get(WILL_RETRY_TAG) == "true":
            return  # `care run` sends one alert at its end, with all that failed; and what is tried again may be mended
        root, settings = read_settings()
        failures = context.get_step_failure_events()
        try:
            workspace = load()
        except CareError as error:  # what broke the workspace may be what the run failed of
            told = f" | the workspace cannot be read: {error}"
        else:
            note_failed_run(workspace, context.instance, context.dagster_run, failures)
            told = verdict_told(workspace, tags.get("dagster/partition"))
        text = failure_text(context.dagster_run, failures, told)
        if not send(settings.alerts, root, text):
            context.log.info(f"care.yaml names nobody under `alerts` who would be sent: {text}")

    return alert_on_failure


def _note_canceled_runs(load: Callable[[], Workspace]) -> dg.SensorDefinition:
    @dg.run_status_sensor(
        name="note_canceled_runs",
        run_status=dg.DagsterRunStatus.CANCELED,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Remembers what a canceled run was still to make, for the verdict on its test set. Nobody is "
        "alerted: a person canceled it.",
    )
    def note_canceled_runs(context: dg.RunStatusSensorContext) -> None:
        from orchestration.instance import CARE_RUN, LAUNCHED_BY

        if context.dagster_run.tags.get(LAUNCHED_BY) != CARE_RUN:  # `care run` notes what it did not make itself
            note_canceled_run(load(), context.instance, context.dagster_run)

    return note_canceled_runs


def _alert_when_stale(read_settings: ReadSettings) -> dg.SensorDefinition:
    @dg.sensor(
        name="alert_when_stale",
        minimum_interval_seconds=_DEADLINE_CHECKED_EVERY_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends one alert when no night has come to an end by its deadline.",
    )
    def alert_when_stale(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        root, settings = read_settings()
        if settings.nightly is None:
            return dg.SkipReason("care.yaml names no hour under `nightly`")
        last = last_night(context.instance)
        if last is None or time.time() < settings.nightly.deadline_after(last):
            return dg.SkipReason("the last night came to an end in time" if last else "no night has been yet")
        if context.cursor == str(last):
            return dg.SkipReason("an alert of this night has been sent already")
        hours = (time.time() - last) / 3600
        send(settings.alerts, root, f"CARE: the last night ended {hours:.0f} hours ago; is the daemon running?")
        context.update_cursor(str(last))
        return dg.SkipReason(f"the last night ended {hours:.0f} hours ago; an alert was sent")

    return alert_when_stale


def last_night(instance: dg.DagsterInstance) -> float | None:
    """When `night` was last materialised, in seconds since 1970."""
    event = instance.get_latest_materialization_event(dg.AssetKey("night"))
    return None if event is None else event.timestamp


def verdict_told(workspace: Workspace, testset: str | None) -> str:
    """The sentence of the verdict on a test set as it stands now; empty where there is none."""
    from assets.judging.failures import unheard
    from assets.report.verdicts import verdict_on

    if testset is None or testset not in workspace.testsets or not workspace.warehouse.usable():
        return ""
    with workspace.warehouse.reader() as connection:
        owing = unheard(workspace, connection, testset)
    return f" | {testset}: {verdict_on(workspace, testset, owing).headline}"


def failure_text(run: dg.DagsterRun, failures: Sequence[dg.DagsterEvent], told: str = "") -> str:
    """One line: what failed, of what, and why, and then the verdict on the test set, where there is one.

    A run over a range of judges has no partition of its own: the reason names those that failed.
    """
    partition, last = run.tags.get("dagster/partition"), run.tags.get(RANGE_END_TAG)
    lost = "the run was lost" if last is None else f"the run of {run.tags[RANGE_START_TAG]} to {last} was lost"
    reasons = "; ".join(f"{event.step_key}: {failure_message(event)}" for event in failures) or lost
    return f"CARE: run {' '.join(filter(None, (run.run_id[:8], partition)))} failed. {reasons}{told}"
