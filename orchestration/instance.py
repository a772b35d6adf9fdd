"""The workspace's own Dagster instance: where it lies, what was left in it.

Belongs here: everything that ``care run`` does to the instance itself. Does not: who may work on the workspace
(``locks``), what is stale (``conditions``), what is run (``runner``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool, QueuePool

from assets.workspace import Workspace
from care_ops.errors import WarehouseError
from orchestration.locks import runs_that_wait

LAUNCHED_BY = "care/launched_by"
"""Tag of the runs that ``care run`` starts."""

_DAEMON_SILENCE_S = 90.0
_BEGINNING_S = 30.0
"""A run is known to wait only from where it has imported what it needs and asks for the workspace."""

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
        with _opened(home) as instance:
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


def _opened(home: Path) -> dg.DagsterInstance:
    try:
        return dg.DagsterInstance.get()
    except (yaml.YAMLError, UnicodeDecodeError, IsADirectoryError, dg.DagsterInvalidConfigError) as error:
        reason = str(error).strip().splitlines()[0]
        raise WarehouseError(
            f"{home / 'dagster.yaml'}: Dagster's settings cannot be read ({reason}); put the file back, or let "
            "`care doctor --repair` set it aside and `care run` write a new one"
        ) from None


def end_abandoned_runs(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    """Mark runs that nobody is working on any more as failed, and backfills as canceled.

    Until then they count as in progress, hold up everything that depends on them, and keep the places in
    their pools. Runs of another ``care run`` were killed: we hold the workspace alone. Anything else is the daemon's,
    and abandoned once no daemon is alive, unless it waits for us or has only just begun; what was asked for is still
    stale, and is asked for again.
    """
    daemon = daemon_is_alive(instance)
    waiting, just_now = runs_that_wait(workspace), time.time() - _BEGINNING_S
    for record in instance.get_run_records(_unfinished({LAUNCHED_BY: "care run"} if daemon else {})):
        run = record.dagster_run
        ours = run.tags.get(LAUNCHED_BY) == "care run"
        if not ours and (run.run_id in waiting or record.update_timestamp.timestamp() > just_now):
            continue
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
