"""Calls to Dagster's undocumented interfaces, each with its reason and its upstream issue.

``tests/orchestration/test_dagster_internals.py`` tests each call, and ``test_house.py`` checks that no other module
imports ``dagster._*`` or ``dagster_shared``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from dagster._core.launcher import CheckRunHealthResult as RunHealth

IMPLICIT_ASSET_JOB = "__ASSET_JOB"
"""Name of Dagster's implicit job of all assets, which a sensor needs to request assets with different partitions.

https://github.com/dagster-io/dagster/issues/10404
"""

_DAEMON_SILENCE_S = 90.0
"""Seconds without a heartbeat after which a daemon counts as dead; it writes a heartbeat every 30 seconds."""

_CLAIM_AGAIN_S = 0.5


def sqlite_storages() -> tuple[Any, Any, Any]:
    """Return Dagster's three SQLite storage classes: the whole storage, the event log and the runs.

    Classes of ``orchestration.storage`` derive from these classes to keep SQLAlchemy engines open:
    https://github.com/dagster-io/dagster/issues/30172.
    """
    from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage
    from dagster._core.storage.runs.sqlite import SqliteRunStorage
    from dagster._core.storage.sqlite_storage import DagsterSqliteStorage

    return DagsterSqliteStorage, SqliteEventLogStorage, SqliteRunStorage


def body_of(asset: dg.AssetsDefinition) -> Callable[..., Any]:
    """Return the function that an asset's decorator wraps.

    ``mounted`` builds a renamed asset from this function, for workspaces with a key prefix. No public API returns it.
    """
    compute: Any = asset.op.compute_fn
    return compute.decorated_fn


@contextmanager
def pool_slots(context: dg.AssetExecutionContext, pools: Sequence[str]) -> Generator[None]:
    """Wait for a slot in each of the ``pools``, in the given order, and hold the slots until the block ends.

    Dagster supports only one pool for all partitions of an asset: https://github.com/dagster-io/dagster/issues/17422.
    """
    from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext

    step = context.op_execution_context.op_handle.name
    try:
        with InstanceConcurrencyContext(context.instance, context.run) as slots:
            for pool in pools:
                if not slots.claim(pool, step):
                    context.log.info(f"waiting for a slot in the pool {pool}")
                    while not slots.claim(pool, step):
                        time.sleep(_CLAIM_AGAIN_S)
        yield
    finally:
        if pools:
            context.instance.event_log_storage.free_concurrency_slot_for_step(context.run.run_id, step)


def materialisations(
    instance: dg.DagsterInstance, run_id: str, *, planned: bool = False
) -> list[tuple[str, str | None]]:
    """Return the (asset, partition) pairs that a run has materialised or, if ``planned``, will materialise.

    For a planned range, the partition is None. ``ExecuteInProcessResult.all_events`` lacks the events that a step logs,
    and ``fetch_materializations`` cannot select one run: https://github.com/dagster-io/dagster/pull/14237.
    """
    kinds = dg.DagsterEventType
    kind = kinds.ASSET_MATERIALIZATION_PLANNED if planned else kinds.ASSET_MATERIALIZATION
    events = [entry.dagster_event for entry in instance.all_logs(run_id, of_type=kind)]
    return [(event.asset_key.to_user_string(), event.partition) for event in events if event and event.asset_key]


def daemon_is_alive(instance: dg.DagsterInstance) -> bool:
    """Return whether a daemon of this instance, perhaps in another container, has sent a heartbeat recently.

    Dagster has no public function for this.
    """
    heartbeats = instance.get_daemon_heartbeats().values()
    return any(time.time() - heartbeat.timestamp < _DAEMON_SILENCE_S for heartbeat in heartbeats)


def run_health(run: dg.DagsterRun) -> RunHealth:
    """Return the health of a run for Dagster's run monitoring: running, or unknown to its code server.

    A code server that does not answer may be slow or restarting, so its runs count as running. Dagster's default
    launcher has no such check, and the classes that a check returns are not exported.
    """
    from dagster._core.errors import DagsterUserCodeUnreachableError
    from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
    from dagster._core.storage.tags import GRPC_INFO_TAG
    from dagster._grpc.client import DagsterGrpcClient
    from dagster._grpc.types import GetCurrentRunsResult

    running = CheckRunHealthResult(WorkerStatus.RUNNING)
    if GRPC_INFO_TAG not in run.tags:
        return running  # a command runs it in its own process
    client = DagsterGrpcClient(**json.loads(run.tags[GRPC_INFO_TAG]))
    try:
        answer = dg.deserialize_value(client.get_current_runs(), GetCurrentRunsResult)
    except DagsterUserCodeUnreachableError:
        return running
    if answer.serializable_error_info is not None or run.run_id in answer.current_runs:
        return running
    return CheckRunHealthResult(
        WorkerStatus.NOT_FOUND, "the code server that started this run has been restarted since"
    )


def end_run_as_failed(instance: dg.DagsterInstance, run: dg.DagsterRun, reason: str) -> None:
    """Mark a run as failed after its process has ended, and free its slots in pools.

    The daemon does this only for runs that it launched: https://github.com/dagster-io/dagster/issues/3239.
    """
    instance.report_run_failed(run, reason)
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
