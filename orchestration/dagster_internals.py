"""Everything that CARE uses of Dagster beyond its documented interface.

Dagster promises to keep only what ``import dagster`` exports and documents. Each function here reaches further, says
why, and says what would make it unnecessary. ``tests/orchestration/test_dagster_internals.py`` tries each one, so that
a release of Dagster that changed one fails there, in words, before it fails a night; ``test_house.py`` holds that no
other module imports ``dagster._*`` or ``dagster_shared``.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from care_ops.errors import InputError

if TYPE_CHECKING:
    from dagster._core.execution.backfill import PartitionBackfill
    from dagster._core.launcher import CheckRunHealthResult as RunHealth

IMPLICIT_ASSET_JOB = "__ASSET_JOB"
"""The job that Dagster makes of all assets.

Why: a schedule names its job before the definitions exist, and this job alone holds assets of different partitions.
Unnecessary once a job may hold assets of different partitions: https://github.com/dagster-io/dagster/issues/13257.
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


def sqlite_storages() -> tuple[Any, Any, Any]:
    """Dagster's storages on SQLite files, of all, of events and of runs, on which ``storage`` builds.

    Why: ``dagster.yaml`` may name a storage, and Dagster documents these three as the ones to name, not to build upon.
    Unnecessary once they keep their engines: https://github.com/dagster-io/dagster/issues/33935.
    """
    from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage
    from dagster._core.storage.runs.sqlite import SqliteRunStorage
    from dagster._core.storage.sqlite_storage import DagsterSqliteStorage

    return DagsterSqliteStorage, SqliteEventLogStorage, SqliteRunStorage


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
    pool, whatever partitions it makes.
    Unnecessary once the pool may follow from a partition: https://github.com/dagster-io/dagster/issues/17422.
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


def selected_assets(defs: dg.Definitions, selection: str | None) -> set[str]:
    """Names of the assets that a selection in Dagster's syntax means; all where there is none.

    Why: Dagster documents how to write a selection, not how to resolve one. Unnecessary once ``Definitions`` can.

    Raises ``InputError`` where it is none, or names nothing.
    """
    try:
        with warnings.catch_warnings(action="ignore", category=dg.BetaWarning):
            chosen = dg.AssetSelection.from_string(selection) if selection else dg.AssetSelection.all()
    except dg.DagsterError as error:
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
