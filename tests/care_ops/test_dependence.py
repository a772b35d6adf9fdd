"""Edges within states that were planted, and the densities written out; `make bench-tensor` has ten seeds of each."""

import itertools

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components
from scipy.stats import multivariate_normal, multivariate_t, norm, t

from assets.experiments.edges_within_states import measured, study
from assets.experiments.observation_models import told_apart
from care_ops.models.answers import Answers
from care_ops.models.dependence import (
    TailedScatter,
    conditional_mutual_information,
    dependent,
    likeliest_dependent,
    pseudo_likelihood,
)
from care_ops.models.joined_views import states_of
from care_ops.models.observation import Gaussian, Graded, ScaleMixture, StudentT, expectation_maximisation
from care_ops.simulate import dependent_judges
from care_ops.structure.views import Views

SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("binary", "categorical", "ordinal", "mixed")]


@pytest.mark.parametrize("kind", [*SLOW, "student", "scale mixture"])
def test_planted_edges_come_back_once_the_posterior_knows_them(kind):
    row = study(kind, 20_000 if kind == "binary" else 6_000, seeds=(1,))
    print(f"\n{kind}: " + ", ".join(f"{name} {value:.2f}" for name, value in row.items()))
    assert row["F1, with edges"] >= 0.9
    assert row["F1, with edges"] >= row["F1, independent"]
    assert row["in their state, with edges"] >= row["in their state, independent"] - 0.01


@pytest.mark.slow
def test_a_bad_start_is_mended_by_more_of_them():
    """The draw of votes on which one start takes edges for states: half a minute, for what no quick draw shows."""
    draw = measured("binary", 20_000, seed=4)
    assert draw["F1, one start"] < 0.7
    assert draw["F1, with edges"] == 1.0


def test_starts_that_end_elsewhere_are_compared_by_evidence_and_told(rng):
    """Four votes follow a state, and two others each other: from one start EM takes that link for the states."""
    n = 3_000
    state, first = rng.integers(0, 2, (2, n))
    copy = np.where(rng.random(n) < 0.95, first, 1 - first)
    following = [np.where(rng.random(n) < 0.85, state, 1 - state) for _ in range(4)]
    values = np.column_stack([first, copy, *following]).astype(float)
    by_link, by_state = np.eye(2)[first], np.eye(2)[state]
    bad, good = (dependent(values, (2,) * 6, start, tolerance=1e-6) for start in (by_link, by_state))
    assert not bad.edges[0, 1]
    assert np.argwhere(np.triu(good.edges)).tolist() == [[0, 1]]
    assert good.evidence(n) == pytest.approx(good.log_likelihood - 0.5 * np.log(n) / n), "the price of one coupling"
    drawn = iter([by_state, by_state])
    kept = likeliest_dependent(values, (2,) * 6, by_link, lambda: next(drawn))
    assert (kept.edges == good.edges).all()
    assert kept.starts_agree
    alone = iter([by_state, by_link, by_link, by_link])
    unsure = likeliest_dependent(values, (2,) * 6, by_link, lambda: next(alone))
    assert (unsure.edges == good.edges).all()
    assert not unsure.starts_agree, "the best end was reached once"


def test_joined_judges_show_states_that_a_link_hides(rng):
    """Two judges of the first view nearly always agree, whatever the state: independent judges are split by that."""
    n = 3_000
    state, first = rng.integers(0, 2, (2, n))
    copy = np.where(rng.random(n) < 0.95, first, 1 - first)
    following = [np.where(rng.random(n) < 0.8, state, 1 - state) for _ in range(4)]
    real = state + rng.normal(size=n)
    values = np.column_stack([first, copy, *following, real]).astype(float)
    levels = (2,) * 6 + (0,)
    by_link = 0.9 * np.eye(2)[first] + 0.05
    by_nothing = rng.dirichlet(np.ones(2), n)
    judges = [Graded(tuple(range(6)), (2,) * 6), Gaussian((6,))]
    independent = expectation_maximisation(values, judges, by_link, 1e-6, 300).posterior(values)
    views = Views((np.array([0, 1]), np.array([2, 3]), np.array([4, 5, 6])), 0.0, 0.0)
    joined = states_of(values, levels, views, [by_link, by_nothing])
    assert told_apart(independent, state) < 0.6
    assert told_apart(joined, state) > 0.85


def test_probabilities_of_grades_add_up(rng):
    draw = dependent_judges(rng, "categorical", n=2_000, p=6)
    model = dependent(draw.scores, draw.levels, rng.dirichlet(np.ones(2), 2_000), rounds=3)
    every = np.array(list(itertools.product((0.0, 1.0, 2.0), repeat=6)))
    assert np.exp(model.log_joint(every)).sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(model.couplings, model.couplings.T)


def test_a_mixed_density_integrates_to_one(rng):
    """A vote, two real judges, all linked: summed over the vote and integrated over the plane."""
    vote = rng.integers(0, 2, 4_000).astype(float)
    first = 0.5 * vote + rng.normal(size=4_000)
    values = np.column_stack([vote, first, 0.4 * first + 0.3 * vote + rng.normal(size=4_000)])
    model = dependent(values, (2, 0, 0), np.ones((4_000, 1)), rounds=2)
    assert model.edges[0, 1]
    assert model.edges[1, 2]
    total = sum(
        dblquad(
            lambda y, x, v=v: float(np.exp(model.log_joint(np.array([[v, x, y]]))[0, 0])), -7, 7, -7, 7, epsabs=1e-6
        )[0]
        for v in (0.0, 1.0)
    )
    assert total == pytest.approx(1.0, abs=1e-4)


def test_pseudo_likelihood_is_a_logit_regression_of_each_judge(rng):
    """With one state: multinomial logit of each judge on the others, the two coefficients of a pair averaged."""
    draw = dependent_judges(rng, "categorical", n=3_000, p=3)
    values = draw.scores
    model = pseudo_likelihood(values, draw.levels, np.ones((3_000, 1)))

    def logit(j):
        x = np.column_stack(
            [np.ones(3_000), *[(values[:, b] == g).astype(float) for b in range(3) if b != j for g in (1, 2)]]
        )

        def loss(flat):
            beta = flat.reshape(5, 2)
            energy = np.column_stack([np.zeros(3_000), x @ beta])
            chosen = energy[np.arange(3_000), values[:, j].astype(int)]
            return np.sum(np.logaddexp.reduce(energy, axis=1) - chosen) + 5e-4 * flat @ flat

        return minimize(loss, np.zeros(10), method="BFGS", options={"gtol": 1e-6}).x.reshape(5, 2)

    zero, one = logit(0), logit(1)
    np.testing.assert_allclose(model.fields[0, :2], zero[0], atol=2e-3)
    np.testing.assert_allclose(model.couplings[:2, 2:4], (zero[1:3].T + one[1:3]) / 2, atol=2e-3)


def test_gaussian_judges_are_the_gaussian_graphical_model(rng):
    """All judges real and one state: the couplings are minus the sample precision."""
    values = rng.normal(size=(2_000, 4)) @ rng.normal(size=(4, 4))
    values -= values.mean(axis=0)
    model = pseudo_likelihood(values, (0, 0, 0, 0), np.ones((2_000, 1)))
    np.testing.assert_allclose(-model.couplings, np.linalg.inv(np.cov(values.T, bias=True)), rtol=1e-3, atol=1e-4)


def test_tailed_densities(rng):
    correlation = np.array([[1.0, 0.4], [0.4, 1.0]])
    location, scale = np.array([[0.5, -1.0]]), np.array([2.0, 0.7])
    x = rng.normal(size=(20, 2))
    shared = TailedScatter(np.ones(1), ScaleMixture((0, 1), location, scale, 5.0), correlation)
    wanted = multivariate_t(location[0], correlation * np.outer(scale, scale), df=5.0).logpdf(x)
    np.testing.assert_allclose(shared.log_joint(x)[:, 0], wanted)
    own = TailedScatter(np.ones(1), StudentT((0, 1), location, scale, np.array([3.0, 6.0])), correlation)
    margins = [t(df, location[0, j], scale[j]) for j, df in enumerate((3.0, 6.0))]
    z = np.column_stack([norm.ppf(m.cdf(x[:, j])) for j, m in enumerate(margins)])
    copula = multivariate_normal([0, 0], correlation).logpdf(z) - norm.logpdf(z).sum(axis=1)
    np.testing.assert_allclose(own.log_joint(x)[:, 0], copula + sum(m.logpdf(x[:, j]) for j, m in enumerate(margins)))


def test_mutual_information_of_a_table():
    """Two votes that agree on three items of four, one state."""
    answers = Answers(np.array([[0, 0], [1, 1], [0, 1], [1, 0]] + [[0, 0], [1, 1]] * 2), [2, 2])
    found = conditional_mutual_information(answers, np.ones((8, 1)))
    assert found[0, 1] == pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5))


def test_more_judges_than_can_be_enumerated_keep_their_strongest_edges(rng):
    """Twelve judges, each copying the one before it, the second most often: three grades each are 531,441 patterns."""
    values = rng.integers(0, 3, (4_000, 12)).astype(float)
    for j in range(1, 12):
        values[:, j] = np.where(rng.random(4_000) < (0.8 if j == 1 else 0.5), values[:, j - 1], values[:, j])
    model = dependent(values, (3,) * 12, np.ones((4_000, 1)), rounds=1)
    assert model.edges[0, 1]
    assert np.bincount(connected_components(model.edges)[1]).max() <= 10
    assert model.edges.sum() // 2 == 10  # of the chain's eleven
    assert np.isfinite(model.log_likelihood)
