"""Tests of factors: cases in which each rule is right or wrong, invariances, the posterior."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from care_ops.aggregators import latent
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.models import factor_analysis
from care_ops.structure import factors as f
from care_ops.structure.factors import Factors
from tests.support.matrices import matrix

P, N = 12, 20_000


class Planted:
    """Scores of the joint Gaussian model with K_HH = I and given columns of K_JH, quality first."""

    def __init__(self, rng: np.random.Generator, quality: np.ndarray, confounder: np.ndarray) -> None:
        loadings = -np.column_stack([quality, confounder])
        inner = np.eye(P) * (1.0 + np.linalg.eigvalsh(loadings @ loadings.T)[-1])
        precision = np.block([[inner, loadings], [loadings.T, np.eye(2)]])
        draw = rng.standard_normal((N, P + 2)) @ np.linalg.cholesky(np.linalg.inv(precision)).T
        self.quality, self.confounder = draw[:, P], draw[:, P + 1]
        covariance = np.linalg.inv(inner - loadings @ loadings.T)
        scale = np.sqrt(np.diag(covariance))
        self.scores = draw[:, :P] / scale
        self.correlation = covariance / np.outer(scale, scale)
        self.low_rank = (loadings * scale[:, None]) @ (loadings * scale[:, None]).T
        self.direction = quality * scale / np.linalg.norm(quality * scale)
        self.factors = f.extract(self.low_rank, self.correlation)

    def names_quality(self, factors: Factors) -> bool:
        score = self.scores @ factors.weights
        return abs(np.corrcoef(score, self.quality)[0, 1]) > abs(np.corrcoef(score, self.confounder)[0, 1])


BROAD = np.ones(P)
FEW = np.r_[np.zeros(9), np.ones(3)]
HALF = np.r_[np.ones(6), np.zeros(6)]
SIGNED = np.tile([1.0, -1.0], P // 2)


def test_leading_is_right_where_quality_is_shared_most_and_wrong_where_a_confounder_is(rng):
    right = Planted(rng, 1.0 * BROAD, 0.8 * SIGNED)
    wrong = Planted(rng, 0.8 * SIGNED, 1.0 * BROAD)
    assert right.factors.rule == wrong.factors.rule == "leading"
    assert right.names_quality(right.factors)
    assert not wrong.names_quality(wrong.factors)


def test_balance_is_right_where_the_confounder_is_narrow_and_wrong_where_quality_is(rng):
    right = Planted(rng, 0.8 * BROAD, 1.6 * FEW)
    wrong = Planted(rng, 1.6 * FEW, 0.8 * BROAD)
    for planted, is_right in ((right, True), (wrong, False)):
        chosen = f.choose_by_balance(planted.factors)
        assert chosen.rule == "balance"
        assert planted.names_quality(chosen) == is_right
    assert not right.names_quality(right.factors)  # the leading factor is the narrow one


def test_labels_are_right_with_thirty_labels_and_wrong_with_unlucky_ones(rng):
    planted = Planted(rng, 0.8 * SIGNED, 1.0 * BROAD)
    some = rng.choice(N, 30, replace=False)
    chosen = f.choose_by_labels(planted.factors, planted.scores[some], -planted.quality[some])
    assert chosen.rule == "anchors"
    assert planted.names_quality(chosen)
    assert np.corrcoef(planted.scores @ chosen.weights, planted.quality)[0, 1] < 0  # the sign is the labels'
    assert chosen.orientation == pytest.approx(-planted.factors.agreements[chosen.quality])
    # two labels, drawn where confounder and quality happen to rise together
    both = planted.quality + planted.confounder
    unlucky = np.array([np.argmin(both), np.argmax(both)])
    misled = f.choose_by_labels(planted.factors, planted.scores[unlucky], planted.quality[unlucky])
    assert misled.rule == "anchors"
    assert misled.quality == 0  # both follow two points perfectly: the stronger is taken
    assert not planted.names_quality(misled)
    for labels in (np.array([1.0]), np.ones(3)):
        assert f.choose_by_labels(planted.factors, planted.scores[: len(labels)], labels) is planted.factors


def test_weak_factors_are_no_candidates(rng):
    planted = Planted(rng, 1.0 * BROAD, 0.05 * SIGNED)
    assert planted.factors.mass[1] < 0.1
    assert f.choose_by_balance(planted.factors).quality == 0


def recovered(planted: Planted, weights: np.ndarray) -> float:
    """Return the cosine between weights and K_JQ, the weights of E[Q | J]."""
    return float(weights @ planted.direction)


def test_subtraction_helps_overlapping_factors_harms_orthogonal_ones_and_spares_disjoint_ones(rng):
    last = np.r_[np.zeros(8), np.ones(4)]
    cases = {
        "overlapping": Planted(rng, 1.0 * BROAD, 1.2 * last),
        "orthogonal": Planted(rng, 1.0 * BROAD, 0.7 * np.r_[np.full(8, -0.5), np.ones(4)]),
        "disjoint": Planted(rng, 1.0 * (1 - last), 1.2 * last),
    }
    gains = {}
    for name, planted in cases.items():
        subtracted = f.subtract_confounders(planted.factors)
        gains[name] = recovered(planted, subtracted) - recovered(planted, planted.factors.weights)
    print("\nsubtracting confounders, change of cos to K_JQ:", {name: f"{gain:+.4f}" for name, gain in gains.items()})
    assert gains["overlapping"] > 0.01
    assert gains["orthogonal"] < -0.01
    assert gains["disjoint"] == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_sign_and_no_order_of_judges_matters(seed):
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(P, 3))
    correlation = np.corrcoef(loadings @ rng.normal(size=(3, 400)) + rng.normal(size=(P, 400)))
    low_rank = loadings @ loadings.T
    found, order = f.extract(low_rank, correlation), rng.permutation(P)
    flipped = Factors(found.strengths, found.directions * [1.0, -1.0, -1.0], found.agreements)
    np.testing.assert_allclose(f.subtract_confounders(flipped), f.subtract_confounders(found), atol=1e-12)
    there = np.ix_(order, order)
    moved = f.extract(low_rank[there], correlation[there])
    np.testing.assert_allclose(moved.directions, found.directions[order], atol=1e-8)
    np.testing.assert_allclose(moved.agreements, found.agreements, atol=1e-8)
    assert f.choose_by_balance(moved).quality == f.choose_by_balance(found).quality
    np.testing.assert_allclose(f.subtract_confounders(moved), f.subtract_confounders(found)[order], atol=1e-8)
    assert (found.agreements >= 0).all()


def test_posterior_is_the_conditional_gaussian(rng):
    planted = Planted(rng, 1.0 * BROAD, 0.8 * SIGNED)
    factors = planted.factors
    strength = float(factors.strengths[0])
    mean, sd = f.posterior(planted.scores, factors.weights, strength, planted.correlation)
    residual = planted.quality / planted.quality.std() - mean
    assert residual.std() == pytest.approx(sd[0], rel=0.02)
    assert np.cov(residual, mean)[0, 1] == pytest.approx(0.0, abs=0.01)
    holes = np.where(rng.random((N, P)) < 0.3, np.nan, planted.scores)
    mean, sd = f.posterior(holes, factors.weights, strength, planted.correlation)
    standardised = (planted.quality / planted.quality.std() - mean) / sd
    assert standardised.std() == pytest.approx(1.0, rel=0.02)  # the variance is right where scores are missing
    empty = np.full((1, P), np.nan)
    assert np.isnan(f.posterior(empty, factors.weights, strength, planted.correlation)).all()


def test_factors_below_a_millionth_of_the_trace_are_rounding_errors():
    assert f.extract(np.diag([100.0, 1e-5, 0.0]), np.eye(3)).strengths.shape == (1,)
    assert f.extract(np.diag([100.0, 1e-3, 0.0]), np.eye(3)).strengths.shape == (2,)
    np.testing.assert_allclose(f.extract(np.diag([3.0, 1.0, 0.0]), np.eye(3)).mass, [0.75, 0.25])


def test_an_empty_low_rank_part_is_reported():
    with pytest.raises(FitError, match="share no factor"):
        f.extract(np.zeros((4, 4)), np.eye(4))


def test_a_factor_whose_sign_is_not_known_rises_with_the_mean(monkeypatch, rng):
    quality = rng.normal(size=300)
    scores = matrix(quality[:, None] + rng.normal(size=(300, 5)))
    config = FitConfig(aggregators=("factor_analysis",))
    as_found = fit_panel(scores, config).aggregates["factor_analysis"]
    fit = factor_analysis.fit

    def turned(*given):
        model = fit(*given)
        return replace(model, loadings=-model.loadings)

    monkeypatch.setattr(latent.factor_analysis, "fit", turned)
    found = fit_panel(scores, config).aggregates["factor_analysis"]
    np.testing.assert_allclose(found.latent, as_found.latent)
    np.testing.assert_allclose(found.weights, as_found.weights)
    assert np.corrcoef(found.latent, quality)[0, 1] > 0.8
