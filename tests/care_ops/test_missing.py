"""EM and conditional means against closed forms and brute force."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.moments.missing import condition, em_moments, expected_sums, gaussian_by_em
from care_ops.moments.state import accumulate
from tests.support.matrices import matrix


def fit(values: np.ndarray, **options):
    return gaussian_by_em(lambda m, c: expected_sums(values, m, c), accumulate(values), **options)


def holes(rng: np.random.Generator, values: np.ndarray, share: float) -> np.ndarray:
    return np.where(rng.random(values.shape) < share, np.nan, values)


def correlated(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    return rng.normal(size=(n, p)) @ (np.eye(p) + 0.5 * rng.normal(size=(p, p))) + rng.normal(size=p)


def test_without_holes_it_is_the_sample_covariance(rng):
    x = correlated(rng, 500, 5)
    found = fit(x)
    np.testing.assert_allclose(found.mean, x.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(found.covariance, np.cov(x.T, bias=True), atol=1e-10)


def test_monotone_holes_have_a_closed_form(rng):
    """Anderson (1957): regress the judge with holes on the complete one, over the items that have both."""
    x = correlated(rng, 2_000, 2)
    x[x[:, 0] > x[:, 0].mean(), 1] = np.nan  # missing at random, and far from by chance
    both = ~np.isnan(x[:, 1])
    slope, intercept = np.polyfit(x[both, 0], x[both, 1], 1)
    residual = np.mean((x[both, 1] - intercept - slope * x[both, 0]) ** 2)
    found = fit(x, tolerance=1e-12, max_iterations=5_000)
    assert found.converged
    assert found.mean[1] == pytest.approx(intercept + slope * x[:, 0].mean(), rel=1e-7)
    assert found.covariance[0, 1] == pytest.approx(slope * x[:, 0].var(), rel=1e-7)
    assert found.covariance[1, 1] == pytest.approx(residual + slope**2 * x[:, 0].var(), rel=1e-7)
    assert abs(accumulate(x).mean()[1] - found.mean[1]) > 0.1  # pairwise-complete moments are off


def test_likelihood_is_that_of_the_scores_present_and_climbs(rng):
    x = holes(rng, correlated(rng, 60, 4), 0.3)
    x[5] = np.nan
    mean, covariance = np.zeros(4), np.eye(4)
    likelihoods = []
    for _ in range(12):
        sums = expected_sums(x, mean, covariance)
        likelihoods.append(sums.log_likelihood)
        direct = 0.0
        for row in x:
            seen = ~np.isnan(row)
            if seen.any():
                direct += multivariate_normal.logpdf(row[seen], mean[seen], covariance[np.ix_(seen, seen)])
        assert sums.log_likelihood == pytest.approx(direct, rel=1e-10)
        step = sums.first / sums.n
        mean, covariance = mean + step, sums.second / sums.n - np.outer(step, step)
    assert sums.n == (~np.isnan(x)).any(axis=1).sum() < 60
    assert (np.diff(likelihoods) > 0).all()


def test_sums_over_pieces_add(rng):
    x = holes(rng, correlated(rng, 400, 5), 0.2)
    mean, covariance = np.zeros(5), np.cov(correlated(rng, 100, 5).T)
    whole = expected_sums(x, mean, covariance)
    total = expected_sums(x[:130], mean, covariance)
    for start in (130, 260, 390):
        total = total + expected_sums(x[start : start + 130], mean, covariance)
    np.testing.assert_allclose(total.second, whole.second, rtol=1e-10)
    assert total.log_likelihood == pytest.approx(whole.log_likelihood)


def test_completed_moments_carry_the_fit(rng):
    x = holes(rng, correlated(rng, 800, 4), 0.2)
    moments, expect = accumulate(x), lambda m, c: expected_sums(x, m, c)
    state, found = em_moments(moments, expect)
    np.testing.assert_allclose(state.mean(), found.mean, atol=1e-10)
    np.testing.assert_allclose(state.covariance(), found.covariance, atol=1e-10)
    scale = np.sqrt(np.diag(found.covariance))
    np.testing.assert_allclose(state.correlation(), found.covariance / np.outer(scale, scale), atol=1e-10)
    assert state.n == moments.n
    np.testing.assert_array_equal(state.sum3, moments.sum3)
    whole = accumulate(correlated(rng, 50, 4))
    assert em_moments(whole, expect) == (whole, None)


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


def test_copies_and_too_few_items_are_told(rng):
    x = correlated(rng, 100, 3)
    with pytest.raises(FitError, match="singular"):
        fit(np.column_stack([x, x[:, 0]]))
    with pytest.raises(FitError, match="more than the items"):
        fit(correlated(rng, 6, 10))


def test_too_few_iterations_are_admitted(rng):
    x = holes(rng, correlated(rng, 300, 4), 0.4)
    assert not fit(x, max_iterations=2).converged


def test_a_fit_says_whether_em_came_to_an_end(rng):
    values = rng.normal(size=(200, 1)) + rng.normal(size=(200, 8))
    values[:95, :4], values[105:, 4:] = np.nan, np.nan  # two blocks of judges that have ten items in common
    complete = fit_panel(matrix(np.nan_to_num(values, nan=0.3)), FitConfig(aggregators=("care",), missing="em"))
    assert "em_converged" not in complete.structure_details
    told = fit_panel(matrix(values), FitConfig(aggregators=("care",), missing="em"), solve="not").structure_details
    wanted = gaussian_by_em(lambda m, c: expected_sums(values, m, c), accumulate(values))
    assert (told["em_converged"], told["em_iterations"]) == (wanted.converged, wanted.iterations)


@pytest.mark.parametrize("unit", [1e-5, 1e5])
def test_the_unit_in_which_judges_score_changes_nothing(rng, unit):
    x = holes(rng, correlated(rng, 300, 4), 0.2)
    as_given, in_units = fit(x), fit(unit * x)
    np.testing.assert_allclose(in_units.covariance / unit**2, as_given.covariance, rtol=1e-6)
    copied = np.column_stack([x, x[:, :1]])
    with pytest.raises(FitError, match="judges copy one another"):
        gaussian_by_em(lambda m, c: expected_sums(unit * copied, m, c), accumulate(unit * copied), tolerance=1e-12)
