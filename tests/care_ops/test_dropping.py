"""Whether labels say that an answer is better without a judge."""

import numpy as np
import pytest

from care_ops.metrics import auc
from care_ops.results.dropping import LEAST_LABELS, drop_evidence

RNG_SEEDS = range(200)


def answers(rng, n, harm):
    """Labels of two classes, an answer, and the answer without a judge that hides ``harm`` of it."""
    labels = rng.integers(0, 2, n).astype(float)
    without = labels + rng.normal(size=n)
    return labels, without + harm * rng.normal(size=n), without


def test_with_two_classes_the_gain_is_a_difference_of_aucs():
    labels, whole, without = answers(np.random.default_rng(0), 300, 1.0)
    evidence = drop_evidence(whole, without, labels, 5)
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
        evidence = drop_evidence(whole, without, labels, 1)
        covered += evidence.lo <= truth <= evidence.hi
    assert abs(covered / 200 - 0.9) < 3 * (0.9 * 0.1 / 200) ** 0.5


def test_few_labels_advise_nothing_and_say_how_many_would():
    labels, whole, without = answers(np.random.default_rng(3), LEAST_LABELS - 1, 3.0)
    assert drop_evidence(whole, without, labels, 1).advice == "unclear"
    labels, whole, without = answers(np.random.default_rng(5), 60, 0.2)
    evidence = drop_evidence(whole, without, labels, 12)
    assert evidence.advice == "unclear"
    assert evidence.needed > 60


def test_labels_that_are_alike_say_nothing():
    assert drop_evidence(np.arange(50.0), np.arange(50.0), np.ones(50), 3) is None
