"""Tests of the checks that block a fit, each with a run that it must block."""

import shlex
import shutil

import dagster as dg
import numpy as np
import pytest

from assets.publication.documents import ReviewDocument
from assets.report.verdicts import stored_verdicts
from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace
from tests.support.workspaces import make, query, read_table, run, typed, write_table, write_testset

N = 120
QUALITY = np.random.default_rng(0).normal(size=N)


def write(folder, *, seed=1, cheat=False, constant=False, copies=0, holes=0.0):
    """Write items, labels and five recorded judges, with optional errors."""
    rng = np.random.default_rng(seed)
    every = [*range(N), *range(copies)]  # the last ones are items again
    items = [(f"i{k}", "question", f"answer {of}", f"{QUALITY[of]:.3f}") for k, of in enumerate(every)]
    write_table(folder / "one.csv", ("item_id", "question", "answer", "label"), items)
    noise = np.random.default_rng(5).normal(size=(N, 5))
    scores = np.round(5 + QUALITY[:, None] + 0.7 * noise, 3)
    scores[rng.random(scores.shape) < holes] = np.nan
    if constant:
        scores[:, 0] = 4.0
    names = ["a", "b", "c", "d", "e"]
    columns = [*scores.T]
    if cheat:
        names, columns = [*names, "cheat"], [*columns, np.round(5 + QUALITY, 3)]
    rows = [(f"i{k}", *("" if np.isnan(c[of]) else c[of] for c in columns)) for k, of in enumerate(every)]
    write_table(folder / "scores.csv", ("item_id", *names), rows)


@pytest.fixture(scope="session")
def published(made_once):
    """Return a workspace with one good, published fit."""

    def nightly_run(shared):
        folder = make(shared / "ws", judges=(), care="fit: {resamples: 0, aggregators: [care, avg, care_svd]}\n")
        write_testset(folder, source="scores: {path: scores.csv}\n", rest="")
        write(folder)
        assert not run(folder).failures

    return made_once("published", nightly_run) / "ws"


@pytest.fixture
def folder(published, tmp_path):
    return shutil.copytree(published, tmp_path / "ws")


def finding(folder, check, review=None):
    review = review or load_workspace(folder).fit_folder("one").read(ReviewDocument)
    return next(result for result in review.findings if result.check == check)


def failed(folder):
    review = load_workspace(folder).fit_folder("one").read(ReviewDocument)
    return review.state, {finding.check: finding.message for finding in review.findings if not finding.passed}


HOLDS_BACK = {
    "gold_leakage": "cheat: the scores equal the gold label",
    "panel_shrunk": "no longer admitted (a: ",
    "duplicate_items": "repeat the texts of an item",
}
"""Message of each check that blocks a run with three errors."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nightly_run", "reported"),
    [
        ({"cheat": True, "constant": True, "copies": 10}, HOLDS_BACK),
        ({"holes": 0.08}, {"missing_scores": "since the published fit"}),
    ],
    ids=["three faults", "holes"],
)
def test_each_check_blocks_a_fit_and_gives_a_remedy(folder, nightly_run, reported):
    before = query(folder, "SELECT * FROM latest_aggregates ORDER BY ALL")
    write(folder, **nightly_run)
    assert not run(folder).failures
    state, failures = failed(folder)
    assert state == "held back"
    for check, sentence in reported.items():
        assert finding(folder, check).blocks, check
        assert sentence in failures[check]
        assert "`care fits accept`" in failures[check] or "review.declared" in failures[check]
    assert query(folder, "SELECT * FROM latest_aggregates ORDER BY ALL") == before
    assert_blocked_in_dagster(folder, {*reported})
    assert not run(folder).materialised, "a blocked fit is not stale"


def assert_blocked_in_dagster(folder, checks):
    """Assert that the run failed at these checks of `review`, stored its results, and skipped `report`."""
    with workspace_instance(load_workspace(folder)) as instance:
        runs = instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
        (blocked,) = [record.dagster_run for record in runs]
        events = [entry.dagster_event for entry in instance.all_logs(blocked.run_id) if entry.dagster_event]
    steps = {
        kind: {e.step_key for e in events if e.event_type_value == kind} for kind in ("STEP_SUCCESS", "STEP_FAILURE")
    }
    assert steps["STEP_FAILURE"] == {"review"}
    assert {"evaluation", "intervals", "systems", "factors"} <= steps["STEP_SUCCESS"]
    assert "report" not in {event.step_key for event in events if event.event_type_value == "STEP_START"}
    evaluations = [e.asset_check_evaluation_data for e in events if e.event_type_value == "ASSET_CHECK_EVALUATION"]
    failing = {e.check_name for e in evaluations if e.severity == dg.AssetCheckSeverity.ERROR and not e.passed}
    assert checks <= failing


@pytest.mark.slow
def test_a_blocked_first_fit_has_no_comparison(tmp_path):
    folder = make(tmp_path / "ws", judges=(), care="fit: {resamples: 0, aggregators: [avg]}\n")
    write_testset(folder, source="scores: {path: scores.csv}\n", rest="")
    write(folder, cheat=True)
    assert not run(folder).failures
    (verdict,) = stored_verdicts(load_workspace(folder)).values()
    step = verdict["next_steps"][0]
    assert (verdict["state"], step["command"]) == ("held back", f"care fits accept one --workspace {folder}")
    assert "Nothing is published yet." in [reason["sentence"] for reason in verdict["reasons"]]
    assert "diff" not in step["sentence"]
    assert "the other" not in step["sentence"]
    typed(*shlex.split(step["command"])[1:])
    assert query(folder, "SELECT count(*) FROM latest_aggregates") == [(N,)]


@pytest.mark.slow
def test_new_labels_do_not_excuse_changed_scores_in_the_review(folder):
    """Labels are added, and at the same time the scores of all judges are joined to other items."""
    rows = read_table(folder / "scores.csv")
    moved = [row | {"item_id": before["item_id"]} for before, row in zip(rows, rows[1:] + rows[:1], strict=True)]
    write_table(folder / "scores.csv", rows[0], [row.values() for row in moved])
    labels = [(f"i{k}", f"{QUALITY[k]:.3f}", "random") for k in range(20)]
    write_table(folder / "labels.csv", ("item_id", "label", "drawn"), labels)
    care = folder / "care.yaml"
    care.write_text(care.read_text() + "labels: {one: labels.csv}\n")
    assert not run(folder).failures
    state, failures = failed(folder)
    assert state == "held back"
    assert "New labels do not explain the change (labels: 20 new)" in failures["drift"]


@pytest.mark.slow
def test_a_declared_judge_may_equal_gold(folder):
    care = folder / "care.yaml"
    care.write_text(care.read_text() + "review: {declared: [cheat]}\n")
    write(folder, cheat=True)
    assert not run(folder).failures
    assert failed(folder)[0] == "published"
