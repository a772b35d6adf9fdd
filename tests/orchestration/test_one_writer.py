"""Tests that only one process writes: waiting, names of lock holders, and recovery after kills."""

import errno
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.fit.documents import FitDocument, PanelDocument
from assets.state import retention
from assets.state.rebuild import rebuild_warehouse
from assets.workspace import Workspace
from care_ops.errors import WarehouseError
from orchestration.definitions import build_defs
from orchestration.instance import dagster_home, end_abandoned_runs, workspace_instance
from orchestration.locks import PATIENCE, exclusive_lock, hold_daemon_lock, runs_that_wait, shared_lock
from orchestration.runner import run_stale
from orchestration.workspace import load_workspace
from tests.support.servers import free_port, started, wait_for_ui, wait_until
from tests.support.workspaces import JUDGES, care, make, query, run, score_rows, write_items


def folder_of(workspace):
    """Return the folder of a workspace's locks."""
    return workspace.data / "dagster" / "locks"


def hold(lock: AbstractContextManager[object], work: Callable[[], object]) -> None:
    """Call a function while holding a lock."""
    with lock:
        work()


class Process(subprocess.Popen[bytes]):
    """Process whose output can be read while it runs; the end of the block kills it."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        super().__init__(
            command, stdout=self._output, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
        )

    def output(self) -> bytes:
        return os.pread(self._output.fileno(), 1 << 20, 0)

    def __exit__(self, *error: object) -> None:
        self.kill()
        self.wait()


def in_the_background(workspace: Workspace, *words: str) -> Process:
    """Start a command of CARE in another process."""
    return Process([sys.executable, "-m", "orchestration.cli", *words, "--workspace", str(workspace.root)])


def materialising(workspace: Workspace, assets: str, partition: str) -> Process:
    """Start a Dagster run in another process, as the daemon, the UI or Dagster's command line does."""
    command = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "orchestration.definitions"]
    environment = {"CARE_WORKSPACE": str(workspace.root), "DAGSTER_HOME": str(dagster_home(workspace))}
    return Process([*command, "--select", assets, "--partition", partition], environment)


def output_of(folder, *words, code=0):
    """Run a command that must exit with ``code``, and return its output on one line."""
    return care(folder, *words, code=code).replace("\n", " ")


@pytest.fixture
def impatient(monkeypatch):
    """Make commands fail at once instead of waiting for a lock."""
    monkeypatch.setenv(PATIENCE, "0")


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("admin", "forget", "i1", "--testset", "one"),
        ("fits", "promote", "x"),
    ],
)
def test_the_holder_of_the_workspace_is_named(tmp_path, impatient, words):
    folder = make(tmp_path / "ws")
    with exclusive_lock(load_workspace(folder), "care something"):
        printed = output_of(folder, *words, code=1)
    assert f"`care something` (process {os.getpid()}, since 20" in printed
    assert "is using" in printed


def test_the_lock_is_released_when_its_holder_ends(tmp_path, impatient):
    workspace = load_workspace(make(tmp_path / "ws"))
    with (
        pytest.raises(WarehouseError, match="care admin gc"),
        exclusive_lock(workspace, "care admin gc"),
        exclusive_lock(workspace, "care run"),
    ):
        pass
    with exclusive_lock(workspace, "care run"):
        pass
    assert not list((folder_of(workspace) / "working").iterdir())


def test_a_command_waits_for_another_and_sees_its_changes(workspace_after_run):
    workspace = load_workspace(workspace_after_run)
    with in_the_background(workspace, "admin", "gc", "--days", "0") as process:
        with exclusive_lock(workspace, "care something"):
            wait_until(lambda: b"waiting" in process.output())
            (workspace.root / "judges" / "length.yaml").unlink()
        assert process.wait(timeout=60) == 0, process.output()
    printed = process.output().decode()
    assert printed.count("waiting for") == 1
    assert f"waiting for `care something` (process {os.getpid()}, since 20" in printed
    assert "of length on one" in printed


def test_a_command_gives_up_after_a_time(tmp_path, monkeypatch, capsys):
    workspace = load_workspace(make(tmp_path / "ws"))
    monkeypatch.setenv(PATIENCE, "0.2")
    started = time.monotonic()
    with (
        pytest.raises(WarehouseError, match="let that command end, or stop it"),
        exclusive_lock(workspace),
        exclusive_lock(workspace),
    ):
        pass
    assert time.monotonic() - started >= 0.2
    assert "waiting for `care` (process" in capsys.readouterr().err


def test_runs_of_dagster_share_the_workspace_and_are_all_named(tmp_path, impatient):
    workspace = load_workspace(make(tmp_path / "ws"))
    with shared_lock(workspace, "first-of-two", print), shared_lock(workspace, "second-of-two", print):
        printed = output_of(workspace.root, "admin", "gc", code=1)
    assert f"Dagster's run first-of (process {os.getpid()}, since" in printed
    assert f"Dagster's run second-o (process {os.getpid()}, since" in printed


def test_runs_that_come_later_queue_behind_a_command_that_waits(tmp_path):
    workspace = load_workspace(make(tmp_path / "ws"))
    order: list[str] = []
    with ThreadPoolExecutor(2) as threads:
        with shared_lock(workspace, "at work", print):
            command = threads.submit(hold, exclusive_lock(workspace, "care admin gc"), lambda: order.append("command"))
            wait_until(lambda: list((folder_of(workspace) / "waiting").glob("*")))
            later = threads.submit(hold, shared_lock(workspace, "later", print), lambda: order.append("later run"))
            wait_until(lambda: runs_that_wait(workspace) == {"later"})
        command.result(timeout=30)
        later.result(timeout=30)
    assert order == ["command", "later run"]


def test_a_killed_holder_is_not_named(tmp_path):
    workspace = load_workspace(make(tmp_path / "ws"))
    code = (
        "import pathlib, sys, time\n"
        "from orchestration.locks import shared_lock\n"
        "from orchestration.workspace import load_workspace\n"
        "with shared_lock(load_workspace(pathlib.Path(sys.argv[1])), 'killed', print):\n"
        "    print('holds it', flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(workspace.root)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holds it\n"
        process.kill()
    with shared_lock(workspace, "alive", print), pytest.MonkeyPatch.context() as patch:
        patch.setenv(PATIENCE, "0")
        with pytest.raises(WarehouseError) as refused, exclusive_lock(workspace):
            pass
    assert "run alive" in str(refused.value)
    assert f"process {process.pid}," not in str(refused.value)


@pytest.mark.slow
def test_a_waiting_dagster_run_holds_no_pool_slot(workspace_after_run):
    """Otherwise the command, which needs the slot, and the run would wait for each other."""
    workspace = load_workspace(workspace_after_run)
    with workspace_instance(workspace) as instance, materialising(workspace, "panel", "one") as process:
        with exclusive_lock(workspace, "care something"):
            wait_until(lambda: runs_that_wait(workspace))
            (waiting,) = runs_that_wait(workspace)
            assert instance.event_log_storage.get_concurrency_info("warehouse_writer").claimed_slots == []
            end_abandoned_runs(workspace, instance)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("orchestration.instance._BEGINNING_S", 0.0)
                end_abandoned_runs(workspace, instance)
            assert instance.get_run_by_id(waiting).status is dg.DagsterRunStatus.STARTED
            outcome = run_stale(workspace, instance)
            assert (outcome.failures, outcome.left_to_daemon) == ({}, 1)
        assert process.wait(timeout=120) == 0, process.output()
        assert instance.get_run_by_id(waiting).status is dg.DagsterRunStatus.SUCCESS
        messages = [entry.user_message for entry in instance.all_logs(waiting)]
    assert any("waiting for `care something`" in text for text in messages)


@pytest.mark.slow
def test_care_run_leaves_results_to_a_queued_dagster_run_of_their_fit(workspace_after_run):
    """A command builds the panel while the run waits; it must not compare systems before the run."""
    workspace = load_workspace(workspace_after_run)
    with (
        workspace_instance(workspace) as instance,
        materialising(workspace, "moments,structure,aggregates,review", "one") as process,
    ):
        with exclusive_lock(workspace, "care something"):
            wait_until(lambda: runs_that_wait(workspace))
            write_items(workspace.root, edited=7)
            outcome = run_stale(workspace, instance, again=[("systems", "one")])
            assert ("items", "one") in outcome.materialised
            assert ("panel", "one") not in outcome.materialised, "the run that is to make the fit comes first"
            assert (outcome.failures, outcome.left_to_daemon) == ({}, 1)
            together_made = [record.dagster_run.asset_selection or set() for record in instance.get_run_records()]
            with_panel = [keys for keys in together_made if dg.AssetKey("panel") in keys]
            assert all(dg.AssetKey("systems") not in keys or dg.AssetKey("aggregates") in keys for keys in with_panel)
        assert process.wait(timeout=120) == 0, process.output()
        assert not run(workspace.root).failures
    folder = workspace.fit_folder("one")
    assert folder.read(FitDocument).panel == folder.read(PanelDocument).panel
    assert run(workspace.root).materialised == []


@pytest.mark.slow
def test_a_run_in_several_processes_shares_the_workspace_in_each(workspace_after_run, monkeypatch):
    """A team's Dagster may have another executor."""
    workspace = load_workspace(workspace_after_run)
    monkeypatch.setenv("CARE_WORKSPACE", str(workspace.root))
    with dg.instance_for_test() as instance, ThreadPoolExecutor(1) as threads:
        job = dg.reconstructable(every_result_in_several_processes)
        instance.add_dynamic_partitions("testsets", ["one"])
        with exclusive_lock(workspace, "care something"):
            done = threads.submit(
                dg.execute_job,
                job,
                instance,
                tags={"dagster/partition": "one"},
                run_config={"execution": {"config": {}}},
            )
            wait_until(lambda: len(list((folder_of(workspace) / "waiting").glob("*"))) >= 2, seconds=90)
        assert done.result(timeout=120).success


def every_result_in_several_processes() -> dg.JobDefinition:
    """Return a job of CARE's assets with the multiprocess executor."""
    chosen = dg.define_asset_job("mine", ["evaluation", "factors"], executor_def=dg.multiprocess_executor)
    definitions = dg.Definitions.merge(build_defs(Path(os.environ["CARE_WORKSPACE"])), dg.Definitions(jobs=[chosen]))
    return definitions.resolve_job_def("mine")


@pytest.mark.slow
def test_a_killed_forget_is_completed_by_the_next_run(workspace_after_run, monkeypatch):
    """The kill comes after the first file, when the source could still restore the item."""
    folder = workspace_after_run
    rewrite, calls = retention._without, []

    def killed(path: Path, items, *, remove: bool) -> int:
        if remove:
            calls.append(path)
            if len(calls) == 2:
                raise KeyboardInterrupt
        return rewrite(path, items, remove=remove)

    monkeypatch.setattr(retention, "_without", killed)
    with pytest.raises(KeyboardInterrupt):
        retention.forget(load_workspace(folder), "one", "i3")
    monkeypatch.undo()
    assert len(score_rows(folder)) > 39 * len(JUDGES), "not yet done"
    write_items(folder, edited=7)  # the source still has the item
    run(folder)
    assert len({row for (row,) in query(folder, "SELECT DISTINCT item_id FROM latest_aggregates")}) == 39
    assert query(folder, "SELECT count(*) FROM items WHERE item_id = 'i3'") == [(0,)]
    assert not (folder / "data" / "forgetting.json").exists()
    assert not any('"i3"' in path.read_text() for path in (folder / "data").rglob("*.json*"))
    assert run(folder).materialised == []


def test_a_killed_rebuild_leaves_no_database_that_looks_complete(workspace_after_run, monkeypatch):
    folder = workspace_after_run
    workspace = load_workspace(folder)
    rows = query(folder, "SELECT * FROM latest_aggregates ORDER BY ALL")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for existed in (True, False):
        monkeypatch.setattr("assets.state.rebuild.load_fits", killed)
        with pytest.raises(KeyboardInterrupt):
            rebuild_warehouse(workspace)
        assert workspace.warehouse.usable() == existed
        monkeypatch.undo()
        if existed:
            assert query(folder, "SELECT * FROM latest_aggregates ORDER BY ALL") == rows
            workspace.warehouse.remove()
    rebuild_warehouse(workspace)
    assert query(folder, "SELECT * FROM latest_aggregates ORDER BY ALL") == rows
    assert not (folder / "data" / "making").exists()


def test_temporary_files_of_ended_processes_are_removed(workspace_after_run):
    folder = workspace_after_run
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    parts = folder / "data" / "parts" / "scores"
    dead, living = parts / f".a.parquet.{gone.stdout.strip()}.tmp", parts / f".b.parquet.{os.getppid()}.tmp"
    cursor = folder / "data" / "dagster" / f".dagster.yaml.{gone.stdout.strip()}.tmp"
    note = folder / "data" / "dagster" / "locks" / "working" / "of-one-that-was-killed.json"
    note.parent.mkdir(exist_ok=True)
    for path in (dead, living, cursor, note):
        path.write_text("half")
    run(folder)
    assert not dead.exists()
    assert not cursor.exists()
    assert not note.exists()
    assert living.exists(), "its process may be at work"


@pytest.mark.slow
def test_stopping_the_ui_stops_its_child_processes(tmp_path):
    folder = make(tmp_path / "ws", n=10)
    port = free_port()
    command = [sys.executable, "-m", "orchestration.cli", "ui", "--workspace", str(folder), "--port", str(port)]
    with started(command, tmp_path / "log") as process:
        wait_for_ui(process, port, tmp_path / "log")
        assert len(of_workspace(folder)) >= 3, "webserver, daemon and a code server"
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        wait_until(lambda: not of_workspace(folder), lambda: str(of_workspace(folder)), 20)


def of_workspace(folder: Path) -> list[str]:
    """Return the commands of the processes whose environment names this workspace."""
    wanted, commands = f"CARE_WORKSPACE={folder}".encode(), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                commands.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # it has ended meanwhile
            continue
    return commands


@pytest.mark.slow
def test_processes_that_open_a_new_workspace_at_once_do_not_break_its_storage(tmp_path):
    """Two processes that create Dagster's storage together would give it two versions."""
    folder = make(tmp_path / "ws")
    command = [sys.executable, "-m", "orchestration.cli", "history", "--workspace", str(folder)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in "123"]
    shown = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], shown
    for name in ("runs.db", "runs/index.db"):
        assert versions_of(folder / "data" / "dagster" / "history" / name) == 1
    assert versions_of(folder / "data" / "dagster" / "schedules" / "schedules.db") == 1


def test_a_storage_with_two_versions_is_reported_and_moved_away(tmp_path):
    folder = make(tmp_path / "ws")
    care(folder, "history")
    file = folder / "data" / "dagster" / "schedules" / "schedules.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("INSERT INTO alembic_version VALUES ('another')")
        connection.commit()
    assert "`care doctor --repair` moves it away" in " ".join(care(folder, "history", code=1).split())
    care(folder, "doctor", "--repair")
    care(folder, "history")


def versions_of(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT count(*) FROM alembic_version").fetchone()[0]


def test_locks_work_on_nfs(tmp_path, monkeypatch):
    """NFS 4 permits a shared lock only on a file open for reading, and an exclusive one only if open for writing."""
    flock, refused_mode = fcntl.flock, {fcntl.LOCK_SH: os.O_WRONLY, fcntl.LOCK_EX: os.O_RDONLY}

    def as_nfs_does(file: Any, mode: int) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        opened = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        if refused_mode.get(mode & ~fcntl.LOCK_NB) == opened:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(file, mode)

    monkeypatch.setattr(fcntl, "flock", as_nfs_does)
    store = (tmp_path / "store").as_uri()
    workspace = load_workspace(make(tmp_path / "ws", care=f"data: {store}\n"))
    with shared_lock(workspace, "one run", print), shared_lock(workspace, "another run", print):
        assert not runs_that_wait(workspace)
    with exclusive_lock(workspace, "care test"):
        pass
    assert hold_daemon_lock(workspace)
    with workspace_instance(workspace):
        pass
