"""Tests of moments against explicit sums and numpy's estimators."""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from care_ops.errors import FitError, InputError
from care_ops.moments import state as moments
from care_ops.moments.state import accumulate, shrink


def with_holes(rng: np.random.Generator, values: np.ndarray, share: float) -> np.ndarray:
    return np.where(rng.random(values.shape) < share, np.nan, values)


def equal(found: np.ndarray, wanted: np.ndarray, name: str) -> None:
    """Assert equality within 1e-12 of the largest entry."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * max(1.0, float(np.abs(wanted).max())), err_msg=name)


@pytest.mark.parametrize("shift", [None, np.arange(6.0)])
def test_covariance_and_mean_equal_numpy(rng, shift):
    """The shift differs from the mean, because some errors of the shift vanish at the mean."""
    x = rng.normal(5, 2, (700, 6)) @ rng.normal(size=(6, 6))
    m = accumulate(x, shift)
    np.testing.assert_allclose(m.variance(), x.var(axis=0), rtol=1e-11)
    np.testing.assert_allclose(m.standardise(x), (x - x.mean(axis=0)) / x.std(axis=0), atol=1e-10)
    np.testing.assert_allclose(m.mean(), x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(m.covariance(), np.cov(x.T, bias=True), rtol=1e-11)
    np.testing.assert_allclose(m.correlation(), np.corrcoef(x.T), rtol=1e-10)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
@pytest.mark.parametrize(("n", "p"), [(1, 1), (257, 3), (600, 24), (60, 90)])
def test_sums_equal_a_product_of_all_items_at_once(rng, monkeypatch, n, p, share):
    x = with_holes(rng, rng.normal(40, 3, (n, p)), share)
    shift = np.full(p, 39.0)
    y, present = np.nan_to_num(x - shift), (~np.isnan(x)).astype(float)
    wanted = {"count1": present.sum(axis=0), "sum1": y.sum(axis=0), "count2": present.T @ present, "sum2": y.T @ y}
    wanted |= {"partial2": y.T @ present, "square2": (y**2).T @ present}
    of_third = {
        name: np.einsum("na,nb,nc->abc", z, z, z, optimize=True) for name, z in (("count3", present), ("sum3", y))
    }
    monkeypatch.setattr(moments, "_BLOCK_ROWS", 25)
    found, without_third = accumulate(x, shift), accumulate(x, shift, third=False)
    for name, sums in (wanted | of_third).items():
        equal(getattr(found, name), sums, name)
    for name in wanted:
        np.testing.assert_array_equal(getattr(without_third, name), getattr(found, name))


def test_the_default_shift_is_the_mean_of_the_first_1024_scores_present(rng):
    x = rng.normal(size=(5_000, 3))
    x[:3_000, 1] = np.nan
    x[1:2_000:2, 2] = np.nan
    wanted = [column[~np.isnan(column)][:1_024].mean() for column in x.T]
    np.testing.assert_allclose(moments.default_shift(x), wanted, rtol=1e-12)
    np.testing.assert_array_equal(moments.default_shift(np.full((4, 2), np.nan)), [0.0, 0.0])


@pytest.mark.parametrize(
    ("location", "deviation", "constant"),
    [(1.0, 8 * 2.0**-52, True), (1.0, 9 * 2.0**-52, False), (0.0, 0.0, True), (0.0, 1e-70, False)],
)
def test_a_judge_is_constant_up_to_the_rounding_error_of_its_mean(rng, location, deviation, constant):
    x = rng.normal(size=(64, 3))
    x[:, 1] = location + deviation * np.tile([-1.0, 1.0], 32)
    expected = pytest.raises(FitError, match="judge 'bob' gives every item the same score")
    with expected if constant else contextlib.nullcontext():
        accumulate(x).correlation(("ann", "bob", "cy"))


def test_third_moment_equals_einsum(rng):
    x = rng.exponential(size=(500, 7)) + 3
    y = x - x.mean(axis=0)
    groups = np.array([0, 3]), np.array([1, 5, 6]), np.array([2, 4])
    wanted = np.einsum("ni,nj,nk->ijk", *(y[:, g] for g in groups)) / len(x)
    for shift in (None, np.arange(7.0)):
        np.testing.assert_allclose(accumulate(x, shift).third_central(*groups), wanted, rtol=1e-8, atol=1e-11)


def test_missing_scores_count_pair_by_pair(rng):
    x = with_holes(rng, rng.normal(size=(400, 4)), 0.2)
    found = accumulate(x)
    for a in range(4):
        for b in range(4):
            both = ~np.isnan(x[:, a]) & ~np.isnan(x[:, b])
            pair = np.cov(x[both, a], x[both, b], bias=True)
            assert found.covariance()[a, b] == pytest.approx(pair[0, 1], abs=1e-12)
            if a != b:
                assert found.correlation()[a, b] == pytest.approx(np.corrcoef(x[both, a], x[both, b])[0, 1], abs=1e-12)


def test_location_costs_no_digits(rng):
    x = rng.normal(size=(5_000, 3))
    near, far = accumulate(x).covariance(), accumulate(x + 1e6).covariance()
    np.testing.assert_allclose(far, near, rtol=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 300), max_size=4))
def test_states_of_disjoint_items_add(seed, cuts):
    rng = np.random.default_rng(seed)
    x = with_holes(rng, rng.normal(10, 3, (300, 4)), 0.1)
    shift = np.full(4, 10.0)
    edges = [0, *sorted(cuts), 300]
    parts = [accumulate(x[a:b], shift) for a, b in itertools.pairwise(edges)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    whole = accumulate(x, shift)
    assert total.n == whole.n
    for name in ("count1", "sum1", "count2", "sum2", "partial2", "square2", "count3", "sum3"):
        equal(getattr(total, name), getattr(whole, name), name)


def test_states_with_different_shifts_do_not_add(rng):
    x = rng.normal(size=(50, 3))
    with pytest.raises(InputError, match="shift"):
        accumulate(x, np.zeros(3)) + accumulate(x, np.ones(3))


def test_judges_without_a_common_item_are_named_in_order(rng):
    x = rng.normal(size=(60, 7))
    x[:30, 1] = x[30:, 4] = np.nan
    names = tuple("abcdefg")
    with pytest.raises(FitError, match="judges 'b' and 'e' have no scored items in common; drop one"):
        accumulate(x).covariance(names)
    x[:30, :3] = x[30:, 3:] = np.nan
    with pytest.raises(FitError, match=r"judges 'a' and 'd' .* the judges form 2 separate groups"):
        accumulate(x).covariance(names)
    x[:, 5] = np.nan
    with pytest.raises(FitError, match="judge 'f' has no score"):
        accumulate(x).covariance(names)


@pytest.mark.parametrize(("location", "scale"), [(0.0, 1e-60), (1e9, 1.0), (0.0, 1e60), (1e-9, 1e-12)])
def test_no_scale_passes_for_constant(rng, location, scale):
    x = location + scale * rng.normal(size=(200, 3))
    np.testing.assert_allclose(accumulate(x).correlation(), np.corrcoef(x.T), atol=1e-5)


@pytest.mark.parametrize(
    ("p", "r", "n", "intensity"),
    [(2, 0.5, 100, 0.08), (4, 0.5, 100, 19.5 / 301.5), (2, 0.5, 3, 1.0), (3, 0.0, 50, 1.0)],
)
def test_shrinkage_is_that_of_equation_23(p, r, n, intensity):
    """Expected values are computed by hand for equal correlations."""
    correlation = np.full((p, p), r) + (1 - r) * np.eye(p)
    shrunk, found = shrink(correlation, n)
    assert found == pytest.approx(intensity)
    np.testing.assert_allclose(shrunk - np.eye(p), (1 - intensity) * (correlation - np.eye(p)), atol=1e-12)


@pytest.mark.parametrize("lowest", [-0.01, 0.0, 7e-5, 9.9e-5])
def test_the_smallest_eigenvalue_of_what_is_shrunk_is_a_ten_thousandth_at_least(lowest):
    """The number of items is infinite, so only the eigenvalue causes shrinkage."""
    shrunk, _ = shrink(np.array([[1.0, 1 - lowest], [1 - lowest, 1.0]]), 10**12)
    assert np.linalg.eigvalsh(shrunk)[0] == pytest.approx(1e-4)


@pytest.mark.parametrize("level", [0.0, 0.1, 3.0, -7.3])
@pytest.mark.parametrize("seed", range(5))
def test_a_judge_that_does_not_vary_where_another_scored_shows_nothing_of_it(seed, level):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 1)) + rng.normal(size=(60, 3))
    x[:, 0] = level
    rows = rng.choice(60, 4, replace=False)
    x[rows, 0] = level + 1
    x[rows, 1] = np.nan
    correlation = accumulate(x).correlation()
    assert correlation[0, 1] == correlation[1, 0] == 0
    np.testing.assert_allclose(correlation[0, 2], np.corrcoef(x[:, 0], x[:, 2])[0, 1])
