"""Tests of a judge's agreement with people against scikit-learn, a bootstrap and simulated truth; and of bars."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, roc_auc_score

from care_ops.errors import InputError
from care_ops.results.judge_gate import agreement_with_people, gate_sentence, may_gate


def graded(rng, n, noise=1.0):
    """Simulate grades 1 to 5 of people and of a judge."""
    quality = rng.normal(size=n)
    judge, people = (3 + 1.2 * quality + spread * rng.normal(size=n) for spread in (noise, 0.4))
    return np.clip(np.round(judge), 1, 5), np.clip(np.round(people), 1, 5)


def agreement(scores, grades, weights=None, **more):
    weights = np.ones(len(scores)) if weights is None else weights
    return agreement_with_people("j", scores, (grades > 3).astype(float), weights, 3, grades=grades, **more)


def test_statistics_are_those_of_scikit_learn(rng):
    scores, grades = graded(rng, 300)
    weights = rng.uniform(0.5, 3, size=300)
    found, by = agreement(scores, grades, weights), {"sample_weight": weights}
    assert found.kappa.value == pytest.approx(cohen_kappa_score(grades > 3, scores > 3, **by))
    assert found.weighted_kappa.value == pytest.approx(cohen_kappa_score(grades, scores, weights="quadratic", **by))
    assert found.auc.value == pytest.approx(roc_auc_score(grades > 3, scores, **by))
    assert found.bias.value == pytest.approx(np.average(scores - grades, weights=weights))
    votes = agreement_with_people("j", scores, (grades > 3).astype(float), np.ones(300), 3)
    assert votes.weighted_kappa is None
    assert votes.bias.value == pytest.approx((scores > 3).mean() - (grades > 3).mean())


def test_intervals_are_those_of_a_bootstrap(rng):
    scores, grades = graded(rng, 150)
    found = agreement(scores, grades)
    drawn = rng.integers(0, 150, size=(400, 150))
    again = [agreement(scores[rows], grades[rows]) for rows in drawn]
    for name in ("kappa", "weighted_kappa", "auc", "bias"):
        lo, hi = np.quantile([getattr(one, name).value for one in again], [0.05, 0.95])
        statistic = getattr(found, name)
        assert (statistic.lo, statistic.hi) == pytest.approx((lo, hi), abs=0.2 * (hi - lo)), name


def test_intervals_hold_planted_truth_and_split_units_widen_them():
    """There are 150 draws of 40 labels; labels repeated five times add no evidence."""
    truth = agreement(*graded(np.random.default_rng(0), 100_000))
    held, measures = [], ("kappa", "weighted_kappa", "auc", "bias")
    for seed in range(150):
        found = agreement(*graded(np.random.default_rng(seed + 1), 40))
        held.append([s.lo <= getattr(truth, m).value <= s.hi for m in measures if (s := getattr(found, m))])
    assert np.all(np.mean(held, axis=0) >= 0.85), np.mean(held, axis=0)
    assert np.all(np.mean(held, axis=0) <= 0.96), np.mean(held, axis=0)
    scores, grades = graded(np.random.default_rng(1), 40)
    once = agreement(scores, grades)
    units = [str(k % 40) for k in range(200)]
    repeated = agreement(np.tile(scores, 5), np.tile(grades, 5), units=units)
    for name in measures:
        one, many = getattr(once, name), getattr(repeated, name)
        assert (many.lo, many.hi) == pytest.approx((one.lo, one.hi), abs=1e-3), name


def test_a_judge_without_an_error_still_has_an_interval():
    people = np.tile([1.0, 0.0], 10)
    found = agreement_with_people("j", people, people, np.ones(20), 0.5)
    for statistic in (found.kappa, found.auc):
        assert statistic.value == statistic.hi == 1
        assert 0.5 < statistic.lo < 0.95


def test_what_has_one_value_has_no_kappa():
    found = agreement_with_people("j", np.ones(20), np.tile([1.0, 0.0], 10), np.ones(20), 0.5)
    assert found.kappa is None
    advice = may_gate(found)
    assert (advice.outcome, advice.more_labels) == ("not yet", None)
    assert "every labelled item passes: scores range from 1 to 1, and the cut is 0.5" in gate_sentence(advice, found)


def test_a_bar_decides_once_labels_are_enough(rng):
    """With the reported number of labels, most draws decide; with fewer labels, none decides."""
    few = replace(agreement(*graded(np.random.default_rng(3), 40, noise=0.6)), unlabelled=200)
    bar = few.kappa.value - 0.5 * (few.kappa.value - few.kappa.lo)
    advice = may_gate(few, bar)
    assert advice.outcome == "not yet"
    assert advice.more_labels == pytest.approx(120, abs=2), "half the width takes four times the labels"
    assert "; labels so far suggest yes" in advice.remedy
    fewer = may_gate(replace(few, unlabelled=100), bar)
    assert (fewer.more_labels, "labels of all 100 unlabelled items would probably not be enough" in fewer.remedy) == (
        None,
        True,
    )
    assert may_gate(few, few.kappa.lo).outcome == "yes"
    assert may_gate(few, few.kappa.hi + 0.01).outcome == "no"
    assert may_gate(few, 0.9, "auc").measure == "auc"
    with pytest.raises(InputError, match="bar"):
        may_gate(few, 1.5)
