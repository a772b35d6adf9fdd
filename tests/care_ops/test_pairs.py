"""Tests of systems compared in pairs: sides, names, and simulated truth under judges with a side bias."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from care_ops.errors import InputError
from care_ops.results.gate import TooFewLabelsError, gate
from care_ops.results.pairs import Duels
from care_ops.results.rates import Repeats


def duels(rng, gain, labelled, *, items=400, left_share=0.5, band=0.0, bias=0.8):
    """Simulate pairs of a new and an old system: mean score of six judges with a left bias, and winners by people.

    The quality difference is normal with mean ``gain``; people call differences within ``band`` a tie.
    """
    side = np.where(rng.random(items) < left_share, 1.0, -1.0)
    better = side * (gain + rng.normal(size=items))
    won = np.where(better > band, 1.0, np.where(better < -band, 0.0, 0.5))
    seen = better[:, None] + bias * (0.5 + rng.random(6)) + 1.2 * rng.normal(size=(items, 6))
    estimate = np.where(seen > 0.3, 1.0, np.where(seen < -0.3, 0.0, 0.5)).mean(axis=1)
    labels = np.full(items, np.nan)
    rows = rng.choice(items, labelled, replace=False)
    labels[rows] = won[rows]
    pairs = [("new", "old") if left > 0 else ("old", "new") for left in side]
    repeats = Repeats(np.ones(items), band == 0.0)
    given = Duels(
        estimate, labels, units=[str(k) for k in range(items)], chance=np.ones(items), repeats=repeats, pairs=pairs
    )
    return given, float(np.where(side > 0, won, 1 - won).mean())


def test_the_gate_is_turned_with_the_names_and_the_sides():
    given, _ = duels(np.random.default_rng(0), 0.7, 60)
    forth, back = gate(given, "new", "old"), gate(given, "old", "new")
    assert (forth.outcome, back.outcome) == ("better", "worse")
    assert forth.difference.value == pytest.approx(-back.difference.value, abs=0.01)
    first, second = given.rates().rates
    assert (first.value + second.value, first.lo + second.hi, first.hi + second.lo) == pytest.approx((1, 1, 1))
    other_side = replace(
        given,
        pairs=[pair[::-1] for pair in given.pairs],
        estimate=1 - given.estimate,
        labels=1 - given.labels,
    )
    turned = gate(other_side, "new", "old").difference
    assert (turned.value, turned.lo, turned.hi) == pytest.approx(
        (forth.difference.value, forth.difference.lo, forth.difference.hi), abs=0.01
    )


def test_a_side_bias_is_no_quality():
    """If judges follow only the side, nobody wins by their scores, and the interval is as wide as with labels only."""
    rng = np.random.default_rng(1)
    given, _ = duels(rng, 0.0, 60, left_share=0.8)
    left = np.array([pair[0] == "new" for pair in given.pairs])
    blind = replace(given, estimate=0.9 + 0.01 * rng.random(400))
    rate = next(rate for rate in blind.rates().rates if rate.system == "new")
    assert left.mean() > 0.7
    assert rate.by_judges == pytest.approx(0.5, abs=0.1)
    assert rate.lo < 0.5 < rate.hi


@pytest.mark.parametrize(
    ("band", "left_share"),
    [(0.4, 0.8), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((0.0, 0.5), (0.0, 1.0), (0.4, 0.5)))],
)
def test_intervals_cover_planted_wins(left_share, band):
    """90 % intervals cover future items (the gate) and these items (rates), with judges that favour the left side."""
    draws, to_come, of_these = 25, 0, 0
    for gain in (0.0, 0.5):
        truth = norm.sf(band - gain) - norm.cdf(-band - gain)
        for seed in range(draws):
            given, share = duels(np.random.default_rng([seed, 2]), gain, 40, left_share=left_share, band=band)
            found = gate(given, "new", "old").difference
            to_come += found.lo <= truth <= found.hi
            rate = next(rate for rate in given.rates().rates if rate.system == "new")
            of_these += rate.lo - 1e-9 <= share <= rate.hi + 1e-9
    least = 0.9 - 3 * np.sqrt(0.09 / (2 * draws))
    print(f"\nto come {to_come / draws / 2:.3f}, of these {of_these / draws / 2:.3f}")
    assert min(to_come, of_these) / (2 * draws) >= least


def test_judges_make_the_interval_narrower_than_labels_only():
    given, _ = duels(np.random.default_rng(3), 0.3, 60)
    rate = given.rates().rates[0]
    blind = replace(given, estimate=np.zeros(len(given.labels))).rates().rates[0]
    assert rate.hi - rate.lo < 0.85 * (blind.hi - blind.lo)


def test_many_looks_are_wider_and_hold_the_truth():
    given, share = duels(np.random.default_rng(4), 0.6, 80, band=0.4)
    order = np.flatnonzero(~np.isnan(given.labels)).tolist()
    looks = replace(given, order=order)
    once, many = (next(r for r in each.rates().rates if r.system == "new") for each in (given, looks))
    assert many.hi - many.lo > 1.2 * (once.hi - once.lo)
    assert many.lo <= share <= many.hi


def test_of_many_systems_each_is_rated_over_the_others_and_a_gate_goes_by_where_two_met():
    rng = np.random.default_rng(5)
    names, quality = ("a", "b", "c"), np.array([0.0, 0.5, 1.0])
    left = rng.integers(0, 2, 600)
    right = np.where(left == 0, 1, 2)  # a meets b, and b meets c; a never meets c
    won = (rng.random(600) < norm.cdf(2 * (quality[left] - quality[right]))).astype(float)
    pairs = [
        (names[x], names[y]) if k % 2 else (names[y], names[x])
        for k, (x, y) in enumerate(zip(left, right, strict=True))
    ]
    won = np.where(np.arange(600) % 2, won, 1 - won)
    labels = np.where(np.arange(600) % 4 < 2, won, np.nan)
    units, ones = [str(k) for k in range(600)], np.ones(600)
    given = Duels(
        won + 0.1 * rng.normal(size=600), labels, units=units, chance=ones, repeats=Repeats(ones, True), pairs=pairs
    )
    rates = given.rates()
    assert [rate.system for rate in rates.rates] == ["c", "b", "a"]
    assert [gate(given, *two).outcome for two in (("b", "a"), ("b", "c"))] == ["better", "worse"]
    assert rates.difference("b", "a").lo > 0
    with pytest.raises(InputError, match="no pair compares a with c"):
        gate(given, "a", "c")
    with pytest.raises(InputError, match="no pair has the system 'd'; choose from a, b, c"):
        gate(given, "d", "a")
    with pytest.raises(InputError, match="compared with itself"):
        gate(given, "a", "a")
    few = replace(given, labels=np.where(np.arange(600) < 6, labels, np.nan))
    with pytest.raises(TooFewLabelsError, match=r"the pairs of a against b have \d+ labels?; 5 are needed: label more"):
        gate(few, "a", "b")
