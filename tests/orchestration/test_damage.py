"""Tests of damaged files of a workspace: rebuilt, quarantined by the doctor, and paid again only on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from assets.state.repair import verify_some
from orchestration.instance import dagster_home
from orchestration.workspace import load_workspace
from tests.support.damage import DAMAGES, make_small, try_damage, undisturbed
from tests.support.faults import State
from tests.support.workspaces import doctor_rows, make, query, run, typed_line, write_api_judge

ESTIMATES = (
    "SELECT DISTINCT i.item_id, f.aggregator, a.estimate FROM latest_fits f "
    "JOIN aggregates a USING (fit_id) JOIN items i USING (item_ix) ORDER BY ALL"
)


def doctor(folder: Path, *options: str) -> list[tuple[str, str]]:
    """Return state and message of `care doctor` for the files of a workspace."""
    rows = [row for row in doctor_rows(folder, *options) if row["check"] in ("file", "files")]
    return [(row["state"], row["what"]) for row in rows]


def when_written(folder: Path) -> dict[Path, int]:
    """Return the modification times of the score parts; unchanged times mean that no judge was asked again."""
    return {path: path.stat().st_mtime_ns for path in (folder / "data" / "parts" / "scores").rglob("*.parquet")}


def test_the_doctor_names_damaged_files_and_quarantines_them_on_request(workspace_after_run):
    parts = sorted((workspace_after_run / "data" / "parts" / "scores").rglob("*.parquet"))
    page = workspace_after_run / "data" / "report" / "testset-one.html"
    panel = workspace_after_run / "data" / "fits" / "testset=one" / "panel.json"
    database = workspace_after_run / "data" / "care.duckdb"
    bill = next((workspace_after_run / "data" / "parts" / "bills").glob("*.parquet"))
    assert doctor(workspace_after_run) == []
    before = query(workspace_after_run, ESTIMATES)
    damages = ((parts[0], "flipped"), (page, "emptied"), (panel, "a folder"), (database, "truncated"), (bill, "head"))
    for path, damage in damages:
        DAMAGES[damage](path)
    rows = doctor(workspace_after_run)
    for path, _ in damages:
        assert any(path.name in sentence and state == "fails" and "`care " in sentence for state, sentence in rows), (
            path
        )
    assert parts[0].is_file(), "it only tells"
    assert {state for state, _ in doctor(workspace_after_run, "--repair")} == {"ok"}
    assert not parts[0].exists()
    assert list((parts[0].parent / "damaged").glob(f"{parts[0].name}.*"))
    assert doctor(workspace_after_run) == []
    assert not run(workspace_after_run).failures
    assert query(workspace_after_run, ESTIMATES) == before
    assert parts[0].exists()


def test_every_part_is_verified_within_some_runs(workspace_after_run):
    workspace = load_workspace(workspace_after_run)
    parts = sorted((workspace_after_run / "data" / "parts").rglob("*.parquet"))
    damaged = [part for part in parts if "scores" in part.parts][-1]
    DAMAGES["flipped"](damaged)
    for _ in range(20):
        verify_some(workspace)
    assert [part for part in parts if not part.exists()] == [damaged]
    assert list((damaged.parent / "damaged").glob(f"{damaged.name}.*"))
    cursor = workspace_after_run / "data" / "dagster" / "verified.json"
    before = cursor.read_text()
    outcome = run(workspace_after_run)
    assert not outcome.failures
    assert damaged.exists(), "its items were asked again, which costs nothing"
    assert cursor.read_text() != before, "each run goes on"


@pytest.mark.slow
def test_a_damaged_dagster_storage_is_moved_away_and_no_judge_is_asked_again(workspace_after_run):
    before, asked = query(workspace_after_run, ESTIMATES), when_written(workspace_after_run)
    home = workspace_after_run / "data" / "dagster"
    DAMAGES["head"](home / "history" / "runs.db")
    DAMAGES["emptied"](home / "schedules" / "schedules.db")
    printed = typed_line("run", "--workspace", workspace_after_run, code=1)
    assert "`care doctor --repair` moves it away" in printed
    rows = doctor(workspace_after_run)
    assert [state for state, _ in rows] == ["fails"]
    assert all(name in rows[0][1] for name in ("runs.db", "schedules.db", "`care doctor --repair`"))
    assert [state for state, _ in doctor(workspace_after_run, "--repair")] == ["ok"]
    assert not home.exists()
    assert not run(workspace_after_run).failures
    assert query(workspace_after_run, ESTIMATES) == before
    assert when_written(workspace_after_run) == asked


@pytest.mark.parametrize("damage", ["emptied", "a folder"])
def test_damaged_dagster_settings_are_rewritten(tmp_path, damage):
    folder = make(tmp_path / "ws")
    settings = dagster_home(load_workspace(folder)) / "dagster.yaml"
    before = settings.read_bytes()
    DAMAGES[damage](settings)
    dagster_home(load_workspace(folder))
    assert settings.read_bytes() == before


@pytest.fixture
def paid(workspace_after_run, endpoint):
    """Run a workspace with a paid judge behind an address; return the workspace and the server."""
    write_api_judge(workspace_after_run, endpoint.url, judge="batch_size: 20\n", retries=0)
    assert not run(workspace_after_run).failures
    return workspace_after_run, endpoint


@pytest.mark.slow
def test_a_paid_judge_is_asked_again_only_on_request(paid):
    folder, server = paid
    damaged, whole = sorted((folder / "data" / "parts" / "scores" / "judge=api" / "testset=one").glob("*.parquet"))
    DAMAGES["flipped"](damaged)
    load_workspace(folder).parts.read_scores("api", "one")
    assert not damaged.exists()
    scored, asked = "SELECT count(*) FROM scores JOIN judges USING (judge_ix) WHERE judge = 'api'", len(server.requests)
    for _ in range(2):
        message = run(folder).failures["judge_inference", "api"]
        assert "1 damaged score file in quarantine" in message
        assert "`care doctor --repair`" in message
    assert len(server.requests) == asked
    assert query(folder, scored) == [(40,)], "the database has them, and fits go on with them"
    assert any(state == "fails" and "costs money" in sentence for state, sentence in doctor(folder))
    assert all(state == "ok" for state, _ in doctor(folder, "--repair"))
    assert not run(folder).failures
    assert 0 < len(server.requests) - asked <= 20, "the items of one of two batches"
    assert whole.exists()
    assert query(folder, scored) == [(40,)]


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    return make_small(tmp_path_factory.mktemp("damage") / "small")


@pytest.fixture(scope="module")
def calm(small, tmp_path_factory) -> State:
    return undisturbed(small, tmp_path_factory.mktemp("calm") / "calm")


SAMPLE = {
    "data/parts/scores/judge=length/testset=one/*.parquet": "flipped",
    "data/parts/items/testset=one/items.parquet": "truncated",
    "data/parts/fits/testset=one/fit_version=*.json": "truncated",
    "data/parts/fits/testset=one/publications.jsonl": "flipped",
    "data/fits/testset=one/review.json": "emptied",
    "data/care.duckdb": "flipped",
    "data/dagster/history/runs/index.db": "emptied",
    "data/report/items-one.html": "flipped",
    "data/report/testset-one.html": "head",
    "data/report/verdicts.json": "head",
    "data/report/to_label-one.csv": "head",
    "judges/length.yaml": "truncated",
    "one.csv": "a folder",
}
"""One kind of damage for some kinds of files; `make soak-damage` tries all."""


@pytest.mark.slow
@pytest.mark.parametrize("pattern", SAMPLE)
def test_damaged_files_are_rebuilt(small, calm, tmp_path, pattern):
    path = str(next(small.glob(pattern)).relative_to(small))
    case = try_damage(small, tmp_path / "case", path, SAMPLE[pattern], calm)
    assert not case.wrong


@pytest.mark.slow
def test_a_damaged_published_fit_does_not_block_later_fits(small, calm, tmp_path):
    published = load_workspace(small).fits.published("one")
    assert published is not None
    path = f"data/parts/fits/testset=one/fit={published[1].fits['care']}.parquet"
    case = try_damage(small, tmp_path / "case", path, "flipped", calm)
    assert not case.wrong
