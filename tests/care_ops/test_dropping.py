"""Whether labels say that an answer is better without a judge."""

import numpy as np
import pytest

from care_ops.config import FitConfig
from care_ops.fit_labels import FitLabels
from care_ops.metrics import auc
from care_ops.minimum_sizes import LABELS_TO_ADVISE
from care_ops.results.dropping import MOST_JUDGES, evidence_by_labels, leave_each_out
from care_ops.scores import ScoreMatrix

RNG_SEEDS = range(200)


def answers(rng, n, harm):
    """Labels of two classes, an answer, and the answer without a judge that hides ``harm`` of it."""
    labels = rng.integers(0, 2, n).astype(float)
    without = labels + rng.normal(size=n)
    return labels, without + harm * rng.normal(size=n), without


def test_with_two_classes_the_gain_is_a_difference_of_aucs():
    labels, whole, without = answers(np.random.default_rng(0), 300, 1.0)
    evidence = evidence_by_labels(whole, without, labels, 5)
    assert evidence.gain == pytest.approx(auc(whole, labels) - auc(without, labels))
    assert evidence.lo < evidence.gain < evidence.hi < 0
    assert evidence.advice == "drop"


def test_the_interval_covers_the_true_difference_as_often_as_it_says():
    """Of 200 draws nine tenths, within three standard errors of that share; the truth is that of one large draw."""
    labels, whole, without = answers(np.random.default_rng(1), 200_000, 0.6)
    truth = auc(whole, labels) - auc(without, labels)
    covered = 0
    for seed in RNG_SEEDS:
        labels, whole, without = answers(np.random.default_rng([2, seed]), 120, 0.6)
        evidence = evidence_by_labels(whole, without, labels, 1)
        covered += evidence.lo <= truth <= evidence.hi
    assert abs(covered / 200 - 0.9) < 3 * (0.9 * 0.1 / 200) ** 0.5


def test_few_labels_advise_nothing_and_say_how_many_would():
    labels, whole, without = answers(np.random.default_rng(3), LABELS_TO_ADVISE - 1, 3.0)
    assert evidence_by_labels(whole, without, labels, 1).advice == "unclear"
    labels, whole, without = answers(np.random.default_rng(5), 60, 0.2)
    evidence = evidence_by_labels(whole, without, labels, 12)
    assert evidence.advice == "unclear"
    assert evidence.needed > 60


def test_labels_that_are_alike_say_nothing():
    assert evidence_by_labels(np.arange(50.0), np.arange(50.0), np.ones(50), 3) is None


def clustered(rng, units, size, harm):
    """As ``answers``, of split units that share their label and, for the most part, their noise."""

    def noise():
        return np.repeat(rng.normal(size=units), size) + 0.3 * rng.normal(size=units * size)

    labels = np.repeat(rng.integers(0, 2, units), size).astype(float)
    without = labels + noise()
    return labels, without + harm * noise(), without, [f"unit {k // size}" for k in range(units * size)]


def test_the_interval_covers_the_true_difference_where_items_of_a_unit_go_together():
    """As above, with five items a unit that resemble one another; without the units it covers far too seldom."""
    labels, whole, without, _ = clustered(np.random.default_rng(6), 40_000, 5, 0.6)
    truth = auc(whole, labels) - auc(without, labels)
    covered = {"units": 0, "items": 0}
    for seed in RNG_SEEDS:
        labels, whole, without, units = clustered(np.random.default_rng([7, seed]), 60, 5, 0.6)
        by_units = evidence_by_labels(whole, without, labels, 1, units=units)
        by_items = evidence_by_labels(whole, without, labels, 1)
        assert (by_units.labels, by_units.units, by_items.units) == (300, 60, 300)
        covered["units"] += by_units.lo <= truth <= by_units.hi
        covered["items"] += by_items.lo <= truth <= by_items.hi
    assert abs(covered["units"] / 200 - 0.9) < 3 * (0.9 * 0.1 / 200) ** 0.5
    assert covered["items"] / 200 < 0.75


def test_many_labels_of_few_units_advise_nothing():
    labels, whole, without, units = clustered(np.random.default_rng(8), LABELS_TO_ADVISE - 1, 20, 5.0)
    assert evidence_by_labels(whole, without, labels, 1).advice == "drop", "as if each item stood for itself"
    assert evidence_by_labels(whole, without, labels, 1, units=units).advice == "unclear"


def test_items_are_compared_within_their_half_only():
    """Answers of different fits have scales of their own: a shift of one half changes nothing."""
    labels, whole, without = answers(np.random.default_rng(9), 100, 0.5)
    halves = np.arange(100) % 2
    evidence = evidence_by_labels(whole, without, labels, 4, halves=halves)
    assert evidence_by_labels(whole + 100 * halves, without - 50 * halves, labels, 4, halves=halves) == evidence
    assert evidence_by_labels(whole + 100 * halves, without - 50 * halves, labels, 4) != evidence


def panel(n=400, judges=5, harmful=True, seed=10):
    """A panel of quality, whose last judge scores the length of the text, and labels of quality for all items."""
    rng = np.random.default_rng(seed)
    quality, length = rng.normal(size=(2, n))
    values = quality[:, None] + rng.normal(size=(n, judges))
    if harmful:
        values[:, -2] = 0.7 * length + 0.7 * quality + 0.3 * rng.normal(size=n)
        values[:, -1] = length + 0.2 * rng.normal(size=n)
    names = tuple(f"judge {j}" for j in range(judges))
    return ScoreMatrix(values, tuple(f"i{k:04}" for k in range(n)), names), (quality > 0).astype(float)


def test_a_judge_whose_refit_is_better_without_it_is_advised_to_be_dropped():
    scores, labels = panel()
    seen: list[tuple[str, int, int]] = []
    dropping = leave_each_out(scores, FitConfig(), "care", labels, watch=lambda *done: seen.append(done))
    advice = {judge: evidence.advice for judge, evidence in dropping.evidence.items()}
    assert advice["judge 4"] == "drop"
    assert advice["judge 0"] == "keep"
    assert (dropping.refits, dropping.items, dropping.refused) == (12, 200, "")
    assert seen == [("the answer without each judge", k, 12) for k in range(12)]


def test_evidence_does_not_depend_on_the_order_of_items_and_judges():
    scores, labels = panel(n=120)
    units = [f"unit {k // 2}" for k in range(120)]
    evidence = leave_each_out(scores, FitConfig(), "care", labels, units).evidence
    rows, columns = np.random.default_rng(11).permutation(120), [4, 2, 0, 3, 1]
    mixed = ScoreMatrix(
        scores.values[np.ix_(rows, columns)],
        tuple(scores.item_ids[k] for k in rows),
        tuple(scores.judges[j] for j in columns),
    )
    again = leave_each_out(mixed, FitConfig(), "care", labels[rows], [units[k] for k in rows]).evidence
    for judge, each in evidence.items():
        assert again[judge].gain == pytest.approx(each.gain, abs=1e-9)
        assert again[judge].lo == pytest.approx(each.lo, abs=1e-9)
        assert each.units == 60


def test_a_fit_by_labels_is_compared_with_a_fit_by_the_same_labels():
    """Labels that the fit has seen are given to each refit, and count for nothing else."""
    scores, labels = panel(n=200)
    seen = FitLabels({item: float(labels[k]) for k, item in enumerate(scores.item_ids[:20])})
    unseen = np.where(np.arange(200) < 20, np.nan, labels)
    evidence = leave_each_out(scores, FitConfig(), "care", unseen, anchors=seen).evidence
    assert {each.labels for each in evidence.values()} == {180}
    assert evidence != leave_each_out(scores, FitConfig(), "care", unseen).evidence


@pytest.mark.parametrize(
    ("n", "judges", "units", "says"),
    [
        (LABELS_TO_ADVISE - 1, 5, None, "those of 29 split units that the fit has not seen are too few"),
        (100, 5, [f"unit {k // 5}" for k in range(100)], "those of 20 split units"),
        (100, 3, None, "the panel has 3 judges"),
        (100, MOST_JUDGES + 1, None, "to leave each of 41 judges out takes 84 fits"),
        (LABELS_TO_ADVISE, 20, None, "does not follow from the scores of one item"),
    ],
)
def test_where_there_is_no_advice_it_is_said_why(n, judges, units, says):
    scores, labels = panel(n, judges, harmful=False)
    dropping = leave_each_out(scores, FitConfig(), "care", labels, units)
    assert says in dropping.refused
    assert dropping.evidence == {}
    alike = leave_each_out(scores, FitConfig(), "care", np.ones(n), units)
    assert "all of them are alike" in alike.refused or says in alike.refused
