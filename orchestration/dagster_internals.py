"""Everything that CARE uses of Dagster beyond its documented interface.

Dagster promises to keep only what ``import dagster`` exports and documents. Each function here reaches further, says
why, and says what would make it unnecessary. ``tests/orchestration/test_dagster_internals.py`` tries each one, so that
a release of Dagster that changed one fails there, in words, before it fails a night; ``test_house.py`` holds that no
other module imports ``dagster._*`` or ``dagster_shared``.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import Popen
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import dagster as dg

from care_ops.errors import InputError

if TYPE_CHECKING:
    from dagster._core.execution.backfill import PartitionBackfill
    from dagster._core.launcher import CheckRunHealthResult as RunHealth

IMPLICIT_ASSET_JOB = "__ASSET_JOB"
"""The job that Dagster makes of all assets.

Why: a schedule names its job before the definitions exist, and this job alone holds assets of different partitions.
Unnecessary once a schedule may name assets of different partitions as its target.
"""

RANGE_START_TAG, RANGE_END_TAG = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
WILL_RETRY_TAG = "dagster/will_retry"
"""Tags by which a run covers a range of partitions.

Why: running a range in this process takes these tags; Dagster has constants for them and exports none. Unnecessary once
``execute_in_process`` takes a range.
"""

_DAEMON_SILENCE_S = 90.0
"""Dagster's daemon writes a sign of life every 30 seconds; three in a row are never late."""

_PLACE_LOOKED_FOR_EVERY_S = 0.5

_MOST_ENGINES = 8
"""Open files of run logs: a run writes to its own log, the index and the list of runs."""


def body_of(asset: dg.AssetsDefinition) -> Callable[..., Any]:
    """The function that an asset was made of.

    Why: an asset's key can be replaced, its step's name and resource cannot. Unnecessary once they can.
    """
    compute: Any = asset.op.compute_fn
    return compute.decorated_fn


@contextmanager
def places_in_pools(context: dg.AssetExecutionContext, pools: Sequence[str]) -> Generator[None]:
    """Hold a place in each of these pools for a step; waits where one of them is full.

    The pools are in an order that is the same for all steps, so that no two wait for each other. Why: a step names one
    pool, whatever partitions it makes. Unnecessary once the pool may follow from a partition.
    """
    from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext

    inner = context.op_execution_context
    step, storage = inner.op_handle.name, context.instance.event_log_storage
    try:
        with InstanceConcurrencyContext(context.instance, context.run) as places:
            for pool in pools:
                told = False
                while not places.claim(pool, step):
                    if not told:
                        context.log.info(f"waiting for a place in the pool {pool}")
                        told = True
                    time.sleep(_PLACE_LOOKED_FOR_EVERY_S)
        yield
    finally:
        if pools:
            storage.free_concurrency_slot_for_step(context.run.run_id, step)


def implicit_asset_job(defs: dg.Definitions) -> dg.JobDefinition:
    """The job over all assets, to be executed in this process.

    Why: ``dagster.materialize`` makes a job anew for each run and takes no tags of a range. Unnecessary once it does.
    """
    return defs.resolve_implicit_global_asset_job_def()


def start_tails_apart() -> None:
    """Let what shows on a terminal what a step prints be of a session of its own, which no Ctrl-C reaches.

    Why: it dies of that with a traceback. Unnecessary once it ignores it.
    """
    from dagster._core.execution import compute_logs

    module: Any = compute_logs
    module.subprocess = SimpleNamespace(Popen=partial(Popen, start_new_session=True))


def selected_assets(defs: dg.Definitions, selection: str | None) -> set[str]:
    """Names of the assets that a selection in Dagster's syntax means; all where there is none.

    Why: Dagster documents how to write a selection, not how to resolve one. Unnecessary once ``Definitions`` can.

    Raises ``InputError`` where it is none, or names nothing.
    """
    from dagster._core.definitions.asset_selection import DagsterInvalidAssetSelectionError

    try:
        with warnings.catch_warnings(action="ignore", category=dg.BetaWarning):
            chosen = dg.AssetSelection.from_string(selection) if selection else dg.AssetSelection.all()
    except DagsterInvalidAssetSelectionError as error:
        raise InputError(f"--select {selection}: not in Dagster's syntax; write key:panel or group:fit") from error
    found = {key.to_user_string() for key in chosen.resolve(defs.resolve_asset_graph())}
    if not found:
        raise InputError(f"--select {selection}: names no asset; write, for example, key:panel or group:fit")
    return found


def materialisations(instance: dg.DagsterInstance, run_id: str) -> Iterator[tuple[str, str | None]]:
    """Asset and partition of everything that a run materialised.

    Why: what a step logged before it failed is not among the events of ``ExecuteInProcessResult``. Unnecessary once
    ``fetch_materializations`` can be asked for one run.
    """
    yield from _assets_of(instance, run_id, dg.DagsterEventType.ASSET_MATERIALIZATION)


def planned_materialisations(instance: dg.DagsterInstance, run_id: str) -> Iterator[tuple[str, str | None]]:
    """Asset and partition of everything that a run was to materialise; no partition where it covers a range of them.

    Why: a run that a person asks for names its job, not its assets. Unnecessary as for ``materialisations``.
    """
    yield from _assets_of(instance, run_id, dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)


def _assets_of(
    instance: dg.DagsterInstance, run_id: str, kind: dg.DagsterEventType
) -> Iterator[tuple[str, str | None]]:
    for entry in instance.all_logs(run_id, of_type=kind):
        event = entry.dagster_event
        if event is not None and event.asset_key is not None:
            yield event.asset_key.to_user_string(), event.partition


def run_daemon(arguments: Sequence[str], *, reload_s: float) -> None:
    """Run ``dagster-daemon`` in this process, which starts its code server anew every ``reload_s`` seconds.

    One that has died is replaced at the next look, a few seconds later, and one that did not start after a minute. Why:
    where the daemon has started the code server itself it replaces it every minute, dead or not, and that takes almost
    half of the processor time of a daemon at rest. Unnecessary once the interval is a setting, and a death is noticed.
    """
    from dagster._daemon import controller
    from dagster._daemon.cli import create_dagster_daemon_cli

    # The daemon gives up where no start has succeeded for so long.
    tolerance_s = reload_s + controller.DEFAULT_WORKSPACE_FRESHNESS_TOLERANCE - controller.RELOAD_WORKSPACE_INTERVAL
    again_s, controller.RELOAD_WORKSPACE_INTERVAL = controller.RELOAD_WORKSPACE_INTERVAL, reload_s
    controller.DEFAULT_WORKSPACE_FRESHNESS_TOLERANCE = tolerance_s
    ours: Any = controller.DagsterDaemonController
    look = ours.check_workspace_freshness

    def look_and_replace(daemon: Any, last: float) -> float:
        entries = [*daemon._grpc_server_registry._active_entries.values()]
        died = any(hasattr(one, "process") and one.process.server_process.poll() is not None for one in entries)
        failed = any(hasattr(one, "error") and time.time() - one.creation_timestamp > again_s for one in entries)
        return look(daemon, min(last, time.time() - reload_s - 1.0) if died or failed else last)

    ours.check_workspace_freshness = look_and_replace
    create_dagster_daemon_cli()(args=list(arguments), obj={})


def run_dev(arguments: Sequence[str], webserver: Sequence[str]) -> None:
    """Run ``dagster dev`` in this process, with another module, and its first arguments, as its webserver.

    Why: Dagster's own answers whichever page a browser shows. Unnecessary once it refuses those of others.
    """
    from dagster._cli import dev

    module: Any = dev
    start = module.open_ipc_subprocess

    def ours(parts: Sequence[str], **more: Any) -> Any:
        at = parts.index("dagster_webserver") if "dagster_webserver" in parts else len(parts)
        return start([*parts[:at], *(webserver if at < len(parts) else ()), *parts[at + 1 :]], **more)

    module.open_ipc_subprocess = ours
    dev.dev_command(args=list(arguments))


def daemon_is_alive(instance: dg.DagsterInstance) -> bool:
    """Whether a daemon of this instance has given a sign of life within the last minute and a half.

    Why: the daemon may run in another container, where no lock or process shows it. Unnecessary once Dagster documents
    how to ask.
    """
    heartbeats = instance.get_daemon_heartbeats().values()
    return any(time.time() - heartbeat.timestamp < _DAEMON_SILENCE_S for heartbeat in heartbeats)


def refused_settings(home: Path) -> str | None:
    """What Dagster has against the ``dagster.yaml`` in a folder; None where it takes the file.

    Why: the documented way to have that file checked opens the storage, which would then be made. Unnecessary once
    Dagster documents a check of the file alone.
    """
    from dagster._core.instance.config import dagster_instance_config

    try:
        dagster_instance_config(str(home))
    except dg.DagsterInvalidConfigError as error:
        return " ".join(str(error).split())
    return None


def unreachable_storage() -> tuple[type[Exception], ...]:
    """What the storage of a deployment raises whose database does not answer; empty where none is installed.

    Why: the exception is dagster-postgres' own and not documented. Unnecessary once it derives from a Dagster error.
    """
    try:
        from dagster_postgres.utils import DagsterPostgresException
    except ImportError:
        return ()
    return (DagsterPostgresException,)


def is_worked_on(run: dg.DagsterRun) -> bool | None:
    """Whether the code server that was given a run still works on it; None where nobody can be asked.

    Why: Dagster's default launcher cannot check the health of a run, and only its private client can ask the code
    server. Unnecessary once that launcher checks it.
    """
    from dagster._core.errors import DagsterUserCodeUnreachableError
    from dagster._core.storage.tags import GRPC_INFO_TAG
    from dagster._grpc.client import DagsterGrpcClient
    from dagster._grpc.types import GetCurrentRunsResult

    if GRPC_INFO_TAG not in run.tags:
        return None  # it was launched in the process of a command
    server = json.loads(run.tags[GRPC_INFO_TAG])
    client = DagsterGrpcClient(
        host=server.get("host"),
        port=server.get("port"),
        socket=server.get("socket"),
        use_ssl=bool(server.get("use_ssl", False)),
    )
    try:
        answer = dg.deserialize_value(client.get_current_runs(), GetCurrentRunsResult)
    except DagsterUserCodeUnreachableError:
        return None
    return None if answer.serializable_error_info is not None else run.run_id in answer.current_runs


def run_health(lost: str | None = None) -> RunHealth:
    """What Dagster's run monitoring is told of a run: that it is running, or why its process is gone.

    Why: a launcher of one's own has to return these classes, which Dagster does not export. Unnecessary once it does.
    """
    from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

    return CheckRunHealthResult(WorkerStatus.RUNNING if lost is None else WorkerStatus.NOT_FOUND, lost)


def end_run_as_failed(instance: dg.DagsterInstance, run: dg.DagsterRun, reason: str) -> None:
    """Mark a run as failed whose process is gone, and free the places that it holds in pools.

    Why: Dagster's daemon does this for the runs that it launched, and only while it is alive; nobody does it for runs
    of a killed ``care run``. Unnecessary once Dagster has a documented way to end a run from outside.
    """
    instance.report_run_failed(run, reason)
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def unfinished_backfills(instance: dg.DagsterInstance) -> list[PartitionBackfill]:
    """Backfills that have been asked for and have not ended.

    Why: as for ``end_run_as_failed``; Dagster documents backfills in its UI and its GraphQL interface only.
    """
    return [
        backfill
        for backfill in instance.get_backfills()
        if backfill.status.value in ("REQUESTED", "CANCELING", "FAILING")
    ]


def cancel_backfill(instance: dg.DagsterInstance, backfill: PartitionBackfill) -> None:
    """Mark a backfill as canceled that no daemon is there to carry out. Why: as for ``unfinished_backfills``."""
    instance.update_backfill(backfill.with_status(type(backfill.status).CANCELED))


@contextmanager
def runs_of_code_location(instance: dg.DagsterInstance, module: str) -> Generator[None]:
    """Let the runs that this process creates belong to the code location of a module, as those of the UI do.

    Why: a run that is executed in process names no repository, and the timeline of the UI's page Overview leaves out
    runs without one. Unnecessary once ``execute_in_process`` takes the code location.
    """
    from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
    from dagster._core.remote_origin import (
        ManagedGrpcPythonEnvCodeLocationOrigin,
        RemoteJobOrigin,
        RemoteRepositoryOrigin,
    )
    from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=module)
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, location_name=module)
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(location, SINGLETON_REPOSITORY_NAME), IMPLICIT_ASSET_JOB)
    create = partial(instance.create_run_for_job, remote_job_origin=origin)
    instance.create_run_for_job = create  # type: ignore[method-assign]
    try:
        yield
    finally:
        del instance.create_run_for_job


@contextmanager
def engines_kept() -> Generator[None]:
    """Let Dagster's SQLite storages keep their SQLAlchemy engines, and not wait for the disk at each commit.

    Why: they make an engine for every event, compile each statement anew, and on closing the last connection SQLite
    writes its log back: most of the time of a run of small steps. Each run's log is a file, and few of them stay open.
    Where the power fails, each database stays whole; the last seconds' commits may be lost, and what they told of is
    made again. Unnecessary once Dagster does both, or takes the class of their pool from ``dagster.yaml``.
    """
    from dagster._core.storage.event_log.sqlite import sqlite_event_log
    from dagster._core.storage.runs.sqlite import sqlite_run_storage
    from sqlalchemy import Engine, event
    from sqlalchemy.pool import NullPool, QueuePool

    storages: list[Any] = [sqlite_event_log, sqlite_run_storage]
    create_engine = storages[0].create_engine
    kept: dict[tuple[Any, ...], Any] = {}

    def create_or_reuse(address: str, *, poolclass: Any, connect_args: dict[str, float] | None = None) -> Any:
        arguments = connect_args or {}
        if poolclass is not NullPool:
            return create_engine(address, poolclass=poolclass, connect_args=arguments)
        key = (address, *arguments.items())
        engine = kept.pop(key, None)
        if engine is None:
            engine = create_engine(address, poolclass=QueuePool, pool_size=1, max_overflow=-1, connect_args=arguments)
            # The storages dispose of their engine after every event. We do so when we let go of it.
            engine.dispose = lambda: None
        kept[key] = engine  # at the end: the first one is then the one that was used the longest time ago
        while len(kept) > _MOST_ENGINES:
            kept.pop(next(iter(kept))).pool.dispose()
        return engine

    def log_and_go_on(connection: object, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            with suppress(sqlite3.Error):  # whoever uses the file is told; of one that is locked each commit waits
                connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")

    event.listen(Engine, "connect", log_and_go_on)
    try:
        for storage in storages:
            storage.create_engine = create_or_reuse
        yield
    finally:
        event.remove(Engine, "connect", log_and_go_on)
        for storage in storages:
            storage.create_engine = create_engine
        for engine in kept.values():
            engine.pool.dispose()
