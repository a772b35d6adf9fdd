"""Observation models against what was planted and against densities written out."""

import numpy as np
import pytest
from scipy.stats import multivariate_t, norm, t

from care_ops.errors import FitError, InputError
from care_ops.models import observation
from care_ops.models.observation import Gaussian, Graded, Ordinal, ScaleMixture, StudentT
from tests.support.dependent_draws import dependent_judges
from tests.support.observed import (
    KINDS,
    error,
    found_parameters,
    gaussian,
    gaussian_score,
    models_of,
    observed_mixture,
    told_apart,
)

N = 6_000


@pytest.mark.parametrize("kind", KINDS)
def test_planted_parameters_come_back_and_beat_the_gaussian(kind):
    rng = np.random.default_rng(3)
    draw = observed_mixture(rng, kind, truth=1, n=N)
    fresh = observed_mixture(rng, kind, truth=1, n=N)
    model = observation.fit(draw.scores, models_of(draw.levels, kind, ordinal=True), 3, rng)
    assert model.converged
    off = error(found_parameters(model, draw), draw.parameters)
    gain = model.score(fresh.scores) - gaussian_score(gaussian(draw.scores, 3, rng), fresh.scores, draw.levels)
    right = told_apart(model.posterior(fresh.scores), fresh.states)
    print(f"\n{kind}: error {off:.4f}, held-out gain {gain:.3f}, {right:.3f} in their state")
    assert off < 0.04
    assert gain > 0.05
    assert right > 0.85


def test_states_are_those_of_the_likeliest_start_and_not_of_the_likeliest_gaussian_one():
    """Votes, grades and real judges with links: by Gaussian likelihood two starts agreed on worse states."""
    rng = np.random.default_rng([4, 3])
    draw = dependent_judges(rng, "mixed", n=10_000)
    real, graded = ([j for j, level in enumerate(draw.levels) if (level > 0) == some] for some in (False, True))
    models = [Gaussian(tuple(real)), Graded(tuple(graded), tuple(draw.levels[j] for j in graded))]
    model = observation.fit(draw.scores, models, 4, rng)
    assert told_apart(model.posterior(draw.scores), draw.states) > 0.9
    assert model.starts_agree


@pytest.mark.parametrize("kind", KINDS)
def test_em_climbs_and_missing_scores_leave_the_likelihood(kind):
    rng = np.random.default_rng(5)
    draw = observed_mixture(rng, kind, truth=2, n=1_500)
    holes = np.where(rng.random(draw.scores.shape) < 0.1, np.nan, draw.scores)
    start = 0.5 * np.eye(3)[draw.states] + 0.5 / 3
    steps = [
        observation.expectation_maximisation(
            holes, models_of(draw.levels, kind, ordinal=True), start, 0.0, k
        ).log_likelihood
        for k in (1, 2, 4, 8, 16)
    ]
    assert (np.diff(steps) > -1e-4).all(), steps
    model = observation.fit(holes, models_of(draw.levels, kind, ordinal=True), 3, rng)
    nothing = np.full((1, 9), np.nan)
    np.testing.assert_allclose(model.posterior(nothing)[0], model.weights)
    assert told_apart(model.posterior(draw.scores), draw.states) > 0.8


def test_densities_are_those_of_scipy(rng):
    x = rng.normal(size=(7, 2))
    means, sd = np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([0.5, 1.5])
    found = Gaussian((0, 1), means, sd**2).log_density(x)
    np.testing.assert_allclose(found, np.stack([norm.logpdf(x, m, sd).sum(axis=1) for m in means], axis=1))
    heavy = StudentT((0, 1), means, sd, np.array([3.0, 8.0])).log_density(x)
    np.testing.assert_allclose(heavy, np.stack([t.logpdf(x, [3, 8], m, sd).sum(axis=1) for m in means], axis=1))
    shared = ScaleMixture((0, 1), means, sd, 5.0).log_density(x)
    wanted = np.stack([multivariate_t(m, np.diag(sd**2), df=5.0).logpdf(x) for m in means], axis=1)
    np.testing.assert_allclose(shared, wanted)
    table = np.array([[0.2, 0.9], [0.8, 0.1]])
    votes = np.array([[0.0], [1.0], [np.nan]])
    np.testing.assert_allclose(Graded((0,), (2,), table).log_density(votes), np.log([[0.2, 0.9], [0.8, 0.1], [1, 1]]))
    cuts, location = np.array([-1.0, 0.5]), np.array([[0.0], [0.7]])
    graded = Ordinal((0,), (3,), location, (cuts,)).log_density(np.array([[0.0], [1.0], [2.0]]))
    below = 1 / (1 + np.exp(location.T - cuts[:, None]))
    np.testing.assert_allclose(np.exp(graded), np.stack([below[0], below[1] - below[0], 1 - below[1]]))


def test_a_wrong_model_costs(rng):
    """Outliers drag Gaussian means; unordered grades mean nothing as numbers."""
    draw = observed_mixture(rng, "categorical", truth=1, n=N)
    right = observation.fit(draw.scores, models_of(draw.levels, "categorical", ordinal=True), 3, rng)
    assert told_apart(right.posterior(draw.scores), draw.states) > 0.9
    assert told_apart(gaussian(draw.scores, 3, rng).posterior(draw.scores), draw.states) < 0.8


def test_bad_input_is_told(rng):
    values = rng.integers(0, 3, (50, 3)).astype(float)
    with pytest.raises(InputError, match="just one observation model"):
        observation.fit(values, [Gaussian((0, 1))], 2, rng)
    with pytest.raises(InputError, match="whole numbers"):
        observation.fit(values + 0.5, [Graded((0, 1, 2), (3, 3, 3))], 2, rng)
    with pytest.raises(FitError, match="leave it out"):
        observation.fit(np.column_stack([values, np.ones(50)]), [Gaussian((0, 1, 2, 3))], 2, rng)
    with pytest.raises(FitError, match="different rows"):
        observation.fit(np.repeat([[0.0, 1.0], [1.0, 0.0]], 20, axis=0), [Gaussian((0, 1))], 3, rng)
    with pytest.raises(FitError, match="fit it first"):
        Gaussian((0,)).log_density(values[:, :1])


@pytest.mark.filterwarnings("error")
def test_a_grade_that_no_judge_gives_leaves_the_states_as_they_are_and_warns_of_nothing():
    """Four grades were allowed and three were given, as where nobody ever says that an answer is perfect."""
    rng = np.random.default_rng(8)
    states = rng.integers(0, 2, 2_000)
    chance = np.array([[0.75, 0.2, 0.05], [0.05, 0.2, 0.75]])[states]
    grades = (rng.random((2_000, 6, 1)) > np.cumsum(chance, axis=1)[:, None, :]).sum(axis=2).astype(float)
    model = observation.fit(grades, [Graded(tuple(range(6)), (4,) * 6)], 2, rng)
    assert np.isfinite(model.log_likelihood)
    assert told_apart(model.posterior(grades), states) > 0.95
