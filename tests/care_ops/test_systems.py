"""Tests of differences between systems: closed forms, choix's Bradley-Terry (recorded), coverage."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import t as student
from scipy.stats import ttest_rel

from care_ops.errors import FitError, InputError
from care_ops.results.systems import bradley_terry, mean_differences
from tests.support.planted import duels

RIVALS = json.loads((Path(__file__).parents[1] / "oracles" / "rivals.json").read_text())


def answers(rng: np.random.Generator, prompts: int, favour: float = 0.0):
    """Simulate three systems on all prompts, of which judges favour the last: estimate, systems, units, quality."""
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


def test_intervals_cover_what_the_judges_see():
    """90 % intervals over 300 draws do not remove the bias of the judges."""
    hits, biased = [], []
    truth, seen = {"a": 0.0, "b": 0.3, "c": 0.5}, {"a": 0.0, "b": 0.24, "c": 0.0}
    for seed in range(300):
        rng = np.random.default_rng([seed, 0])
        for c in mean_differences(*answers(rng, 100, favour=-0.4)[:3]):
            hits.append(c.lo <= seen[c.first] - seen[c.second] <= c.hi)
            biased.append(c.lo <= truth[c.first] - truth[c.second] <= c.hi)
    assert 0.85 <= np.mean(hits) <= 0.95
    assert np.mean(biased) < 0.6


def test_bradley_terry_is_choixs():
    """Each comparison is repeated 100 times, so that CARE's one additional comparison has no effect."""
    left, right, wins = duels()
    pairs = [(f"s{a}", f"s{b}") for a, b in zip(left, right, strict=True)] * 100
    strengths, _ = bradley_terry(
        np.tile(wins.astype(float), 100), pairs, [f"g{k}" for k in range(len(pairs))], sides=False
    )
    wanted = np.array(RIVALS["bradley_terry"]) - np.mean(RIVALS["bradley_terry"])
    assert [strengths[f"s{k}"] for k in range(6)] == pytest.approx(list(wanted), abs=5e-4)


def test_bradley_terry_intervals_cover():
    strength, names = np.array([-0.6, 0.0, 0.6]), ("a", "b", "c")
    hits = []
    for seed in range(200):
        rng = np.random.default_rng([seed, 0, 1])
        left = rng.integers(0, 3, 400)
        right = (left + rng.integers(1, 3, 400)) % 3
        wins = (rng.random(400) < expit(strength[left] - strength[right])).astype(float)
        pairs = [(names[a], names[b]) for a, b in zip(left, right, strict=True)]
        _, found = bradley_terry(wins, pairs, [f"u{k // 2}" for k in range(400)])
        place = dict(zip(names, strength, strict=True))
        hits += [c.lo <= place[c.first] - place[c.second] <= c.hi for c in found]
    assert 0.85 <= np.mean(hits) <= 0.95


def test_whoever_wins_everything_gets_an_interval():
    """The expected log odds are those of 30.5 wins to .5, with the variance 1 / 30.5 + 1 / .5."""
    pairs = [("a", "b"), ("b", "a")] * 15
    (found,) = bradley_terry(np.tile([1.0, 0.0], 15), pairs, [f"u{k}" for k in range(30)], sides=False)[1]
    assert found.difference == pytest.approx(np.log(30.5 / 0.5))
    half = student.ppf(0.95, 29) * np.sqrt((1 / 30.5 + 1 / 0.5) * 31 / 30)
    assert (found.lo, found.hi) == pytest.approx((found.difference - half, found.difference + half), rel=1e-3)


def test_a_side_bias_lifts_nobody_who_mostly_stood_there():
    """One of two equal systems is on the left in 80 % of the pairs, and judges favour the left."""
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
    with pytest.raises(FitError, match="two systems must each have"):
        mean_differences(np.ones(3), ["a", "a", None], ["u", "v", "w"])
    with pytest.raises(FitError, match="link all systems"):
        bradley_terry(np.ones(2), [("a", "b"), ("c", "d")], ["u", "v"])
    with pytest.raises(InputError, match="declare the test set's scale"):
        bradley_terry(np.array([3.0, 0.0]), [("a", "b"), ("b", "a")], ["u", "v"])
    with pytest.raises(InputError, match="systems or split units has 2 entries"):
        mean_differences(np.ones(3), ["a", "b"], ["u", "v", "w"])
