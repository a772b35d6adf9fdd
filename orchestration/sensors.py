"""What Dagster's daemon watches: the files, what is outdated, runs that failed, and nights that did not come."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import dagster as dg

from assets.hashing import content_hash
from assets.mount import Mount
from assets.workspace import Workspace
from care_ops.errors import CareError
from orchestration.alerts import failure_message, send
from orchestration.dagster_internals import IMPLICIT_ASSET_JOB, RANGE_END_TAG, RANGE_START_TAG, WILL_RETRY_TAG
from orchestration.launches import TRIED_AGAIN
from orchestration.standing import alert_waiting, note_canceled_run, note_failed_run
from orchestration.workspace import CARE_YAML, Settings
from warehouse.documents import record_of

_DEADLINE_CHECKED_EVERY_S = 600

_RUNS_LOOKED_AT_EVERY_S = 5
"""What follows from a run, or from a new judge, is asked for soon; to see whether there is any costs little."""

ReadSettings = Callable[[], tuple[Path, Settings]]
"""Reads care.yaml anew; returns the workspace's folder beside it."""


def build_sensors(
    folder: Path, mount: Mount, load: Callable[[], Workspace], read_settings: ReadSettings, watch_seconds: int
) -> list[dg.SensorDefinition]:
    """Sensors over one workspace, which is read anew at each tick.

    Parameters
    ----------
    folder : Path
        Of care.yaml.
    mount : Mount
    load : callable
        Reads the workspace.
    read_settings : callable
    watch_seconds : int
        Shortest time between two looks at the workspace.
    """
    return [
        _workspace_sensor(mount, load, read_settings, watch_seconds),
        _stale_assets_sensor(folder, mount, load, watch_seconds),
        _alert_on_failure(mount, load, read_settings),
        _note_canceled_runs(mount, load),
        _alert_when_stale(mount, read_settings),
    ]


def _workspace_sensor(
    mount: Mount, load: Callable[[], Workspace], read_settings: ReadSettings, watch_seconds: int
) -> dg.SensorDefinition:
    @dg.sensor(
        name=mount.name("workspace_sensor"),
        minimum_interval_seconds=watch_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Adds and deletes partitions of test sets and judges, and alerts of a fit that is held back.",
    )
    def workspace_sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        from assets.report.verdicts import current_verdicts
        from orchestration.instance import follow_partitions

        workspace, settings = load(), read_settings()[1]
        follow_partitions(workspace, context.instance)
        if settings.alerts.reach_anybody:
            alert_waiting(workspace, current_verdicts(workspace), settings.alerts)
        return dg.SkipReason("there is nothing more to do")

    return workspace_sensor


def _moment(folder: Path, instance: dg.DagsterInstance) -> str:
    """What it costs little to compare every few seconds: who is at work, and when settings and judges changed."""
    from orchestration.instance import unfinished_runs

    files = [folder / CARE_YAML, *(folder / "judges").glob("*.yaml"), *(folder / "testsets").glob("*.yaml")]
    times = sorted((str(file), file.stat().st_mtime_ns) for file in files if file.is_file())
    return content_hash([times, sorted(record.dagster_run.run_id for record in unfinished_runs(instance))])


def _stale_assets_sensor(
    folder: Path, mount: Mount, load: Callable[[], Workspace], watch_seconds: int
) -> dg.SensorDefinition:
    @dg.sensor(
        name=mount.name("stale_assets_sensor"),
        job_name=IMPLICIT_ASSET_JOB,  # the only job that holds assets of different partitions
        minimum_interval_seconds=min(watch_seconds, _RUNS_LOOKED_AT_EVERY_S),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for what is outdated: as often as care.yaml says, and soon after a run has ended.",
    )
    def stale_assets_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        from orchestration.plan import Seen, look

        seen = record_of(Seen, json.loads(context.cursor or "{}"))
        now, moment = time.time(), _moment(folder, context.instance)
        if moment == seen.moment and now - seen.looked_at < watch_seconds:
            return dg.SkipReason("no run has ended and no file of the workspace has changed since the last look")
        asked, seen = look(load(), context.instance, replace(seen, moment=moment, looked_at=now))
        cursor = json.dumps(asdict(seen))
        return dg.SensorResult(asked, None if asked else "there is nothing to ask for", cursor)

    return stale_assets_sensor


def _alert_on_failure(mount: Mount, load: Callable[[], Workspace], read_settings: ReadSettings) -> dg.SensorDefinition:
    @dg.run_failure_sensor(
        name=mount.name("alert_on_failure"),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends an alert of a run that failed and is not tried again, to where `alerts` in care.yaml says.",
    )
    def alert_on_failure(context: dg.RunFailureSensorContext) -> None:
        from orchestration.instance import CARE_RUN, LAUNCHED_BY

        tags = context.dagster_run.tags
        if tags.get(LAUNCHED_BY) == CARE_RUN or "true" in (tags.get(WILL_RETRY_TAG), tags.get(TRIED_AGAIN)):
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


def _note_canceled_runs(mount: Mount, load: Callable[[], Workspace]) -> dg.SensorDefinition:
    @dg.run_status_sensor(
        name=mount.name("note_canceled_runs"),
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


def _alert_when_stale(mount: Mount, read_settings: ReadSettings) -> dg.SensorDefinition:
    @dg.sensor(
        name=mount.name("alert_when_stale"),
        minimum_interval_seconds=_DEADLINE_CHECKED_EVERY_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends one alert when no night has come to an end by its deadline.",
    )
    def alert_when_stale(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        from orchestration.instance import last_night

        root, settings = read_settings()
        if settings.nightly is None:
            return dg.SkipReason("care.yaml names no hour under `nightly`")
        last = last_night(context.instance, mount)
        if last is None or time.time() < settings.nightly.deadline_after(last):
            return dg.SkipReason("the last night came to an end in time" if last else "no night has been yet")
        if context.cursor == str(last):
            return dg.SkipReason("an alert of this night has been sent already")
        hours = (time.time() - last) / 3600
        send(settings.alerts, root, f"CARE: the last night ended {hours:.0f} hours ago; is the daemon running?")
        context.update_cursor(str(last))
        return dg.SkipReason(f"the last night ended {hours:.0f} hours ago; an alert was sent")

    return alert_when_stale


def verdict_told(workspace: Workspace, testset: str | None) -> str:
    """The sentence of the verdict on a test set as it stands now; empty where there is none."""
    from assets.report.outdated import state_of
    from assets.report.verdicts import verdict_on

    if testset is None or testset not in workspace.testsets or not workspace.warehouse.usable():
        return ""
    with workspace.warehouse.reader() as connection:
        state = state_of(workspace, connection, testset)
    return f" | {testset}: {verdict_on(workspace, testset, state).headline}"


def failure_text(run: dg.DagsterRun, failures: Sequence[dg.DagsterEvent], told: str = "") -> str:
    """One line: what failed, of what, and why, and then the verdict on the test set, where there is one.

    A run over a range of judges has no partition of its own: the reason names those that failed.
    """
    partition, last = run.tags.get("dagster/partition"), run.tags.get(RANGE_END_TAG)
    lost = "the run was lost" if last is None else f"the run of {run.tags[RANGE_START_TAG]} to {last} was lost"
    reasons = "; ".join(f"{event.step_key}: {failure_message(event)}" for event in failures) or lost
    return f"CARE: run {' '.join(filter(None, (run.run_id[:8], partition)))} failed. {reasons}{told}"
