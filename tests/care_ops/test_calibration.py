"""Tests of declared scales and thresholds: which results a declaration may change."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import cauchy, rankdata

from care_ops.calibration import prevalence_threshold, probability_curve, to_labels, to_panel_scale
from care_ops.config import Calibration, FitConfig
from care_ops.errors import FitError, InputError
from care_ops.fit import fit_panel
from care_ops.fit_labels import FitLabels
from tests.support.matrices import matrix

SOME = ("care", "mv", "avg", "care_svd", "median")


@pytest.fixture
def scores(rng):
    quality = rng.normal(size=300)
    return matrix(np.clip(5 + quality[:, None] + rng.normal(scale=0.8, size=(300, 6)), 0, 10))


def fitted(scores, seen_labels=None, **declared):
    config = FitConfig(aggregators=SOME, cut=5.0, scale=(0.0, 10.0), calibration=Calibration(**declared))
    return fit_panel(scores, config, seen_labels or FitLabels({}), solve="roughly").aggregates


def test_the_scale_of_labels_changes_no_order_and_no_decision(scores):
    seen_labels = FitLabels({scores.item_ids[k]: float(k % 10) for k in range(12)})
    own = fitted(scores, seen_labels)
    for name, found in fitted(scores, seen_labels, scale="anchors").items():
        np.testing.assert_array_equal(rankdata(found.estimate), rankdata(own[name].estimate))
        differs = (found.estimate > found.threshold) != (own[name].estimate > own[name].threshold)
        assert differs.mean() < 0.01, name
        assert found.details["scale"] != own[name].details.get("scale")


def test_few_labels_shift_the_estimate_and_many_also_set_its_slope(scores):
    gold = 2.0 * scores.values.mean(axis=1) - 3.0
    few = FitLabels({scores.item_ids[k]: float(gold[k]) for k in range(9)})
    many = FitLabels({scores.item_ids[k]: float(gold[k]) for k in range(40)})
    shifted = fitted(scores, few, scale="anchors")["avg"]
    average = scores.values.mean(axis=1)
    np.testing.assert_allclose(shifted.estimate - average, np.mean((gold - average)[:9]) * 9 / 12)
    assert shifted.labels_used == 9
    np.testing.assert_allclose(fitted(scores, many, scale="anchors")["avg"].estimate, gold, atol=1e-9)


@pytest.mark.parametrize("prevalence", [0.1, 0.5, 0.83])
def test_a_declared_prevalence_is_met(scores, prevalence):
    for name, found in fitted(scores, prevalence=prevalence).items():
        share = np.mean(found.estimate > found.threshold)
        assert share == pytest.approx(prevalence, abs=0.01 if name != "mv" else 0.2)  # votes are often equal
        assert str(prevalence) in found.details["threshold"]


def test_sd_follows_the_scale(scores):
    labels = FitLabels({scores.item_ids[k]: 3.0 * float(scores.values[k].mean()) for k in range(40)})
    own, tripled = fitted(scores, labels)["care"], fitted(scores, labels, scale="anchors")["care"]
    ratio = np.std(tripled.estimate) / np.std(own.estimate)
    assert ratio == pytest.approx(3.0, rel=0.1)
    np.testing.assert_allclose(tripled.sd, own.sd * ratio)


@pytest.mark.parametrize(("unit", "offset"), [(0.15, -1.0), (5.0, -20.0)], ids=["mixed scales", "narrow judges"])
def test_twenty_labels_on_another_scale_than_the_judges_give_level_and_spread(scores, unit, offset):
    quality = scores.values.mean(axis=1)
    gold = offset + unit * quality + 0.2 * unit * np.random.default_rng(4).normal(size=300)
    seen_labels = FitLabels({scores.item_ids[k]: float(gold[k]) for k in range(20)})
    config = FitConfig(aggregators=("care",), cut=None, calibration=Calibration("anchors"))
    placed = fit_panel(scores, config, seen_labels, solve="not").aggregates["care"].estimate
    assert placed.mean() == pytest.approx(gold.mean(), abs=0.1 * gold.std())
    assert placed.std() == pytest.approx(gold.std(), rel=0.15)


def test_a_slope_by_few_labels_is_steadier_than_that_of_least_squares_and_keeps_the_order():
    drawn = np.random.default_rng(1).normal(size=(200, 2, 6))
    unrelated = [to_labels(x, 3.0 * label)[1] for x, label in drawn]
    assert min(unrelated) > 0.0
    assert np.std(unrelated) < 0.5 * np.std([np.polyfit(x, 3.0 * label, 1)[0] for x, label in drawn])
    rises = np.arange(9.0)
    assert to_labels(rises, 3.0 * rises) == (pytest.approx(0.0), pytest.approx(3.0))
    assert to_labels(rises, 3.0 * rises, declared=True)[1] == 1.0, "the declared scale is the better guess yet"
    assert to_labels(rises[:4], 3.0 * rises[:4])[1] == 1.0
    assert to_labels(rises, np.full(9, 2.0))[1] == 1.0, "labels that are all alike tell no slope"


def test_small_pieces():
    assert to_labels(np.array([]), np.array([])) is None
    assert to_labels(np.full(40, 2.0), np.arange(40.0)) == (pytest.approx(17.5 * 40 / 43), 1.0)
    falling = np.arange(40.0)
    assert to_labels(falling, -falling) == (pytest.approx(-19.5), 0.0)
    assert prevalence_threshold(np.array([1.0, 2.0, 3.0, 4.0, np.nan]), 0.5) == 2.5


def test_declarations_that_cannot_be_are_reported(scores):
    with pytest.raises(InputError, match="use own or anchors"):
        Calibration("evenly")
    with pytest.raises(InputError, match="share between 0 and 1"):
        Calibration(prevalence=1.0)
    with pytest.raises(FitError, match="label a random sample"):
        fitted(scores, scale="anchors")


def test_an_estimate_that_is_the_same_for_every_item_is_put_at_the_mean_of_the_scores():
    mean = np.arange(60.0)
    placed, _, unit = to_panel_scale(np.full(60, 0.1), mean)  # whose mean is not .1 in floating point
    assert unit == 0
    np.testing.assert_array_equal(placed, np.full(60, mean.mean()))


@pytest.mark.parametrize("seed", range(7))
def test_a_probability_is_the_logits_mean_over_its_posterior_however_skewed_the_latent_is(seed):
    rng = np.random.default_rng(seed)
    m = 30 if seed < 6 else 1_000
    latent = rng.exponential(size=m) if seed % 2 else np.exp(rng.normal(size=m))
    latent = (latent - 1) / latent.std()
    labels = (rng.random(m) < expit(rng.normal() + (seed % 4) * latent)).astype(float)
    labels[:2] = 0, 1
    curve = probability_curve(latent, labels)
    if np.cov(latent, labels)[0, 1] <= 0:
        assert curve is None
        return
    # by importance sampling from the priors themselves, or near the posterior where these are much wider than it
    draws = 100_000 if m < 1_000 else 40_000
    intercept, slope = 1.5 * rng.standard_cauchy(draws), 1.5 + 0.75 * rng.standard_cauchy(draws)
    log = np.zeros(draws)
    if m == 1_000:
        intercept, slope = rng.normal(size=(2, draws)) * 0.5 + np.array([[0.5], [1.5]])
        log = cauchy.logpdf(intercept, 0, 1.5) + cauchy.logpdf(slope, 1.5, 0.75)
        log += 2 * ((intercept - 0.5) ** 2 + (slope - 1.5) ** 2)
    for x, y in zip(latent, labels, strict=True):
        log += y * (intercept + slope * x) - np.logaddexp(0, intercept + slope * x)
    weight = np.where(slope >= 0, np.exp(log - log.max()), 0.0)
    for at in (-1.0, 0.0, 0.7, 2.0):
        expected = np.average(expit(intercept + slope * at), weights=weight)
        assert np.interp(at, *curve) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("least", "number", "most"),
    [(0.3, 20, 0.04), pytest.param(0.3, 50, 0.04, marks=pytest.mark.slow), (1.0, 20, 0.06)],
)
def test_what_is_reported_to_be_likely_is_so_with_good_judges_and_with_weak_ones(least, number, most):
    """Votes have logistic errors; items without a label are counted."""
    stated, right = [], []
    for seed, spread in enumerate(np.linspace(least, 2.0, 8)):
        rng = np.random.default_rng([seed, number])
        truth = (rng.random(300) < 0.5).astype(float)
        votes = (spread * (2 * truth[:, None] - 1) + rng.logistic(size=(300, 8)) > 0).astype(float)
        scores = matrix(votes)
        labelled = rng.choice(300, number, replace=False)
        seen_labels = FitLabels({scores.item_ids[i]: truth[i] for i in labelled})
        found = fit_panel(scores, FitConfig(("care",)), seen_labels, solve="not").aggregates["care"]
        if found.p_quality is not None:
            others = ~np.isin(np.arange(300), labelled)
            stated.append(np.maximum(found.p_quality, 1 - found.p_quality)[others])
            right.append(((found.p_quality > 0.5) == (truth > 0.5))[others])
    assert len(stated) > 6
    assert np.mean(np.concatenate(stated)) == pytest.approx(np.mean(np.concatenate(right)), abs=most)


def decided(found) -> np.ndarray:
    return found.estimate > found.threshold


@pytest.mark.parametrize("cut", [0.5, 2.5, 4.5, 9.0])  # below all scores, between them, above them
def test_a_threshold_beyond_all_scores_decides_as_before(rng, cut):
    quality = rng.normal(size=(400, 1))
    grades = np.clip(np.round(3 + 1.2 * quality + rng.normal(size=(400, 6))), 1, 5)
    scores = matrix(grades)
    labels = {scores.item_ids[k]: float(grades[k, 0]) for k in range(40)}
    seen_labels = FitLabels(labels)

    def fit(scale):
        calibration = Calibration(scale=scale)
        config = FitConfig(aggregators=("care", "avg"), cut=cut, scale=(1.0, 5.0), resamples=0, calibration=calibration)
        return fit_panel(scores, config, seen_labels, solve="not").aggregates

    own = fit("own")
    for name, found in fit("anchors").items():
        np.testing.assert_array_equal(decided(found), decided(own[name]))
