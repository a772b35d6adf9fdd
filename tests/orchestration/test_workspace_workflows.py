"""Tests of whole workflows: each command, and its output.

One workspace is the paper's, with recorded scores.
"""

import re
import shutil
from pathlib import Path

import pytest

from tests.support.workspaces import care, care_json, make, query

ROOT = Path(__file__).parents[2]
ITEMS = 40

pytestmark = pytest.mark.slow


@pytest.mark.data
def test_the_papers_workspace_runs_and_a_second_run_has_nothing_to_do(tmp_path, data_dir, monkeypatch):
    """The test runs README's command with fewer resamples, and compares README's table."""
    monkeypatch.setenv("CARE_DATA_DIR", str(data_dir))
    folder = shutil.copytree(ROOT / "examples" / "paper", tmp_path / "paper", ignore=shutil.ignore_patterns("data"))
    with (folder / "care.yaml").open("a") as settings:
        settings.write("fit: {resamples: 20}\n")
    assert "failed" not in care(folder, "doctor")
    printed = care(folder, "run")
    assert "failed:" not in printed
    assert "report: " in printed
    for testset, figures in results_table().items():
        assert f"{testset}: " in printed
        assert measured(folder, testset) == pytest.approx(figures, abs=0.005), testset
    again = care(folder, "run")
    assert "failed:" not in again
    assert "nothing to do" in again
    states = {row["state"] for row in care_json(folder, "status")}
    assert all(re.fullmatch(r"\d+ / \d+", state) for state in states), states


def results_table() -> dict[str, list[float]]:
    """Return the order of each aggregator on each test set in the page of results."""
    table = (ROOT / "benchmarks" / "results" / "examples-paper.md").read_text()
    rows = re.findall(r"^\| (\w+) \((?:AUC|tau)\) \| [\d,]+ \|(.*)\|$", table, re.M)
    assert len(rows) == 7
    return {testset: [float(cell.strip(" *")) for cell in cells.split("|")] for testset, cells in rows}


def measured(folder: Path, testset: str) -> list[float]:
    """Return the same figures from a workspace."""
    rows = query(
        folder,
        "SELECT f.aggregator, coalesce(e.auc, e.tau) FROM latest_fits f JOIN evaluations e USING (fit_id) "
        f"WHERE f.testset = '{testset}'",
    )
    return [dict(rows)[name] for name in ("care", "mv", "avg", "uws", "care_svd", "care_tensor")]


def test_messages_in_a_copied_workspace_name_its_folder(one_run, workspace_after_run):
    """No asset is stale; page, index and document must name the new folder."""
    reported = [
        workspace_after_run / "data" / "report" / name for name in ("testset-one.html", "index.html", "verdicts.json")
    ]
    assert all(f"--workspace {one_run}" in path.read_text() for path in reported)
    printed = care(workspace_after_run, "run")
    assert "nothing to do" in printed
    for text in (printed, *(path.read_text() for path in reported)):
        assert f"--workspace {workspace_after_run}" in text
        assert str(one_run) not in text


def test_a_selection_that_waits_for_other_assets_is_reported(tmp_path):
    folder = make(tmp_path / "ws", n=10)
    assert "error: --select group:nix: names no asset" in care(folder, "run", "--select", "group:nix", code=2)
    printed = care(folder, "run", "--judge", "length", "--select", "judge_inference", code=2)
    assert "nothing was materialised: the selected assets need items" in printed
    assert "without --select" in printed
    printed = care(folder, "run", "--judge", "length", "--select", "key:judge_inference or key:items")
    assert "2 asset partitions materialised" in printed
