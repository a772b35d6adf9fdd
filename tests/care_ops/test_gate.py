"""The gate's rule, and how often it is wrong where nothing differs."""

import numpy as np
import pytest
from scipy.special import expit

from care_ops.errors import InputError
from care_ops.results.gate import gate


def two_systems(rng, gain, labels_each=60, items=300):
    """Estimates, labels, names: latent quality differs by ``gain``, and judges are a deviation too kind to the new."""
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
    decision = gate(*two_systems(np.random.default_rng(0), gain), "new", "old")
    assert decision.outcome == outcome
    assert decision.passes is (outcome == "better")


def test_a_margin_lets_a_small_loss_pass():
    given = two_systems(np.random.default_rng(1), 0.0, labels_each=250)
    assert gate(*given, "new", "old").outcome == "undecided"
    assert gate(*given, "new", "old").passes is None
    assert gate(*given, "new", "old", margin=0.2).outcome == "not worse"


def test_equal_systems_are_told_apart_no_more_often_than_promised():
    """Judges favour the new system by a whole deviation and nothing differs: 100 gates, 5 % each way promised."""
    outcomes = [gate(*two_systems(np.random.default_rng([2, k]), 0.0), "new", "old").outcome for k in range(100)]
    limit = 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)
    assert outcomes.count("better") / 100 <= limit
    assert outcomes.count("worse") / 100 <= limit


def test_bad_input_is_named():
    given = two_systems(np.random.default_rng(3), 0.0)
    with pytest.raises(InputError, match="compared with itself"):
        gate(*given, "new", "new")
    with pytest.raises(InputError, match="margin"):
        gate(*given, "new", "old", margin=-0.1)
    with pytest.raises(InputError, match="no rate for older"):
        gate(*given, "new", "older")
