"""Dagster sensors that update partitions, send alerts, request stale assets and report failed runs."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path

import dagster as dg

from assets.metadata import is_blocked
from assets.mount import Mount
from assets.workspace import Workspace
from care_ops.errors import CareError
from orchestration.alert_causes import (
    failures_of_run,
    is_ours,
    note_failures_of_run,
    notifier_of,
    report_conditions,
    report_failures,
)
from orchestration.alerts import Alert, AlertError, Notifier
from orchestration.dagster_internals import IMPLICIT_ASSET_JOB
from orchestration.plan import CARE_RUN, LAUNCHED_BY, TRIED_AGAIN, Cursor
from orchestration.workspace import Settings, data_folder, read_settings
from warehouse.documents import record_of

_WILL_RETRY_TAG = "dagster/will_retry"
"""Tag of a failed run that Dagster retries."""

_WATCHED_EVERY_S = 30

_REQUESTED_EVERY_S = 10  # each stage of a fit waits for the next tick


def build_sensors(
    folder: Path, mount: Mount, load: Callable[[], Workspace], settings: Settings, *, watch: bool
) -> list[dg.SensorDefinition]:
    """Return a workspace's sensors; at each tick, a sensor reads care.yaml, test sets and judges again.

    By default the sensors are stopped. `nightly` or `on_change` in care.yaml starts all sensors; ``watch`` starts all
    except `stale_assets_sensor`.
    """
    runs = settings.nightly is not None or settings.on_change
    of_stale, of_others = (
        dg.DefaultSensorStatus.RUNNING if asked_for else dg.DefaultSensorStatus.STOPPED
        for asked_for in (runs, runs or watch)
    )
    alert_on_failure = dg.run_failure_sensor(
        name=mount.name("alert_on_failure"),
        default_status=of_others,
        description="Sends an alert to the recipients in `alerts` of care.yaml if a run failed and is not retried.",
    )
    return [
        dg.SensorDefinition(
            name=mount.name("workspace_sensor"),
            evaluation_fn=partial(_update_partitions_and_alerts, folder, load),
            minimum_interval_seconds=_WATCHED_EVERY_S,
            default_status=of_others,
            description="Adds and deletes partitions of test sets and judges; sends new and resolved alerts.",
        ),
        dg.SensorDefinition(
            name=mount.name("stale_assets_sensor"),
            evaluation_fn=partial(_request_stale_assets, folder, load),
            job_name=IMPLICIT_ASSET_JOB,  # the only job that holds assets of different partitions
            minimum_interval_seconds=_REQUESTED_EVERY_S,
            default_status=of_stale,
            description="Requests runs of stale assets. With `nightly` in care.yaml, it waits for the schedule. With "
            "`on_change`, or without either setting, it requests runs as soon as files change.",
        ),
        alert_on_failure(partial(_report_failed_run, folder, mount, load)),
    ]


def _update_partitions_and_alerts(
    folder: Path, load: Callable[[], Workspace], context: dg.SensorEvaluationContext
) -> dg.SkipReason:
    from orchestration.instance import follow_partitions

    settings = read_settings(folder)
    unreadable = Notifier(settings.alerts, folder, data_folder(folder, settings) / "dagster")
    try:
        workspace = load()
    except CareError as error:
        with suppress(AlertError):  # the next tick tries again
            unreadable.report(Alert("workspace unreadable", str(error)))
            unreadable.send()
        return dg.SkipReason(f"the workspace cannot be read: {error}")
    follow_partitions(workspace, context.instance)
    with suppress(AlertError):
        unreadable.resolve(lambda _: True)
        unreadable.send()
    notifier = notifier_of(workspace, settings.alerts)
    if notifier.has_recipient:
        _notify(notifier, workspace, context.instance, settings)
    return dg.SkipReason("partitions and alerts are up to date")


def _notify(notifier: Notifier, workspace: Workspace, instance: dg.DagsterInstance, settings: Settings) -> None:
    from assets.judging.bill import latest_bill_message
    from assets.report.verdicts import current_verdicts
    from orchestration.instance import last_nightly_run, partitions_under_way
    from orchestration.plan import find_stale

    report_conditions(notifier, workspace, instance, current_verdicts(workspace), settings.nightly)
    notifier.send()
    last = last_nightly_run(instance, workspace.mount)
    if last is None or not notifier.needs_heartbeat(last):
        return
    if not partitions_under_way(instance, workspace.mount) and all(
        one.only_waits for one in find_stale(workspace).values()
    ):
        notifier.send_heartbeat(last, latest_bill_message(workspace))


def _request_stale_assets(
    folder: Path, load: Callable[[], Workspace], context: dg.SensorEvaluationContext
) -> dg.SensorResult:
    from orchestration.requests import request_stale

    seen = record_of(Cursor, json.loads(context.cursor or "{}"))
    settings = read_settings(folder)
    only_nightly = settings.nightly is not None and not settings.on_change
    asked, seen = request_stale(load(), context.instance, seen, only_nightly=only_nightly)
    cursor = json.dumps(asdict(seen))
    return dg.SensorResult(asked, None if asked else "no run requested: no stale partition is ready to run", cursor)


def _report_failed_run(
    folder: Path, mount: Mount, load: Callable[[], Workspace], context: dg.RunFailureSensorContext
) -> None:
    tags = context.dagster_run.tags
    if not is_ours(mount, context.instance, context.dagster_run):
        return
    if tags.get(LAUNCHED_BY) == CARE_RUN or "true" in (tags.get(_WILL_RETRY_TAG), tags.get(TRIED_AGAIN)):
        return  # `care run` reports its own failures, and a retry may succeed
    run, events = context.dagster_run, context.get_step_failure_events()
    failures = [event for event in events if not is_blocked(event.step_failure_data)]
    if events and not failures:
        return  # a fit awaits review, which `workspace_sensor` reports
    try:
        workspace = load()
    except CareError as error:  # `workspace_sensor` sends an alert
        context.log.info(f"the failure of this run is not recorded, because the workspace cannot be read: {error}")
        return
    causes = failures_of_run(workspace, context.instance, run, failures)
    note_failures_of_run(workspace, causes)
    notifier = notifier_of(workspace, read_settings(folder).alerts)
    report_failures(notifier, causes)
    notifier.send()
