"""Tests of uncertainty: intervals of weights, standard deviations of estimates, and metrics of calibration."""

import numpy as np
import pytest
from scipy.stats import norm

from care_ops.config import FitConfig
from care_ops.errors import InputError
from care_ops.fit import fit_panel
from care_ops.fit_labels import FitLabels
from care_ops.metrics import calibration_error, evaluate, risk_coverage_gain
from care_ops.models import factor_analysis
from care_ops.results.uncertainty import weight_intervals
from tests.support.matrices import matrix, shuffled


def panel(rng: np.random.Generator, n: int = 400, noise: tuple[float, ...] = (0.4, 0.6, 0.8, 1.0, 1.2)) -> np.ndarray:
    return rng.normal(size=(n, 1)) + rng.normal(size=(n, len(noise))) * np.array(noise)


@pytest.mark.slow
def test_intervals_cover_the_weights_of_endless_items():
    """This test has 25 draws of 90 % intervals; benchmarks/results/bench-coverage.md has 200."""
    config = FitConfig(aggregators=("uws", "factor_analysis"), resamples=40)
    endless = fit_panel(matrix(panel(np.random.default_rng(0), 200_000)), config).aggregates
    hits = []
    for seed in range(1, 26):
        found = weight_intervals(matrix(panel(np.random.default_rng(seed))), config)
        hits += [(f.lo <= endless[n].weights) & (endless[n].weights <= f.hi) for n, f in found.items()]
    print(f"\ncoverage {np.mean(hits):.3f}")
    assert 0.8 <= np.mean(hits) <= 0.97


def test_intervals_do_not_depend_on_order_and_widen_with_split_units(rng):
    values = np.repeat(panel(rng, 40), 10, axis=0) + rng.normal(scale=0.05, size=(400, 5))
    scores, config = matrix(values), FitConfig(aggregators=("uws", "care_svd"), resamples=40)
    units = [f"u{k // 10}" for k in range(400)]
    moved, order, judges = shuffled(scores, rng)
    one = weight_intervals(scores, config, units=units)
    other = weight_intervals(moved, config, units=[units[k] for k in order])
    for name in config.aggregators:
        np.testing.assert_allclose(other[name].lo, one[name].lo[judges], atol=1e-8)
    assert one["care_svd"].loadings_lo.shape == (5, one["care_svd"].loadings_hi.shape[1])
    row_by_row = weight_intervals(scores, config)["uws"]
    by_unit = one["uws"]
    assert np.mean(by_unit.hi - by_unit.lo) > 2 * np.mean(row_by_row.hi - row_by_row.lo)


def test_many_items_are_resampled_in_part_and_scaled(rng):
    scores, config = matrix(panel(rng, 4_000)), FitConfig(aggregators=("uws",), resamples=100)
    whole = weight_intervals(scores, config)["uws"]
    part = weight_intervals(scores, config, most_items=500)["uws"]
    assert np.mean(part.hi - part.lo) == pytest.approx(np.mean(whole.hi - whole.lo), rel=0.25)


def test_intervals_with_labels_and_bad_input(rng):
    values = panel(rng)
    scores = matrix(values)
    seen_labels = FitLabels({scores.item_ids[k]: float(values[k].mean()) for k in range(0, 400, 8)})
    found = weight_intervals(scores, FitConfig(aggregators=("avg", "best_judge", "mv"), resamples=20), seen_labels)
    assert set(found) == {"avg", "best_judge"}  # mv has no weights
    assert found["best_judge"].hi.max() == 1.0
    with pytest.raises(InputError, match="resamples is 3; give 0 for no intervals, or at least 20"):
        FitConfig(resamples=3)
    assert weight_intervals(scores, FitConfig(resamples=0)) == {}
    with pytest.raises(InputError, match="belong to one split unit"):
        weight_intervals(scores, FitConfig(), units=["u"] * 400)


def test_the_sd_is_the_posterior_and_grows_with_holes_and_strife(rng):
    loadings = np.array([[0.8], [0.7], [0.6], [0.5]])
    model = factor_analysis.FactorModel(loadings, 1 - loadings[:, 0] ** 2, np.eye(1))
    z = np.array([[0.5, 0.4, 0.3, 0.2], [0.5, np.nan, 0.3, np.nan], [2.0, -2.0, 2.0, -2.0], [np.nan] * 4])
    sd = factor_analysis.posterior_sd(model, z)
    scores = factor_analysis.factor_scores(model, z)[:, 0]
    seen = [~np.isnan(row) for row in z[:3]]
    parts = [(loadings[s, 0], model.uniqueness[s]) for s in seen]
    residuals = [np.mean((z[k, seen[k]] - scores[k] * a) ** 2 / u) for k, (a, u) in enumerate(parts)]
    for k, (a, u) in enumerate(parts):
        noise = (residuals[k] / np.mean(residuals) + 0.5) / 1.5
        assert sd[k] ** 2 == pytest.approx(noise / (1 + np.sum(a**2 / u)))
    assert sd[1] > sd[0]
    assert sd[2] > 2 * sd[0]
    assert sd[3] == 1.0


@pytest.mark.parametrize(("spread", "least"), [(np.linspace(0.5, 2.0, 8), 0.86), (np.array([0.4, 2.5, 2.5, 2.5]), 0.7)])
def test_nine_answers_in_ten_stay_within_their_interval_when_the_judges_noise_is_drawn_again(spread, least):
    """In the second panel, one of four judges is good, and the estimate is noisier than the factor."""
    rng = np.random.default_rng(67)
    quality, answers, sds = rng.normal(size=300), [], []
    for _ in range(12):
        x = quality[:, None] + rng.normal(size=(300, len(spread))) * spread
        found = fit_panel(matrix(x), FitConfig(aggregators=("care",)), solve="not").aggregates["care"]
        answers.append(found.estimate)
        sds.append(found.sd)
    others = (np.sum(answers, axis=0) - answers) / (len(answers) - 1)
    covered = np.mean(np.abs(answers - others) < norm.ppf(0.95) * np.array(sds))
    assert least < covered < 0.93


def test_care_gives_an_sd_that_finds_errors(rng):
    quality, loud = rng.normal(size=2_000), rng.random(2_000) < 0.3
    noise = np.where(loud, 2.5, 0.5)[:, None] * rng.normal(size=(2_000, 8))
    found = fit_panel(matrix(quality[:, None] + noise), FitConfig(aggregators=("care",), cut=0.0)).aggregates["care"]
    assert found.sd[loud].mean() > 1.5 * found.sd[~loud].mean()
    gold = (quality > 0).astype(float)
    with_sd = evaluate(found.estimate, gold, threshold=0.0, scale=None, sd=found.sd)
    without = evaluate(found.estimate, gold, threshold=0.0, scale=None)
    assert with_sd.risk_coverage > without.risk_coverage + 0.02


def test_risk_coverage_is_nought_for_chance_and_one_for_an_oracle(rng):
    wrong = rng.random(3_000) < 0.2
    assert risk_coverage_gain(wrong.astype(float), wrong) == pytest.approx(1.0, abs=0.01)
    assert abs(risk_coverage_gain(rng.random(3_000), wrong)) < 0.1
    assert risk_coverage_gain(np.ones(3_000), wrong) == pytest.approx(0.0, abs=1e-12)  # all alike: any order
    assert risk_coverage_gain(-wrong.astype(float), wrong) < -0.5
    assert risk_coverage_gain(np.ones(3), np.zeros(3, bool)) is None
    concern, few = np.array([0.1, 0.2, 0.3, 0.4]), np.array([False, True, False, True])
    curve = np.mean([0, 1 / 2, 1 / 3, 2 / 4])
    best = np.mean([0, 0, 1 / 3, 2 / 4])
    assert risk_coverage_gain(concern, few) == pytest.approx((0.5 - curve) / (0.5 - best))


def test_calibration_error_by_hand():
    probability, gold = np.array([0.05, 0.05, 0.95, 0.95]), np.array([0.0, 1.0, 1.0, 1.0])
    assert calibration_error(probability, gold) == pytest.approx(0.5 * 0.45 + 0.5 * 0.05)
    assert calibration_error(np.array([1.0, 0.0]), np.array([1.0, 0.0])) == 0.0


def test_a_resample_on_which_nobody_can_answer_is_left_out(rng):
    """With few items and near-copies, some resamples are singular; they are fast, and are counted."""
    base = rng.integers(0, 3, 30).astype(float)
    values = np.column_stack([base, base, 2 - base, rng.integers(0, 3, 30), rng.integers(0, 3, 30)])
    found = weight_intervals(matrix(values), FitConfig(aggregators=("uws", "care_svd"), resamples=25))
    assert found["uws"].resamples <= 25
    assert all(i.resamples >= 20 for i in found.values())


@pytest.mark.parametrize("scores", [(0.0, 1.0), (0.1, 0.2)])  # the mean of sixty times .1 is not .1 in floating point
def test_a_resample_in_which_a_judge_never_varies_has_no_weights(scores):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(60, 1)) + rng.normal(size=(60, 5))
    values[:, 4] = scores[0]
    values[7, 4] = scores[1]
    interval = weight_intervals(matrix(values), FitConfig(aggregators=("uws",), resamples=100))["uws"]
    assert 45 <= interval.resamples <= 82  # the other score is drawn in 63.5 of 100, give or take 4.8
