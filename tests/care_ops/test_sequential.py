"""Tests of confidence sequences: fair games, coverage over all looks, decisions, bad input."""

from itertools import permutations

import numpy as np
import pytest
from scipy.special import expit

from care_ops.errors import InputError
from care_ops.results.gate import gate
from care_ops.results.rates import Labelled, item_scores
from care_ops.results.sequential import (
    Evidence,
    Stream,
    difference_interval,
    evidence_of,
    interval,
    log_capitals,
    rates_at_looks,
)


def population(rng, items, shift=0.0):
    """Simulate estimates of judges, and labels of 0 and 1 that follow them."""
    quality = rng.normal(size=items) + shift
    answer = quality + 0.3 * rng.normal(size=items)
    return (answer - answer.mean()) / answer.std(), (rng.random(items) < expit(3 * quality)).astype(float)


@pytest.mark.parametrize("labels", [[1, 0, 1, 1, 0, 1], [0.1, 0.9, 0.4, 0.3, 1.0, 0.0]], ids=["yes or no", "grades"])
def test_the_game_is_fair(labels):
    """Over all orders of six labels, the mean capital against the true mean is exactly 1."""
    scores, labels = np.array([1.3, -0.8, 0.4, 0.9, -1.5, 0.1]), np.array(labels, dtype=float)
    truth = np.array([labels.mean()])
    capital = np.zeros(6)
    for order in permutations(range(6)):
        stream = Stream(scores, np.array(order), labels[list(order)])
        capital += [float(np.exp(log[0])) for log in log_capitals(stream, truth)]
    assert capital / 720 == pytest.approx(np.ones(6), abs=1e-9)


def test_the_first_bet_is_the_one_of_the_paper():
    """Before a label, .5 is expected: at a mean of .3, the bet is (.5 - .3) / (.25 + .04)."""
    stream = Stream(np.zeros(1000), np.array([4]), np.array([1.0]))
    (log,) = log_capitals(stream, np.array([0.3]))
    assert float(np.exp(log[0])) == pytest.approx(1 + 0.2 / 0.29 * 0.7)


@pytest.mark.parametrize("follows", [True, False], ids=["good judges", "judges of noise"])
def test_the_truth_is_kept_at_all_looks_together(follows):
    """There are 80 streams of 100 labels from 400 items, with a look after each label."""
    lost = 0
    for seed in range(80):
        rng = np.random.default_rng([seed, 1])
        scores, labels = population(rng, 400, shift=-0.7)
        rows = rng.choice(400, 100, replace=False)
        stream = Stream(scores if follows else rng.permutation(scores), rows, labels[rows])
        lost += max(float(log[0]) for log in log_capitals(stream, np.array([labels.mean()]))) >= np.log(10)
    assert lost / 80 <= 0.1 + 3 * np.sqrt(0.09 / 80)


def test_intervals_narrow_to_the_truth_and_judges_narrow_them():
    rng = np.random.default_rng(3)
    scores, labels = population(rng, 400)
    rows = rng.permutation(400)
    widths = []
    for count in (30, 100, 400):
        lo, hi = interval(evidence_of(Stream(scores, rows[:count], labels[rows[:count]])), 0.9)
        assert lo <= labels.mean() <= hi
        widths.append(hi - lo)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] == pytest.approx(0.0, abs=1e-9)
    lo, hi = interval(evidence_of(Stream(np.zeros(400), rows[:100], labels[rows[:100]])), 0.9)
    assert hi - lo > 1.15 * widths[1]


def test_where_every_mean_is_excluded_nothing_is_reported():
    excluded = Evidence(np.linspace(0.2, 0.7, 11), np.full(11, 9.0))
    assert interval(excluded, 0.9) == (0.2, 0.7)
    assert difference_interval(excluded, excluded, 0.9) == pytest.approx((-0.5, 0.5))


def test_items_to_come_are_kept_at_all_looks_together():
    """All of forty items are labelled in the end, with three looks, 100 times; the intervals cover future items."""
    lost = 0
    for seed in range(100):
        rng = np.random.default_rng([seed, 4])
        scores, labels = population(rng, 40)
        ends = [interval(evidence_of(Stream(scores, np.arange(m), labels[:m]), 0.25 / 40), 0.9) for m in (10, 25, 40)]
        lost += any(not lo <= 0.5 <= hi for lo, hi in ends)
    assert lost / 100 <= 0.1 + 3 * np.sqrt(0.09 / 100)


def test_items_to_come_cost_width_by_the_number_of_independent_items():
    """If all labels are known, only the uncertainty about future items is left."""
    rng = np.random.default_rng(6)
    scores, labels = population(rng, 400)
    order = rng.permutation(400).tolist()
    (rate,) = rates_at_looks(Labelled(scores, labels, order=order), of_these_items=False).rates
    evidence = evidence_of(Stream(item_scores(scores, shares=True), np.array(order), labels[order]), 0.25 / 400)
    room = np.log(10) + 0.5 * np.log(5) - evidence.log_capital[0]
    assert rate.hi - rate.lo == pytest.approx(2 * np.sqrt(room * 0.5 / 400 * 5 / 4), rel=1e-6)
    pairs = [str(k // 2) for k in range(400)]
    (paired,) = rates_at_looks(Labelled(scores, labels, units=pairs, order=order), of_these_items=False).rates
    assert paired.hi - paired.lo == pytest.approx(np.sqrt(2) * (rate.hi - rate.lo), rel=1e-6)


def two_systems(shift, labels_each, seed=0, items=300):
    """Simulate estimates, labels, order and names; the new system is better by ``shift``, and judges favour it."""
    rng = np.random.default_rng(seed)
    names = np.repeat(["new", "old"], items)
    quality = rng.normal(size=2 * items) + shift * (names == "new")
    gold = (rng.random(2 * items) < expit(3 * quality)).astype(float)
    order = [row for pair in zip(rng.permutation(items), items + rng.permutation(items), strict=True) for row in pair]
    order = order[: 2 * labels_each]
    labels = np.full(2 * items, np.nan)
    labels[order] = gold[order]
    return quality + 1.0 * (names == "new"), labels, order, names.tolist(), gold


@pytest.mark.parametrize(("shift", "outcome"), [(1.5, "better"), (-1.5, "worse"), (0.0, "undecided")])
def test_a_gate_decides_about_what_differs(shift, outcome):
    estimate, labels, order, names, gold = two_systems(shift, 60)
    decision = gate(Labelled(estimate, labels, names, order=order), "new", "old")
    assert decision.outcome == outcome
    assert decision.difference.lo <= gold[:300].mean() - gold[300:].mean() <= decision.difference.hi
    assert decision.difference.lo <= decision.difference.value <= decision.difference.hi


def test_a_difference_is_sharper_than_two_intervals_separately():
    estimate, labels, order, names, _ = two_systems(0.5, 60)
    rates = rates_at_looks(Labelled(estimate, labels, names, order=order))
    separate = rates.difference("new", "old")
    assert separate.hi - separate.lo < 0.95 * sum(rate.hi - rate.lo for rate in rates.rates)
    back = rates.difference("old", "new")
    assert (back.lo, back.hi) == pytest.approx((-separate.hi, -separate.lo))


def test_grades_need_bounds_and_scale_with_them():
    estimate, labels, order, names, _ = two_systems(0.5, 60)
    plain = rates_at_looks(Labelled(estimate, labels, names, order=order, bounds=(0, 1))).rates
    grades = rates_at_looks(
        Labelled(np.argsort(np.argsort(estimate)) * 1.0, 1 + 4 * labels, names, order=order, bounds=(1, 5))
    )
    assert {rate.labels for rate in grades.rates} == {60}
    assert grades.rates[0].hi - grades.rates[0].lo == pytest.approx(4 * (plain[0].hi - plain[0].lo), rel=0.2)
    with pytest.raises(InputError, match="give the bounds"):
        rates_at_looks(Labelled(estimate, 1 + 4 * labels, names, order=order))
    with pytest.raises(InputError, match="a label is 5, outside the bounds 1 and 4"):
        rates_at_looks(Labelled(estimate, 1 + 4 * labels, names, order=order, bounds=(1, 4)))
