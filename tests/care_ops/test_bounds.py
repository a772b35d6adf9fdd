"""The theorems' bounds hold on drawn models, with the paper's constants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from care_ops.aggregators.base import Problem
from care_ops.aggregators.care_svd import care_svd, fit_structure
from care_ops.config import FitConfig, StructureConfig
from care_ops.errors import InputError
from care_ops.fit import fit_panel
from care_ops.moments.state import accumulate
from care_ops.simulate import joint_gaussian
from care_ops.structure import bounds
from care_ops.structure.factors import extract
from tests.support.matrices import matrix


def orthonormal(rng: np.random.Generator, p: int, h: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(p, h)))[0]


def distances(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    sign = np.sign(np.sum(found * wanted, axis=0))
    return np.linalg.norm(found - sign * wanted, axis=0)


def leading(low_rank: np.ndarray, h: int) -> np.ndarray:
    return np.linalg.eigh(low_rank)[1][:, ::-1][:, :h]


def test_misspecification_bound_holds_on_a_thousand_models(rng):
    """At the population L, whenever the condition does."""
    held, tightest = 0, 0.0
    while held < 1_000:
        p, h = int(rng.integers(3, 30)), int(rng.integers(2, 5))
        connection = rng.normal(size=(p, h)) * np.r_[1.0, rng.uniform(0.0, 0.6, h - 1)]
        precision = rng.uniform(0.5, 2.0, h)
        found = bounds.misspecification(connection, precision)
        if not found.holds:
            continue
        held += 1
        assert found.deviation <= found.bound + 1e-12
        tightest = max(tightest, found.deviation / found.bound)
    print(f"\nthm:misspecification: 1,000 of 1,000 within the bound, the tightest at {tightest:.2f} of it")


def test_past_the_condition_nothing_is_promised(rng):
    connection = np.column_stack([np.r_[1.0, 1, 0, 0], np.r_[0, 0, 2.0, 2]])
    found = bounds.misspecification(connection, np.ones(2))
    assert not found.holds
    assert found.deviation == pytest.approx(np.sqrt(2))  # the confounder is the leading direction


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), p=st.integers(3, 25), h=st.integers(1, 3))
def test_orthonormal_connections_are_the_eigenvectors(seed, p, h):
    """thm:exact."""
    rng = np.random.default_rng(seed)
    connection, precision = orthonormal(rng, p, h), 1.0 / np.sort(rng.uniform(0.5, 3.0, h) + np.arange(h))[::-1]
    found = bounds.identifiability(bounds.low_rank_of(connection, precision), h)
    assert found.identified
    np.testing.assert_allclose(found.strengths, 1 / precision, rtol=1e-9)
    directions = extract(bounds.low_rank_of(connection, precision), np.eye(p)).directions
    assert distances(directions, connection).max() < 1e-7


def test_equal_strengths_are_not_identified(rng):
    connection = orthonormal(rng, 8, 2)
    assert not bounds.identifiability(bounds.low_rank_of(connection, np.ones(2)), 2).identified
    assert bounds.identifiability(bounds.low_rank_of(connection, np.array([1.0, 2.0])), 2).identified


def test_stability_bound_holds_on_a_thousand_models(rng):
    """thm:approx."""
    for _ in range(1_000):
        p, h = int(rng.integers(4, 25)), int(rng.integers(1, 4))
        connection, precision = orthonormal(rng, p, h), 1.0 / (3.0 * np.arange(h, 0, -1) + rng.uniform(0, 1, h))
        noise = rng.normal(size=(p, h)) * 10 ** rng.uniform(-4, -0.5) / np.sqrt(p)
        size = float(np.linalg.norm(noise, 2))
        gaps = bounds.identifiability(bounds.low_rank_of(connection, precision), h).gaps
        moved = leading(bounds.low_rank_of(connection + noise, precision), h)
        wanted = leading(bounds.low_rank_of(connection, precision), h)
        bound = bounds.directions_error((2 * size + size**2) / precision.min(), gaps)
        assert (distances(moved, wanted) <= bound + 1e-10).all()
        # to first order the paper's own constant, up to the sqrt(2) between a sine and a distance
        assert (bound >= 4 * size / precision.min() / gaps).all()


def test_direction_error_bound_holds_on_a_thousand_estimates(rng):
    """thm:sample, step 2."""
    for _ in range(1_000):
        p, h = int(rng.integers(4, 25)), int(rng.integers(1, 4))
        low_rank = bounds.low_rank_of(orthonormal(rng, p, h), 1.0 / (3.0 * np.arange(h, 0, -1)))
        noise = rng.normal(size=(p, p)) * 10 ** rng.uniform(-4, -1)
        estimate = low_rank + noise + noise.T
        gaps = bounds.identifiability(low_rank, h).gaps
        bound = bounds.directions_error(float(np.linalg.norm(estimate - low_rank, 2)), gaps)
        assert (distances(leading(estimate, h), leading(low_rank, h)) <= bound + 1e-10).all()


def test_care_svd_reports_the_theorems_on_its_factors(rng):
    """Of a planted model: the bound on a one-factor model, and how far an error of L turns the direction of quality."""
    draw = joint_gaussian(rng, n=4_000, p=12, confounders=1, strengths=(3.0, 0.8))
    values = draw.scores
    scores, moments = matrix(values), accumulate(values)
    structure, _ = fit_structure(moments, StructureConfig())
    fitted = care_svd(Problem(scores, moments, structure, rng))
    theory, strengths = fitted.details["theory"], np.array(fitted.details["strengths"])
    assert theory["identified"]
    assert theory["one_factor_bound"] == pytest.approx(2 * strengths[1] / strengths[0])
    quality = fitted.loadings[:, 0]
    for size in (0.001, 0.01):
        noise = rng.normal(size=(12, 12))
        noise = (noise + noise.T) * size * strengths[0] / np.linalg.norm(noise + noise.T, 2)
        turned = leading(structure.low_rank + noise, 1)[:, 0]
        distance = min(np.linalg.norm(turned - quality), np.linalg.norm(turned + quality))
        assert distance <= theory["direction_condition"] * size


def test_a_strong_confounder_leaves_no_bound(rng):
    draw = joint_gaussian(rng, n=4_000, p=12, confounders=1, strengths=(2.0, 1.8))
    fitted = fit_panel(matrix(draw.scores), FitConfig(aggregators=("care_svd",))).aggregates["care_svd"]
    assert fitted.details["theory"]["one_factor_bound"] is None


def test_impossible_models_are_reported():
    with pytest.raises(InputError, match="positive"):
        bounds.low_rank_of(np.ones((3, 1)), np.zeros(1))
    with pytest.raises(InputError, match=r"\(p, h\)"):
        bounds.low_rank_of(np.ones((3, 2)), np.ones(1))
    with pytest.raises(InputError, match="no direction"):
        bounds.misspecification(np.column_stack([np.zeros(3), np.ones(3)]), np.ones(2))
    with pytest.raises(InputError, match="factors"):
        bounds.identifiability(np.eye(3), 4)
