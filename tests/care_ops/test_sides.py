"""Tests of judges with a side bias, which are reported only if quality does not explain the sides."""

import numpy as np
import pytest
from scipy.special import expit, logit

from care_ops.results.sides import always_left, sides_of

SYSTEMS = ("new", "old")


def votes(rng, biases, ahead=0.0, n=400, left=0.5):
    """Simulate votes for the left answer by the Bradley-Terry model with a left bias; return also the sides."""
    of_new = rng.random(n) < left
    strength = np.where(of_new, ahead, -ahead) + rng.normal(0, 1, n)
    chosen = rng.random((n, len(biases))) < expit(strength[:, None] + np.asarray(biases))
    return chosen.astype(float), [SYSTEMS if new else SYSTEMS[::-1] for new in of_new]


def test_who_likes_the_left_is_reported_with_the_share_that_the_model_has(rng):
    reported = logit([0.8, 0.8, 0.5, 0.5, 0.2])
    values, systems = votes(rng, reported, n=4000)
    quality = rng.normal(0, 1, 200_000)
    expected = [expit(quality + bias).mean() for bias in reported]
    found = sides_of(values, 0.5, systems)
    assert found is not None
    assert set(found.judges) == {0, 1, 4}
    assert [found.judges[j] for j in (0, 1, 4)] == pytest.approx([expected[j] for j in (0, 1, 4)], abs=0.03)
    assert found.share == pytest.approx(np.mean(expected), abs=0.03)
    mirrored = sides_of(1 - values, 0.5, systems)
    assert mirrored.share == pytest.approx(1 - found.share)


@pytest.mark.parametrize("known", [True, False])
def test_judges_without_a_side_bias_are_hardly_ever_reported(rng, known):
    """With random sides, at most 2 % of 300 panels are reported, for any lead of one system."""
    reported = 0
    for _ in range(300):
        values, systems = votes(rng, np.zeros(9), ahead=rng.normal())
        reported += sides_of(values, 0.5, systems if known else [None] * len(systems)) is not None
    assert reported <= 6


def test_a_better_system_on_the_left_is_no_bias_where_it_is_known_who_stood_there(rng):
    values, systems = votes(rng, np.zeros(9), ahead=2.0, left=0.8)
    assert sides_of(values, 0.5, systems) is None
    assert sides_of(values, 0.5, [None] * len(systems)).share > 0.6, "nothing else is known"
    values, systems = votes(rng, np.zeros(9), ahead=2.0, left=1.0)
    assert sides_of(values, 0.5, systems) is None, "one system always stood on the left: nothing shows why it wins"


def test_who_always_stood_on_the_left_is_reported_and_nobody_else():
    assert always_left([("new", "old"), None, ("new", "old"), ("old", "old")]) == "new"
    assert always_left([("new", "old"), ("old", "new")]) is None
    assert always_left([("new", "old"), ("new", "older")]) is None, "of three the others may tell"
    assert always_left([None, None]) is None


def test_a_tie_and_a_missing_score_choose_no_side(rng):
    values, systems = votes(rng, np.full(5, 1.5))
    plain = sides_of(values, 0.5, systems)
    more = np.vstack([values, np.full((200, 5), 0.5), np.full((200, 5), np.nan)])
    assert sides_of(more, 0.5, [*systems, *[SYSTEMS] * 400]) == plain
    assert sides_of(values[:15], 0.5, systems[:15]) is None, "too few"
