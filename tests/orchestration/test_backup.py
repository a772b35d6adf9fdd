"""Tests of backups: a workspace in one file, and its restoration."""

import shutil
import tarfile
from io import BytesIO

import pytest

from assets.state.backup import REBUILT
from orchestration.workspace import read_settings
from tests.support.workspaces import QUICK, care, query, run, score_rows, typed_line, write_table

ESTIMATES = "SELECT aggregator, item_id, round(estimate, 9) FROM latest_aggregates ORDER BY ALL"


@pytest.fixture(scope="module")
def copied(one_run, tmp_path_factory):
    """Copy a workspace after a run, with data in another folder, and write a backup."""
    folder = tmp_path_factory.mktemp("copied")
    workspace = shutil.copytree(one_run, folder / "ws", symlinks=True)
    (workspace / "data").rename(folder / "disk")
    (workspace / "care.yaml").write_text(f"data: {folder / 'disk'}\n{QUICK}")
    care(workspace, "admin", "backup", str(folder / "mine.tar"))
    (workspace / "data").symlink_to(folder / "disk")  # where what this test asks looks for them
    return workspace, folder / "mine.tar"


def test_restore_check_reads_the_whole_backup_and_leaves_no_files(copied, tmp_path, monkeypatch):
    workspace, file = copied
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in workspace.parent.rglob("*")}
    shown = typed_line("admin", "restore", file, "--check")
    (items,), (scores,) = (query(workspace, f"SELECT count(*) FROM {table}") for table in ("items", "scores"))
    assert f"one {items[0]} {scores[0]} " in shown
    assert "can be restored" in shown
    assert not [*tmp_path.iterdir()]
    assert {path: path.stat().st_mtime_ns for path in workspace.parent.rglob("*")} == before


def test_a_restored_workspace_has_its_data_in_its_own_folder(copied, tmp_path):
    """The data may have been in a store, which the copy must not use."""
    workspace, file = copied
    typed_line("admin", "restore", file, tmp_path / "back")
    assert read_settings(tmp_path / "back").data == "data"
    assert score_rows(tmp_path / "back") == score_rows(workspace)
    assert "is not empty" in typed_line("admin", "restore", file, tmp_path / "back", code=2)


@pytest.mark.parametrize("pattern", ["data/parts/scores/*/*/*.parquet", "data/parts/fits/*/fit=*.parquet"])
def test_restore_check_finds_a_damaged_part_in_a_backup(copied, tmp_path, pattern):
    unpacked = tmp_path / "unpacked"
    with tarfile.open(copied[1]) as archive:
        archive.extractall(unpacked, filter="data")
    damaged = sorted(unpacked.glob(pattern))[0]
    content = bytearray(damaged.read_bytes())
    third = len(content) // 3
    content[third : third + 200] = bytes(200)  # one byte might belong to page statistics, which have no checksum
    damaged.write_bytes(content)
    with tarfile.open(tmp_path / "rotten.tar", "w") as archive:
        archive.add(unpacked, arcname=".")
    shown = typed_line("admin", "restore", tmp_path / "rotten.tar", "--check", code=1)
    assert "is incomplete or damaged" in shown
    assert damaged.name in shown.replace(" ", "")


@pytest.mark.parametrize("cut", range(4), ids=["beginning", "within a file", "before a file", "within its head"])
def test_a_truncated_backup_is_reported(copied, tmp_path, cut):
    with tarfile.open(copied[1]) as archive:
        member = max(archive.getmembers(), key=lambda member: member.size)
    ends = (0, member.offset_data + member.size // 2, member.offset, member.offset + 100)[cut]
    (tmp_path / "half.tar").write_bytes(copied[1].read_bytes()[:ends])
    for where in ("--check", str(tmp_path / "back"), str(tmp_path / "back")):
        shown = typed_line("admin", "restore", tmp_path / "half.tar", where, code=2)
        assert "half.tar" in shown
        assert "a backup of a workspace" in shown or "complete backup of a workspace" in shown, (
            "and not that the folder is not empty"
        )


def test_restore_check_names_a_file_outside_of_the_workspace(tmp_path):
    """`care init --from` uses such files, which a backup does not contain."""
    rows = ((f"q{k}", k % 7, k % 5, k % 7 + k % 2, (k + 1) % 7) for k in range(40))
    table = write_table(tmp_path / "table.csv", ("id", "ann", "bob", "cyd", "dot"), rows)
    typed_line("init", tmp_path / "ws", "--from", str(table))
    reported = " ".join(care(tmp_path / "ws", "admin", "backup", str(tmp_path / "mine.tar")).split())
    assert f"files outside of {tmp_path / 'ws'} are not in the backup; keep copies of them: {table}" in reported
    assert f"care admin restore {tmp_path / 'mine.tar'} {tmp_path} --check" in reported
    before = sorted(tmp_path.iterdir())
    shown = typed_line("admin", "restore", tmp_path / "mine.tar", tmp_path, "--check")
    assert "can be restored" in shown, "it is still there"
    assert sorted(tmp_path.iterdir()) == before
    table.unlink()
    shown = typed_line("admin", "restore", tmp_path / "mine.tar", "--check", code=1)
    assert "table.csv: no such file" in shown
    assert "A backup has only the files in the workspace's folder" in shown


def test_restore_needs_a_folder_or_check(copied, tmp_path):
    assert "--check" in typed_line("admin", "restore", copied[1], code=2)
    assert "is not a folder" in typed_line("admin", "restore", copied[1], tmp_path / "missing", "--check", code=2)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ('"data": ELSEWHERE\n', "folder"),
        ("{data: ELSEWHERE, fit: {resamples: 0}}\n", "folder"),
        ("? data\n: ELSEWHERE\n", "folder"),
        ("fit: {}\rdata: ELSEWHERE\r", "folder"),
        ('"data": ELSEWHERE\n', "store"),
    ],
    ids=["quoted", "flow", "explicit key", "other line ends", "store"],
)
def test_restoring_a_backup_never_opens_the_original_data(tmp_path, monkeypatch, written, kept):
    """care.yaml may write the folder in any form, and the archive's header may name any folder."""
    elsewhere = tmp_path / "live" / "data"
    elsewhere.mkdir(parents=True)
    place = str(elsewhere) if kept == "folder" else "s3://127.0.0.1/none"
    text = written.replace("ELSEWHERE", place).encode()
    with tarfile.open(tmp_path / "mine.tar", "w", pax_headers={"comment": str(tmp_path / "live")}) as archive:
        member = tarfile.TarInfo("care.yaml")
        member.size = len(text)
        archive.addfile(member, BytesIO(text))
    drills = tmp_path / "drills"
    drills.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(drills))
    before = {path: path.stat().st_mtime_ns for path in [tmp_path / "live", elsewhere]}
    assert "can be restored" in typed_line("admin", "restore", tmp_path / "mine.tar", "--check")
    typed_line("admin", "restore", tmp_path / "mine.tar", tmp_path / "back")
    assert read_settings(tmp_path / "back").data == "data"
    after = {path: path.stat().st_mtime_ns for path in [tmp_path / "live", elsewhere]}
    assert after == before


def test_a_compressed_backup_is_rejected(copied, tmp_path):
    with tarfile.open(copied[1]) as plain, tarfile.open(tmp_path / "mine.tar.gz", "w:gz") as packed:
        packed.addfile(plain.getmember("care.yaml"), plain.extractfile("care.yaml"))
    shown = typed_line("admin", "restore", tmp_path / "mine.tar.gz", "--check", code=2)
    assert "uncompressed" in shown


@pytest.mark.slow
def test_a_restored_workspace_has_the_same_estimates_and_asks_no_judge(workspace_after_run, tmp_path):
    scores, estimates = score_rows(workspace_after_run), query(workspace_after_run, ESTIMATES)
    (workspace_after_run / ".venv").mkdir()
    (workspace_after_run / ".venv" / "large").write_text("not part of a workspace")
    file = tmp_path / "backups" / "mine.tar"
    file.parent.mkdir()
    assert "--check` checks whether it can be restored" in care(workspace_after_run, "admin", "backup", str(file))
    assert list(file.parent.iterdir()) == [file], "no temporary file stays"
    with tarfile.open(file) as archive:
        names = archive.getnames()
    assert not [name for name in names if name.startswith((".venv", *(f"data/{made}" for made in REBUILT)))]
    restored = tmp_path / "restored"
    typed_line("admin", "restore", file, restored)
    outcome = run(restored)
    assert not outcome.failures
    assert score_rows(restored) == scores, "no judge was asked"
    assert query(restored, ESTIMATES) == estimates


def test_a_backup_inside_the_workspace_is_rejected(tmp_path):
    """A link into the workspace is rejected too, because each backup would contain all earlier backups."""
    root, linked = tmp_path / "ws", tmp_path / "linked"
    for folder in (root, linked):
        folder.mkdir()
    (root / "care.yaml").write_text("{}\n")
    (root / "more").symlink_to(linked)
    (linked / "gold.csv").write_text("id,gold\n1,1\n")
    assert "is not a folder" in care(root, "admin", "backup", str(tmp_path / "missing" / "mine.tar"), code=2)
    for within in (root, root / "data", root / "more", linked):
        shown = care(root, "admin", "backup", str(within / "mine.tar"), code=2)
        assert "name a file on another disk" in shown
        assert not (within / "mine.tar").exists()


def test_a_backup_has_no_key_files_and_only_its_owner_may_read_it(tmp_path):
    (tmp_path / "ws").mkdir()
    for name in ("care.yaml", ".env", ".env.local", "judges.env", "environment.csv"):
        (tmp_path / "ws" / name).write_text("{}\n")
    care(tmp_path / "ws", "admin", "backup", str(tmp_path / "mine.tar"))
    with tarfile.open(tmp_path / "mine.tar") as archive:
        assert sorted(archive.getnames()) == ["care.yaml", "environment.csv"]
    assert (tmp_path / "mine.tar").stat().st_mode & 0o777 == 0o600


def test_a_backup_follows_links(tmp_path):
    root, elsewhere = tmp_path / "workspace", tmp_path / "elsewhere"
    for folder in (root / "tests", elsewhere / "deep" / "deeper", tmp_path / "disk" / "scores"):
        folder.mkdir(parents=True)
    (root / "care.yaml").write_text("{}\n")
    (elsewhere / "deep" / "items.csv").write_text("id,question\n1,why\n")
    (elsewhere / "deep" / "deeper" / "back").symlink_to(elsewhere / "deep")
    (elsewhere / "gold.csv").write_text("id,gold\n1,1\n")
    (tmp_path / "disk" / "scores" / "part.parquet").write_text("not read here")
    (root / "tests" / "linked").symlink_to(elsewhere / "deep")
    (root / "tests" / "gold.csv").symlink_to(elsewhere / "gold.csv")
    (root / "tests" / "nowhere.csv").symlink_to(elsewhere / "missing.csv")
    (root / "data").symlink_to(tmp_path / "disk")
    (root / "the_data_again").symlink_to(tmp_path / "disk")
    care(root, "admin", "backup", str(tmp_path / "mine.tar"))
    with tarfile.open(tmp_path / "mine.tar") as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert archive.extractfile("tests/linked/items.csv").read() == b"id,question\n1,why\n"
    assert all(member.isreg() for member in members.values()), "no link, whose target another machine lacks"
    assert members.keys() == {"care.yaml", "tests/gold.csv", "tests/linked/items.csv", "data/scores/part.parquet"}
