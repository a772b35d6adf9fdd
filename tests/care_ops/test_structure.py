"""Tests of the structure solver against cvxpy, closed forms and its own certificate."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from care_ops.errors import FitError, InputError
from care_ops.structure import conic
from care_ops.structure import program as module
from care_ops.structure.program import solve
from care_ops.structure.views import partition
from tests.support.matrices import random_correlation
from tests.support.panels import recorded_correlation


@pytest.mark.parametrize("p", [5, 11, 24, pytest.param(50, marks=pytest.mark.slow)])
def test_objective_and_minimiser_equal_cvxpys(rng, p):
    agrees_with_cvxpy(random_correlation(rng, p))


@pytest.mark.data
@pytest.mark.parametrize("name", ["care_asset", "care_civilcomments"])
def test_objective_and_minimiser_equal_cvxpys_on_real_panels(data_dir, name):
    agrees_with_cvxpy(recorded_correlation(data_dir / name))


def agrees_with_cvxpy(sigma: np.ndarray) -> None:
    penalties = {"lambda_s": 0.05, "lambda_l": 0.1}
    ours = solve(sigma, tolerance=1e-10, **penalties)
    primal, sparse, low_rank = conic.solve(sigma, **penalties)
    assert ours.certificate.primal == pytest.approx(primal, rel=1e-6)
    np.testing.assert_allclose(ours.precision, sparse - low_rank, atol=1e-3)
    # The loss depends only on S - L; here the penalties leave one way to split it.
    np.testing.assert_allclose(ours.sparse, sparse, atol=2e-3)
    np.testing.assert_allclose(ours.low_rank, low_rank, atol=2e-3)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    p=st.integers(2, 16),
    lambda_s=st.floats(1e-4, 1.0),
    tau=st.floats(0.1, 10.0),
)
@example(seed=14, p=10, lambda_s=1.0, tau=0.5)
@example(seed=1, p=13, lambda_s=1.0, tau=0.25)
def test_any_panel_any_penalty_converges_whatever_the_order(seed, p, lambda_s, tau):
    """In the examples, the precision is singular at the optimum."""
    rng = np.random.default_rng(seed)
    sigma, order = random_correlation(rng, p), rng.permutation(p)
    options = {"lambda_s": lambda_s, "lambda_l": lambda_s * tau}
    one, other = solve(sigma, **options), solve(sigma[np.ix_(order, order)], **options)
    for found in (one, other):
        certificate = found.certificate
        assert certificate.converged, certificate
        assert certificate.gap <= certificate.tolerance, certificate
    # each optimum lies between the other's bounds
    assert other.certificate.dual <= one.certificate.primal + 1e-9
    assert one.certificate.dual <= other.certificate.primal + 1e-9


@pytest.mark.parametrize("lambdas", [(0.2, 0.3), (0.02, 0.05), (0.05, 2.0)])
def test_every_solve_is_certified(rng, lambdas):
    for p in (4, 20, 50, 120):
        found = solve(random_correlation(rng, p), lambda_s=lambdas[0], lambda_l=lambdas[1])
        assert found.certificate.converged
        assert 0 <= found.certificate.gap <= 1e-6
        assert found.certificate.dual <= found.certificate.primal + 1e-6 * abs(found.certificate.primal)
        assert np.linalg.eigvalsh(found.low_rank)[0] >= -1e-10
        assert np.linalg.eigvalsh(found.precision)[0] >= -1e-9


def test_a_dear_low_rank_part_leaves_soft_thresholding(rng):
    sigma = 0.5 * (random_correlation(rng, 8) + np.eye(8))  # so far from singular that R stays inside the cone
    found = solve(sigma, lambda_s=0.1, lambda_l=100.0, tolerance=1e-10)
    theta = np.linalg.inv(sigma)
    np.testing.assert_allclose(found.low_rank, 0, atol=1e-8)
    wanted = np.sign(theta) * np.maximum(np.abs(theta) - 0.1, 0)
    np.testing.assert_allclose(found.sparse, wanted, atol=1e-4)


def test_too_few_iterations_are_admitted(rng):
    found = solve(random_correlation(rng, 10), lambda_s=0.01, lambda_l=0.02, tolerance=1e-14, max_iterations=20)
    assert not found.certificate.converged
    assert found.certificate.iterations == 20


@pytest.mark.parametrize(
    ("sigma", "error", "words"),
    [
        (np.ones((2, 3)), InputError, "square"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), InputError, "NaN"),
        (np.array([[1.0, 0.5], [0.1, 1.0]]), InputError, "symmetric"),
        (1e-6 * np.array([[1.0, 0.0], [1e-3, 1.0]]), InputError, "symmetric"),
        (np.ones((3, 3)), FitError, "singular"),
        (np.diag([1.0, 1e-12]), FitError, "singular"),
    ],
)
def test_bad_matrices_are_reported(sigma, error, words):
    with pytest.raises(error, match=words):
        solve(sigma, lambda_s=0.1, lambda_l=0.1)


def test_rounding_errors_of_a_covariance_in_large_units_are_no_asymmetry():
    assert solve(1e6 * np.eye(2) + [[0, 1e-5], [0, 0]], lambda_s=0.1, lambda_l=0.1).certificate.converged


@pytest.mark.parametrize(("lowest", "leaves_cone"), [(0.02, True), (4.0, False)])
def test_the_cone_is_added_only_if_the_solution_leaves_it(lowest, leaves_cone):
    """Soft-thresholding of a nearly singular precision gives a negative eigenvalue."""
    sigma = np.linalg.inv(np.array([[1.0, 3.0], [3.0, 9.0]]) + lowest * np.eye(2))
    admm = module._Consensus(sigma, 0.3, 3.0)
    sparse, low_rank, certificate = admm.run(1e-8, 1_000)
    assert (admm.with_cone, certificate.converged) == (leaves_cone, True)
    assert (np.linalg.eigvalsh(sparse - low_rank)[0] < 1e-6) == leaves_cone
    assert certificate.primal == pytest.approx(conic.solve(sigma, lambda_s=0.3, lambda_l=3.0)[0], rel=1e-6)


def test_penalties_must_be_positive():
    with pytest.raises(InputError, match="positive"):
        solve(np.eye(3), lambda_s=0.0, lambda_l=0.1)


@pytest.mark.parametrize("p", [5, 7, 9])
def test_edges_between_views_are_at_most_the_smallest_that_leaves_three_groups(rng, p):
    """The expected value tries all edges one after another."""
    for _ in range(20):
        strength = np.triu(rng.choice([0.0, 1.0, 2.0, 3.0, 4.0], (p, p)), 1)
        strength = strength + strength.T
        good = []
        for edge in np.unique(strength):
            count, label = connected_components(strength > edge, directed=False)
            good += [edge] if count >= 3 and np.bincount(label).max() <= -(-p // 3) else []
        home = np.empty(p)
        for number, group in enumerate(partition(strength)):
            home[group] = number
        assert strength[home[:, None] != home[None, :]].max() <= min(good)


@pytest.mark.parametrize("variance", [1.0, 0.01])
def test_however_early_a_solve_ends_its_bounds_hold_the_optimum(rng, variance):
    for p in (6, 12):
        sigma = variance * random_correlation(rng, p)
        penalties = {"lambda_s": 1.0, "lambda_l": 3.0}
        optimum = solve(sigma, tolerance=1e-9, **penalties).certificate
        slack = 1e-8 * max(1.0, abs(optimum.primal))
        for most in (10, 20, 40, 80):
            early = solve(sigma, max_iterations=most, **penalties)
            assert early.certificate.dual <= optimum.primal + slack
            assert early.certificate.primal >= optimum.dual - slack
            assert np.linalg.eigvalsh(early.precision)[0] >= -1e-9


def test_an_objective_has_settled_well_within_the_tolerance_when_a_solve_ends():
    """The certificate would accept a solution a whole tolerance above the optimum."""
    gaps = []
    for seed in range(8):
        sigma = random_correlation(np.random.default_rng(seed), 4 + seed)
        penalties = {"lambda_s": 0.05, "lambda_l": 2.0}
        optimum = solve(sigma, tolerance=1e-9, **penalties).certificate.primal
        ended = solve(sigma, tolerance=1e-2, **penalties).certificate
        assert ended.converged
        assert ended.primal - optimum < 0.2 * 1e-2 * max(1.0, abs(optimum))
        gaps.append(ended.gap)
    assert max(gaps) > 1e-4, "a solve ends before objective and bound have met"


@pytest.mark.parametrize("cone", [False, True])
def test_copies_are_tied_by_the_nearest_ones_that_fulfil_the_ties(rng, cone):
    """The expected projection comes from least squares: R - S + L = 0 and, if there is P, P = R."""
    sigma = random_correlation(rng, 4)
    admm = module._Consensus(sigma, 0.1, 0.1)
    admm.with_cone = cone
    ties = np.array([[1.0, -1.0, 1.0, 0.0], [1.0, 0.0, 0.0, -1.0]]) if cone else np.array([[1.0, -1.0, 1.0]])
    copies = rng.normal(size=(ties.shape[1], 4, 4))
    away = np.linalg.pinv(ties) @ ties
    np.testing.assert_allclose(admm._project(copies), copies - np.einsum("ab,bij->aij", away, copies), atol=1e-12)


def test_a_gap_equal_to_the_tolerance_is_small_enough(rng, monkeypatch):
    monkeypatch.setattr(module, "_SETTLED", np.inf)
    sigma = random_correlation(rng, 8)
    first = solve(sigma, lambda_s=0.05, lambda_l=0.1, tolerance=1e-4).certificate
    again = solve(sigma, lambda_s=0.05, lambda_l=0.1, tolerance=first.gap).certificate
    assert (again.iterations, again.converged) == (first.iterations, True)


@pytest.mark.parametrize(("ratio", "factor"), [(1.0, 1.0), (3.9, 1.0), (0.26, 1.0), (9.0, 3.0), (0.01, 0.1), (1e6, 10)])
def test_the_penalty_is_scaled_where_residuals_differ_by_a_factor_of_four_or_more(rng, ratio, factor):
    """The factor is the root of the ratio of the relative residuals, and at most ten."""
    admm = module._Consensus(random_correlation(rng, 4), 0.1, 0.1)
    admm.x = np.ones((3, 4, 4))
    admm.z, admm.u = 0.9 * admm.x, admm.x
    before = admm.z - 0.1 / ratio * admm.u
    assert admm._balance(before) == (factor != 1.0)
    assert admm.rho == pytest.approx(0.01 * factor)
    np.testing.assert_allclose(admm.u * admm.rho, 0.01, err_msg="the multiplier stays")


def test_cvxpy_is_asked_only_where_it_can_help(rng, monkeypatch):
    sigma = random_correlation(rng, 6)
    converged = solve(sigma, lambda_s=0.05, lambda_l=0.1)
    short = solve(sigma, lambda_s=0.05, lambda_l=0.1, max_iterations=3)
    monkeypatch.setattr(conic, "solve", None)
    assert conic.sharpen(converged, sigma) is converged
    for most in (6, 5):
        monkeypatch.setattr(conic, "MOST_JUDGES", most)
        with pytest.raises(TypeError) if most == 6 else nullcontext():
            assert conic.sharpen(short, sigma) is short
    monkeypatch.setattr(conic, "MOST_JUDGES", 6)
    monkeypatch.setattr(conic, "find_spec", lambda name: None)
    assert conic.sharpen(short, sigma) is short


def test_a_structure_that_stops_short_is_solved_again_by_cvxpy(rng):
    sigma = random_correlation(rng, 12)
    short = solve(sigma, lambda_s=0.05, lambda_l=0.1, max_iterations=3)
    assert not short.certificate.converged
    sharp, exact = conic.sharpen(short, sigma), solve(sigma, lambda_s=0.05, lambda_l=0.1)
    assert sharp.certificate.primal == pytest.approx(exact.certificate.primal, rel=1e-6)
    assert sharp.certificate.gap < short.certificate.gap
    assert sharp.certificate.converged == (sharp.certificate.gap <= sharp.certificate.tolerance)
    assert conic.sharpen(exact, sigma) is exact
