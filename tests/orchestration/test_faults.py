"""Tests of kills and disk failures: the injecting library, the comparison, and kills of ``care admin forget``.

``benchmarks.soaks.kills`` tries many more points.
"""

import errno
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest
from sqlalchemy.exc import DatabaseError

from assets.state.repair import findings
from care_ops.errors import WarehouseError
from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace
from tests.support import faults
from tests.support.faults import Fault, Ran, State, compare, state_of
from tests.support.workspaces import make
from warehouse.parts import PartStore
from warehouse.refusals import refusal

COUNTING = Fault()
THREE_WRITES = """
import os
file = os.open("kept", os.O_WRONLY | os.O_CREAT)
for text in (b"aa", b"bb", b"cc"):
    os.write(file, text)
"""
REPLACES = """
import os, pathlib
pathlib.Path("new").write_text("whole")
try: os.replace("new", "kept")
except OSError as error: print(error.errno)
"""
IN_A_CHILD = f"""
import os, subprocess, sys
os.mkdir("folder")
subprocess.run([sys.executable, "-c", {THREE_WRITES!r}])
os.mkdir("after")
"""
WRITERS = {
    "duckdb": "import duckdb; c = duckdb.connect('kept'); c.execute('CREATE TABLE t AS SELECT 1'); c.close()",
    "sqlite": "import sqlite3; c = sqlite3.connect('kept'); c.execute('CREATE TABLE t (x)'); c.commit()",
    "pyarrow": "import pyarrow as pa, pyarrow.parquet as pq; pq.write_table(pa.table({'x': [1]}), 'kept')",
}


@pytest.fixture(scope="session")
def library(made_once) -> Path:
    return made_once("faults", faults.build) / "faults.so"


@pytest.fixture
def run_in(library, tmp_path):
    """Return ``run_in(program, fault)``, which runs a Python program in a folder whose changes are counted."""
    folder = tmp_path / "root"
    folder.mkdir()

    def run(program: str, fault: Fault = COUNTING) -> tuple[Ran, Path]:
        command = [sys.executable, "-c", f"import os; os.chdir({str(folder)!r})\n{program}"]
        return faults.run_under(library, command, folder, tmp_path / "notes", fault), folder

    return run


def test_recorded_write_points_are_in_order(run_in):
    ran, _ = run_in(REPLACES + "os.mkdir('d'); os.rmdir('d'); os.unlink('kept'); os.makedirs('.', exist_ok=True)")
    points = [(p.number, p.call.removesuffix("64"), p.path) for p in ran.points]
    assert points == [
        (1, "open", "new"),
        (2, "write", "new"),
        (3, "rename", "kept"),
        (4, "mkdir", "d"),
        (5, "rmdir", "d"),
        (6, "unlink", "kept"),
    ]


def test_writes_outside_the_folder_are_not_counted(run_in, tmp_path):
    ran, _ = run_in(f"open({str(tmp_path / 'beside')!r}, 'w').write('x'); open('/dev/null', 'w').write('x')")
    assert ran.code == 0
    assert ran.points == []


@pytest.mark.parametrize(
    ("fault", "kept"),
    [
        (Fault("kill", at=3), b"aa"),
        (Fault("kill", at=3, when="after"), b"aabb"),
        (Fault("kill", at=3, half=True), b"aab"),
    ],
)
def test_a_kill_comes_at_the_nth_write(run_in, fault, kept):
    ran, folder = run_in(THREE_WRITES, fault)
    assert ran.code == -signal.SIGKILL
    assert (folder / "kept").read_bytes() == kept
    assert ran.points[-1].number == 3


def test_writes_of_a_child_process_are_counted_and_a_kill_ends_its_parent(run_in):
    ran, folder = run_in(IN_A_CHILD, Fault("kill", at=4))
    assert ran.code == -signal.SIGKILL
    assert (folder / "kept").read_bytes() == b"aa"
    assert not (folder / "after").exists()


def test_a_failed_write_leaves_half_of_the_bytes(run_in):
    ran, folder = run_in(THREE_WRITES, Fault("fail", at=3, errno="EIO", half=True))
    assert f"[Errno {errno.EIO}]" in ran.output
    assert (folder / "kept").read_bytes() == b"aab"


def test_a_full_disk_rejects_all_later_writes(run_in):
    ran, folder = run_in(REPLACES + "open('more', 'w')", Fault("fail", at=3, from_then_on=True))
    assert ran.code == 1
    assert f"{errno.ENOSPC}\n" in ran.output
    assert sorted(path.name for path in folder.iterdir()) == ["new"]


def test_a_read_only_folder_permits_reading_only(run_in, tmp_path):
    (tmp_path / "root" / "kept").write_text("as it was")
    ran, folder = run_in(
        "print(open('kept').read())\n"
        "for how in ('r+', 'w', 'a'):\n"
        "    try: open('kept', how)\n"
        "    except OSError as error: print(error.errno)\n",
        Fault("readonly"),
    )
    assert ran.output == f"as it was\n{errno.EROFS}\n{errno.EROFS}\n{errno.EROFS}\n"
    assert (folder / "kept").read_text() == "as it was"


def test_a_changed_clock_applies_to_python_and_duckdb(run_in):
    asks = "import time, duckdb; print(time.time(), duckdb.connect().execute('SELECT epoch(now())').fetchone()[0])"
    ran, _ = run_in(asks, Fault(clock=-86_400))
    for moment in ran.output.split():
        assert time.time() - float(moment) == pytest.approx(86_400, abs=60)


@pytest.mark.parametrize("writer", sorted(WRITERS))
def test_writes_by_libraries_are_counted(run_in, writer):
    ran, folder = run_in(WRITERS[writer])
    assert ran.code == 0
    assert (folder / "kept").stat().st_size > 0
    written = {p.call for p in ran.points if p.path.startswith("kept")}
    assert written & {"write", "pwrite", "pwrite64", "pwritev", "writev"}
    if writer != "pyarrow":
        assert written & {"fsync", "fdatasync"}, "a commit waits for the disk"
    for path in folder.iterdir():
        path.unlink()
    ran, folder = run_in(WRITERS[writer], Fault("fail", at=2, from_then_on=True))
    assert ran.code != 0
    assert [path.stat().st_size for path in folder.iterdir() if path.name == "kept"] in ([], [0])


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/w/part"), "/w/part: no space is left"),
        (sqlite3.OperationalError("database or disk is full"), "no space is left"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "the file system is read-only"),
        (sqlite3.OperationalError("disk I/O error"), "the disk reported a read or write error"),
        (sqlite3.OperationalError("database is locked"), "another process has locked the database; wait"),
        (
            duckdb.IOException('Could not write file "/w/care.duckdb": No space left on device'),
            "/w/care.duckdb: no space",
        ),
        (
            duckdb.IOException('Cannot open file "/w/care.duckdb": Too many open files'),
            "/w/care.duckdb: too many files",
        ),
        (OSError(errno.EMFILE, "Too many open files", "/w/part"), "/w/part: too many files are open"),
    ],
)
def test_a_disk_error_is_one_message(error, sentence):
    reported_in = RuntimeError("a library's words for it")
    reported_in.__cause__ = error
    for met in (error, reported_in):
        assert sentence in str(refusal(met))


def test_missing_write_permission_is_not_reported_as_damage(tmp_path, monkeypatch):
    """SQLite's message is the same for both, but `care doctor --repair` helps only with damage."""
    error = sqlite3.OperationalError("unable to open database file")
    assert refusal(error, tmp_path) is None
    monkeypatch.setattr("warehouse.refusals.os.access", lambda path, mode: False)
    assert f"{tmp_path}: this user has no permission to read or write here" in str(refusal(error, tmp_path))


FILE_SYSTEMS = {
    "full": (
        SimpleNamespace(f_bavail=0, f_frsize=4096, f_flag=0),
        "disk I/O error",
        "no space is left on the disk",
    ),
    "read-only": (
        SimpleNamespace(f_bavail=10**6, f_frsize=4096, f_flag=os.ST_RDONLY),
        "unable to open database file",
        "the file system is read-only",
    ),
}


@pytest.mark.parametrize(("disk", "words", "sentence"), FILE_SYSTEMS.values(), ids=FILE_SYSTEMS)
def test_a_full_or_read_only_disk_is_not_reported_as_damage_or_missing_permission(
    tmp_path, monkeypatch, disk, words, sentence
):
    """SQLite writes a file beside the database, and reports both disks as broken ones."""
    monkeypatch.setattr("warehouse.refusals.os.statvfs", lambda _: disk)
    assert sentence in str(refusal(sqlite3.OperationalError(words), tmp_path / "data" / "runs.db"))

    folder = make(tmp_path / "ws")
    home = folder / "data" / "dagster"
    home.mkdir(parents=True)
    monkeypatch.setattr("warehouse.refusals.os.access", lambda path, mode: disk.f_flag == 0)
    with closing(sqlite3.connect(home / "runs.db")) as connection:
        connection.execute("CREATE TABLE runs (id)")
    (home / "broken.db").write_text("this is no database, and no disk is at fault" * 9)

    def connect(address, *words_, **more):
        if "immutable" not in address:
            raise sqlite3.OperationalError(words)
        return real(address, *words_, **more)

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    found = findings(load_workspace(folder), repair=False)
    (printed,) = [finding.message for finding in found]
    assert "broken.db is damaged (file is not a database)" in printed
    assert "runs.db" not in printed
    (home / "broken.db").unlink()
    (home / "runs.db-wal").write_bytes(b"not yet in the database")
    (notices,) = findings(load_workspace(folder), repair=True)
    assert sentence in notices.message
    assert notices.state == "fails"
    assert home.exists()


def test_a_disk_error_in_dagsters_storage_is_not_reported_as_damage(tmp_path):
    workspace = load_workspace(make(tmp_path / "ws"))
    full, broken = (
        DatabaseError("INSERT", {}, sqlite3.OperationalError(words))
        for words in ("database or disk is full", "file is not a database")
    )
    full.__cause__ = full.orig
    with pytest.raises(WarehouseError, match="no space is left on the disk"), workspace_instance(workspace):
        raise full
    with pytest.raises(WarehouseError, match="`care doctor --repair` moves it away"), workspace_instance(workspace):
        raise broken


def test_other_errors_are_not_reported_as_disk_errors():
    assert refusal(ValueError("no space left on device")) is None
    assert refusal(FileNotFoundError(errno.ENOENT, "No such file", "/w/part")) is None


def _workspace(folder: Path, *rows: tuple[str, float], made_at: str = "today", name: str = "kept") -> Path:
    """Create a data folder with a part for each row, and a document."""
    for item, score in rows:
        row = {"item_id": item, "item_key": f"key of {item}", "score": score, "status": "ok", "raw": str(score)}
        PartStore(folder / "data" / "parts").write_scores("judge", "one", "v1", "none", [row])
    (folder / "data" / f"{name}.json").write_text(json.dumps({"made_at": made_at, "value": len(rows)}))
    return folder


def test_workspaces_that_differ_only_in_times_are_equal(tmp_path):
    calm, rough = (
        state_of(_workspace(tmp_path / day, ("a", 1.0), ("b", 2.0), made_at=day)) for day in ("one", "another")
    )
    assert calm.files
    assert len(calm.rows) == 3  # two scores, and that there is no database
    assert not compare(calm, rough)


def test_the_comparison_finds_lost_repeated_changed_and_temporary_files(tmp_path):
    calm = state_of(_workspace(tmp_path / "calm", ("a", 1.0), ("b", 2.0)))
    rough = _workspace(tmp_path / "rough", ("a", 1.0))
    part = next((rough / "data" / "parts").rglob("*.parquet"))
    shutil.copy(part, part.with_name("again.parquet"))
    (part.parent / ".half.parquet.7.tmp").write_bytes(b"PAR1")
    note = rough / "data" / "dagster" / "locks" / "working" / "7.json"
    note.parent.mkdir(parents=True)
    note.write_text("{}")
    difference = compare(calm, state_of(rough))
    assert len(difference.lost) == 1
    assert "item_id=b" in difference.lost[0]
    assert difference.double == ["judge=judge/testset=one key of a v1"]
    assert difference.left_behind == [
        "dagster/locks/working/7.json",
        "parts/scores/judge=judge/testset=one/.half.parquet.7.tmp",
    ]
    assert difference.different[0] == "kept.json has other content"
    assert "item_id=a" in difference.different[1]


FORGET = ("admin", "forget", "i3", "--testset", "one")


def _care(workspace: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", "orchestration.cli", *arguments, "--workspace", str(workspace)]


@pytest.fixture(scope="session")
def forgotten(made_once, one_run, library) -> tuple[State, list[faults.Point]]:
    """Return a workspace after ``care admin forget`` and a run without faults, and the changes by the command."""

    def make(folder: Path) -> None:
        workspace = shutil.copytree(one_run, folder / "ws")
        for notes, command in (("forget", FORGET), ("run", ("run",))):
            ran = faults.run_under(library, _care(workspace, *command), workspace, folder / notes)
            assert ran.code == 0, ran.output

    folder = made_once("forgotten", make)
    return state_of(folder / "ws"), faults.points(folder / "forget")


def _point(points: list[faults.Point], where: str) -> int:
    """Return a call of ``care admin forget`` by name: the most dangerous call, or a random one."""
    outside = [p for p in points if not p.path.startswith("data/dagster/")]
    if where == "drawn":
        return random.Random(20261122).choice(outside).number
    call, _, name = where.partition(" ")
    return next(p.number for p in outside if p.call.startswith(call) and p.path.endswith(name))


@pytest.mark.slow
@pytest.mark.parametrize("where", ["rename items.parquet", "rename forgotten.jsonl", "drawn"])
def test_a_killed_forget_is_completed_by_the_same_command(library, forgotten, workspace_after_run, tmp_path, where):
    calm, points = forgotten
    notes, fault = tmp_path / "notes", Fault("kill", at=_point(points, where))
    ran = faults.run_under(library, _care(workspace_after_run, *FORGET), workspace_after_run, notes, fault)
    assert ran.code == -signal.SIGKILL
    for command in (FORGET, ("run",)):
        ran = faults.run_under(library, _care(workspace_after_run, *command), workspace_after_run, notes)
        assert ran.code == 0, ran.output
    difference = compare(calm, state_of(workspace_after_run))
    assert not difference, f"killed before {points[fault.at - 1]}: {difference}"
