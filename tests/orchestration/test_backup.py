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
    assert "To restore it" in care(after_a_night, "backup", str(file))
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
    assert "is no folder" in care(tmp_path, "backup", str(tmp_path / "missing" / "mine.tar"), code=2)
    said = care(tmp_path, "backup", str(tmp_path / "data" / "mine.tar"), code=2)
    assert "name a file on another disk" in said
