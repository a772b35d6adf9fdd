"""Tests of feature effects: rewards of single judges for a text feature beyond the shared effect."""

import numpy as np

from care_ops.models.feature_effects import controlled, own_slopes, remove_feature_effects


def standardised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=0)) / x.std(axis=0)


def test_what_single_families_reward_is_removed(rng):
    n = 2_000
    quality, w = rng.normal(size=(2, n))
    x = quality[:, None] + 0.6 * rng.normal(size=(n, 8))
    x[:, :4] += w[:, None]
    cleaned, removed = remove_feature_effects(standardised(x), {"words": w}, np.repeat(np.arange(4), 2))
    assert removed == ("words",)
    assert np.abs(np.corrcoef(cleaned.T, w)[-1, :-1]).max() < 0.05
    assert np.corrcoef(cleaned[:, 0], quality)[0, 1] > np.corrcoef(x[:, 0], quality)[0, 1] + 0.1


def test_slopes_in_proportion_to_quality_are_left_unchanged(rng):
    """If quality depends on length, all judges do, and nothing is removed."""
    w = rng.normal(size=2_000)
    quality = 0.6 * w + 0.8 * rng.normal(size=2_000)
    z = standardised(np.linspace(0.5, 0.9, 6) * quality[:, None] + 0.5 * rng.normal(size=(2_000, 6)))
    left, removed = remove_feature_effects(z, {"words": w}, np.arange(6))
    assert removed == ()
    np.testing.assert_array_equal(left, z)


def test_weak_evidence_removes_nothing(rng):
    """If three of eight judges reward length slightly, a partial removal would cost more than it gains."""
    w = rng.normal(size=500)
    own = 0.12 * w[:, None] * (np.arange(8) < 3)
    z = standardised(rng.normal(size=(500, 1)) + 0.8 * rng.normal(size=(500, 8)) + own)
    assert own_slopes(z, w, np.arange(8)) is None


def test_what_a_feature_explains_is_gone_and_the_rest_stays(rng):
    w, rest = rng.normal(size=(2, 400))
    z = np.column_stack([np.exp(w / 3) + rest, rest])
    left = controlled(z, w)
    assert abs(np.corrcoef(left[:, 0], w)[0, 1]) < 1e-9
    assert np.corrcoef(left[:, 0], rest)[0, 1] > 0.98


def test_a_judge_that_follows_nothing_but_the_length_keeps_its_scores(rng):
    quality, w = rng.normal(size=(2, 400))
    z = standardised(np.column_stack([quality[:, None] + rng.normal(size=(400, 5)), w]))
    cleaned, _ = remove_feature_effects(z, {"words": standardised(w[:, None])[:, 0]}, np.arange(6))
    assert cleaned[:, 5].std() > 0.1
