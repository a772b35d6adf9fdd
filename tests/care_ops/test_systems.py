"""Differences between systems: closed forms, choix's Bradley-Terry (recorded), coverage on planted truth."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import t as student
from scipy.stats import ttest_rel

from care_ops.errors import FitError, InputError
from care_ops.fit_labels import FitLabels
from care_ops.results.systems import bradley_terry, mean_differences, usable_labels
from tests.support.planted import duels

RIVALS = json.loads((Path(__file__).parents[1] / "oracles" / "rivals.json").read_text())


def answers(rng: np.random.Generator, prompts: int, favour: float = 0.0):
    """Three systems answer every prompt; judges favour the last one. (estimate, systems, units, quality)."""
    systems = [name for _ in range(prompts) for name in ("a", "b", "c")]
    units = [f"p{k}" for k in range(prompts) for _ in range(3)]
    effect, hard = np.tile([0.0, 0.3, 0.5], prompts), np.repeat(rng.normal(size=prompts), 3)
    quality = hard + effect + rng.normal(scale=0.5, size=3 * prompts)
    estimate = 0.8 * quality + np.tile([0.0, 0.0, favour], prompts) + rng.normal(scale=0.5, size=3 * prompts)
    return estimate, systems, units, quality


def test_without_labels_it_is_the_paired_t_test(rng):
    estimate, systems, units, _ = answers(rng, 60)
    found = {(c.first, c.second): c for c in mean_differences(estimate, systems, units, level=0.95)}
    a, b = estimate[0::3], estimate[1::3]
    pair = found.get(("b", "a")) or found[("a", "b")]
    sign = 1.0 if pair.first == "b" else -1.0
    wanted = ttest_rel(b, a).confidence_interval(0.95)
    assert sign * pair.difference == pytest.approx(float(np.mean(b - a)))
    assert sorted((sign * pair.lo, sign * pair.hi)) == pytest.approx([wanted.low, wanted.high], rel=1e-9)
    assert (pair.units, pair.labels_used, pair.trust) == (60, 0, 1.0)


def test_labels_on_everything_leave_the_estimates_out(rng):
    estimate, systems, units, quality = answers(rng, 40, favour=2.0)
    for c in mean_differences(estimate, systems, units, quality):
        of = {name: quality[[s == name for s in systems]].mean() for name in "abc"}
        assert c.difference == pytest.approx(of[c.first] - of[c.second])
        assert c.labels_used == 80


@pytest.mark.parametrize("labelled", [0, 60])
def test_intervals_cover_and_labels_correct_the_judges(labelled):
    """Ninety per cent intervals over 300 draws, of what the judges see (0 labels), of quality (60)."""
    hits, widths, biased = [], [], []
    truth = {"a": 0.0, "b": 0.3, "c": 0.5}
    for seed in range(300):
        rng = np.random.default_rng([seed, labelled])
        estimate, systems, units, quality = answers(rng, 100, favour=-0.4)
        labels = np.full(300, np.nan)
        some = rng.choice(300, labelled, replace=False)
        labels[some] = quality[some]
        seen = {"a": 0.0, "b": 0.24, "c": 0.0} if labelled == 0 else truth
        for c in mean_differences(estimate, systems, units, labels):
            assert (c.labels_used > 0) == (labelled > 0)
            hits.append(c.lo <= seen[c.first] - seen[c.second] <= c.hi)
            widths.append(c.hi - c.lo)
            biased.append(c.lo <= truth[c.first] - truth[c.second] <= c.hi)
    found = f"coverage {np.mean(hits):.3f}, of quality {np.mean(biased):.3f}, width {np.mean(widths):.2f}"
    print(f"\n{labelled} labels: {found}")
    assert 0.85 <= np.mean(hits) <= 0.95
    if labelled == 0:
        assert np.mean(biased) < 0.6  # what judges favour no number of items mends


def test_estimates_make_labels_worth_more(rng):
    estimate, systems, units, quality = answers(rng, 400)
    labels = np.full(len(quality), np.nan)
    some = rng.choice(len(quality), 90, replace=False)
    labels[some] = quality[some]
    powered = mean_differences(estimate, systems, units, labels)
    single = mean_differences(np.where(np.isnan(labels), np.nan, 0.0), systems, units, labels)
    width = {frozenset((c.first, c.second)): c.hi - c.lo for c in single}
    assert all(c.hi - c.lo < 0.8 * width[frozenset((c.first, c.second))] for c in powered)


def test_bradley_terry_is_choixs():
    """Each comparison 500 times, which leaves choix's answer as it is: the one comparison more weighs nothing then."""
    left, right, wins = duels()
    pairs = [(f"s{a}", f"s{b}") for a, b in zip(left, right, strict=True)] * 500
    strengths, _ = bradley_terry(
        np.tile(wins.astype(float), 500), pairs, [f"g{k}" for k in range(len(pairs))], sides=False
    )
    wanted = np.array(RIVALS["bradley_terry"]) - np.mean(RIVALS["bradley_terry"])
    assert [strengths[f"s{k}"] for k in range(6)] == pytest.approx(list(wanted), abs=1e-4)


@pytest.mark.parametrize("labelled", [0, 120])
def test_bradley_terry_intervals_cover(labelled):
    strength, names = np.array([-0.6, 0.0, 0.6]), ("a", "b", "c")
    hits = []
    for seed in range(200):
        rng = np.random.default_rng([seed, labelled, 1])
        left = rng.integers(0, 3, 400)
        right = (left + rng.integers(1, 3, 400)) % 3
        wins = (rng.random(400) < expit(strength[left] - strength[right])).astype(float)
        # judges see the winner in 85 % of the pairs and favour c in the others
        wrong = rng.random(400) < 0.15
        estimate = wins if labelled == 0 else np.where(wrong, (left == 2).astype(float), wins)
        labels = np.full(400, np.nan)
        some = rng.choice(400, labelled, replace=False)
        labels[some] = wins[some]
        pairs = [(names[a], names[b]) for a, b in zip(left, right, strict=True)]
        _, found = bradley_terry(estimate, pairs, [f"u{k // 2}" for k in range(400)], labels)
        place = dict(zip(names, strength, strict=True))
        hits += [c.lo <= place[c.first] - place[c.second] <= c.hi for c in found]
    print(f"\nBradley-Terry, {labelled} labels: coverage {np.mean(hits):.3f}")
    assert 0.85 <= np.mean(hits) <= 0.95


@pytest.mark.parametrize("gap", [0.0, 1.5, 3.0, 5.0])
def test_intervals_hold_where_one_system_wins_nearly_always(gap):
    """Two systems, twenty labels: at a gap of 3 a third of the draws have no label that the better one loses."""
    hits, ends = [], []
    for seed in range(100):
        rng = np.random.default_rng([seed, 6])
        on_the_left = rng.random(300) < 0.5
        ahead = np.where(on_the_left, gap, -gap) + rng.logistic(0, 1, 300)
        votes = ahead[:, None] + rng.logistic(0, 1, (300, 8)) > 0
        labels = np.full(300, np.nan)
        some = rng.choice(300, 20, replace=False)
        labels[some] = ahead[some] > 0
        pairs = [("a", "b") if left else ("b", "a") for left in on_the_left]
        (found,) = bradley_terry(votes.mean(axis=1), pairs, [f"u{k}" for k in range(300)], labels)[1]
        ends.append(max(abs(found.lo), abs(found.hi)))
        hits.append(found.lo <= (gap if found.first == "a" else -gap) <= found.hi)
    print(f"\ngap {gap}: coverage {np.mean(hits):.2f}, furthest end {max(ends):.1f}")
    assert np.mean(hits) >= 0.83
    assert max(ends) < 12, "no twenty labels show that one system loses once in 160,000 times"


def test_whoever_wins_everything_gets_an_interval():
    """Haldane's and Anscombe's: the log odds of 30.5 wins to .5, and 1 / 30.5 + 1 / .5 as their variance."""
    pairs = [("a", "b"), ("b", "a")] * 15
    (found,) = bradley_terry(np.tile([1.0, 0.0], 15), pairs, [f"u{k}" for k in range(30)], sides=False)[1]
    assert found.difference == pytest.approx(np.log(30.5 / 0.5))
    half = student.ppf(0.95, 29) * np.sqrt((1 / 30.5 + 1 / 0.5) * 31 / 30)
    assert (found.lo, found.hi) == pytest.approx((found.difference - half, found.difference + half), rel=1e-3)


def test_a_side_bias_lifts_nobody_who_mostly_stood_there():
    """Two equal systems, one of which stood on the left in four pairs of five, and judges who like the left."""
    hits, off = [], []
    for seed in range(100):
        rng = np.random.default_rng([seed, 5])
        pairs = [("a", "b") if left else ("b", "a") for left in rng.random(400) < 0.8]
        wins = (rng.random(400) < expit(0.9)).astype(float)
        units = [f"u{k}" for k in range(400)]
        (found,) = bradley_terry(wins, pairs, units)[1]
        hits.append(found.lo <= 0 <= found.hi)
        off.append(bradley_terry(wins, pairs, units, sides=False)[1][0].lo > 0)
    assert np.mean(hits) >= 0.83
    assert np.mean(off) == 1.0, "without a parameter for it the side decides"


def test_what_cannot_be_compared_is_reported():
    with pytest.raises(FitError, match="at least two systems"):
        mean_differences(np.ones(3), ["a", "a", None], ["u", "v", "w"])
    with pytest.raises(FitError, match="link all systems"):
        bradley_terry(np.ones(2), [("a", "b"), ("c", "d")], ["u", "v"])
    with pytest.raises(InputError, match="declare the test set's scale"):
        bradley_terry(np.array([3.0, 0.0]), [("a", "b"), ("b", "a")], ["u", "v"])
    with pytest.raises(InputError, match="2 entries"):
        mean_differences(np.ones(3), ["a", "b"], ["u", "v", "w"])
    assert np.isnan(usable_labels(("x", "y"), FitLabels({"x": 1.0}))).tolist() == [False, True]
