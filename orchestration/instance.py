"""Dagster instance of a workspace, either its own or a deployment's, and the runs in this instance."""

import logging
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Container, Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import yaml
from alembic.util import CommandError
from sqlalchemy.exc import DatabaseError

from assets.judging.scores import left_out
from assets.metadata import is_behind, made_from
from assets.mount import UNMOUNTED, Mount
from assets.partitions import JUDGES, TESTSETS, slice_key
from assets.workspace import Workspace
from care_ops.errors import WarehouseError
from orchestration.dagster_internals import daemon_is_alive, end_run_as_failed
from orchestration.launcher import WatchedRunLauncher
from orchestration.locks import opening, runs_that_wait
from orchestration.logs import PACKAGES
from orchestration.plan import ASSETS, CARE_RUN, LAUNCHED_BY, planned_by
from warehouse.refusals import refusal

_BEGINNING_S = 30.0
"""Seconds for which a run counts as starting after its last update; it may import modules or wait for the lock."""

_SETTINGS = (
    "telemetry:\n  enabled: false\n"
    "nux:\n  enabled: false\n"
    "run_retries:\n  enabled: true\n  max_retries: 2\n  retry_on_asset_or_op_failure: false\n"
    "concurrency:\n  pools:\n    granularity: op\n    default_limit: 1\n"
    "run_coordinator:\n  module: dagster.core.run_coordinator\n  class: QueuedRunCoordinator\n"
    "  config: {dequeue_interval_seconds: 1}\n"
    f"storage:\n  custom:\n    module: {__name__.removesuffix('instance')}storage\n    class: Storage\n"
    "    config: {base_dir: {env: DAGSTER_HOME}}\n"
    # Steps log to Dagster; what a library prints stays on the terminal.
    "compute_logs:\n  module: dagster.core.storage.noop_compute_log_manager\n  class: NoOpComputeLogManager\n"
    f"python_logs:\n  managed_python_loggers: [{', '.join(PACKAGES)}]\n"
)
"""``dagster.yaml`` of a workspace's own instance."""

_MOST_LEFT_OUT = 300
"""Largest number of unscored partitions of `scores` to report to Dagster; each report takes some milliseconds."""

KEEP_RUNS_DAYS = 90
"""Days for which Dagster's record of a finished run is kept."""

_MOST_DELETED = 1000
"""Maximum number of old runs to delete per tick: each takes some milliseconds, and a sensor's tick has a minute."""

_logger = logging.getLogger(__name__)


def deployed_home(workspace: Workspace) -> Path | None:
    """Return ``DAGSTER_HOME`` of the deployment that runs this process; None if there is no deployment.

    A deployment also sets ``CARE_WORKSPACE``. Without this variable, ``DAGSTER_HOME`` may belong to another project.
    """
    home, served = os.environ.get("DAGSTER_HOME"), os.environ.get("CARE_WORKSPACE")
    if not home or not served or Path(served).resolve() != workspace.root.resolve():
        return None
    return None if Path(home).resolve() == (workspace.data / "dagster").resolve() else Path(home)


def instance_home(workspace: Workspace) -> Path:
    """Return the folder of the deployment's dagster.yaml or, without a deployment, of the workspace's dagster.yaml."""
    return deployed_home(workspace) or dagster_home(workspace)


def dagster_home(workspace: Workspace) -> Path:
    """Return the folder of the workspace's own Dagster instance, and write or update its dagster.yaml."""
    from warehouse.storage import write_bytes

    home = workspace.data / "dagster"
    settings, content = home / "dagster.yaml", _SETTINGS.encode()
    if not settings.is_file() or settings.read_bytes() != content:
        write_bytes(settings, content)
    return home


@contextmanager
def workspace_instance(workspace: Workspace) -> Generator[dg.DagsterInstance]:
    """Open the Dagster instance of this process's deployment or, without a deployment, of the workspace.

    Raises ``WarehouseError`` if the instance's settings or storage cannot be used.
    """
    previous = os.environ.get("DAGSTER_HOME")
    home, deployed = instance_home(workspace), deployed_home(workspace) is not None
    os.environ["DAGSTER_HOME"] = str(home)
    try:
        with _opened(home) as instance:
            yield instance
    except _unreachable_storage() as error:
        raise WarehouseError(_unusable(home, str(error.__cause__ or error), deployed=True)) from None
    except DatabaseError as error:
        unusable = _unusable(home, str(error.orig or error), deployed=deployed)
        raise WarehouseError(refusal(error, home) or unusable) from None
    except dg.DagsterInvalidInvocationError as error:
        if "table, which currently does not exist" not in str(error):
            raise
        raise WarehouseError(_unusable(home, str(error))) from None  # SQLite opens an empty file without an error
    finally:
        if previous is None:
            os.environ.pop("DAGSTER_HOME", None)
        else:
            os.environ["DAGSTER_HOME"] = previous


def _unreachable_storage() -> tuple[type[Exception], ...]:
    try:
        from dagster_postgres.utils import DagsterPostgresException
    except ImportError:
        return ()
    return (DagsterPostgresException,)


def _opened(home: Path) -> dg.DagsterInstance:
    try:
        with opening(home):
            _remove_half_made(home / "history")
            return dg.DagsterInstance.get()
    except CommandError as error:  # two processes of an older release created the storage simultaneously
        raise WarehouseError(_unusable(home, str(error))) from None
    except (yaml.YAMLError, UnicodeDecodeError, IsADirectoryError, dg.DagsterInvalidConfigError) as error:
        if unset := _unset_variables(error):
            raise WarehouseError(
                f"{home / 'dagster.yaml'} needs environment variables that are not set: {', '.join(unset)}; run the "
                "command in a container of the deployment, or set them as the deployment does"
            ) from None
        reason = str(error).strip().splitlines()[0]
        raise WarehouseError(
            f"{home / 'dagster.yaml'}: Dagster's settings cannot be read ({reason}); correct the file"
        ) from None


def _remove_half_made(history: Path) -> None:
    # Dagster never completes a file of events that exists, and writes the version of its tables last.
    events = history / "runs" / "index.db"
    if events.exists() and not _holds(events, "alembic_version") and not _holds(history / "runs.db", "runs"):
        shutil.rmtree(history)


def _holds(database: Path, table: str) -> bool:
    try:
        with closing(sqlite3.connect(database)) as connection:
            return connection.execute(f"SELECT 1 FROM {table}").fetchone() is not None
    except sqlite3.DatabaseError as error:
        return "no such table" not in str(error)  # Dagster reports a damaged file when it opens the file


def _unset_variables(error: Exception) -> list[str]:
    found = [
        re.search(r'environment variable "(\w+)" which is not set', e.message) for e in getattr(error, "errors", ())
    ]
    return sorted({match[1] for match in found if match})


def _unusable(home: Path, reason: str, *, deployed: bool = False) -> str:
    reason = " ".join(reason.split()) if deployed else reason.splitlines()[0]
    advice = (
        "check that the database server is running, correct its URL and password, and run `dagster instance migrate` "
        "after an upgrade"
        if deployed
        else "`care doctor --repair` moves it away, then `care run` creates a new storage; no score is lost"
    )
    return f"{home}: Dagster's storage cannot be used ({reason}); {advice}"


def end_abandoned_runs(workspace: Workspace, instance: dg.DagsterInstance) -> set[tuple[str, str | None]]:
    """Mark runs as failed if their process was killed.

    Such runs would count as in progress, block dependent assets, and keep their slots in pools. The caller holds the
    workspace's lock, so any unfinished run of another ``care run`` was killed. If no daemon is alive, unfinished runs
    of the daemon were killed too, except for runs that wait for the caller or have just started.

    Returns
    -------
    set of (asset, partition)
        Partitions that these runs did not report to Dagster; they may have been written nevertheless.
    """
    unreported: set[tuple[str, str | None]] = set()
    waiting, beginning_since = runs_that_wait(workspace), time.time() - _BEGINNING_S
    for record in unfinished_runs(instance, {LAUNCHED_BY: CARE_RUN} if daemon_is_alive(instance) else {}):
        run = record.dagster_run
        is_ours = run.tags.get(LAUNCHED_BY) == CARE_RUN
        if not is_ours and (run.run_id in waiting or record.update_timestamp.timestamp() > beginning_since):
            continue
        _logger.info("The process of run %s was killed; CARE marks the run as failed.", run.run_id)
        unreported |= unreported_by(run.run_id, planned_by(run, instance, workspace.mount), instance, workspace.mount)
        end_run_as_failed(instance, run, "the process that launched this run was killed")
        if workspace.warehouse.usable():  # a rebuild loads all costs
            with workspace.warehouse.writer() as connection:  # the killed run may not have loaded its costs
                workspace.bills.load(connection)
    return unreported


def unreported_by(
    run_id: str, planned: Iterable[tuple[str, str | None]], instance: dg.DagsterInstance, mount: Mount = UNMOUNTED
) -> set[tuple[str, str | None]]:
    """Return the ``planned`` partitions that a run has not reported to Dagster as materialised.

    Dagster writes an event to a log, then to an index, which may lack the event after a kill or on a full disk.
    """
    unreported: set[tuple[str, str | None]] = set()
    for asset, partition in planned:
        latest = dg.AssetRecordsFilter(mount.key(asset), [partition] if partition else None)
        if run_id not in [one.run_id for one in instance.fetch_materializations(latest, limit=1).records]:
            unreported.add((asset, partition))
    return unreported


def launcher_that_ends_runs_of_commands(instance: dg.DagsterInstance) -> str:
    """Return the launcher's name if its health check would end runs of ``care run``; otherwise an empty string.

    A deployment's run monitoring asks the launcher for the process of each run. ``K8sRunLauncher`` finds no pod for a
    run of ``care run``, so the run is marked as failed; ``WatchedRunLauncher`` lets the run continue.
    """
    launcher = instance.run_launcher
    if not instance.run_monitoring_enabled or not launcher.supports_check_run_worker_health:
        return ""
    return "" if isinstance(launcher, WatchedRunLauncher) else type(launcher).__name__


def partitions_under_way(instance: dg.DagsterInstance, mount: Mount = UNMOUNTED) -> set[tuple[str, str | None]]:
    """Return the partitions that unfinished runs will materialise."""
    return {key for record in unfinished_runs(instance) for key in planned_by(record.dagster_run, instance, mount)}


def follow_partitions(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    """Add partitions for new judges and test sets, and delete the partitions of removed judges and test sets."""
    for definition, names in ((TESTSETS, set(workspace.testsets)), (JUDGES, set(workspace.judges))):
        kind = workspace.mount.name(str(definition.name))
        known = set(instance.get_dynamic_partitions(kind))
        if names - known:
            _logger.info("New %s: %s", kind, ", ".join(sorted(names - known)))
            instance.add_dynamic_partitions(kind, sorted(names - known))
        for name in sorted(known - names):
            _logger.info("Removed %s: %s", kind, name)
            instance.delete_dynamic_partition(kind, name)


def report_unchanged(
    workspace: Workspace, instance: dg.DagsterInstance, stale: Container[tuple[str, str | None]]
) -> None:
    """Report up-to-date judges and scores to Dagster if Dagster lists them as stale or missing.

    Dagster's partition mapping is too coarse: each judge depends on the items of all test sets, and `scores` has a
    partition for each judge on each test set, even if the judge does not score the test set.
    """
    items, judges, scores = (workspace.mount.key(asset) for asset in ("items", "judge_inference", "scores"))
    for newest in instance.fetch_materializations(items, limit=1).records:
        for judge in workspace.judges:
            wanted = dg.AssetRecordsFilter(judges, asset_partitions=[judge])
            for record in instance.fetch_materializations(wanted, limit=1).records:
                event = record.asset_materialization
                if event and ("judge_inference", judge) not in stale and is_behind(event, items, newest.storage_id):
                    tags = {**(event.tags or {}), **made_from(instance, [items])}
                    instance.report_runless_asset_event(
                        dg.AssetMaterialization(judges, partition=judge, metadata=event.metadata, tags=tags)
                    )
    left = {
        str(slice_key(judge, testset))
        for judge in workspace.judges
        for testset in workspace.testsets.keys() - set(workspace.testsets_of(judge))
    }
    if 0 < len(left) <= _MOST_LEFT_OUT:
        for key in sorted(left - instance.get_materialized_partitions(scores)):
            instance.report_runless_asset_event(left_out(workspace, key))


def last_nightly_run(instance: dg.DagsterInstance, mount: Mount = UNMOUNTED) -> float | None:
    """Return the start of the last nightly run, in seconds since 1970; None if there was none."""
    event = instance.get_latest_materialization_event(mount.key("night"))
    return None if event is None else event.timestamp


def delete_old_runs(workspace: Workspace, instance: dg.DagsterInstance, days: int = KEEP_RUNS_DAYS) -> int:
    """Once per UTC day, delete this workspace's runs that ended over ``days`` days ago; return their number.

    Dagster deletes a run together with its materialisations. Therefore, a run that materialised the latest data version
    of a partition is kept: Dagster needs this version to find stale assets downstream.
    """
    done_on, today = f"care/old_runs_deleted {workspace.root}", f"{datetime.now(UTC):%F}"
    if instance.daemon_cursor_storage.get_cursor_values({done_on}).get(done_on) == today:
        return 0
    status = dg.DagsterRunStatus
    ended = [status.SUCCESS, status.FAILURE, status.CANCELED]
    old = dg.RunsFilter(statuses=ended, updated_before=datetime.now(UTC) - timedelta(days=days))
    deleted = 0
    for run in instance.get_runs(old):
        names = [workspace.mount.asset(key.to_user_string()) for key in run.asset_selection or ()]
        is_ours = bool(names) and all(name in ASSETS for name in names)
        if is_ours and not _holds_current_version(instance, run.run_id):
            instance.delete_run(run.run_id)
            deleted += 1
            if deleted == _MOST_DELETED:
                return deleted
    instance.daemon_cursor_storage.set_cursor_values({done_on: today})
    return deleted


def _holds_current_version(instance: dg.DagsterInstance, run_id: str) -> bool:
    entries = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    for event in filter(None, (entry.asset_materialization for entry in entries)):
        partitions = None if event.partition is None else [event.partition]
        wanted = dg.AssetRecordsFilter(event.asset_key, asset_partitions=partitions)
        for record in instance.fetch_materializations(wanted, limit=1).records:
            latest = record.asset_materialization
            is_input = event.asset_key.path[-1] not in ("night", "canary")  # nothing depends on these
            if record.run_id == run_id or (is_input and latest and _version(latest) == _version(event)):
                return True
    return False


def _version(event: dg.AssetMaterialization) -> str | None:
    return (event.tags or {}).get("dagster/data_version")


def unfinished_runs(instance: dg.DagsterInstance, tags: dict[str, str] | None = None) -> Sequence[dg.RunRecord]:
    """Return the records of unfinished runs, optionally only of runs with all ``tags``."""
    status = dg.DagsterRunStatus
    unfinished = [status.QUEUED, status.NOT_STARTED, status.STARTING, status.STARTED, status.CANCELING]
    return instance.get_run_records(dg.RunsFilter(statuses=unfinished, tags=tags or {}))
