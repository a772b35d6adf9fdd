"""The structure solver against cvxpy, closed forms and its own certificate."""

import numpy as np
import pytest

from care_ops.conic import solve_conic
from care_ops.errors import FitError, InputError
from care_ops.structure import solve


def random_correlation(rng: np.random.Generator, p: int, factors: int = 2) -> np.ndarray:
    loadings = rng.normal(size=(p, factors))
    covariance = loadings @ loadings.T + np.diag(rng.uniform(0.5, 2.0, p))
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.outer(scale, scale)


@pytest.mark.parametrize("program", ["frobenius", "dtrace"])
@pytest.mark.parametrize("p", [5, 11])
def test_objective_and_minimiser_equal_cvxpys(rng, program, p):
    sigma = random_correlation(rng, p)
    ours = solve(sigma, lambda_s=0.05, lambda_l=0.1, program=program, tolerance=1e-9)
    sparse, low_rank, objective = solve_conic(sigma, lambda_s=0.05, lambda_l=0.1, program=program)
    assert ours.certificate.primal == pytest.approx(objective, rel=1e-6)
    np.testing.assert_allclose(ours.precision, sparse - low_rank, atol=2e-4)


@pytest.mark.parametrize("program", ["frobenius", "dtrace"])
@pytest.mark.parametrize("lambdas", [(0.2, 0.3), (0.02, 0.05), (0.05, 2.0)])
def test_every_solve_is_certified(rng, program, lambdas):
    for p in (4, 20, 50):
        found = solve(random_correlation(rng, p), lambda_s=lambdas[0], lambda_l=lambdas[1], program=program)
        assert found.certificate.converged
        assert 0 <= found.certificate.gap <= 1e-6
        assert found.certificate.dual <= found.certificate.primal + 1e-6 * abs(found.certificate.primal)
        assert np.linalg.eigvalsh(found.low_rank)[0] >= -1e-10
        assert np.linalg.eigvalsh(found.precision)[0] >= -1e-9


def test_a_dear_low_rank_part_leaves_soft_thresholding(rng):
    sigma = random_correlation(rng, 8)
    found = solve(sigma, lambda_s=0.1, lambda_l=100.0, tolerance=1e-10, positive=False)
    theta = np.linalg.inv(sigma)
    np.testing.assert_allclose(found.low_rank, 0, atol=1e-8)
    wanted = np.sign(theta) * np.maximum(np.abs(theta) - 0.1, 0)
    np.testing.assert_allclose(found.sparse, wanted, atol=1e-4)


def test_order_of_judges_does_not_matter(rng):
    sigma = random_correlation(rng, 9)
    order = rng.permutation(9)
    one = solve(sigma, lambda_s=0.05, lambda_l=0.1, tolerance=1e-10)
    other = solve(sigma[np.ix_(order, order)], lambda_s=0.05, lambda_l=0.1, tolerance=1e-10)
    np.testing.assert_allclose(other.sparse, one.sparse[np.ix_(order, order)], atol=1e-6)
    np.testing.assert_allclose(other.low_rank, one.low_rank[np.ix_(order, order)], atol=1e-6)


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
        (np.ones((3, 3)), FitError, "singular"),
    ],
)
def test_bad_matrices_are_told(sigma, error, words):
    with pytest.raises(error, match=words):
        solve(sigma, lambda_s=0.1, lambda_l=0.1)


def test_penalties_must_be_positive():
    with pytest.raises(InputError, match="positive"):
        solve(np.eye(3), lambda_s=0.0, lambda_l=0.1)
