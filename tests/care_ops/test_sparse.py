"""Tests of sparse panels: detection, one factor by EM, and concerns about few scores and unconnected judges."""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import kendalltau

from care_ops.admission import check_panel
from care_ops.aggregators.sparse_panel import estimate_sparse_panel
from care_ops.config import AdmissionRule, FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel, problem_of
from care_ops.fit_labels import FitLabels
from care_ops.metrics import auc
from care_ops.models import factor_analysis, sparse_factor
from care_ops.results.coverage import coverage_of
from care_ops.results.decide import FitStatus, decide
from care_ops.results.fit_facts import FitFacts, JudgeFacts
from care_ops.results.verdict import Remedies, Step
from care_ops.sparsity import comparable, components, is_sparse, scales_are_unlike
from tests.support.matrices import matrix, shuffled
from tests.support.planted import crowd

CARE = FitConfig(aggregators=("care", "avg"))


def test_em_on_complete_data_is_the_dense_answer(rng):
    quality = rng.normal(size=400)
    scores = quality[:, None] * np.linspace(0.3, 1.2, 7) + rng.normal(size=(400, 7))
    z = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    dense = factor_analysis.fit(np.corrcoef(z.T), 1)
    fitted = sparse_factor.fit(z, prior_scores=0.0, tolerance=1e-10, max_iterations=20_000)
    assert fitted.converged
    np.testing.assert_allclose(fitted.loading, dense.loadings[:, 0], atol=1e-6)
    np.testing.assert_allclose(fitted.variance, dense.uniqueness, atol=1e-6)
    np.testing.assert_allclose(fitted.quality, factor_analysis.factor_scores(dense, z)[:, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("grades", "each"), [(2, 3), *(pytest.param(*kind, marks=pytest.mark.slow) for kind in ((5, 3), (None, 3), (5, 2)))]
)
def test_care_recovers_a_planted_crowd_better_than_the_mean(grades, each):
    """The seeds of the fifty crowds, 0 to 49, were fixed before the first draw.

    The slow cases, ten seconds each, have grades, real numbers and two scores for each item.
    """
    gains = []
    for seed in range(50):
        quality, scores = crowd(seed, 400, 40, each, grades)
        estimates = fit_panel(matrix(scores), CARE, solve="not").aggregates
        good = (quality > 0).astype(float)
        gains.append(auc(estimates["care"].estimate, good) - auc(estimates["avg"].estimate, good))
    better = int(np.sum(np.array(gains) > 0))
    print(f"\n{grades} grades, {each} scores an item: gain {np.mean(gains):+.4f}, better in {better} of 50")
    assert np.mean(gains) > 0.01
    assert better >= 40


@pytest.mark.parametrize("good", [40, 15])
def test_a_factor_that_ranks_unlike_the_mean_is_a_concern(rng, good):
    quality, scores = crowd(0, 400, 40, 5, None)
    noise = np.where(np.arange(40) < good, 0.1, 1.0) * rng.normal(size=scores.shape)
    scores = np.where(np.isnan(scores), np.nan, (np.arange(40) < good) * quality[:, None] + noise)
    found = estimate_sparse_panel(problem_of(matrix(scores), CARE))
    assert ("alternatives" in found.concerns) == (good < 40)


def test_the_weights_of_a_crowd_are_shares_of_the_answer():
    """A judge that hardly follows quality keeps its share of the mean, which is half of the estimate."""
    _, scores = crowd(0, 400, 40, 3, None)
    scores[:, 0] = np.where(np.isnan(scores[:, 0]), np.nan, np.random.default_rng(1).normal(size=400))
    weights = fit_panel(matrix(scores), CARE, solve="not").aggregates["care"].weights
    assert weights is not None
    assert weights.sum() == pytest.approx(1.0)
    assert 0.4 / 40 < weights[0] < np.median(weights)
    found = estimate_sparse_panel(problem_of(matrix(scores), CARE))
    model = problem_of(matrix(scores), CARE).sparse_factor
    in_factor = model.loading / model.variance
    np.testing.assert_allclose(found.weights, 0.5 * in_factor / in_factor.sum() + 0.5 / 40)


def test_care_on_a_crowd_uses_labels(rng):
    quality, scores = crowd(0, 400, 40, 3, 5)
    panel = matrix(scores)
    labelled = rng.permutation(400)[:60]
    seen_labels = FitLabels({panel.item_ids[int(i)]: float(quality[i] > 0) for i in labelled})
    answer = fit_panel(panel, CARE, seen_labels, solve="not").aggregates["care"]
    assert answer.labels_used == 60
    assert answer.p_quality is not None
    without = fit_panel(panel, CARE, solve="not").aggregates["care"]
    good = (quality > 0).astype(float)
    assert auc(answer.estimate, good) > auc(without.estimate, good) - 0.01


def test_the_order_of_items_and_judges_does_not_matter(rng):
    _, scores = crowd(2, 200, 30, 3, 5)
    panel = matrix(scores)
    turned, rows, columns = shuffled(panel, rng)
    first, second = (fit_panel(p, CARE, solve="not").aggregates["care"] for p in (panel, turned))
    np.testing.assert_array_equal(first.estimate[rows], second.estimate)
    np.testing.assert_array_equal(first.weights[columns], second.weights)


def test_a_crowd_needs_no_memory_that_grows_as_judges_squared_times_items():
    _, scores = crowd(0, 2_000, 400, 3, 5)
    cells = scores.nbytes
    tracemalloc.start()
    fit_panel(matrix(scores), CARE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * cells + 8 * 8 * 400**2


def test_most_judges_below_half_make_a_panel_sparse():
    dense = np.zeros((10, 4))
    assert not is_sparse(dense)
    two, three = dense.copy(), dense.copy()
    two[:6, :2], three[:6, :3] = np.nan, np.nan
    assert not is_sparse(two)
    assert is_sparse(three)
    assert not is_sparse(np.full((3, 3), np.nan))


def test_judges_in_blocks_of_whom_two_share_no_item_get_an_answer_on_a_condition():
    """Four judges score all items, and four score each half, so some pairs of judges share no item."""
    gains = []
    for seed in range(6):
        rng = np.random.default_rng([61, seed])
        quality = rng.normal(size=240)
        values = quality[:, None] + rng.normal(size=(240, 12)) * rng.uniform(0.7, 1.5, 12)
        whole = kendalltau(values.mean(axis=1), quality)[0]
        values[120:, 4:8], values[:120, 8:] = np.nan, np.nan
        assert is_sparse(values)
        answer = fit_panel(matrix(values), CARE).aggregates["care"]
        assert not np.isnan(answer.estimate).any()
        tau = kendalltau(answer.estimate, quality)[0]
        gains.append(tau - kendalltau(np.nanmean(values, axis=1), quality)[0])
        assert tau > whole - 0.1, "a third of the scores is missing"
    assert np.mean(gains) > -0.005
    separate = np.ones((10, 6))
    separate[:5, :3], separate[5:, 3:] = np.nan, np.nan
    assert not is_sparse(separate), "two panels, which no score compares"


def test_groups_that_share_no_item_are_found_and_named():
    scores = np.full((6, 5), np.nan)
    scores[:4, [0, 2]], scores[4:, [1, 4]] = 1.0, 2.0
    first, second = components(scores)
    assert (first.judges.tolist(), first.items.tolist()) == ([0, 2], [0, 1, 2, 3])
    assert (second.judges.tolist(), second.items.tolist()) == ([1, 4], [4, 5])
    sentence = coverage_of(matrix(scores), not_asked=True).falls_into()
    assert "2 groups that share no item: j000, j002 (2 judges, 4 items); j001, j004 (2 judges, 2 items)" in sentence
    assert len(coverage_of(matrix(np.ones((3, 3))), not_asked=False).groups) == 1


def test_hundreds_of_groups_are_named_in_few_words():
    scores = np.full((300, 300), np.nan)
    np.fill_diagonal(scores, 1.0)
    assert len(coverage_of(matrix(scores), not_asked=True).falls_into()) < 600


def test_an_absent_score_counts_as_declared_or_as_the_panel_shows(rng):
    _, sparse = crowd(3, 100, 20, 3, 5)
    dense = rng.integers(1, 6, (100, 5)).astype(float)
    dense[:30, 0] = np.nan
    admitted = {
        (name, absent): sum(
            check.admitted for check in check_panel(matrix(values), AdmissionRule(absent=absent, max_missing=0.1))
        )
        for name, values in (("sparse", sparse), ("dense", dense))
        for absent in ("auto", "failed", "not_asked")
    }
    assert admitted["dense", "auto"] == admitted["dense", "failed"] == 4
    assert admitted["dense", "not_asked"] == 5
    assert admitted["sparse", "failed"] == 0
    assert admitted["sparse", "auto"] == admitted["sparse", "not_asked"] == sparse.shape[1]


def test_a_worker_that_never_varies_is_left_out_only_where_its_scores_show_it():
    _, scores = crowd(4, 200, 10, 3, 5)
    count = (~np.isnan(scores)).sum(axis=0)
    much, little = int(np.argmax(count)), int(np.argmin(count))
    assert count[much] >= 20 > count[little]
    scores[~np.isnan(scores[:, much]), much] = 3.0
    scores[~np.isnan(scores[:, little]), little] = 3.0
    checks = check_panel(matrix(scores), AdmissionRule())
    assert checks[much].reason.startswith("degenerate: the same score on 100.0% of items")
    assert checks[little].admitted


def test_raw_rewards_on_unlike_scales_have_no_majority_and_care_answers(rng):
    quality = rng.normal(size=200)
    rewards = quality[:, None] * [1, 100, 0.01, 5] + rng.normal(size=(200, 4)) * [0.5, 50, 0.005, 2.5]
    assert scales_are_unlike(rewards)
    assert not scales_are_unlike(np.clip(np.round(rewards[:, :1] + 3), 1, 5))
    fit = fit_panel(matrix(rewards), FitConfig(aggregators=("care", "mv")), solve="not")
    assert "mv: scores cannot be counted as votes, because the judges use different scales" in fit.failures["mv"]
    assert np.corrcoef(fit.aggregates["care"].estimate, quality)[0, 1] > 0.9


def test_sparse_judges_on_unlike_scales_are_compared_each_by_its_own(rng):
    quality = rng.normal(size=600)
    scale = np.array([1, 100, 0.01, 5, 1000, 1])
    scores = (quality[:, None] + rng.normal(scale=0.5, size=(600, 6))) * scale
    scores[rng.random(scores.shape) < 0.6] = np.nan
    np.testing.assert_allclose(np.nanstd(comparable(scores), axis=0), 1.0)
    care = fit_panel(matrix(scores), CARE, solve="not").aggregates["care"].estimate
    known = ~np.isnan(care)
    assert np.corrcoef(care[known], quality[known])[0, 1] > 0.8


@pytest.mark.parametrize("score", [0.1, 4.0])  # the mean of 90 times .1 is not .1 in floating point
def test_a_sparse_judge_that_never_varies_has_no_score_left_on_unlike_scales(rng, score):
    scores = np.full((400, 12), np.nan)
    for judge in range(12):
        asked = rng.choice(400, 90, replace=False)
        scores[asked, judge] = rng.normal(5, 1, 90) * (100 if judge % 2 else 1) if judge != 3 else score
    assert scales_are_unlike(scores)
    assert np.flatnonzero(np.isnan(comparable(scores)).all(axis=0)).tolist() == [3]


@pytest.mark.parametrize("score", [1.0, 0.1])
def test_a_crowd_that_always_reports_the_same_is_reported(score):
    _, scores = crowd(5, 100, 20, 3, 2)
    alike = matrix(np.where(np.isnan(scores), np.nan, score))
    with pytest.raises(FitError, match="no judge's scores vary over items"):
        fit_panel(alike, FitConfig(aggregators=("care",)))


@pytest.mark.parametrize("name", ["uws", "care_svd", "structure"])
def test_methods_that_rest_on_pairs_report_it_in_few_words(name):
    _, scores = crowd(5, 300, 60, 3, 2)
    fit = fit_panel(matrix(scores), FitConfig())
    assert all(len(message) < 600 for message in fit.failures.values())
    if name != "care_svd":
        assert "most judges scored less than half of the items" in fit.failures[name]
    assert {"care", "mv", "avg"} <= set(fit.aggregates)


STEP = Step("do it")


def verdict(scores, *, not_asked):
    judges = tuple(JudgeFacts(judge, admitted=True) for judge in scores.judges)
    coverage = coverage_of(scores, not_asked=not_asked)
    facts = FitFacts("e", "2026-01-01T00:00", scores.shape[0], judges, coverage=coverage)
    return decide(facts, FitStatus(), Remedies(STEP, STEP, STEP, STEP))


def test_the_verdict_reports_where_items_have_fewer_than_three_scores():
    _, two = crowd(6, 100, 20, 2, 2)
    stated = verdict(matrix(two), not_asked=True)
    assert stated.pill == "Check"
    assert "100 of 100 items have fewer than 3 scores" in stated.reasons[0].sentence
    _, three = crowd(6, 100, 20, 3, 2)
    three[0, np.flatnonzero(~np.isnan(three[0]))[0]] = np.nan
    stated = verdict(matrix(three), not_asked=True)
    assert "fewer than 3 scores" not in stated.sentence
    assert any("1 of 100 items has fewer than 3 scores" in reason.sentence for reason in stated.reasons)


def test_the_verdict_reports_what_absent_scores_were_taken_for():
    values = np.arange(40.0).reshape(10, 4)
    assert not any("missing" in reason.sentence for reason in verdict(matrix(values), not_asked=False).reasons)
    values[0, 0] = np.nan
    failed, declared = (str(verdict(matrix(values), not_asked=flag)) for flag in (False, True))
    assert "1 of 40 scores are missing. CARE assumes that the judges failed to give them" in failed
    assert "1 of 40 scores are missing. CARE assumes that the judges were not asked" in declared
    for text, setting in ((failed, "not_asked"), (declared, "failed")):
        assert f"`--absent {setting}` (`absent` in Python, `panel: {{absent: {setting}}}` in care.yaml)" in text
    _, sparse = crowd(7, 100, 20, 3, 2)
    assert ". CARE assumes that the judges were not asked" in str(verdict(matrix(sparse), not_asked=True))


def test_an_answer_by_few_scores_a_judge_is_to_be_checked():
    """A shared error is visible in a full table, and hardly in a table with three scores for each item."""
    _, sparse = crowd(7, 100, 20, 3, 2)
    found = verdict(matrix(sparse), not_asked=True)
    assert (found.state, found.pill) == ("clear", "Check")


def test_items_without_a_score_are_not_counted_and_are_reported():
    values = np.random.default_rng(0).normal(size=(60, 4))
    values[:7] = np.nan
    found = verdict(matrix(values), not_asked=True)
    assert "53 of 60 items" in found.sentence
    assert found.first_reasons[0] == "7 items have no score and therefore no estimate. Add the missing scores."
