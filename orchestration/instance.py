"""The workspace's own Dagster instance: where it lies, who may use it, what was left in it.

Belongs here: everything that ``care run`` does to the instance itself. Does not: what is stale
(``conditions``), what is run (``runner``).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool, QueuePool

from assets.workspace import Workspace
from care_ops.errors import WarehouseError

LAUNCHED_BY = "care/launched_by"
"""Tag of the runs that ``care run`` starts."""

_DAEMON_SILENCE_S = 90.0
_MOST_ENGINES = 8
_OF_THE_SYSTEM = ("disk is full", "readonly database", "database is locked", "disk I/O error")
"""What SQLite says where the machine is at fault and not the file."""


def dagster_home(workspace: Workspace) -> Path:
    """The folder of the workspace's Dagster instance, made on first use."""
    home = workspace.data / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists():
        settings.write_text(
            "telemetry:\n  enabled: false\n"
            "nux:\n  enabled: false\n"
            "run_retries:\n  enabled: true\n  max_retries: 2\n  retry_on_asset_or_op_failure: false\n"
            "concurrency:\n  pools:\n    granularity: op\n    default_limit: 1\n"
        )
    return home


@contextmanager
def workspace_instance(workspace: Workspace) -> Generator[dg.DagsterInstance]:
    """The workspace's own Dagster instance."""
    previous = os.environ.get("DAGSTER_HOME")
    home = dagster_home(workspace)
    os.environ["DAGSTER_HOME"] = str(home)
    try:
        with dg.DagsterInstance.get() as instance:
            yield instance
    except DatabaseError as error:
        reason = str(error.orig or error).splitlines()[0]
        mend = (
            "mend that and run again"
            if any(words in reason for words in _OF_THE_SYSTEM)
            else "`care doctor --repair` moves it away and `care run` makes a new one; no score is lost"
        )
        raise WarehouseError(f"{home}: Dagster's storage cannot be used ({reason}); {mend}") from None
    finally:
        if previous is None:
            os.environ.pop("DAGSTER_HOME", None)
        else:
            os.environ["DAGSTER_HOME"] = previous


@contextmanager
def alone(workspace: Workspace, what: str = "care") -> Generator[None]:
    """Hold the workspace's lock; the system lets go of it when the process dies, however it dies.

    Parameters
    ----------
    what : str
        The command that holds it, for whoever is refused meanwhile.

    Raises
    ------
    WarehouseError
        Another command holds it; the message names command, process and since when.
    """
    with (dagster_home(workspace) / "care_run.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            holder = lock.read().strip() or "another command"
            raise WarehouseError(f"{holder} is at work on {workspace.root}; wait for it to end, or stop it") from error
        lock.truncate(0)
        lock.write(f"`{what}` (process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M:%S})")
        lock.flush()
        yield


def hold_daemon_lock(workspace: Workspace) -> int:
    """Be the one daemon of a workspace, until this process and what it turns into end.

    Returns
    -------
    int
        Descriptor of the lock, inherited by a program that this process executes in its place.

    Raises
    ------
    WarehouseError
        There is a daemon already.
    """
    descriptor = os.open(dagster_home(workspace) / "daemon.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise WarehouseError(
            f"{workspace.root} has a daemon already (`care daemon` or `care ui`); there may be one only"
        ) from error
    os.set_inheritable(descriptor, True)
    return descriptor


def end_abandoned_runs(instance: dg.DagsterInstance) -> None:
    """Mark runs that nobody is working on any more as failed, and backfills as canceled.

    Until then they count as in progress, hold up everything that depends on them, and keep the places in
    their pools. Runs of another ``care run`` were killed: we hold the lock. Anything else is the daemon's,
    and abandoned once no daemon is alive; what was asked for is still stale, and is asked for again.
    """
    daemon = daemon_is_alive(instance)
    for run in instance.get_runs(_unfinished({LAUNCHED_BY: "care run"} if daemon else {})):
        instance.report_run_failed(run, "whoever launched this run was killed")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    if daemon:
        return
    for backfill in _open_backfills(instance):
        instance.update_backfill(backfill.with_status(type(backfill.status).CANCELED))


def daemon_is_alive(instance: dg.DagsterInstance) -> bool:
    """Whether a Dagster daemon of this instance has given a sign of life in the last minute and a half."""
    beats = instance.get_daemon_heartbeats().values()
    return any(time.time() - beat.timestamp < _DAEMON_SILENCE_S for beat in beats)


def _unfinished(tags: dict[str, str] | None = None) -> dg.RunsFilter:
    status = dg.DagsterRunStatus
    open_ = [status.QUEUED, status.NOT_STARTED, status.STARTING, status.STARTED, status.CANCELING]
    return dg.RunsFilter(statuses=open_, tags=tags or {})


def _open_backfills(instance: dg.DagsterInstance) -> list[Any]:
    return [b for b in instance.get_backfills() if b.status.value in ("REQUESTED", "CANCELING", "FAILING")]


@contextmanager
def partitions_read_once(instance: dg.DagsterInstance) -> Generator[None]:
    """Read each dynamic partition set once while conditions are evaluated.

    An evaluation asks for them thousands of times, a query each: nine tenths of its time. Nobody adds
    partitions meanwhile in this process, and what another adds is seen by the next evaluation.
    """
    read = cache(instance.get_dynamic_partitions)
    instance.get_dynamic_partitions = read  # type: ignore[method-assign]
    try:
        yield
    finally:
        del instance.get_dynamic_partitions


@contextmanager
def engines_kept() -> Generator[None]:
    """Let Dagster's SQLite storages keep their SQLAlchemy engines and an idle connection to each file.

    They make an engine for every event, compile each statement anew, and on closing the last connection SQLite
    writes its log back: most of the time of a run of small steps. Run logs are a file each; few stay open.
    """
    from dagster._core.storage.event_log.sqlite import sqlite_event_log
    from dagster._core.storage.runs.sqlite import sqlite_run_storage

    modules: list[Any] = [sqlite_event_log, sqlite_run_storage]
    made = modules[0].create_engine
    kept: dict[tuple[Any, ...], Any] = {}

    def create(address: str, *, poolclass: Any, connect_args: dict[str, float] | None = None) -> Any:
        if poolclass is not NullPool:
            return made(address, poolclass=poolclass, connect_args=connect_args or {})
        key = (address, *(connect_args or {}).items())
        engine = kept.pop(key, None)
        if engine is None:
            engine = made(address, poolclass=QueuePool, pool_size=1, max_overflow=-1, connect_args=connect_args or {})
            engine.dispose = lambda: None  # they dispose of it after every event; we do, where it is let go
        kept[key] = engine  # the last one used stands last
        while len(kept) > _MOST_ENGINES:
            kept.pop(next(iter(kept))).pool.dispose()
        return engine

    try:
        for module in modules:
            module.create_engine = create
        yield
    finally:
        for module in modules:
            module.create_engine = made
        for engine in kept.values():
            engine.pool.dispose()


def partition_statuses(instance: dg.DagsterInstance, asset: str, definition: dg.PartitionsDefinition) -> dict[str, str]:
    """Status by partition: MATERIALIZED, FAILED, IN_PROGRESS; partitions never run are left out."""
    keys = definition.get_partition_keys(dynamic_partitions_store=instance)
    found = instance.get_status_by_partition(dg.AssetKey(asset), keys, definition) or {}
    return {str(key): status.value for key, status in found.items() if status is not None}


def under_way(instance: dg.DagsterInstance) -> int:
    """Runs and backfills that are not finished."""
    return len(instance.get_runs(_unfinished())) + len(_open_backfills(instance))
