"""Tests that labels between two nightly runs change the fit, without a report of drift.

The demo's page asks for about twenty labels of random items and of items that it lists.
"""

import json
import shutil

import numpy as np
import pytest

from assets.labels import read_labels
from assets.publication.documents import ReviewDocument
from assets.publication.fit_versions import history
from assets.results.evaluation import evaluate_latest
from care_ops.records import Evaluation
from orchestration.workspace import load_workspace
from tests.support.workspaces import QUICK, care, make, make_programs, ran, run, write_items, write_table, write_testset
from warehouse.sources.demo import generate

CARE = "fit: {resamples: 0, aggregators: [care, avg]}\nreview: {min_rank_correlation: 0.9}\n"
GOLD = {record.item_id: record.gold for record in generate()}


@pytest.fixture(scope="session")
def first_run(made_once):
    """Run the demo once, without labels."""

    def nightly_run(shared):
        folder = make_programs(shared / "demo", CARE)
        assert not run(folder).failures

    return made_once("demo_without_labels", nightly_run) / "demo"


@pytest.fixture
def folder(first_run, tmp_path):
    return shutil.copytree(first_run, tmp_path / "demo")


def care_fit(folder):
    """Return the latest fit of ``care``, its order against gold, and its evaluation in Dagster."""
    workspace = load_workspace(folder)
    version = workspace.fits.fit_versions("demo")[-1]
    fit = workspace.fits.read_fit("demo", version.fits["care"])
    evaluated = evaluate_latest(workspace, "demo")
    order = workspace.fits.find_annotation("demo", fit.fit_id, Evaluation).order
    return fit.answer, order, evaluated


def add_labels(folder, seed=0):
    """Write twenty labels of random items, as the page asks."""
    drawn = np.random.default_rng(seed).choice(sorted(GOLD), 20, replace=False)
    rows = [(item, GOLD[item], "random") for item in drawn]
    write_table(folder / "labels.csv", ("item_id", "label", "drawn"), rows)
    (folder / "care.yaml").write_text(CARE + "labels: {demo: labels.csv}\n")


def reviewed(folder):
    """Return the verdict, and the message of each check."""
    document = load_workspace(folder).fit_folder("demo").read(ReviewDocument)
    return document.state, {finding.check: finding for finding in document.findings}


@pytest.mark.slow
def test_twenty_labels_from_the_page_are_published_and_improve_the_order(folder):
    _, order_before, before = care_fit(folder)
    add_labels(folder)
    assert not run(folder).failures
    state, findings = reviewed(folder)
    answer, order_after, after = care_fit(folder)
    assert state == "published"
    assert findings["drift"].message.startswith("the labels caused the change (labels: 20 new)")
    assert order_after > order_before + 0.05
    assert answer.labels_used == 20
    assert before["why_so_many"] == "360 of 360 items with gold"
    left_out = after["left_out_for_labels"]
    assert after["why_so_many"].startswith(f"{360 - left_out} of 360 items with gold; {left_out} left out")
    assert history(load_workspace(folder), "demo")[0]["why"] == "labels: 20 new"
    assert not run(folder).materialised


LABELS = "item_id,label\ni1,1\ni2,2\ni3,3\n"
ANCHORED = QUICK + "labels: {one: one_labels.csv, two: two_labels.csv}\n"


@pytest.fixture
def two(tmp_path):
    """Create a workspace of two test sets with separate labels, without a run."""
    folder = make(tmp_path / "ws", care=ANCHORED)
    write_items(folder, name="two")
    write_testset(folder, "two")
    for name in ("one", "two"):
        (folder / f"{name}_labels.csv").write_text(LABELS)
    return folder


def published(folder):
    """Return the published fit version of each test set."""
    fits = load_workspace(folder).fits
    return {name: found[1].fit_version for name in ("one", "two") if (found := fits.published(name)) is not None}


@pytest.mark.slow
def test_an_invalid_label_fails_only_its_test_set(two):
    (two / "one_labels.csv").write_text(LABELS + "i4,goood\n")
    sentence = "one_labels.csv: column 'label' contains 'goood' (line 5), but each cell must be a finite number"
    ended = " ".join(care(two, "run", code=1).split())
    assert ended.count(sentence) == 2, "in the verdict, and of what failed"
    assert "one: FAILED. Labels cannot be read: " in ended
    assert published(two).keys() == {"two"}
    rows = json.loads(care(two, "doctor", "--json", code=1))
    (fails,) = [row["what"] for row in rows if (row["check"], row["state"]) == ("test set one", "fails")]
    assert sentence in fails


@pytest.mark.slow
def test_the_published_fit_stays_while_labels_are_unreadable(two):
    assert not run(two).failures
    before = published(two)
    (two / "two.csv").write_text((two / "two.csv").read_text().replace("Rome", "Rom"))
    (two / "one_labels.csv").unlink()
    assert "Labels cannot be read: " in care(two, "status"), "before a night, too"
    outcome = run(two)
    assert set(outcome.failures) == {("aggregates", "one")}
    assert ran(outcome, "aggregates") == ["two"]
    after = published(two)
    assert after["one"] == before["one"]
    assert after["two"] != before["two"]
    reported = " ".join(care(two, "run", code=1).split())
    assert reported.count("one_labels.csv") == 2
    assert care(two, "report").strip().endswith("index.html")
    assert care(two, "fits", "list", "one")
    assert "one_labels.csv" in (two / "data" / "report" / "index.html").read_text()
    (two / "one_labels.csv").write_text(LABELS)
    assert "FAILED" not in care(two, "run")
    assert published(two) == after, "corrected labels are those that the fit has seen"


def test_contradictory_labels_are_reported_as_in_care_fit(workspace_after_run):
    folder = workspace_after_run
    (folder / "care.yaml").write_text(QUICK + "labels: {one: labels.csv}\n")
    rows = [f"i{k},{rater},{k % 5 if rater == 'eva' else 4 - k % 5}\n" for k in range(12) for rater in ("eva", "jo")]
    (folder / "labels.csv").write_text("item_id,rater,label\n" + "".join(rows))
    (sentence,) = read_labels(folder / "labels.csv").repeats()
    assert "labels that contradict each other" in sentence
    assert sentence.removeprefix("warning: ") in " ".join(care(folder, "status", "--why").split())


def test_labels_of_a_renamed_test_set_are_reported(two):
    (two / "testsets" / "one.yaml").rename(two / "testsets" / "other.yaml")
    printed = "care.yaml: labels: there is no test set 'one'; use the name of a test set's file"
    assert printed in care(two, "doctor", "--json", code=1)
    assert printed in " ".join(care(two, "status").split())
