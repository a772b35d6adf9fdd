"""Labels that come between two nights change the fit, and nobody calls that drift.

The demo's own page asks for ten to twenty labels, at random and of the items that it lists.
"""

import shutil

import numpy as np
import pytest

from assets.fit.details import CareDetails, read_details
from assets.publication.documents import ReviewDocument
from assets.publication.editions import history
from assets.results.evaluation import evaluate_latest
from care_ops.errors import InputError
from orchestration.workspace import load_workspace
from tests.support.workspaces import TWELVE, make, make_programs, run
from warehouse.sources.demo import generate

CARE = "fit: {resamples: 0, aggregators: [care, avg]}\nreview: {min_rank_correlation: 0.9}\n"
GOLD = {record.item_id: record.gold for record in generate()}


@pytest.fixture(scope="session")
def first_night(made_once):
    """The demo after its first night, without a label."""

    def night(shared):
        no_probes = TWELVE.partition("probes:")[0]  # which would leave little for labels to say
        folder = make_programs(shared / "demo", CARE, no_probes)
        assert not run(folder).failures

    return made_once("demo_without_labels", night) / "demo"


@pytest.fixture
def folder(first_night, tmp_path):
    return shutil.copytree(first_night, tmp_path / "demo")


def care_fit(folder):
    """The details and the evaluation of the latest ``care``."""
    workspace = load_workspace(folder)
    edition = workspace.fits.editions("demo")[-1]
    fit = workspace.fits.read_fit("demo", edition.fits["care"])
    evaluated = evaluate_latest(workspace, "demo")
    return read_details("care", fit.answer.details, CareDetails), evaluated


def add_labels(folder, seed=0):
    """Twenty labels, as the page asks: ten items drawn at random and the ten that it lists."""
    listed = care_fit(folder)[0].label_first
    rest = sorted(GOLD.keys() - set(listed))
    drawn = np.random.default_rng(seed).choice(rest, 10, replace=False)
    rows = [f"{item},{GOLD[item]},{how}" for how, items in (("chosen", listed), ("random", drawn)) for item in items]
    (folder / "labels.csv").write_text("\n".join(["item_id,label,drawn", *rows]) + "\n")
    (folder / "care.yaml").write_text(CARE + "anchors: {demo: labels.csv}\n")


def reviewed(folder):
    """The verdict, and what each check said."""
    document = load_workspace(folder).fit_folder("demo").read(ReviewDocument)
    return document.state, {finding.check: finding for finding in document.findings}


@pytest.mark.slow
def test_twenty_labels_as_the_page_asks_are_published_and_the_order_is_better(folder):
    before = care_fit(folder)[1]
    add_labels(folder)
    assert not run(folder).failures
    state, findings = reviewed(folder)
    details, after = care_fit(folder)
    assert state == "published"
    assert findings["drift"].says.startswith("the labels made the change (labels: 20 new)")
    assert after.records["care"].order > before.records["care"].order + 0.05
    assert after.labels["care"] == 20
    assert sum(sorted(details.hypotheses.values())[-2:]) > 0.7, "two of nine hypotheses are left"
    assert before.why() == "360 items have gold"
    assert after.why().startswith(f"360 items have gold; {after.left_out} are left out")
    assert after.why().endswith(f"evaluated on 360, this one on {360 - after.left_out}")
    assert history(load_workspace(folder), "demo")[0]["why"] == "labels: 20 new"
    assert not run(folder).materialised


def test_labels_of_a_test_set_that_was_renamed_are_told_where_they_are_named(tmp_path):
    folder = make(tmp_path / "ws")
    (folder / "testsets" / "one.yaml").rename(folder / "testsets" / "other.yaml")
    with (folder / "care.yaml").open("a") as settings:
        settings.write("anchors: {one: labels.csv}\n")
    with pytest.raises(InputError, match=r"care\.yaml: anchors: there is no test set 'one'"):
        load_workspace(folder)
