"""Tests of factor analysis: exact models, conditional means with missing scores, simple structure."""

import numpy as np

from care_ops.models import factor_analysis


def test_one_factor_of_an_exact_model_is_found():
    loadings = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    correlation = np.outer(loadings, loadings) + np.diag(1 - loadings**2)
    found = factor_analysis.fit(correlation, 1)
    np.testing.assert_allclose(np.abs(found.loadings[:, 0]), loadings, atol=1e-6)
    np.testing.assert_allclose(found.uniqueness, 1 - loadings**2, atol=1e-6)


def test_factor_scores_are_the_conditional_mean_also_with_holes(rng):
    loadings = rng.uniform(0.3, 0.8, (6, 2)) * [[1, 1]] * 3 + 0.0
    model = factor_analysis.FactorModel(loadings[:6] * 0.5, np.full(6, 0.5), np.array([[1.0, 0.3], [0.3, 1.0]]))
    z = np.where(rng.random((20, 6)) < 0.3, np.nan, rng.normal(size=(20, 6)))
    found = factor_analysis.factor_scores(model, z)
    for row, got in zip(z, found, strict=True):
        seen = ~np.isnan(row)
        a = model.loadings[seen]
        covariance = a @ model.factor_correlation @ a.T + np.diag(model.uniqueness[seen])
        np.testing.assert_allclose(
            got, model.factor_correlation @ a.T @ np.linalg.solve(covariance, row[seen]), atol=1e-9
        )


def test_oblimin_finds_simple_structure_and_the_number_of_factors(rng):
    simple = np.zeros((12, 3))
    for k in range(3):
        simple[4 * k : 4 * k + 4, k] = rng.uniform(0.6, 0.9, 4)
    phi = np.array([[1.0, 0.3, 0.2], [0.3, 1.0, 0.1], [0.2, 0.1, 1.0]])
    correlation = simple @ phi @ simple.T
    correlation += np.diag(1 - np.diag(correlation))
    assert factor_analysis.number_of_factors(correlation, 10_000) == 3
    assert factor_analysis.number_of_factors(np.corrcoef(rng.normal(size=(12, 500))), 500) == 1
    found = factor_analysis.oblimin(factor_analysis.fit(correlation, 3))
    order = np.argmax(np.abs(found.loadings.T @ simple), axis=0)
    aligned = found.loadings[:, order] * np.sign(np.sum(found.loadings[:, order] * simple, axis=0))
    np.testing.assert_allclose(aligned, simple, atol=1e-3)
