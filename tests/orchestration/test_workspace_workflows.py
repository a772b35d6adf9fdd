"""Tests of whole workflows: each command, and its output.

The workspaces are the paper's with recorded scores, the demo with a user's recorded scores, and one written by hand
from two tables.
"""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.support.openai_server import Server, answer
from tests.support.workspaces import QUICK, care, care_json, make, make_programs, query, write_api_judge, write_table

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


@pytest.mark.slow
def test_the_demo_and_own_recorded_scores_share_a_workspace(tmp_path):
    """Recorded judges score one test set and programs both; each test set has a panel."""
    folder = make_programs(tmp_path / "mixed")
    write_own(folder)
    assert " fails " not in care(folder, "doctor")
    printed = care(folder, "run")
    assert "failed:" not in printed
    for testset in ("demo", "own"):
        assert re.search(rf"^{testset}: (USE|CHECK|DON'T USE YET)\.", printed, re.M), printed
    assert "nothing to do" in care(folder, "run")
    states = {(row["judge"], row["testset"]): row["state"] for row in care_json(folder, "status")}
    assert states["gpt", "own"] == f"{ITEMS} / {ITEMS}"
    assert states["length", "demo"] == "360 / 360"
    assert ("gpt", "demo") not in states
    assert states["length", "own"] == f"{ITEMS} / {ITEMS}"
    assert states["reference_recall", "own"] == f"0 / {ITEMS}", "it abstains where there is no reference"


def write_own(folder: Path, *texts: str) -> None:
    """Write a test set: a wide table of four judges, and their items with all texts or with the named texts."""
    (folder / "testsets" / "own.yaml").write_text(
        "scale: [0, 100]\nsource:\n  kind: files\n  items: answers.csv\n  scores: {path: scores.csv}\n"
    )
    rng = np.random.default_rng(7)
    quality = rng.uniform(20, 80, ITEMS)
    judges = {name: np.clip(quality + rng.normal(0, 12, ITEMS), 0, 100) for name in ("gpt", "claude", "llama", "qwen")}
    rows = ([f"q{k}", *(f"{column[k]:.1f}" for column in judges.values())] for k in range(ITEMS))
    write_table(folder / "scores.csv", ["item_id", *judges], rows)
    answers = [{"prompt": f"What is {k}?", "response": f"It is {'very ' * (k % 7)}{k}."} for k in range(ITEMS)]
    columns = texts or ("prompt", "response")
    rows = ([f"q{k}", *(answers[k][column] for column in columns), "web"] for k in range(ITEMS))
    write_table(folder / "answers.csv", ["item_id", *columns, "source"], rows)


def own_workspace(folder: Path, endpoint: Server, *texts: str) -> Path:
    """Create a workspace by hand: two YAML files, and two tables without named columns."""
    for name in ("judges", "testsets"):
        (folder / name).mkdir(parents=True)
    (folder / "care.yaml").write_text(QUICK)
    endpoint.say = lambda text, _: answer(str(len(text) % 10))
    options = {"template": "answer_rating", "scoring": "text", "retries": 0, "price_in": 1.0, "price_out": 1.0}
    write_api_judge(folder, endpoint.url, judge="scale: [0, 9]\nlicense: its own\n", **options)
    write_own(folder, *texts)
    return folder


@pytest.mark.slow
def test_a_workspace_written_by_hand_reads_foreign_files(tmp_path, endpoint):
    folder = own_workspace(tmp_path / "own", endpoint)
    forecast = {row["judge"]: row for row in care_json(folder, "run", "--dry-run")}
    assert (forecast["api"]["items"], forecast["api"]["questions"], forecast["api"]["failure"]) == (ITEMS, ITEMS, "")
    (as_read,) = [row["what"] for row in care_json(folder, "doctor") if row["check"] == "items of own"]
    assert "prompt is 'prompt', response is 'response'; kept as metadata: 'source'" in as_read
    printed = care(folder, "run")
    assert "failed:" not in printed
    assert len(endpoint.requests) == ITEMS
    assert {row["state"] for row in care_json(folder, "status")} == {f"{ITEMS} / {ITEMS}"}
    assert "It is very very 2." in (folder / "data" / "report" / "items-own.html").read_text()
    assert "nothing to do" in care(folder, "run")


@pytest.mark.slow
def test_a_template_with_a_missing_text_is_reported_before_the_run_and_fails_in_it(tmp_path, endpoint):
    """Doctor and forecast report it; each run reports the failed judge and the reason."""
    folder = own_workspace(tmp_path / "own", endpoint, "response")
    needs = "judge 'api': template 'answer_rating' needs prompt, which no item of test set own has"
    (failure,) = [row["failure"] for row in care_json(folder, "run", "--dry-run") if row["judge"] == "api"]
    assert failure.startswith(needs)
    assert needs in care(folder, "doctor", "--json", code=1)
    for _ in range(2):
        printed = care(folder, "run", code=1)
        assert (
            "failed: scores api|own: none of its 40 items has a score (40 refused); its most frequent message: "
            "the judge's template needs prompt, which the item lacks; add it to the test set" in printed
        )
        assert re.search(
            r"^own: DON'T USE YET\. .*\n  - Judge 'api' is left out: the judge gave no score", printed, re.M
        ), printed
    assert endpoint.requests == []
    states = {row["judge"]: row["state"] for row in care_json(folder, "status")}
    assert (states["api"], states["gpt"]) == ("failed", "40 / 40")

    (folder / "testsets" / "own.yaml").write_text("scale: [0, 100]\nsource: {kind: files, items: answers.csv}\n")
    printed = care(folder, "run", code=1)  # nobody else is left, and the advice is not that of a crowd
    assert "CARE left out api: it has no score" in printed
    assert "not_asked" not in printed


@pytest.mark.slow
def test_a_test_set_without_scores_does_not_affect_other_test_sets(tmp_path):
    """One of a judge's two test sets has no score file; the other is loaded and fitted."""
    folder = make(tmp_path / "ws", judges=())
    write_own(folder)
    (folder / "judges" / "gpt.yaml").write_text("engine: {kind: recorded, column: gpt}\ntestsets: [one, own]\n")
    printed = care(folder, "run", code=1)
    failed = "failed: judge_inference gpt: one: judge 'gpt' has recorded scores, but test set 'one' has no score file"
    assert failed in printed
    states = {(row["judge"], row["testset"]): row["state"] for row in care_json(folder, "status")}
    assert states["gpt", "own"] == f"{ITEMS} / {ITEMS}"
    assert states["gpt", "one"] == "failed"
    assert re.search(r"^own: (USE|CHECK|DON'T USE YET)\.", printed, re.M), printed


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
    assert "error: --select group:nix names no asset" in care(folder, "run", "--select", "group:nix", code=2)
    printed = care(folder, "run", "--judge", "length", "--select", "judge_inference", code=2)
    assert "nothing was materialised: the selected assets need items" in printed
    assert "without --select" in printed
    printed = care(folder, "run", "--judge", "length", "--select", "key:judge_inference or key:items")
    assert "2 asset partitions materialised" in printed
