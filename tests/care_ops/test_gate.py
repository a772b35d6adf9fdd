"""Tests of the gate's rule, and of its error rate for equal systems."""

import numpy as np
import pytest
from scipy.special import expit

from care_ops.errors import InputError
from care_ops.results import rates
from care_ops.results.gate import TooFewLabelsError, gate
from care_ops.results.rates import Labelled


def two_systems(rng, gain, labels_each=60, items=300):
    """Simulate two systems whose quality differs by ``gain``; judges score the new one a deviation too high."""
    names = np.repeat(["new", "old"], items)
    quality = rng.normal(size=2 * items) + gain * (names == "new")
    gold = (rng.random(2 * items) < expit(2 * quality)).astype(float)
    estimate = quality + 1.0 * (names == "new") + 0.3 * rng.normal(size=2 * items)
    labels = np.full(2 * items, np.nan)
    for name in ("new", "old"):
        rows = rng.choice(np.flatnonzero(names == name), labels_each, replace=False)
        labels[rows] = gold[rows]
    return estimate, labels, names.tolist()


@pytest.mark.parametrize(("gain", "outcome"), [(2.0, "better"), (-2.0, "worse")])
def test_a_large_difference_is_decided(gain, outcome):
    decision = gate(Labelled(*two_systems(np.random.default_rng(0), gain)), "new", "old")
    assert decision.outcome == outcome
    assert decision.passes is (outcome == "better")
    with pytest.raises(TypeError, match=r"use its \.passes"):
        bool(decision)


def test_a_margin_lets_a_small_loss_pass():
    given = two_systems(np.random.default_rng(1), 0.0, labels_each=250)
    assert gate(Labelled(*given), "new", "old").outcome == "undecided"
    assert gate(Labelled(*given), "new", "old").passes is None
    assert gate(Labelled(*given), "new", "old", margin=0.2).outcome == "not worse"


def test_equal_systems_are_distinguished_no_more_often_than_promised(monkeypatch):
    """The judges favour the new of two equal systems by a deviation; 60 gates may err 5 % each way."""
    monkeypatch.setattr(rates, "DRAWS", 1000)
    outcomes = [
        gate(Labelled(*two_systems(np.random.default_rng([2, k]), 0.0)), "new", "old").outcome for k in range(60)
    ]
    limit = 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)
    assert outcomes.count("better") / 60 <= limit
    assert outcomes.count("worse") / 60 <= limit


def test_bad_input_is_named():
    given = two_systems(np.random.default_rng(3), 0.0)
    with pytest.raises(InputError, match="compared with itself"):
        gate(Labelled(*given), "new", "new")
    with pytest.raises(InputError, match="margin"):
        gate(Labelled(*given), "new", "old", margin=-0.1)
    with pytest.raises(InputError, match="no item belongs to the system older"):
        gate(Labelled(*given), "new", "older")


def test_a_margin_that_no_difference_can_exceed_is_refused():
    """A margin of two per cent, typed as 2, would accept any loss."""
    estimate, labels, names = two_systems(np.random.default_rng(4), -2.0)
    for margin in (1.0, 2.0):
        with pytest.raises(InputError, match="lets every system pass, because no difference exceeds 1; give a smaller"):
            gate(Labelled(estimate, labels, names), "new", "old", margin=margin)
    assert gate(Labelled(estimate, labels, names), "new", "old", margin=0.02).outcome == "worse"
    grades = 1 + 4 * labels
    assert gate(Labelled(estimate, grades, names), "new", "old", margin=2.0).outcome in ("worse", "not worse")
    with pytest.raises(InputError, match="no difference exceeds 4"):
        gate(Labelled(estimate, grades, names), "new", "old", margin=4.0)


def test_too_few_labels_decide_nothing_and_name_how_many_more():
    estimate, labels, names = two_systems(np.random.default_rng(5), 0.0)
    few = np.where(np.cumsum(~np.isnan(labels)) <= 62, labels, np.nan)
    with pytest.raises(
        TooFewLabelsError, match=r"old has 2 labels.*each system needs 5: label 3 more random items of old$"
    ):
        gate(Labelled(estimate, few, names), "new", "old")
    with pytest.raises(TooFewLabelsError, match="label 5 more random items of new and 3 more random items of old"):
        gate(Labelled(estimate, np.where(np.array(names) == "old", few, np.nan), names), "new", "old")
    with pytest.raises(InputError, match="no item belongs to the system older") as error:
        gate(Labelled(estimate, np.full(len(names), np.nan), names), "new", "older")
    assert not isinstance(error.value, TooFewLabelsError), "a system that is nowhere is a mistake"
