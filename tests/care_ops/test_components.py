"""Tests of views, tensor decomposition and EM against exact moments, tensorly and closed forms."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import multivariate_normal
from tensorly.decomposition import parafac

from care_ops.errors import FitError
from care_ops.models import cp, mixture
from care_ops.moments.state import accumulate
from care_ops.simulate import four_state_mixture
from care_ops.structure.views import Views, partition
from tests.support.matrices import matched_error, random_correlation


def thirds(p: int) -> Views:
    first, second, third = np.array_split(np.arange(p), 3)
    return first, second, third


def exact_tensor(means: np.ndarray, weights: np.ndarray, views: Views) -> np.ndarray:
    """Return the population moment of the augmented, centred views."""
    centred = means - weights @ means
    columns = [np.column_stack([np.ones(len(weights)), centred[:, g]]) for g in views]
    return np.einsum("r,ra,rb,rc->abc", weights, *columns)


def test_exact_moments_give_exact_components(rng):
    truth = four_state_mixture(rng, n=10, p=12)
    views = thirds(12)
    weights, means = cp.decompose(exact_tensor(truth.means, truth.weights, views), views, 4, rng)
    assert matched_error(means, truth.means - truth.weights @ truth.means) < 1e-8
    np.testing.assert_allclose(sorted(weights), sorted(truth.weights), atol=1e-8)


def test_a_judge_may_give_a_state_its_overall_mean(rng):
    """Only the constant coordinate of a component must be nonzero."""
    views, weights = thirds(12), np.full(4, 0.25)
    wanted = rng.normal(size=(4, 12))
    wanted[:, 0] = [1.0, 0.0, 0.5, -1.5]
    wanted -= wanted.mean(axis=0)
    _, means = cp.decompose(exact_tensor(wanted, weights, views), views, 4, rng)
    assert matched_error(means, wanted) < 1e-8


def test_views_are_whitened_by_the_pair_moments(rng):
    truth = four_state_mixture(rng, n=10, p=12)
    tensor = exact_tensor(truth.means, truth.weights, thirds(12))
    first, second, third = cp._unwhitening(tensor, 4)
    np.testing.assert_allclose(first @ second.T, tensor[:, :, 0], atol=1e-10)
    pair = tensor[:, 0, :]
    np.testing.assert_allclose((third @ third.T) @ (third @ third.T), pair.T @ pair, atol=1e-10)


def test_tensorly_finds_the_same_components(rng):
    truth = four_state_mixture(rng, n=200_000, p=12, noise=0.3)
    views = thirds(12)
    tensor = cp.augmented_moment(accumulate(truth.scores), views)
    _, ours = cp.decompose(tensor, views, 4, rng)
    fits = [parafac(tensor, 4, n_iter_max=2_000, tol=1e-12, init="random", random_state=s) for s in range(5)]
    rebuilt = [np.einsum("r,ar,br,cr->abc", w, *f) for w, f in fits]
    best = fits[int(np.argmin([np.linalg.norm(r - tensor) for r in rebuilt]))]
    factors = [f / f[0] for f in best[1]]  # the constant coordinate of every mean is one
    theirs = np.concatenate([f[1:] for f in factors]).T
    assert matched_error(ours, theirs) < 0.02


def test_moment_that_cannot_carry_the_components_is_reported(rng):
    views = thirds(12)
    truth = four_state_mixture(rng, n=10, p=12)
    means = truth.means[[0, 1, 1, 0]]  # two distinct states only
    with pytest.raises(FitError, match="rank"):
        cp.decompose(exact_tensor(means, truth.weights, views), views, 4, rng)
    small = thirds(6)
    with pytest.raises(FitError, match="judges in each view"):
        cp.decompose(np.ones((3, 3, 3)), small, 4, rng)


def test_em_climbs_and_ignores_missing_scores(rng):
    truth = four_state_mixture(rng, n=4_000, p=9, noise=0.5)
    holes = np.where(rng.random(truth.scores.shape) < 0.1, np.nan, truth.scores)
    start = mixture.start_near(holes, mixture.k_means_plus_plus(holes, 4, rng))
    steps = [
        mixture.expectation_maximisation(holes, *start, max_iterations=k, tolerance=-np.inf).log_likelihood
        for k in range(8)
    ]
    assert np.all(np.diff(steps) >= -1e-10)
    found = mixture.expectation_maximisation(holes, truth.weights, truth.means, np.full(9, 0.25), tolerance=1e-9)
    assert matched_error(found.means, truth.means) < 0.03


def test_weights_of_states_sum_to_one_if_a_state_has_no_items(rng):
    values = rng.normal(size=(50, 3))
    means = np.array([[0.0, 0.0, 0.0], [1e3, 1e3, 1e3]])
    found = mixture.expectation_maximisation(values, np.array([0.5, 0.5]), means, np.ones(3), max_iterations=1)
    np.testing.assert_allclose(found.weights, np.array([1.0, 1 / 500]) / (1 + 1 / 500))


def test_views_keep_connected_judges_together(rng):
    sparse = np.eye(9)
    for a, b in ((0, 4), (4, 8), (1, 2), (3, 7)):
        sparse[a, b] = sparse[b, a] = 0.4
    home = {j: k for k, group in enumerate(partition(sparse)) for j in group}
    assert sorted(home) == list(range(9))
    assert home[0] == home[4] == home[8]
    assert home[1] == home[2]
    assert home[3] == home[7]


def test_views_of_a_dense_graph_are_cut_at_its_weakest_edges(rng):
    sparse = np.full((9, 9), 0.2) + rng.uniform(0.0, 0.1, (9, 9))
    for third in range(3):
        sparse[3 * third : 3 * third + 3, 3 * third : 3 * third + 3] += 0.5
    assert [group.tolist() for group in partition((sparse + sparse.T) / 2)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    with pytest.raises(FitError, match="three judges"):
        partition(np.eye(2))


def test_two_way_moments_leave_a_rotation_open(rng):
    truth = four_state_mixture(rng, n=10, p=12)
    views = thirds(12)
    centred = truth.means - truth.weights @ truth.means
    found = cp.two_way_baseline(exact_tensor(truth.means, truth.weights, views), views, 4)
    weighted = centred * np.sqrt(truth.weights)[:, None]
    u, _, vt = np.linalg.svd(weighted @ found.T)
    assert np.linalg.norm(u @ vt @ found - weighted) < 0.35 * np.linalg.norm(weighted)
    assert matched_error(found, centred) > 0.2  # no permutation mends it


def test_starts_are_ranked_on_different_items(rng, monkeypatch):
    values, seen = rng.normal(size=(60, 3)), []
    model = mixture.Mixture(np.ones(1), values[:1], np.eye(3), 0.0, True, "")
    monkeypatch.setattr(mixture, "_RANKED_ITEMS", 50)
    monkeypatch.setattr(mixture, "expectation_maximisation", lambda x, *_, **__: seen.append(x) or model)
    mixture.best_of(values, [("one", values[:2])])
    assert [len(np.unique(x, axis=0)) for x in seen] == [50, 60]


def test_shares_of_a_start_are_one_together_also_where_a_centre_has_no_item(rng):
    values = rng.normal(size=(50, 3))
    weights, means, _ = mixture.start_near(values, np.array([[0.0] * 3, [100.0] * 3, [-100.0] * 3]))
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weights[0] > 0.99
    assert (weights[1:] > 0).all(), "a centre without an item may still gain some"
    np.testing.assert_allclose(means[0], values.mean(axis=0))


@pytest.mark.parametrize("dependent", [False, True])
def test_log_densities_are_those_of_the_scores_present_and_their_shares_the_posterior(rng, dependent):
    means, weights = rng.normal(size=(3, 5)), np.array([0.2, 0.3, 0.5])
    covariance = 1.7 * random_correlation(rng, 5) if dependent else np.diag(rng.uniform(0.5, 2.0, 5))
    values = np.where(rng.random((40, 5)) < 0.3, np.nan, rng.normal(size=(40, 5)))
    wanted = np.tile(np.log(weights), (40, 1))
    for i, row in enumerate(values):
        seen = ~np.isnan(row)
        for state in range(3) if seen.any() else ():
            wanted[i, state] += multivariate_normal.logpdf(row[seen], means[state, seen], covariance[seen][:, seen])
    fit = mixture.Mixture(weights, means, covariance, 0.0, True, "given")
    np.testing.assert_allclose(fit.log_joint(values), wanted, atol=1e-9)
    np.testing.assert_allclose(fit.posterior(values), softmax(wanted, axis=1), atol=1e-9)
