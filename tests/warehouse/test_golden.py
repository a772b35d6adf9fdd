"""Tests that a workspace of commit b8b031e opens, asks no judge again and keeps its published fits.

The script that built the workspace is in the history (``git log -- tests/warehouse/golden``). If an option of
care.yaml is renamed, rename it here after unpacking.
"""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

import pytest

from assets.fit.documents import FitDocument
from assets.judging.retests import Retests
from assets.publication.documents import ReviewDocument
from assets.report.documents import FactsDocument
from assets.report.verdicts import stored_verdicts
from care_ops.results.fit_facts import FitFacts
from judges.batch import Batch
from orchestration.alerts import AlertLog
from orchestration.plan import Cursor
from orchestration.workspace import load_workspace
from tests.support.workspaces import care, care_json, query, run, score_rows
from warehouse.documents import record_of

PACKED = Path(__file__).parent / "golden" / "b8b031e.tar.xz"
PUBLISHED = {"one": "d4f6d3919924f063", "recorded": "5abbf7250bb293b3"}
"""Published fit of each test set."""


@pytest.fixture
def golden(tmp_path):
    with tarfile.open(PACKED) as archive:
        archive.extractall(tmp_path / "workspace", filter="data")
    settings = tmp_path / "workspace" / "care.yaml"
    settings.write_text(settings.read_text().replace("anchors:", "labels:"))
    return tmp_path / "workspace"


def digests(folder: Path) -> dict[str, str]:
    """Return hashes of the files of scores, bills and fits; a run may only add publications."""
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
    """A later release rebuilds the database from the parts.

    The judge's endpoint no longer exists; only the canary asks it, on another day.
    """
    before, scored = digests(golden), score_rows(golden)
    with (golden / "care.yaml").open("a") as settings:
        settings.write("fit: {resamples: 0}\n")  # intervals are no record
    api = golden / "judges" / "api.yaml"
    api.write_text(api.read_text().replace("kind: openai,", "kind: openai, retries: 0,"))
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


def test_its_documents_are_read_by_the_present_names(golden):
    workspace, fit = load_workspace(golden), PUBLISHED["one"]
    publication, version = workspace.fits.published("one")
    folder = workspace.fit_folder("one")
    review, facts = folder.read(ReviewDocument), folder.read(FactsDocument).facts
    documents = (publication, version, folder.read(FitDocument), review, facts)
    assert {document.fit_version for document in documents} == {fit}
    assert review.findings[0].message == "3 judges"
    assert facts == workspace.fits.find_annotation("one", fit, FitFacts)
    assert facts.former_concerns == ("few judges", "few items", "no common signal")
    assert stored_verdicts(workspace)["one"]["fit_version"] == fit
    assert workspace.fits.read_fit("one", version.fits["care"]).answer.details["items_to_label"]
    assert {str(row["run_date"]) for row in workspace.bills.read().to_pylist()} == {"2026-11-27"}


CHANGE = {"night": 5, "told": 7, "shift": 0.1}


@pytest.mark.parametrize(
    ("kind", "document", "value"),
    [
        (
            Retests,
            {"rows": [{"night": 5, "testset": "one", "key": "k", "kept": 0.1, "today": 0.2}]},
            "rows[0].run_date",
        ),
        (Retests, {"changed": CHANGE}, "changed.run_date"),
        (AlertLog, {"night": 5.0, "owed": {"k": "open"}}, "run_began"),
        (Cursor, {"night": 5.0}, "run_began"),
        (
            Batch,
            dict.fromkeys(("token", "judge_key", "since"), "")
            | {"items": 1, "questions": 1, "lines": [], "body": {}, "worst": 0.0, "night": "5"},
            "run_date",
        ),
    ],
)
def test_documents_of_the_first_format_that_it_lacks_are_read_too(kind, document, value):
    assert float(eval(f"record.{value}", {"record": record_of(kind, document)})) == 5
