"""A workspace is copied into one file, and a copy is a workspace again."""

import subprocess
import tarfile

import pytest

from assets.state.backup import MADE_AGAIN
from tests.support.workspaces import care, query, run, score_rows

ESTIMATES = "SELECT aggregator, item_id, round(estimate, 9) FROM latest_aggregates ORDER BY ALL"


@pytest.mark.slow
def test_a_restored_workspace_has_the_same_answers_and_asks_no_judge(after_a_night, tmp_path):
    """Slow, because it lives through a night: a backup that nobody has restored is none."""
    scores, estimates = score_rows(after_a_night), query(after_a_night, ESTIMATES)
    (after_a_night / ".venv").mkdir()
    (after_a_night / ".venv" / "large").write_text("not part of a workspace")
    file = tmp_path / "backups" / "mine.tar"
    file.parent.mkdir()
    assert "To restore it" in care(after_a_night, "admin", "backup", str(file))
    assert list(file.parent.iterdir()) == [file], "no temporary file stays"
    with tarfile.open(file) as archive:
        names = archive.getnames()
    assert not [name for name in names if name.startswith((".venv", *(f"data/{made}" for made in MADE_AGAIN)))]
    restored = tmp_path / "restored"
    restored.mkdir()
    subprocess.run(["tar", "-xf", str(file), "-C", str(restored)], check=True)
    outcome = run(restored)
    assert not outcome.failures
    assert score_rows(restored) == scores, "no judge was asked"
    assert query(restored, ESTIMATES) == estimates


def test_a_backup_within_what_it_protects_is_refused(tmp_path):
    (tmp_path / "care.yaml").write_text("{}\n")
    assert "is no folder" in care(tmp_path, "admin", "backup", str(tmp_path / "missing" / "mine.tar"), code=2)
    said = care(tmp_path, "admin", "backup", str(tmp_path / "data" / "mine.tar"), code=2)
    assert "name a file on another disk" in said


def test_a_backup_holds_what_links_lead_to(tmp_path):
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
