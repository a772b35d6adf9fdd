"""Views, tensor decomposition and EM against exact moments, tensorly and closed forms."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm
from tensorly.decomposition import parafac

from care_ops.errors import FitError
from care_ops.models import cp, mixture
from care_ops.moments.state import accumulate
from care_ops.simulate import four_state_mixture, grouped_mixture
from care_ops.structure.views import CLEAR_EDGE, Views, fisher_z, largest_cross_edge, partition, partition_within


def thirds(p: int) -> Views:
    groups = tuple(np.array_split(np.arange(p), 3))
    return Views(groups, 0.0, 0.0)  # type: ignore[arg-type]


def exact_tensor(means: np.ndarray, weights: np.ndarray, views: Views) -> np.ndarray:
    """Population moment of the augmented, centred views."""
    centred = means - weights @ means
    columns = [np.column_stack([np.ones(len(weights)), centred[:, g]]) for g in views.groups]
    return np.einsum("r,ra,rb,rc->abc", weights, *columns)


def matched_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Relative error of means under the best permutation of states."""
    norm = np.linalg.norm(wanted)
    k = range(len(wanted))
    return min(float(np.linalg.norm(found[list(order)] - wanted) / norm) for order in itertools.permutations(k))


def test_exact_moments_give_exact_components(rng):
    truth = four_state_mixture(rng, n=10, p=12)
    views = thirds(12)
    found = cp.decompose(exact_tensor(truth.means, truth.weights, views), views, 4, rng)
    assert matched_error(found.means, truth.means - truth.weights @ truth.means) < 1e-8
    np.testing.assert_allclose(sorted(found.weights), sorted(truth.weights), atol=1e-8)
    assert found.warning is None


def test_tensorly_finds_the_same_components(rng):
    truth = four_state_mixture(rng, n=200_000, p=12, noise=0.3)
    views = thirds(12)
    tensor = cp.augmented_moment(accumulate(truth.scores), views)
    ours = cp.decompose(tensor, views, 4, rng)
    fits = [parafac(tensor, 4, n_iter_max=2_000, tol=1e-12, init="random", random_state=s) for s in range(5)]
    rebuilt = [np.einsum("r,ar,br,cr->abc", w, *f) for w, f in fits]
    best = fits[int(np.argmin([np.linalg.norm(r - tensor) for r in rebuilt]))]
    factors = [f / f[0] for f in best[1]]  # the constant coordinate of every mean is one
    theirs = np.concatenate([f[1:] for f in factors]).T
    assert matched_error(ours.means, theirs) < 0.02


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


def test_posterior_is_bayes_rule(rng):
    model = mixture.Mixture(np.array([0.3, 0.7]), np.array([[0.0], [2.0]]), np.array([[1.0]]), 0.0, 0, True, "")
    x = np.array([[0.5]])
    density = np.array([0.3, 0.7]) * np.exp(-0.5 * (x[0] - model.means[:, 0]) ** 2)
    np.testing.assert_allclose(model.posterior(x)[0], density / density.sum(), rtol=1e-12)


def test_views_keep_connected_judges_together(rng):
    sparse = np.eye(9)
    for a, b in ((0, 4), (4, 8), (1, 2), (3, 7)):
        sparse[a, b] = sparse[b, a] = 0.4
    found = partition(sparse, tolerance=0.1)
    home = {j: k for k, group in enumerate(found.groups) for j in group}
    assert sorted(home) == list(range(9))
    assert home[0] == home[4] == home[8]
    assert home[1] == home[2]
    assert home[3] == home[7]
    assert found.largest_cross_edge == 0.0 == largest_cross_edge(sparse, found.groups)


def test_dense_graphs_raise_the_tolerance_just_enough(rng):
    sparse = rng.uniform(0.01, 1.0, (10, 10))
    sparse = (sparse + sparse.T) / 2
    found = partition(sparse)
    assert max(len(g) for g in found.groups) <= 4
    assert found.largest_cross_edge <= found.tolerance
    with pytest.raises(FitError, match="tolerance"):
        partition(sparse, tolerance=0.0)
    with pytest.raises(FitError, match="three judges"):
        partition(np.eye(2))


def test_a_moment_within_its_noise_is_warned_of(rng):
    truth = four_state_mixture(rng, n=400, p=12)
    z = (truth.scores - truth.scores.mean(axis=0)) / truth.scores.std(axis=0)
    views = thirds(12)
    found = cp.decompose(cp.augmented_moment(accumulate(z), views), views, 4, rng, items=400)
    assert found.smallest < found.noise
    assert "within sampling noise" in found.warning


def test_two_way_moments_leave_a_rotation_open(rng):
    truth = four_state_mixture(rng, n=10, p=12)
    views = thirds(12)
    centred = truth.means - truth.weights @ truth.means
    found = cp.two_way_baseline(exact_tensor(truth.means, truth.weights, views), views, 4)
    weighted = centred * np.sqrt(truth.weights)[:, None]
    u, _, vt = np.linalg.svd(weighted @ found.T)
    assert np.linalg.norm(u @ vt @ found - weighted) < 0.35 * np.linalg.norm(weighted)
    assert matched_error(found, centred) > 0.2  # no permutation mends it


def test_fourth_order_corners_are_the_states_of_additive_latents(rng):
    """Means add up and Q, C are independent and even: the third moment vanishes, the fourth does not."""
    q, c = rng.integers(0, 2, (2, 4_000))
    quality, confounder = rng.uniform(0.5, 1.5, (2, 12))
    scores = np.outer(2 * q - 1, quality) + np.outer(2 * c - 1, confounder) + rng.normal(scale=0.5, size=(4_000, 12))
    x = scores - scores.mean(axis=0)
    subspace = cp.cross_view_subspace(accumulate(x).covariance(), thirds(12), 2)
    centres = mixture.fourth_order(x, subspace, 4, rng)
    wanted = np.array([a * quality + b * confounder for a in (-1, 1) for b in (-1, 1)])
    assert matched_error(centres, wanted) < 0.05


def test_a_full_covariance_is_found_and_wants_complete_rows(rng):
    draw, edges = grouped_mixture(rng, n=8_000, p=12, noise=0.5)
    centres = [(str(s), mixture.k_means_plus_plus(draw.scores, 4, rng)) for s in range(8)]
    found, _ = mixture.best_of(draw.scores, centres, shape="full")
    within = draw.scores - draw.means[draw.states]
    np.testing.assert_allclose(found.covariance, np.cov(within.T), atol=0.03)
    steps = [
        mixture.expectation_maximisation(
            draw.scores, found.weights, found.means + 0.3, np.eye(12), shape="full", max_iterations=k, tolerance=-np.inf
        ).log_likelihood
        for k in range(6)
    ]
    assert (np.diff(steps) > -1e-10).all()
    z = fisher_z(found.covariance, 8_000)
    assert ((np.abs(z) > 5) == edges).mean() > 0.98
    views = partition_within(found.covariance, 8_000)
    home = {j: g for g, group in enumerate(views.groups) for j in group}
    assert not any(edges[a, b] for a in range(12) for b in range(12) if home[a] != home[b])
    with pytest.raises(FitError, match="without missing scores"):
        mixture.expectation_maximisation(
            np.where(rng.random((8_000, 12)) < 0.1, np.nan, draw.scores),
            *mixture.start_near(draw.scores, draw.means),
            shape="full",
        )


def test_em_with_and_without_holes_is_the_same_em(rng):
    truth = four_state_mixture(rng, n=2_000, p=6, noise=0.7)
    start = mixture.start_near(truth.scores, truth.means)
    whole = mixture.expectation_maximisation(truth.scores, *start)
    one_hole = truth.scores.copy()
    one_hole[0, 0] = np.nan
    holed = mixture.expectation_maximisation(one_hole, *start)
    np.testing.assert_allclose(holed.means, whole.means, atol=2e-2)
    assert holed.log_likelihood == pytest.approx(whole.log_likelihood, abs=1e-2)


def test_judges_that_all_hang_together_within_states_are_cut_where_they_hang_least():
    covariance = 0.5 * np.ones((9, 9)) + 0.5 * np.eye(9)  # every partial correlation is clear
    for third in range(3):
        covariance[3 * third : 3 * third + 3, 3 * third : 3 * third + 3] += 0.3 * (1 - np.eye(3))
    views = partition_within(covariance, 200_000)
    assert sorted(sorted(group.tolist()) for group in views.groups) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert views.largest_cross_edge > CLEAR_EDGE


def test_shares_of_a_start_are_one_together_also_where_a_centre_has_no_item(rng):
    values = rng.normal(size=(50, 3))
    weights, means, _ = mixture.start_near(values, np.array([[0.0] * 3, [100.0] * 3, [-100.0] * 3]))
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weights[0] > 0.99
    assert (weights[1:] > 0).all(), "a centre without an item may still gain some"
    np.testing.assert_allclose(means[0], values.mean(axis=0))


def test_a_link_of_seven_standard_errors_holds_judges_in_one_view():
    """Nine judges, of which three by three have this partial correlation with one another, and none with others."""
    items = 2_000
    partial = np.tanh(7.0 / np.sqrt(items - 9 - 1))
    own = np.arange(9) // 3
    precision = np.where(own[:, None] == own[None, :], -partial, 0.0)
    np.fill_diagonal(precision, 1.0)
    views = partition_within(np.linalg.inv(precision), items)
    assert sorted(sorted(group.tolist()) for group in views.groups) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert views.largest_cross_edge == pytest.approx(0.0, abs=1e-6)


def test_log_densities_of_independent_judges_are_those_of_the_general_case(rng):
    means, variance = rng.normal(size=(3, 5)), rng.uniform(0.5, 2.0, 5)
    fit = mixture.Mixture(np.array([0.2, 0.3, 0.5]), means, np.diag(variance), 0.0, 0, True, "given")
    values = rng.normal(size=(50, 5))
    direct = np.log(fit.weights) + np.stack(
        [norm.logpdf(values, mean, np.sqrt(variance)).sum(axis=1) for mean in means], axis=1
    )
    np.testing.assert_allclose(fit.log_joint(values), direct, atol=1e-10)
