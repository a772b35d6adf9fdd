"""Tests that CARE's use of Dagster's undocumented interfaces works with the installed release.

There is one test for each function of ``orchestration/dagster_internals.py``. If a test fails after an update, its
message names the function, whose docstring states its reason. Only these two files may import undocumented modules of
Dagster (``test_house.py``).
"""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

import dagster as dg
import psutil
import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from care_ops.errors import InputError
from orchestration.dagster_internals import (
    IMPLICIT_ASSET_JOB,
    daemon_is_alive,
    end_run_as_failed,
    materialisations,
    run_health,
)
from orchestration.instance import _unreachable_storage
from orchestration.plan import RANGE_END_TAG, RANGE_START_TAG
from orchestration.runner import _selected_assets
from tests.support.servers import kill, wait_until
from tests.support.workspaces import make

LETTERS = dg.StaticPartitionsDefinition(["a", "b", "c"])


@contextmanager
def builds_upon_dagster(piece: str) -> Generator[None]:
    """Name in the error message the function that an update of Dagster has broken; also a decorator."""
    try:
        yield
    except (ImportError, AttributeError, TypeError, LookupError, AssertionError, dg.DagsterError) as error:
        pytest.fail(
            f"Dagster {dg.__version__} has changed what `{piece}` in orchestration/dagster_internals.py builds upon "
            f"({type(error).__name__}: {error}). Its docstring says why it is there and what would replace it."
        )


@dg.asset
def plain() -> None:
    """Materialise at once."""


@dg.asset(partitions_def=LETTERS, backfill_policy=dg.BackfillPolicy.single_run())
def lettered(context: dg.AssetExecutionContext) -> None:
    """Materialise a range of letters in one run."""
    assert len(context.partition_keys) == 2


@dg.multi_asset(specs=[dg.AssetSpec("half_made", skippable=True)])
def half() -> Generator[dg.MaterializeResult]:
    """Materialise, and then fail."""
    yield dg.MaterializeResult("half_made")
    raise dg.Failure("it fails after it has materialised")


@dg.asset(check_specs=[dg.AssetCheckSpec("is_fine", asset="checked", blocking=True)])
def checked() -> dg.MaterializeResult:
    """Fail a blocking check."""
    verdict = dg.AssetCheckResult(check_name="is_fine", passed=False, description="it is not fine")
    return dg.MaterializeResult(check_results=[verdict])


@dg.asset(partitions_def=LETTERS)
def one_letter() -> None:
    """Materialise one letter in each run."""


DEFINITIONS = dg.Definitions([plain, lettered, half, checked, one_letter])


@pytest.fixture
def instance(tmp_path) -> Generator[dg.DagsterInstance]:
    """Return an instance with SQLite files, as a workspace has."""
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        yield instance


def run_of(asset: str, instance: dg.DagsterInstance, **options) -> dg.ExecuteInProcessResult:
    """Run one asset with the job of all assets."""
    return DEFINITIONS.resolve_job_def(IMPLICIT_ASSET_JOB).execute_in_process(
        instance=instance, asset_selection=[dg.AssetKey(asset)], raise_on_error=False, **options
    )


@builds_upon_dagster("IMPLICIT_ASSET_JOB")
def test_the_job_over_all_assets_has_its_name():
    assert DEFINITIONS.resolve_job_def(IMPLICIT_ASSET_JOB).name == IMPLICIT_ASSET_JOB


@builds_upon_dagster("RANGE_START_TAG")
def test_a_run_covers_a_range_of_partitions_by_its_tags(instance):
    result = run_of("lettered", instance, tags={RANGE_START_TAG: "a", RANGE_END_TAG: "b"})
    assert set(materialisations(instance, result.run_id)) == {("lettered", "a"), ("lettered", "b")}


@builds_upon_dagster("materialisations")
def test_materialisations_before_a_failed_step_are_found(instance):
    result = run_of("half_made", instance)
    assert not result.success
    assert list(materialisations(instance, result.run_id)) == [("half_made", None)]


@builds_upon_dagster("materialisations")
def test_partitions_planned_by_a_lost_run_are_found(instance):
    lost = instance.create_run_for_job(
        DEFINITIONS.resolve_job_def(IMPLICIT_ASSET_JOB),
        asset_selection={dg.AssetKey("one_letter")},
        tags={"dagster/partition": "b"},
    )
    instance.report_run_failed(lost)
    assert materialisations(instance, lost.run_id, planned=True) == [("one_letter", "b")]
    assert list(materialisations(instance, lost.run_id)) == []


@builds_upon_dagster("_selected_assets")
def test_a_selection_is_resolved_to_names():
    assert _selected_assets(DEFINITIONS, "key:plain or key:checked") == {"plain", "checked"}
    for wrong, sentence in (
        ("garbage((", "is not in Dagster's syntax; write, for example, key:panel"),
        ("key:nope", "names no asset; write, for ex"),
        ("group:nix", "names no asset"),
        ("key:plain and key:checked", "names no asset"),
    ):
        with pytest.raises(InputError, match=re.escape(f"--select {wrong} {sentence}")):
            _selected_assets(DEFINITIONS, wrong)


@builds_upon_dagster("daemon_is_alive")
def test_a_daemon_is_alive_while_it_writes_heartbeats(instance):
    from dagster._daemon.types import DaemonHeartbeat

    assert not daemon_is_alive(instance)
    instance.add_daemon_heartbeat(DaemonHeartbeat(time.time() - 3600, "SENSOR", "gone"))
    assert not daemon_is_alive(instance)
    instance.add_daemon_heartbeat(DaemonHeartbeat(time.time(), "SENSOR", "alive"))
    assert daemon_is_alive(instance)


@builds_upon_dagster("unreachable_storage")
def test_an_unreachable_database_raises_the_expected_exception(tmp_path):
    from dagster_postgres.utils import wait_for_connection

    with pytest.raises(_unreachable_storage()) as caught:
        wait_for_connection("postgresql+psycopg2://nobody@127.0.0.1:1/none", retry_limit=0)
    assert "Connection refused" in str(caught.value.__cause__)


@pytest.mark.slow
@builds_upon_dagster("run_health")
def test_a_code_server_is_asked_for_its_runs(instance):
    from dagster._core.storage.tags import GRPC_INFO_TAG
    from dagster._grpc.server import GrpcServerProcess

    def health(run: dg.DagsterRun) -> str:
        return run_health(run).status.name

    run = instance.create_run_for_job(
        DEFINITIONS.resolve_job_def(IMPLICIT_ASSET_JOB), status=dg.DagsterRunStatus.STARTED
    )
    assert health(run) == "RUNNING", "it was launched by no code server"
    nobody = run.with_tags({GRPC_INFO_TAG: json.dumps({"host": "127.0.0.1", "port": 1})})
    assert health(nobody) == "RUNNING", "nobody answers"
    with GrpcServerProcess(instance_ref=instance.get_ref(), wait_on_exit=True) as server:
        address = {"host": "localhost"} | ({"port": server.port} if server.port else {"socket": server.socket})
        assert health(run.with_tags({GRPC_INFO_TAG: json.dumps(address)})) == "NOT_FOUND"


@builds_upon_dagster("end_run_as_failed")
def test_a_run_is_marked_as_failed_and_its_pool_slots_are_freed(instance):
    run = instance.create_run_for_job(
        DEFINITIONS.resolve_job_def(IMPLICIT_ASSET_JOB), status=dg.DagsterRunStatus.STARTED
    )
    storage = instance.event_log_storage
    storage.set_concurrency_slots("writer", 1)
    assert storage.claim_concurrency_slot("writer", run.run_id, "step").is_claimed
    end_run_as_failed(instance, run, "whoever launched it was killed")
    ended = instance.get_run_by_id(run.run_id)
    assert ended is not None
    assert ended.status is dg.DagsterRunStatus.FAILURE
    assert storage.get_concurrency_info("writer").claimed_slots == []


@builds_upon_dagster("sqlite_storages")
def test_the_storage_keeps_its_connections_and_does_not_wait_for_the_disk(tmp_path):
    def opened_by(settings: str) -> list[int]:
        found: list[int] = []

        def look(connection: sqlite3.Connection, _: object) -> None:
            found.append(connection.execute("PRAGMA synchronous").fetchone()[0])

        home = tmp_path / str(len(settings))
        home.mkdir()
        (home / "dagster.yaml").write_text(settings)
        with dg.DagsterInstance.from_config(str(home)) as instance:
            run_of("plain", instance)
            event.listen(Pool, "connect", look)
            try:
                for _ in range(2):
                    assert run_of("plain", instance).success
            finally:
                event.remove(Pool, "connect", look)
            assert len(instance.get_runs()) == 3
            assert (
                instance.get_latest_materialization_event(dg.AssetKey("plain")).run_id == instance.get_runs()[0].run_id
            )
        return found

    module = "orchestration.storage"
    ours = f"storage: {{custom: {{module: {module}, class: Storage, config: {{base_dir: {tmp_path / 'kept'}}}}}}}\n"
    kept, theirs = opened_by(ours), opened_by("telemetry: {enabled: false}\n")
    assert len(kept) < len(theirs) / 3, "it no longer saves most of the times that a file is opened"
    assert set(theirs) == {2}


def code_servers(process: subprocess.Popen[bytes]) -> set[int]:
    """Return the process ids of the code servers of a daemon."""
    found = set[int]()
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if {"api", "grpc"} <= {*child.cmdline()}:
                found.add(child.pid)
    return found


@pytest.mark.slow
def test_a_code_server_that_is_killed_is_replaced_within_a_minute(tmp_path):
    folder = make(tmp_path / "ws", ("length", "conciseness", "redundancy"))
    command = [sys.executable, "-m", "orchestration.cli", "admin", "daemon", "--workspace", str(folder)]
    with (tmp_path / "log").open("w") as log:
        daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        printed = (tmp_path / "log").read_text
        wait_until(lambda: "configured with the following daemons" in printed(), printed)  # its code server has started
        first = code_servers(daemon)
        for number in first:
            os.kill(number, signal.SIGKILL)
        killed = time.monotonic()
        wait_until(lambda: code_servers(daemon) - first, printed)
        assert time.monotonic() - killed < 60.0
    finally:
        kill(daemon)
