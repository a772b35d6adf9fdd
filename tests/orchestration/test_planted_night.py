"""Tests that compare the numbers of a workspace's page with simulated truth.

Items have one of four states of quality and two confounders. Twelve judges follow quality, and six of these one
confounder each, half of them reversed; scores are missing at random. A thirteenth judge is constant, and the scores of
a fourteenth are permuted. Expected numbers are computed here, from the model or from further draws, and permit five
standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from assets.fit.documents import FitDocument
from assets.publication.documents import ReviewDocument
from assets.report.data import ReportData
from assets.report.gather import gather
from assets.report.staleness import State
from assets.report.verdicts import verdict_on
from orchestration.workspace import load_workspace
from tests.support.workspaces import run, write_table

pytestmark = pytest.mark.slow

ITEMS, JUDGES, MISSING, DRAWS, DEVIATIONS = 3_000, 12, 0.05, 20, 5.0

STATES = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])
"""Quality and the two confounders in each state; any two of the three are independent, but not all three."""

SHARES = {"careful": np.array([0.2, 0.2, 0.25, 0.35]), "hasty": np.array([0.35, 0.25, 0.2, 0.2])}
"""Share of each state among the items of each system; each system has half of the items."""

FOLLOW = np.zeros((3, JUDGES))
FOLLOW[0] = np.linspace(0.7, 1.3, JUDGES)
FOLLOW[1, 0::4], FOLLOW[1, 1::4] = 1.1, -1.1
FOLLOW[2, 2::4], FOLLOW[2, 3::4] = 0.9, -0.9
MEANS = 4.0 + STATES @ FOLLOW
"""Mean score of each judge in each state."""

WEIGHTS = np.mean([*SHARES.values()], axis=0)
LIVE = tuple(f"judge {j:02d}" for j in range(JUDGES))
PANEL = (*LIVE, "permuted")
CARE_YAML = "fit: {resamples: 20, aggregators: [care, avg, care_svd, care_tensor]}\n"
TESTSET = """description: planted
source:
  kind: files
  items: items.csv
  columns: {prompt: question, response: answer, gold: quality}
  scores: {path: scores.csv}
systems: [system]
"""


@dataclass(frozen=True)
class Draw:
    """Simulated items: states, systems, and scores of the judges in ``PANEL``, NaN if missing."""

    states: np.ndarray
    systems: np.ndarray
    scores: np.ndarray

    @property
    def quality(self) -> np.ndarray:
        return STATES[self.states, 0].astype(float)


def drawn(seed: int) -> Draw:
    rng = np.random.default_rng(seed)
    systems = np.repeat([*SHARES], ITEMS // len(SHARES))
    states = np.array([rng.choice(4, p=SHARES[system]) for system in systems])
    live = np.round(MEANS[states] + rng.normal(size=(ITEMS, JUDGES)), 1)
    live[rng.random(live.shape) < MISSING] = np.nan
    return Draw(states, systems, np.column_stack([live, rng.permutation(live[:, 0])]))


def write_workspace(folder: Path, draw: Draw) -> Path:
    for name in ("judges", "testsets"):
        (folder / name).mkdir(parents=True)
    (folder / "care.yaml").write_text(CARE_YAML)
    (folder / "testsets" / "planted.yaml").write_text(TESTSET)
    ids = [f"item {row:04d}" for row in range(ITEMS)]
    quality, confounder, *_ = STATES[draw.states].T  # the first confounder is the length of the answer
    answers = [f"{'word ' * (10 + 10 * int(length))}{row}" for row, length in enumerate(confounder)]
    rows = zip(ids, ["question"] * ITEMS, answers, quality, draw.systems, strict=True)
    write_table(folder / "items.csv", ["item_id", "question", "answer", "quality", "system"], rows)
    cells = [["" if np.isnan(x) else f"{x:.1f}" for x in scores] for scores in draw.scores]
    rows = ([item, *row, "3"] for item, row in zip(ids, cells, strict=True))
    write_table(folder / "scores.csv", ["item_id", *PANEL, "dead"], rows)
    return folder


@pytest.fixture(scope="module")
def truth() -> Draw:
    return drawn(0)


@pytest.fixture(scope="module")
def others() -> list[Draw]:
    return [drawn(seed) for seed in range(1, DRAWS + 1)]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, truth):
    folder = write_workspace(tmp_path_factory.mktemp("planted") / "ws", truth)
    outcome = run(folder)
    assert not outcome.failures, outcome.failures
    return load_workspace(folder)


@pytest.fixture(scope="module")
def page(workspace) -> ReportData:
    """Return the page's data, with the estimates of all aggregates, of which a page needs only the recommended one."""
    page = gather(workspace, "planted")
    fits, order = workspace.fit_folder("planted").read(FitDocument).fit_ids, (page.scores.item_ids, page.scores.judges)
    read = {name: workspace.fits.read_fit("planted", fit_id).in_order(*order) for name, fit_id in fits}
    return replace(page, aggregates=read)


def like_other_draws(shown, statistic, others):
    """Return whether numbers of the page are in the range of other draws of the same size."""
    values = np.array([statistic(draw) for draw in others])
    mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
    assert np.all(np.abs(np.asarray(shown) - mean) <= DEVIATIONS * deviation + 1e-9), (shown, mean, deviation)
    return True


def oracle(draw):
    """Return log P(Q = 1 | J) / P(Q = 0 | J) of the model."""
    live = draw.scores[:, :JUDGES]
    squares = np.where(np.isnan(live)[:, None, :], 0.0, (live[:, None, :] - MEANS[None]) ** 2)
    joint = np.log(WEIGHTS) - 0.5 * squares.sum(axis=2)
    good = STATES[:, 0] == 1
    return np.logaddexp.reduce(joint[:, good], axis=1) - np.logaddexp.reduce(joint[:, ~good], axis=1)


def auc(estimate, quality):
    positive, negative = np.sort(estimate[quality == 1]), np.sort(estimate[quality == 0])
    below = np.searchsorted(negative, positive, "left") + np.searchsorted(negative, positive, "right")
    return below.mean() / 2 / len(negative)


def auc_of_judge(draw, j):
    present = ~np.isnan(draw.scores[:, j])
    return auc(draw.scores[present, j], draw.quality[present])


def panel_mean(draw):
    return np.nanmean(draw.scores, axis=1)


class TestInput:
    """Tests that the page shows the input data unchanged."""

    def test_scores_title_gold_and_responses(self, page, truth):
        assert page.title == page.description == "planted"
        assert page.scores.judges == PANEL
        order = [int(item.split()[1]) for item in page.scores.item_ids]
        assert sorted(order) == list(range(ITEMS))
        np.testing.assert_array_equal(page.scores.values, truth.scores[order])
        np.testing.assert_array_equal(page.gold, truth.quality[order])
        words = [len(str(response).split()) for response in page.responses]
        assert words == [11 + 10 * STATES[truth.states[row], 1] for row in order]


class TestAnswers:
    def test_the_mean_is_the_mean(self, page):
        np.testing.assert_allclose(page.aggregates["avg"].estimate, np.nanmean(page.scores.values, axis=1))

    def test_metrics(self, page, truth, others):
        """The metrics are those of a mean and of the model's posterior; other aggregators are lower."""
        shown = page.evaluations
        assert {evaluation.n for evaluation in shown.values()} == {ITEMS}
        assert like_other_draws(shown["avg"].auc, lambda draw: auc(panel_mean(draw), draw.quality), others)
        assert like_other_draws(shown["care_tensor"].auc, lambda draw: auc(oracle(draw), draw.quality), others)
        right = lambda draw: np.mean((oracle(draw) > 0) == (draw.quality == 1))  # noqa: E731
        assert like_other_draws(shown["care_tensor"].accuracy, right, others)
        assert like_other_draws(shown["care_tensor"].balanced_accuracy, right, others)
        best_single = max(auc_of_judge(truth, j) for j in range(JUDGES))
        for name in ("care", "care_svd"):
            assert best_single < shown[name].auc <= shown["care_tensor"].auc
        for evaluation in shown.values():
            assert evaluation.mae is evaluation.mae_filled is None, "labels of two values have no scale"
            assert evaluation.calibration_error is None, "no answer is printed as a probability"
            # with gold of two values tau-b is a function of the area under the curve, where no estimates are tied
            share = page.gold.mean()
            assert evaluation.tau == pytest.approx(
                (2 * evaluation.auc - 1) * np.sqrt(2 * share * (1 - share) * ITEMS / (ITEMS - 1)), abs=5e-3
            )

    def test_rivals_and_the_oracle(self, page, truth):
        planted = oracle(truth)[[int(item.split()[1]) for item in page.scores.item_ids]]
        assert np.corrcoef(page.aggregates["care_tensor"].estimate, planted)[0, 1] > 0.99
        ours = page.aggregates["care"].estimate
        assert page.care.concerns[0] == "two groups", "nothing but labels tells quality from a shared confounder"
        assert np.corrcoef(ours, page.gold)[0, 1] == pytest.approx(
            np.corrcoef(panel_mean(truth), truth.quality)[0, 1], abs=0.05
        )
        confounders = STATES[truth.states[[int(item.split()[1]) for item in page.scores.item_ids]], 1:]
        likeness = [
            max(abs(np.corrcoef(side, column)[0, 1]) for side in page.rivals.values()) for column in confounders.T
        ]
        assert max(likeness) > 0.3, "the groups of judges differ by a confounder"


class TestResults:
    def test_review_and_verdict(self, workspace):
        review = workspace.fit_folder("planted").read(ReviewDocument)
        assert review.state == "published"
        assert [finding.check for finding in review.findings if not finding.passed] == []
        assert verdict_on(workspace, "planted", State(())).state == "ambiguous"
