"""Tests of conditional means of missing scores against the textbook formula."""

import numpy as np
import pytest

from care_ops.moments.missing import condition


def holes(rng: np.random.Generator, values: np.ndarray, share: float) -> np.ndarray:
    return np.where(rng.random(values.shape) < share, np.nan, values)


def correlated(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    return rng.normal(size=(n, p)) @ (np.eye(p) + 0.5 * rng.normal(size=(p, p))) + rng.normal(size=p)


def test_conditional_mean_and_variance_by_the_textbook(rng):
    x = holes(rng, correlated(rng, 40, 5), 0.4)
    x[3] = np.nan
    correlation = np.corrcoef(correlated(rng, 200, 5).T)
    direction = rng.normal(size=5)
    filled, variance = condition(x, correlation, direction)
    for row, got, spread in zip(x, filled, variance, strict=True):
        seen, unseen = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
        regression = correlation[np.ix_(unseen, seen)] @ np.linalg.inv(correlation[np.ix_(seen, seen)])
        rest = correlation[np.ix_(unseen, unseen)] - regression @ correlation[np.ix_(seen, unseen)]
        np.testing.assert_allclose(got[unseen], regression @ row[seen], atol=1e-9)
        np.testing.assert_array_equal(got[seen], row[seen])
        assert spread == pytest.approx(direction[unseen] @ rest @ direction[unseen], abs=1e-9)
