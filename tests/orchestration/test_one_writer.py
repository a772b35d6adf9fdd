"""One command at work on a workspace at a time, named to whoever is refused; promises kept through a kill."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from assets.state import retention
from assets.state.rebuild import rebuild_warehouse
from care_ops.errors import WarehouseError
from orchestration.cli.app import app
from orchestration.instance import alone
from orchestration.workspace import load_workspace
from tests.support.workspaces import JUDGES, care, make, query, run, score_rows, write_items


def said_by(folder, *words, code=0):
    """On one line, wherever the terminal wrapped it."""
    return care(folder, *words, code=code).replace("\n", " ")


@pytest.mark.parametrize(
    "words", [("run",), ("gc",), ("forget", "i1", "--testset", "one"), ("accept", "one"), ("promote", "x")]
)
def test_whoever_holds_the_workspace_is_named(tmp_path, words):
    folder = make(tmp_path / "ws")
    with alone(load_workspace(folder), "care something"):
        said = said_by(folder, *words, code=1)
    assert f"`care something` (process {os.getpid()}, since 20" in said
    assert "is at work on" in said


def test_the_lock_is_free_again_after_its_holder(tmp_path):
    workspace = load_workspace(make(tmp_path / "ws"))
    with pytest.raises(WarehouseError, match="care gc"), alone(workspace, "care gc"), alone(workspace, "care run"):
        pass
    with alone(workspace, "care run"):
        pass


def test_forgetting_that_is_killed_is_finished_by_the_next_run(after_a_night, monkeypatch):
    """Killed after the first file, before anything that would keep the source from bringing the item back."""
    folder = after_a_night
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


def test_a_rebuild_that_is_killed_leaves_no_database_that_looks_whole(after_a_night, monkeypatch):
    folder = after_a_night
    workspace = load_workspace(folder)
    rows = query(folder, "SELECT * FROM latest_aggregates ORDER BY ALL")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for existed in (True, False):
        monkeypatch.setattr("warehouse.fits.load_fits", killed)
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


def test_forgetting_says_what_may_still_hold_the_item(after_a_night):
    said = said_by(after_a_night, "forget", "i3", "--testset", "one")
    assert "may still hold it" in said
    assert "one.csv" in said


def test_temporary_files_of_processes_that_are_gone_are_swept(after_a_night):
    folder = after_a_night
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    parts = folder / "data" / "parts" / "scores"
    dead, living = parts / f".a.parquet.{gone.stdout.strip()}.tmp", parts / f".b.parquet.{os.getppid()}.tmp"
    cursor = folder / "data" / "dagster" / f".care_run_cursor.json.{gone.stdout.strip()}.tmp"
    for path in (dead, living, cursor):
        path.write_text("half")
    run(folder)
    assert not dead.exists()
    assert not cursor.exists()
    assert living.exists(), "its process may be at work"


@pytest.mark.slow
def test_stopping_the_ui_stops_all_that_it_started(tmp_path):
    folder = make(tmp_path / "ws", n=10)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "orchestration.cli", "ui", "--workspace", str(folder), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while True:
        assert process.poll() is None
        assert time.monotonic() < deadline
        try:
            if httpx.get(f"http://127.0.0.1:{port}/server_info", timeout=5).status_code == 200:
                break
        except httpx.HTTPError:
            time.sleep(0.5)
    assert len(of_workspace(folder)) >= 3, "webserver, daemon and a code server"
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    deadline = time.monotonic() + 20
    while of_workspace(folder) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert of_workspace(folder) == []


def of_workspace(folder: Path) -> list[str]:
    """Commands of the processes whose environment names this workspace."""
    wanted, found = f"CARE_WORKSPACE={folder}".encode(), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # it has ended meanwhile
            continue
    return found


def test_a_judge_file_is_written_only_where_the_judge_could_run(tmp_path):
    folder = make(tmp_path / "ws", judges=("length",))
    for words, why in (
        (("--program", "nope"), "no program judge 'nope'"),
        (("--file", "nowhere.py"), "nowhere.py: cannot be read"),
        (("--model", "some/repository"), "needs revision"),
    ):
        result = CliRunner().invoke(app, ["judges", "new", "fresh", *words, "--workspace", str(folder)])
        assert result.exit_code != 0
        assert why in result.output.replace("\n", " ")
        assert not (folder / "judges" / "fresh.yaml").exists()
    care(folder, "judges", "new", "fresh", "--program", "readability")
    assert (folder / "judges" / "fresh.yaml").exists()


def test_a_trial_says_pass_or_fail(tmp_path):
    folder = make(tmp_path / "ws", judges=("entity_support",))
    (folder / "flat.py").write_text("def program_judge(query, response):\n    return 5\n")
    (folder / "judges" / "flat.yaml").write_text("engine: {kind: program, file: flat.py, unsafe: true}\n")
    result = CliRunner().invoke(app, ["judges", "test", "flat", "--workspace", str(folder)])
    assert result.exit_code == 1
    assert "fails: the good and the bad answer differ by 0" in result.output
    result = CliRunner().invoke(app, ["judges", "test", "entity_support", "--workspace", str(folder), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)[0]["spread"] > 0
