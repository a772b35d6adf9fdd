"""Tests of which assets run again after each kind of change."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import dagster as dg
import numpy as np
import pytest

from assets.fit import made as made_module
from assets.fit import panel
from assets.fit.made import RESULTS
from care_ops.metrics import evaluate
from judges.engines import recorded
from orchestration.cli.run import results
from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace
from tests.support.workspaces import (
    JUDGES,
    add_column,
    make,
    query,
    ran,
    run,
    score_rows,
    write_items,
    write_judge,
    write_table,
    write_testset,
)
from warehouse import panel_rows
from warehouse.fits import FitStore
from warehouse.parts import PartStore
from warehouse.sources import files

FIT = ("panel", "moments", "structure", "aggregates", "evaluation", "intervals", "systems", "factors", "report")

ITEMS_TO_KILL = 120
"""Number of items in a run that is killed; the run must still be in progress when the signal arrives."""


def estimates(folder) -> list[tuple]:
    return query(folder, "SELECT testset, aggregator, item_id, round(estimate, 9) FROM latest_aggregates ORDER BY ALL")


@pytest.mark.slow
def test_only_changed_assets_run_again(tmp_path):
    folder = make(tmp_path / "ws")

    outcome = run(folder)
    assert not outcome.failures
    assert ran(outcome, "judge_inference") == sorted(JUDGES)
    assert len(ran(outcome, "scores")) == len(JUDGES)
    assert all(ran(outcome, asset) == ["one"] for asset in FIT)
    assert len(score_rows(folder)) == 40 * len(JUDGES)

    outcome = run(folder)
    assert outcome.materialised == []

    os.utime(folder / "one.csv")
    assert run(folder).materialised == [], "the same content with a newer date is nothing new"

    write_judge(folder, "readability")
    outcome = run(folder)
    assert ran(outcome, "items") == []
    assert ran(outcome, "judge_inference") == ["readability"]
    assert ran(outcome, "scores") == ["readability|one"]
    assert all(ran(outcome, asset) == ["one"] for asset in FIT)
    assert len(score_rows(folder)) == 40 * (len(JUDGES) + 1)

    before = set(score_rows(folder))
    write_items(folder, edited=7)
    outcome = run(folder)
    new = set(score_rows(folder)) - before
    assert len(new) == len(JUDGES) + 1, "that item, once for each judge"
    assert len({key for _, key, _ in new}) == 1
    assert all(ran(outcome, asset) == ["one"] for asset in ("items", *FIT))

    labels = folder / "one.csv"
    labels.write_text(labels.read_text().replace(",0\n", ",9\n"))
    outcome = run(folder)
    assert ran(outcome, "judge_inference") == ran(outcome, "scores") == ran(outcome, "panel") == []
    assert ran(outcome, "evaluation") == ran(outcome, "report") == ["one"]

    write_testset(folder, "two")
    write_items(folder, 30, name="two")
    outcome = run(folder)
    assert ran(outcome, "items") == ["two"]
    slices = {f"{j}|two" for j in (*JUDGES, "readability")}
    assert set(ran(outcome, "scores")) == slices
    assert all(ran(outcome, asset) == ["two"] for asset in FIT)

    (folder / "judges" / "length.yaml").unlink()
    outcome = run(folder)
    assert ran(outcome, "judge_inference") == ran(outcome, "scores") == []
    assert all(ran(outcome, asset) == ["one", "two"] for asset in FIT)
    assert ("length",) not in query(folder, "SELECT judge FROM panels")
    assert any("judge=length" in where for where, _, _ in score_rows(folder)), "its parts stay"

    (folder / "care.yaml").write_text("panel: {admit: all}\n")
    outcome = run(folder)
    assert ran(outcome, "judge_inference") == ran(outcome, "scores") == []
    assert ran(outcome, "panel") == ["one", "two"]

    known = estimates(folder)
    (folder / "data" / "care.duckdb").unlink()
    outcome = run(folder)
    assert ran(outcome, "judge_inference") == []
    assert estimates(folder) == known, "the database is rebuilt from the parts"
    assert run(folder).materialised == []


@pytest.mark.slow
def test_a_narrowed_run_leaves_the_rest_to_the_next(workspace_after_run):
    folder = workspace_after_run
    write_judge(folder, "readability")
    write_judge(folder, "presentation")
    outcome = run(folder, judge="readability")
    assert ran(outcome, "judge_inference") == ["readability"]
    assert ran(outcome, "scores") == ["readability|one"]
    outcome = run(folder, selection="judge_inference")
    assert {a for a, _ in outcome.materialised} == {"judge_inference"}
    outcome = run(folder)
    assert "presentation|one" in ran(outcome, "scores")
    assert ran(outcome, "panel") == ["one"]
    assert len(score_rows(folder)) == 40 * (len(JUDGES) + 2)
    assert run(folder).materialised == []


@pytest.mark.slow
def test_a_killed_run_continues_and_scores_no_item_twice(tmp_path):
    folder = make(tmp_path / "ws", n=ITEMS_TO_KILL, batch_size=1)
    undisturbed = make(tmp_path / "calm", n=ITEMS_TO_KILL)
    command = [sys.executable, "-m", "orchestration.cli", "run", "--workspace", str(folder)]
    scores = folder / "data" / "parts" / "scores"
    kept: dict[str, int] = {}
    for wanted in (20, 150):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while len(list(scores.rglob("*.parquet"))) < wanted:
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = {str(p): p.stat().st_mtime_ns for p in scores.rglob("*.parquet")}
        assert wanted <= len(done) < ITEMS_TO_KILL * len(JUDGES)
        assert kept.items() <= done.items(), "what was done stays untouched"
        kept = done

    outcome = run(folder)
    assert not outcome.failures
    rows = score_rows(folder)
    assert len(rows) == len(set(rows)) == ITEMS_TO_KILL * len(JUDGES)
    after = {str(p): p.stat().st_mtime_ns for p in scores.rglob("*.parquet")}
    assert kept.items() <= after.items()
    run(undisturbed)
    assert estimates(folder) == estimates(undisturbed)
    assert run(folder).materialised == []


def with_recordings(folder, changed=()):
    """Create a workspace of four recorded judges, or replace the scores of judge b on the ``changed`` items."""
    if not folder.exists():
        make(folder, judges=(), care="fit: {resamples: 20}\nreview: {hold: false}\n")
        write_testset(folder, source="scores: {path: scores.csv, families: {a: x}}\n")
    steps = {"a": 1, "b": 3, "c": 7, "d": 5}
    scores = {(judge, k): (k * step) % 11 for judge, step in steps.items() for k in range(40)}
    scores |= {("b", k): 10 for k in changed}
    rows = [(f"i{k}", judge, score) for (judge, k), score in scores.items()]
    write_table(folder / "scores.csv", ("item_id", "judge", "score"), rows)
    return folder


def count_rows(monkeypatch):
    """Return a list to which every read or written row count and every hashed judge is appended."""
    done = []

    def counted(target, name, count):
        before = getattr(target, name)

        def counting(*given, **more):
            done.append((name, count(*given, **more)))
            return before(*given, **more)

        monkeypatch.setattr(target, name, counting)

    counted(recorded, "fingerprints", lambda scores, *_: scores.judges)
    counted(files, "read_items", lambda *_, **__: "all")
    counted(PartStore, "write_score_columns", lambda *given: len(given[-1]["item_id"]))
    counted(panel_rows, "_insert", lambda _, table, rows: (table, rows.num_rows))
    counted(FitStore, "read_fit", lambda *given, with_items=True: with_items)
    return done


@pytest.mark.slow
def test_a_run_with_changed_recorded_scores_works_in_proportion_and_equals_a_full_run(tmp_path, monkeypatch):
    monkeypatch.setattr("warehouse.storage._SETTLED_S", 0.0)
    folder = with_recordings(tmp_path / "ws")
    outcome = run(folder)
    assert ran(outcome, "judge_inference") == ["a", "b", "c", "d"]
    assert not outcome.failures
    assert query(folder, "SELECT family FROM judges WHERE judge = 'a'") == [("x",)]
    with_recordings(folder, changed=(0, 7))
    with monkeypatch.context() as patch:
        done = count_rows(patch)
        outcome = run(folder)
    assert ran(outcome, "judge_inference") == ["b"]
    count = Counter(done)
    assert count["fingerprints", ("b",)] == 1
    assert [rows for name, rows in done if name == "write_score_columns"] == [40], "of one judge of four"
    assert [rows for name, rows in done if name == "_insert"] == [("scores", 40)]
    assert count["read_items", "all"] == 0, "the texts are as before"
    fits = query(folder, "SELECT fit_id FROM latest_fits")
    assert count["read_fit", True] <= len(fits) + 4, "evaluation reads each; review and report read the recommended"
    full = with_recordings(tmp_path / "full", changed=(0, 7))
    assert not run(full).failures
    panels = [load_workspace(each).fit_folder("one").read_panel() for each in (folder, full)]
    assert panels[0].fingerprint() == panels[1].fingerprint()
    assert estimates(folder) == estimates(full)
    weights = "SELECT aggregator, judge, weight, lo, hi FROM weights JOIN latest_fits "
    weights += "USING (fit_id) ORDER BY ALL"
    assert query(folder, weights) == query(full, weights)


@pytest.mark.slow
def test_a_first_run_of_one_test_set_builds_all_its_assets(tmp_path):
    folder = make(tmp_path / "ws")
    write_items(folder, name="two")
    write_testset(folder, "two")
    outcome = run(folder, testset="two")
    assert not outcome.failures
    assert ran(outcome, "judge_inference") == sorted(JUDGES)
    assert all(ran(outcome, asset) == ["two"] for asset in ("items", *FIT))
    assert {testset for (testset,) in query(folder, "SELECT DISTINCT testset FROM latest_aggregates")} == {"two"}
    rest = run(folder)
    assert all("one" in ran(rest, asset) for asset in ("items", *FIT))
    assert len(score_rows(folder)) == 2 * 40 * len(JUDGES)


@pytest.mark.slow
def test_the_index_is_built_despite_a_test_set_without_judges(tmp_path):
    folder = make(tmp_path / "ws", testsets="[one]")
    write_items(folder, 10, name="two")
    write_testset(folder, "two")
    index = folder / "data" / "report" / "index.html"
    assert not run(folder).failures
    assert "testset-one.html" in index.read_text()
    assert run(folder).materialised == []
    write_judge(folder, "readability", testsets="[one]")
    assert ran(run(folder), "report_index") == ["None"], "and is made again with the page"
    index.unlink()
    assert ran(run(folder), "report_index") == ["None"]
    assert index.exists()


@pytest.mark.slow
def test_a_panel_waits_for_the_scores_of_items_that_have_changed(workspace_after_run):
    """A run ended between scores and fit, and then the source changed; a panel needs all scores."""
    folder = workspace_after_run
    write_judge(folder, "readability")
    assert not run(folder, selection="key:judge_inference or key:scores").failures
    text = (folder / "one.csv").read_text()
    (folder / "one.csv").write_text(text.replace("What is the capital?", "What is its capital?"))
    outcome = run(folder)
    assert not outcome.failures
    assert ran(outcome, "panel") == ["one"]
    with workspace_instance(load_workspace(folder)) as instance:
        assert instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])) == []
        together = ("aggregates", "evaluation", "intervals", "systems", "review")
        made = {instance.get_latest_materialization_event(dg.AssetKey(asset)).run_id for asset in together}
    assert len(made) == 1, "a fit that is published has been evaluated"


@pytest.mark.slow
def test_systems_declared_later_cause_only_their_comparison(workspace_after_run):
    add_column(workspace_after_run / "one.csv", "model", "ab")
    run(workspace_after_run)
    write_testset(workspace_after_run, rest="scale: [0, 10]\nsystems: [model]\n")
    assert {asset for asset, _ in run(workspace_after_run).materialised} == {"systems", "report", "report_index"}
    assert run(workspace_after_run).materialised == []


def judges_of_fit(folder) -> set[str]:
    """Return the judges of the published fit in the database."""
    return {judge for (judge,) in query(folder, "SELECT DISTINCT judge FROM weights JOIN latest_fits USING (fit_id)")}


def test_a_judge_that_is_removed_and_restored_is_in_the_next_fit(workspace_after_run):
    folder, spec = workspace_after_run, workspace_after_run / "judges" / "redundancy.yaml"
    text, before = spec.read_text(), score_rows(workspace_after_run)
    spec.unlink()
    assert not run(folder).failures
    assert judges_of_fit(folder) == set(JUDGES) - {"redundancy"}

    spec.write_text(text)
    outcome = run(folder)
    assert not outcome.failures
    assert ran(outcome, "scores") == ["redundancy|one"]
    assert all(ran(outcome, asset) == ["one"] for asset in FIT), "one fit, with its scores"
    assert judges_of_fit(folder) == set(JUDGES)
    assert score_rows(folder) == before, "nothing is scored twice"
    assert run(folder).materialised == []


def test_changed_code_rebuilds_only_what_it_makes(workspace_after_run, monkeypatch):
    monkeypatch.setattr("assets.report.verdicts.result_code", lambda: "another")
    assert {asset for asset, _ in run(workspace_after_run).materialised} == {"report_index"}
    monkeypatch.setattr(made_module, "result_code", lambda: "another")
    built = {asset for asset, _ in run(workspace_after_run).materialised}
    assert built == {*RESULTS, "review", "report", "report_index"}
    assert run(workspace_after_run).materialised == []


@pytest.mark.slow
def test_features_of_unchanged_texts_are_not_computed_again(workspace_after_run, monkeypatch):
    counted: list[str] = []
    count = panel._count
    monkeypatch.setattr(panel, "_count", lambda *given: counted.append(given[1]) or count(*given))
    features = load_workspace(workspace_after_run).fit_folder("one").read_panel().features
    file = next((workspace_after_run / "judges").glob("*.yaml"))
    file.write_text(file.read_text() + "family: another\n")
    assert ran(run(workspace_after_run), "panel") == ["one"]
    assert counted == []
    again = load_workspace(workspace_after_run).fit_folder("one").read_panel().features
    assert {name: values.tolist() for name, values in again.items()} == {n: v.tolist() for n, v in features.items()}
    source = workspace_after_run / "one.csv"
    source.write_text(source.read_text().replace(" ", " another ", 1))
    run(workspace_after_run)
    assert counted == ["one"]


def test_the_best_judge_by_gold_is_stored_with_the_fit(workspace_after_run, monkeypatch):
    workspace = load_workspace(workspace_after_run)
    panel = workspace.fit_folder("one").read_panel()
    gold = {record.item_id: record.gold for record in workspace.parts.read_items("one")}
    labels = np.array([gold[item] for item in panel.item_ids], dtype=float)
    orders = [evaluate(scores, labels, threshold=None, scale=None).order for scores in panel.values.T]
    monkeypatch.setattr("care_ops.metrics.evaluate", lambda *_, **__: pytest.fail("it was evaluated with the fit"))
    (best,) = [row for row in results(workspace) if row["aggregator"] == "best judge"]
    assert best["auc" if len({*gold.values()}) == 2 else "tau"] == pytest.approx(max(orders))
