"""What CARE uses of Dagster beyond its documented interface works with the release that is installed.

Belongs here: one test for each piece of ``orchestration/dagster_internals.py``. Where one fails after an update, its
message names the piece, whose docstring says why it is there and what would make it unnecessary. Only these two files
may import what Dagster does not document (``test_house.py``).
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from unittest.mock import MagicMock

import dagster as dg
import psutil
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import EmptyWorkspaceTarget
from dagster._daemon import controller
from dagster_graphql.schema import create_schema
from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

from care_ops.errors import InputError
from orchestration.daemon import RELOAD_S
from orchestration.dagster_internals import (
    IMPLICIT_ASSET_JOB,
    RANGE_END_TAG,
    RANGE_START_TAG,
    cancel_backfill,
    daemon_is_alive,
    end_run_as_failed,
    engines_kept,
    implicit_asset_job,
    is_worked_on,
    materialisations,
    planned_materialisations,
    refused_settings,
    run_daemon,
    run_health,
    runs_of_code_location,
    selected_assets,
    start_tails_apart,
    unfinished_backfills,
    unreachable_storage,
)
from tests.support.deployed import kill, wait_until
from tests.support.workspaces import make

LETTERS = dg.StaticPartitionsDefinition(["a", "b", "c"])


@contextmanager
def builds_upon_dagster(piece: str) -> Generator[None]:
    """Say in words which piece an update of Dagster has broken; usable as a decorator of a test."""
    try:
        yield
    except (ImportError, AttributeError, TypeError, LookupError, AssertionError, dg.DagsterError) as error:
        pytest.fail(
            f"Dagster {dg.__version__} has changed what `{piece}` in orchestration/dagster_internals.py builds upon "
            f"({type(error).__name__}: {error}). Its docstring says why it is there and what would replace it."
        )


@dg.asset
def plain() -> None:
    """Made at once."""


@dg.asset(partitions_def=LETTERS, backfill_policy=dg.BackfillPolicy.single_run())
def lettered(context: dg.AssetExecutionContext) -> None:
    """Made for a range of letters in one run."""
    assert len(context.partition_keys) == 2


@dg.multi_asset(specs=[dg.AssetSpec("half_made", skippable=True)])
def half() -> Generator[dg.MaterializeResult]:
    """Materialises and fails afterwards."""
    yield dg.MaterializeResult("half_made")
    raise dg.Failure("it fails after it has materialised")


@dg.asset(check_specs=[dg.AssetCheckSpec("is_fine", asset="checked", blocking=True)])
def checked() -> dg.MaterializeResult:
    """Has a blocking check, which fails."""
    verdict = dg.AssetCheckResult(check_name="is_fine", passed=False, description="it is not fine")
    return dg.MaterializeResult(check_results=[verdict])


@dg.asset(partitions_def=LETTERS)
def one_letter() -> None:
    """Made for one letter at a time."""


DEFINITIONS = dg.Definitions([plain, lettered, half, checked, one_letter])


@pytest.fixture
def instance(tmp_path) -> Generator[dg.DagsterInstance]:
    """An instance on SQLite files, as a workspace has one."""
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        yield instance


def run_of(asset: str, instance: dg.DagsterInstance, **options) -> dg.ExecuteInProcessResult:
    """A run of one asset through the job over all of them."""
    return implicit_asset_job(DEFINITIONS).execute_in_process(
        instance=instance, asset_selection=[dg.AssetKey(asset)], raise_on_error=False, **options
    )


@builds_upon_dagster("run_daemon")
def test_the_daemon_starts_its_code_server_anew_as_often_as_it_is_told(monkeypatch):
    interval_s, tolerance_s = controller.RELOAD_WORKSPACE_INTERVAL, controller.DEFAULT_WORKSPACE_FRESHNESS_TOLERANCE
    for constant in ("RELOAD_WORKSPACE_INTERVAL", "DEFAULT_WORKSPACE_FRESHNESS_TOLERANCE"):
        monkeypatch.setattr(controller, constant, getattr(controller, constant))  # it gets its value back afterwards
    freshness = "check_workspace_freshness"
    looks = controller.DagsterDaemonController
    monkeypatch.setattr(looks, freshness, getattr(looks, freshness))
    with pytest.raises(SystemExit) as ended:
        run_daemon(["run", "--help"], reload_s=5 * interval_s)
    assert ended.value.code == 0
    daemon = MagicMock()
    refresh = daemon._workspace_process_context.refresh_workspace
    look, now = controller.DagsterDaemonController.check_workspace_freshness, time.time()
    assert look(daemon, now - 4 * interval_s) == now - 4 * interval_s
    refresh.assert_not_called()
    assert look(daemon, now - 6 * interval_s) >= now
    refresh.assert_called_once()
    server, failed = MagicMock(spec=["process"]), MagicMock(spec=["error", "creation_timestamp"])
    server.process.server_process.poll.return_value, failed.creation_timestamp = None, now
    daemon._grpc_server_registry._active_entries = {"alive": server, "failed": failed}
    assert look(daemon, now) == now
    server.process.server_process.poll.return_value = -9
    assert look(daemon, now) >= now
    assert refresh.call_count == 2, "one that has died is replaced at once"
    server.process.server_process.poll.return_value = None
    failed.creation_timestamp = now - interval_s - 1
    assert look(daemon, now) >= now
    assert refresh.call_count == 3, "one that did not start is started again after a minute"
    daemon._grpc_server_registry._active_entries = {}
    refresh.side_effect = OSError("no code server")
    assert look(daemon, now - 5 * interval_s - 1) == now - 5 * interval_s - 1, "it is tried again"
    with pytest.raises(OSError, match="no code server"):
        look(daemon, now - 4 * interval_s - tolerance_s - 1)


@builds_upon_dagster("IMPLICIT_ASSET_JOB")
def test_the_job_over_all_assets_has_its_name():
    assert implicit_asset_job(DEFINITIONS).name == IMPLICIT_ASSET_JOB


@builds_upon_dagster("RANGE_START_TAG")
def test_a_run_covers_a_range_of_partitions_by_its_tags(instance):
    result = run_of("lettered", instance, tags={RANGE_START_TAG: "a", RANGE_END_TAG: "b"})
    assert set(materialisations(instance, result.run_id)) == {("lettered", "a"), ("lettered", "b")}


@builds_upon_dagster("materialisations")
def test_what_was_materialised_before_a_step_failed_is_known(instance):
    result = run_of("half_made", instance)
    assert not result.success
    assert list(materialisations(instance, result.run_id)) == [("half_made", None)]


@builds_upon_dagster("planned_materialisations")
def test_what_a_canceled_run_was_to_make_is_known(instance):
    lost = instance.create_run_for_job(
        implicit_asset_job(DEFINITIONS), asset_selection={dg.AssetKey("one_letter")}, tags={"dagster/partition": "b"}
    )
    instance.report_run_canceled(lost)
    assert list(planned_materialisations(instance, lost.run_id)) == [("one_letter", "b")]
    assert list(materialisations(instance, lost.run_id)) == []


@builds_upon_dagster("selected_assets")
def test_a_selection_is_resolved_to_names():
    assert selected_assets(DEFINITIONS, "key:plain or key:checked") == {"plain", "checked"}
    assert selected_assets(DEFINITIONS, None) == {"plain", "lettered", "half_made", "checked", "one_letter"}
    for wrong, sentence in (
        ("garbage((", "not in Dagster's syntax; write key:panel"),
        ("key:nope", "names no asset; write, for ex"),
        ("group:nix", "names no asset"),
        ("key:plain and key:checked", "names no asset"),
    ):
        with pytest.raises(InputError, match=re.escape(f"--select {wrong}: {sentence}")):
            selected_assets(DEFINITIONS, wrong)


@builds_upon_dagster("daemon_is_alive")
def test_a_daemon_is_alive_while_it_gives_signs_of_life(instance):
    from dagster._daemon.types import DaemonHeartbeat

    assert not daemon_is_alive(instance)
    instance.add_daemon_heartbeat(DaemonHeartbeat(time.time() - 3600, "SENSOR", "gone"))
    assert not daemon_is_alive(instance)
    instance.add_daemon_heartbeat(DaemonHeartbeat(time.time(), "SENSOR", "alive"))
    assert daemon_is_alive(instance)


@builds_upon_dagster("unreachable_storage")
def test_a_database_that_does_not_answer_raises_the_exception_that_is_named(tmp_path):
    from dagster_postgres.utils import wait_for_connection

    with pytest.raises(unreachable_storage()) as caught:
        wait_for_connection("postgresql+psycopg2://nobody@127.0.0.1:1/none", retry_limit=0)
    assert "Connection refused" in str(caught.value.__cause__)


@builds_upon_dagster("is_worked_on")
def test_a_code_server_is_asked_for_its_runs(instance):
    from dagster._core.storage.tags import GRPC_INFO_TAG
    from dagster._grpc.server import GrpcServerProcess

    run = instance.create_run_for_job(implicit_asset_job(DEFINITIONS), status=dg.DagsterRunStatus.STARTED)
    assert is_worked_on(run) is None, "it was launched by no code server"
    nobody = run.with_tags({GRPC_INFO_TAG: json.dumps({"host": "127.0.0.1", "port": 1})})
    assert is_worked_on(nobody) is None, "nobody answers"
    with GrpcServerProcess(instance_ref=instance.get_ref(), wait_on_exit=True) as server:
        address = {"host": "localhost"} | ({"port": server.port} if server.port else {"socket": server.socket})
        assert is_worked_on(run.with_tags({GRPC_INFO_TAG: json.dumps(address)})) is False


@builds_upon_dagster("run_health")
def test_run_monitoring_is_told_whether_a_run_is_lost():
    from dagster._core.launcher import WorkerStatus

    assert run_health().status is WorkerStatus.RUNNING
    lost = run_health(lost="it is gone")
    assert (lost.status, lost.msg) == (WorkerStatus.NOT_FOUND, "it is gone")


@builds_upon_dagster("end_run_as_failed")
def test_a_run_is_ended_from_outside_and_its_places_in_pools_are_free(instance):
    run = instance.create_run_for_job(implicit_asset_job(DEFINITIONS), status=dg.DagsterRunStatus.STARTED)
    storage = instance.event_log_storage
    storage.set_concurrency_slots("writer", 1)
    assert storage.claim_concurrency_slot("writer", run.run_id, "step").is_claimed
    end_run_as_failed(instance, run, "whoever launched it was killed")
    ended = instance.get_run_by_id(run.run_id)
    assert ended is not None
    assert ended.status is dg.DagsterRunStatus.FAILURE
    assert storage.get_concurrency_info("writer").claimed_slots == []


@builds_upon_dagster("cancel_backfill")
def test_a_backfill_that_nobody_carries_out_is_canceled(instance):
    from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

    instance.add_backfill(PartitionBackfill("left", BulkActionStatus.REQUESTED, False, {}, time.time()))
    (backfill,) = unfinished_backfills(instance)
    cancel_backfill(instance, backfill)
    assert unfinished_backfills(instance) == []


@builds_upon_dagster("start_tails_apart")
def test_what_shows_a_steps_output_is_out_of_the_reach_of_a_terminals_interrupt(tmp_path):
    from dagster._core.execution.compute_logs import mirror_stream_to_file

    start_tails_apart()
    # A child inherits which signals its parent blocks or ignores, and other tests of this process may do either.
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        with (
            (tmp_path / "shown").open("w+") as stream,
            mirror_stream_to_file(stream, str(tmp_path / "kept")) as started,
        ):
            assert [os.getsid(number) for number in started] == [*started]
            assert os.getsid(0) not in started
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGTERM, before)


@builds_upon_dagster("runs_of_code_location")
def test_a_run_in_process_belongs_to_a_code_location_as_the_timeline_of_the_ui_asks(instance):
    """By the field of Dagster's GraphQL without which the page Overview leaves a run out."""
    run_of("plain", instance)
    with runs_of_code_location(instance, "some.definitions"):
        run_of("plain", instance)
    query = """{ runsOrError { ... on Runs { results { status
      repositoryOrigin { repositoryName repositoryLocationName } } } } }"""
    with WorkspaceProcessContext(instance, EmptyWorkspaceTarget()) as context:
        answer = create_schema().execute(query, context_value=context.create_request_context())
    assert answer.errors is None
    latest, first = answer.data["runsOrError"]["results"]
    assert first["repositoryOrigin"] is None, "unnecessary by now: in process it names its code location by itself"
    assert latest["repositoryOrigin"] == {
        "repositoryName": "__repository__",
        "repositoryLocationName": "some.definitions",
    }
    assert latest["status"] == "SUCCESS"


@builds_upon_dagster("refused_settings")
def test_settings_are_checked_without_a_storage_being_made(tmp_path):
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    assert refused_settings(tmp_path) is None
    (tmp_path / "dagster.yaml").write_text("telemetri: {enabled: false}\n")
    refused = refused_settings(tmp_path)
    assert refused is not None
    assert "telemetri" in refused
    assert [path.name for path in tmp_path.iterdir()] == ["dagster.yaml"]


@builds_upon_dagster("engines_kept")
def test_commits_wait_for_the_disk_only_where_sqlite_writes_its_log_back(tmp_path):
    def settings_of_a_run(name: str) -> set[tuple[str, int]]:
        seen: set[tuple[str, int]] = set()

        def look(connection, _):
            asked = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous"))
            seen.add(tuple(asked))

        folder = tmp_path / name
        folder.mkdir()
        with dg.instance_for_test(temp_dir=str(folder)) as instance:
            event.listen(Engine, "connect", look)
            try:
                run_of("plain", instance)
            finally:
                event.remove(Engine, "connect", look)
        return seen

    waits, normal = 2, 1
    with engines_kept():
        assert settings_of_a_run("quick") == {("wal", normal)}
    assert {synchronous for _, synchronous in settings_of_a_run("usual")} == {waits}


@builds_upon_dagster("engines_kept")
def test_a_run_opens_the_files_of_the_storage_a_few_times_only(instance):
    opened: list[object] = []
    listen = (Pool, "connect", lambda *arguments: opened.append(arguments[0]))
    event.listen(*listen)
    try:
        run_of("plain", instance)
        without = len(opened)
        opened.clear()
        with engines_kept():
            run_of("plain", instance)
    finally:
        event.remove(*listen)
    assert len(opened) < without / 3, "it no longer saves most of the times that a file is opened"


def code_servers(process: subprocess.Popen[bytes]) -> set[int]:
    """Process ids of the code servers that a daemon has started."""
    found = set[int]()
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if {"api", "grpc"} <= {*child.cmdline()}:
                found.add(child.pid)
    return found


@pytest.mark.slow
@builds_upon_dagster("run_daemon")
def test_a_code_server_that_is_killed_is_replaced_within_a_minute(tmp_path):
    folder = make(tmp_path / "ws", ("length", "conciseness", "redundancy"))
    command = [sys.executable, "-m", "orchestration.cli", "admin", "daemon", "--workspace", str(folder)]
    with (tmp_path / "log").open("w") as log:
        daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        said = (tmp_path / "log").read_text
        wait_until(lambda: "configured with the following daemons" in said(), said)  # its code server has started
        first = code_servers(daemon)
        for number in first:
            os.kill(number, signal.SIGKILL)
        killed = time.monotonic()
        wait_until(lambda: code_servers(daemon) - first, said)
        assert time.monotonic() - killed < 60.0 < RELOAD_S
    finally:
        kill(daemon)
