"""Tests of a judge's report: intervals that cover simulated rates, and weights."""

import numpy as np
import pytest

from care_ops.errors import FitError
from care_ops.results.judge_report import report_of

TPR, TNR, BASE = 0.6, 0.8, 0.7


def planted(rng, n=2000, labelled=100):
    """Simulate a judge that passes 60 % of the answers that people pass, and fails 80 % of those that they fail."""
    gold = (rng.random(n) < BASE).astype(float)
    passes = np.where(gold > 0, rng.random(n) < TPR, rng.random(n) > TNR)
    scores = np.where(passes, 0.5 + 0.5 * rng.random(n), 0.5 * rng.random(n))
    labels = np.full(n, np.nan)
    rows = rng.choice(n, labelled, replace=False)
    labels[rows] = gold[rows]
    return scores, labels, np.where(np.isnan(labels), 0.0, 1.0)


@pytest.mark.slow
def test_planted_rates_lie_in_their_intervals_as_often_as_promised():
    accuracy = BASE * TPR + (1 - BASE) * TNR
    held = {"tpr": 0, "tnr": 0, "accuracy": 0}
    draws = 60
    for seed in range(draws):
        report = report_of("j", *planted(np.random.default_rng(seed)), 0.5)
        for name, share, truth in (
            ("tpr", report.passed_of_passed, TPR),
            ("tnr", report.failed_of_failed, TNR),
            ("accuracy", report.accuracy, accuracy),
        ):
            held[name] += share.lo <= truth <= share.hi
    least = 0.9 - 3 * np.sqrt(0.09 / draws)
    assert min(held.values()) / draws >= least, held


def test_kappa_and_base_rate_are_those_of_the_table():
    scores = np.repeat([1.0, 1.0, 0.0, 0.0], [20, 10, 5, 15])
    labels = np.repeat([1.0, 0.0, 1.0, 0.0], [20, 10, 5, 15])
    report = report_of("j", scores, labels, np.ones(50), 0.5)
    assert report.people.kappa.value == pytest.approx((0.7 - 0.5) / 0.5)
    assert (report.passed_of_passed.value, report.failed_of_failed.value) == (0.8, 0.6)
    assert report.base_rate.value == 0.5
    always = report_of("j", np.append(np.ones(49), 0.0), np.ones(50), np.ones(50), 0.5)
    assert always.failed_of_failed is None
    with pytest.raises(FitError, match="j scored only 4 labelled items, but 5 are needed"):
        report_of("j", scores, np.where(np.arange(50) < 4, labels, np.nan), np.ones(50), 0.5)


def test_a_label_counts_by_its_weight():
    scores, labels = np.tile([1.0, 0.0], 10), np.ones(20)
    weights = np.where(scores > 0, 1.0, 3.0)
    assert report_of("j", scores, labels, weights, 0.5).passed_of_passed.value == pytest.approx(0.25)
