"""A workspace of commit b8b031e opens, asks no judge again and keeps its published fits.

``golden/build.py`` built it. Where an option of care.yaml is renamed, rename it here after unpacking.
"""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

import pytest

from tests.support.workspaces import care, care_json, query, run, score_rows

PACKED = Path(__file__).parent / "golden" / "b8b031e.tar.xz"
PUBLISHED = {"one": "d4f6d3919924f063", "recorded": "5abbf7250bb293b3"}
"""The fit of each test set that is published in it."""


@pytest.fixture
def golden(tmp_path):
    with tarfile.open(PACKED) as archive:
        archive.extractall(tmp_path / "workspace", filter="data")
    return tmp_path / "workspace"


def digests(folder: Path) -> dict[str, str]:
    """The content of every file of scores, bills and fits; a run adds to the list of publications only."""
    parts = folder / "data" / "parts"
    files = [path for kind in ("scores", "bills", "fits") for path in (parts / kind).rglob("*.*")]
    files = [path for path in files if not path.name.startswith((".", "publications"))]
    return {str(path.relative_to(parts)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def published_fits(folder: Path) -> dict[str, list[str]]:
    rows = {name: care_json(folder, "fits", "list", name) for name in PUBLISHED}
    return {name: [row["fit_version"] for row in of if row["state"] == "published"] for name, of in rows.items()}


def test_it_opens_and_would_ask_nobody(golden):
    before = digests(golden)
    assert care_json(golden, "run", "--dry-run") == []
    assert published_fits(golden) == {name: [fit] for name, fit in PUBLISHED.items()}
    assert all(name in care(golden, "status") for name in PUBLISHED)
    assert digests(golden) == before


def test_a_run_without_its_database_keeps_every_score_and_fit(golden):
    """The database may be rebuilt by a later release: the parts are the record.

    The endpoint of its judge is gone, which only the canary may notice: it asks again on another day.
    """
    before, scored = digests(golden), score_rows(golden)
    (golden / "data" / "care.duckdb").unlink()
    outcome = run(golden)
    assert set(outcome.failures) <= {("canary", "api")}
    assert score_rows(golden) == scored
    counts = "SELECT testset, count(*), count(DISTINCT judge) FROM scores JOIN judges USING (judge_ix) "
    rows = query(golden, f"{counts} JOIN items USING (item_ix) GROUP BY ALL ORDER BY ALL")
    assert rows == [("one", 4 * 36, 4), ("recorded", 8 * 30, 8)]
    after = digests(golden)
    assert {name: after.get(name) for name in before} == before
    assert set(PUBLISHED.values()) <= {
        row["fit_version"] for name in PUBLISHED for row in care_json(golden, "fits", "list", name)
    }
