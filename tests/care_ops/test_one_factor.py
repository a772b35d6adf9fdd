"""Tests of one common factor, its misfit, and the strength of a second factor."""

import numpy as np
import pytest
from scipy.optimize import minimize

from care_ops.models import one_factor


def test_loadings_have_the_least_absolute_residuals(rng):
    """The expected loadings come from a general minimiser with many starts."""
    p = 6
    a = rng.uniform(0.3, 0.9, p)
    correlation = np.outer(a, a)
    correlation[0, 1] = correlation[1, 0] = 0.95
    pairs = ~np.eye(p, dtype=bool)
    found = one_factor.common_loadings(correlation, pairs)

    def loss(loadings):
        """Return Huber's loss, which is a square up to .03."""
        off = np.abs(correlation - np.outer(loadings, loadings))[pairs]
        return np.where(off < 0.03, off**2 / 0.06, off - 0.015).sum()

    best = min(minimize(loss, start, method="Nelder-Mead", tol=1e-10).fun for start in rng.uniform(0.2, 0.9, (8, p)))
    assert loss(found) <= best + 1e-6
    np.testing.assert_allclose(found[2:], a[2:], atol=0.02)


@pytest.mark.parametrize("shared", [0.0, 0.15])
def test_sampling_error_is_no_misfit(rng, shared):
    """The misfit is about 0 without pairwise effects, and otherwise their root mean square."""
    p, n, found = 12, 300, []
    a = np.full(p, 0.7)
    correlation = np.outer(a, a) + np.diag(1 - a**2)
    half = np.arange(p) < p // 2
    correlation[np.ix_(half, half)] += shared * (1 - np.eye(p // 2))
    lower = np.linalg.cholesky(correlation)
    for _ in range(20):
        found.append(one_factor.fit(np.corrcoef((rng.normal(size=(n, p)) @ lower.T).T), n).misfit)
    assert np.mean(found) < 0.02 if shared == 0.0 else 0.03 < np.mean(found) < shared


def test_a_second_factor_is_as_strong_as_the_judges_that_follow_it(rng):
    n = 5_000
    quality, style = rng.normal(size=(2, n, 1))
    x = quality + 0.7 * rng.normal(size=(n, 10))
    one = one_factor.fit(np.corrcoef(x.T), n)
    assert one.second < 0.05
    x[:, 5:] += 1.5 * style
    two = one_factor.fit(np.corrcoef(x.T), n)
    assert two.second > 0.2
    assert two.first_group[:5].all() != two.first_group[5:].all()


def test_equally_good_judges_weigh_nearly_the_same(rng):
    x = rng.normal(size=(100, 1)) + rng.normal(size=(100, 8))
    weights = one_factor.fit(np.corrcoef(x.T), 100).weights
    assert weights.max() < 1.5 * weights.min()


@pytest.mark.parametrize("items", [40, 1_000])
def test_loadings_shrink_by_their_sampling_error(items):
    """The reliability of the other judges follows Spearman and Brown; without differences all loadings are equal."""
    raw, pairs = np.array([0.9, 0.8, 0.6, 0.5, 0.7, 0.4]), ~np.eye(6, dtype=bool)
    square = np.mean(raw**2)
    reliability = 5 * square / (1 + 4 * square)
    variance = (1 - square * reliability) ** 2 / (items * reliability)
    trust = raw.var() - variance
    found = one_factor._shrunk(raw, pairs, items)
    np.testing.assert_allclose(found, raw.mean() + trust / (trust + variance) * (raw - raw.mean()))
    np.testing.assert_allclose(one_factor._shrunk(raw, pairs, 4), raw.mean())
    few = pairs.copy()
    few[0, 2:] = few[2:, 0] = False
    kept = np.abs(one_factor._shrunk(raw, few, items) - raw) / np.abs(found - raw)
    assert kept[0] == kept.max(), "a judge that is compared with one other judge has the largest sampling error"
