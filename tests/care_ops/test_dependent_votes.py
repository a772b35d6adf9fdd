"""The rivals that know of dependence, against closed forms, counting, and what was planted."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit, ndtr
from scipy.stats import multivariate_normal, norm, rankdata

from tests.support import dependent_votes as models


def test_gradients_are_those_of_finite_differences(rng):
    votes = (rng.random((40, 4)) < 0.6).astype(float)
    statistics = rng.normal(size=(16, 10))
    means = rng.normal(size=(2, 10))
    members = [np.array([0, 2]), np.array([1]), np.array([3])]
    cases = [
        (models._ising_loss, rng.normal(size=14), (statistics, means, 0.4, 0.3, 4)),
        (models._effects_loss, rng.normal(size=13), (votes, members)),
        (models._bt_loss, rng.normal(size=4), (votes,)),
    ]
    for loss, at, given in cases:
        _, gradient = loss(at, *given)
        by_differences = approx_fprime(at, lambda x, loss=loss, given=given: loss(x, *given)[0], 1e-6)
        np.testing.assert_allclose(gradient, by_differences, atol=2e-5)


def planted_ising(rng, n: int, coupling: float):
    """Votes of six judges, of whom three agree beyond the truth; the truth; and Bayes' log odds by counting."""
    a, b, w = np.zeros(6), np.array([0.3, 0.3, 0.3, 0.7, 0.7, 0.7]), np.zeros((6, 6))
    w[:3, :3] = coupling * (1 - np.eye(3))
    states = np.array(list(product((-1.0, 1.0), repeat=6)))
    weight = np.array(
        [np.exp(states @ (a + y * b) + 0.5 * np.einsum("si,ij,sj->s", states, w, states)) for y in (1, -1)]
    )
    weight /= weight.sum(axis=1, keepdims=True)
    truth = rng.random(n) < 0.5
    drawn = np.where(truth, rng.choice(64, n, p=weight[0]), rng.choice(64, n, p=weight[1]))
    return (states[drawn] + 1) / 2, truth, np.log(weight[0] / weight[1])[drawn]


def test_ising_finds_the_judges_that_agree_beyond_the_truth_and_comes_to_bayes_odds(rng):
    votes, truth, bayes = planted_ising(rng, 20_000, 0.8)
    odds, couplings = models.ising(votes, 0.001)
    pairs = [(i, j) for i in range(6) for j in range(i + 1, 6)]
    within = np.array([max(pair) < 3 for pair in pairs])
    np.testing.assert_allclose(couplings[within], 0.8, atol=0.1)
    np.testing.assert_allclose(couplings[~within], 0.0, atol=0.1)
    assert np.mean((odds > 0) == truth) > np.mean((bayes > 0) == truth) - 0.005
    assert np.mean((votes.mean(axis=1) > 0.5) == truth) < np.mean((bayes > 0) == truth) - 0.03, "the majority"


def test_the_effect_of_a_group_leaves_each_judge_s_marginal_at_its_closed_form():
    theta = np.array([0.8, 0.3, -0.5, -0.2, 1.1, 0.6, 0.0])
    members = [np.array([0, 1])]
    both = np.array(list(product((0.0, 1.0), repeat=2)))
    first, second, _ = models._effects_likelihood(theta, both, members)
    np.testing.assert_allclose([np.exp(first).sum(), np.exp(second).sum()], 1.0, atol=1e-12)
    marginal = np.exp(first)[both[:, 0] == 1].sum()
    assert marginal == pytest.approx(ndtr(0.8 / np.sqrt(1 + 1.1**2)), abs=1e-4)
    correlation = 1.1 * 0.6 / np.sqrt((1 + 1.1**2) * (1 + 0.6**2))
    cuts = np.array([0.8 / np.sqrt(1 + 1.1**2), 0.3 / np.sqrt(1 + 0.6**2)])
    expected = multivariate_normal.cdf(cuts, [0, 0], [[1, correlation], [correlation, 1]])
    assert np.exp(first)[3] == pytest.approx(float(expected), abs=1e-3)


def test_judges_of_one_group_are_heard_less_where_they_share_an_effect(rng):
    truth = rng.random(3_000) < 0.5
    effect = 1.5 * rng.normal(size=3_000)
    shared = np.column_stack([(2 * truth - 1) * 0.9 + effect + rng.normal(size=3_000) > 0 for _ in range(4)])
    alone = np.column_stack([(2 * truth - 1) * 0.9 + rng.normal(size=3_000) > 0 for _ in range(3)])
    votes = np.hstack([shared, alone]).astype(float)
    odds, effects = models.random_effects(votes, ["a"] * 4 + ["b", "c", "d"])
    assert effects[:4].min() > 0.8
    assert np.abs(effects[4:]).max() == 0
    assert np.mean((odds > 0) == truth) > np.mean((votes.mean(axis=1) > 0.5) == truth) + 0.03


def test_bt_sigma_orders_by_the_weighted_votes_and_finds_what_was_planted(rng):
    slopes = np.array([0.4, 0.8, 1.5, 3.0])
    difference = rng.normal(size=20_000)
    votes = (rng.random((20_000, 4)) < expit(difference[:, None] * slopes)).astype(float)
    estimate, found = models.bt_sigma(votes)
    np.testing.assert_allclose(found, slopes, rtol=0.15)
    weighted = np.round((2 * votes - 1) @ found, 9)
    np.testing.assert_array_equal(rankdata(np.round(estimate, 9)), rankdata(weighted), "the sufficient statistic")
    grid = np.linspace(-6, 6, 4_001)
    posterior = norm.pdf(grid) * np.prod(expit(np.outer(grid, found) * (2 * votes[0] - 1)), axis=1)
    assert estimate[0] == pytest.approx(float(grid @ posterior / posterior.sum()), abs=2e-3)
