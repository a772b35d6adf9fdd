"""The correlation of opinions behind votes and grades, against the normal distribution function and simulation."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from care_ops.models.coarse import opinions
from care_ops.models.factor_analysis import normal_scores
from care_ops.models.voices import voices

ALONE = np.arange(2)
"""Two judges of families of their own."""


def correlated(rng, rho: float, items: int) -> np.ndarray:
    return rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=items)


@pytest.mark.parametrize("rho", [-0.5, 0.3, 0.8, 0.97])
@pytest.mark.parametrize("cuts", [(0.0, 0.0), (0.3, -0.4), (1.0, 0.8)])
def test_votes_have_the_correlation_that_the_normal_distribution_gives(rho, cuts):
    """The share that both pass, by scipy's distribution function, and back."""
    share = np.round(norm.sf(cuts) * 10_000) / 10_000
    both = multivariate_normal([0, 0], [[1, rho], [rho, 1]]).cdf(-norm.isf(share))
    phi = (both - share[0] * share[1]) / np.sqrt(np.prod(share * (1 - share)))
    votes = np.column_stack([np.arange(10_000) < round(10_000 * one) for one in share]).astype(float)
    found = opinions(np.array([[1.0, phi], [phi, 1.0]]), 10_000, normal_scores(votes), ALONE)
    assert found.estimate[0, 1] == pytest.approx(rho, abs=0.003)


@pytest.mark.parametrize("rho", [0.4, 0.9])
def test_grades_have_the_correlation_of_the_opinions_that_they_were_made_of(rng, rho):
    x = correlated(rng, rho, 200_000)
    stars = np.column_stack([np.digitize(x[:, 0], [-1, -0.2, 0.5, 1.3]), np.digitize(x[:, 1], [-0.5, 0.3, 1.0])])
    for grades in (stars.astype(float), np.column_stack([x[:, 0] > 0.5, x[:, 1]]).astype(float)):
        normal = normal_scores(grades)
        found = opinions(np.corrcoef(normal.T), len(x), normal, ALONE)
        assert found.estimate[0, 1] == pytest.approx(rho, abs=0.01)
        assert found.least[0, 1] < found.estimate[0, 1] == found.most[0, 1]


def test_what_a_correlation_surely_is_lies_below_it_in_nineteen_of_twenty_draws():
    rng = np.random.default_rng(4)
    below = []
    for _ in range(100):
        votes = (correlated(rng, 0.8, 150) > [0.4, -0.3]).astype(float)
        normal = normal_scores(votes)
        below.append(opinions(np.corrcoef(normal.T), 150, normal, ALONE).least[0, 1] < 0.8)
    assert np.mean(below) > 0.94


def test_many_grades_and_scores_that_are_missing_are_taken_as_they_are(rng):
    x = correlated(rng, 0.6, 300)
    normal = normal_scores(x)
    correlation = np.corrcoef(normal.T)
    np.testing.assert_array_equal(opinions(correlation, 300, normal, ALONE).estimate, correlation)
    votes = (x > 0).astype(float)
    votes[rng.random(votes.shape) < 0.3] = np.nan
    assert np.isfinite(opinions(correlation, 150, normal_scores(votes), ALONE).least).all()


@pytest.mark.parametrize(("honest", "copies"), [(0.55, 0), (0.7, 0), (0.85, 0), (0.55, 3), (0.7, 3)])
def test_copies_among_votes_are_one_voice_and_good_judges_are_not(honest, copies):
    for seed in range(10):
        rng = np.random.default_rng([31, seed])
        x = np.sqrt(honest) * rng.normal(size=400)[:, None] + np.sqrt(1 - honest) * rng.normal(size=(400, 9))
        x[:, :copies] = rng.normal(size=400)[:, None] + 0.15 * rng.normal(size=(400, copies))
        normal = normal_scores((x > 0.4 * rng.normal(size=9)).astype(float))
        voice = voices(opinions(np.corrcoef(normal.T), 400, normal, np.arange(9)))
        assert set(voice[copies:].tolist()).isdisjoint(voice[:copies].tolist())
        assert len(set(voice[copies:].tolist())) == 9 - copies, "a good judge is a voice of its own"
        if copies:
            assert len(set(voice[:copies].tolist())) == 1


def test_copies_of_one_declared_family_are_left_to_the_family(rng):
    """They are heard about once as it is, and judges of one model are no near-copies for sharing its opinions."""
    quality = rng.normal(size=400)
    x = quality[:, None] + 0.9 * rng.normal(size=(400, 8))
    x[:, :2] = rng.normal(size=400)[:, None] + 0.15 * rng.normal(size=(400, 2))
    normal = normal_scores((x > np.linspace(-0.6, 0.6, 8)).astype(float))
    correlation = np.corrcoef(normal.T)
    assert len(set(voices(opinions(correlation, 400, normal, np.arange(8))))) == 7
    declared = np.array([0, 0, 1, 2, 3, 4, 5, 6])
    assert len(set(voices(opinions(correlation, 400, normal, declared)))) == 8


def test_good_judges_beside_copies_are_told_from_copies_only_where_others_agree(rng):
    """Judges of facts agree almost wholly; one poorer judge and two copies of noise cannot say that they are copies."""
    quality = rng.normal(size=500)
    x = quality[:, None] + 0.25 * rng.normal(size=(500, 10))
    x[:, 7] = quality + 1.2 * rng.normal(size=500)
    x[:, 8:] = rng.normal(size=500)[:, None] + 0.1 * rng.normal(size=(500, 2))
    normal = normal_scores((x > np.linspace(-0.7, 0.7, 10)).astype(float))
    voice = voices(opinions(np.corrcoef(normal.T), 500, normal, np.arange(10)))
    assert voice.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]
