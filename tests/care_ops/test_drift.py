"""Tests of the differences between two fits, and of a fit frozen to a function of one item's scores."""

import json

import numpy as np
import pytest

from care_ops.errors import FitError
from care_ops.frozen import Frozen, freeze, freeze_all
from care_ops.results.drift import copies_of_gold, drift, population_stability, same_direction
from care_ops.scores import ScoreMatrix
from warehouse.documents import document_of, record_of


def test_psi_by_hand():
    before, after = np.repeat([0.0, 1.0], [60, 40]), np.repeat([0.0, 1.0], [20, 80])
    p, q = np.array([60.5, 40.5]) / 101, np.array([20.5, 80.5]) / 101
    assert population_stability(before, after)[0] == pytest.approx(np.sum((q - p) * np.log(q / p)))


def test_equal_distributions_stay_below_chance():
    rng = np.random.default_rng(0)
    above = 0
    for _ in range(400):
        psi, chance = population_stability(rng.standard_normal(300), rng.standard_normal(200))
        above += psi > chance
    assert above / 400 <= 0.03, "the 99 % point, give or take"


def test_a_shift_and_a_reversal_are_seen():
    values = np.random.default_rng(1).standard_normal(500)
    same = drift(values, values, values)
    assert (same.common, same.mean_shift, round(same.rank_correlation, 12)) == (500, 0.0, 1.0)
    assert same.psi < 1e-12
    assert drift(values, values + values.std(), values).mean_shift == pytest.approx(1)
    assert drift(values, -values, -values).rank_correlation == pytest.approx(-1)


def test_what_is_too_little_is_undefined_and_alarms_nobody():
    before, after = np.array([1.0, 2.0, np.nan]), np.array([1.0, np.nan, 3.0])
    few = drift(before, after, after)
    assert few.common == 1
    assert np.isnan([few.psi, few.mean_shift, few.rank_correlation]).all()
    assert np.isnan(drift(np.ones(20), np.arange(20.0), np.arange(20.0)).rank_correlation)


def test_direction_over_the_judges_that_both_have():
    assert same_direction({"a": 1.0, "b": 0.0, "c": 9.0}, {"a": 0.0, "b": 1.0, "d": 9.0}) == pytest.approx(0)
    assert same_direction({"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 4.0, "c": -1.0}) == pytest.approx(1)
    assert np.isnan(same_direction({"a": 1.0}, {"a": 1.0}))


def test_a_judge_that_is_gold_is_found_and_a_good_one_is_not():
    rng = np.random.default_rng(2)
    gold = rng.integers(0, 2, 200).astype(float)
    good = np.where(rng.random(200) < 0.97, gold, 1 - gold)
    values = np.column_stack([1 + 4 * gold, -gold, good])
    assert copies_of_gold(values, gold, ("scaled", "reversed", "good")) == ["scaled", "reversed"]
    assert copies_of_gold(values[:50], gold[:50], ("scaled", "reversed", "good")) == [], "fifty votes may all be right"
    assert copies_of_gold(values, np.full(200, np.nan), ("a", "b", "c")) == []


def matrix(values):
    return ScoreMatrix(values, tuple(f"i{k}" for k in range(len(values))), ("a", "b", "c"))


def test_a_linear_aggregate_freezes_exactly_and_scores_items_it_has_not_seen():
    rng = np.random.default_rng(3)
    values = rng.standard_normal((400, 3))
    frozen = freeze(matrix(values), values @ [0.2, 0.5, 0.3] + 7)
    assert frozen.fidelity == pytest.approx(1, abs=1e-9)
    fresh = rng.standard_normal((50, 3))
    again = record_of(Frozen, json.loads(json.dumps(document_of(frozen))))
    np.testing.assert_allclose(again.apply(matrix(fresh)), fresh @ [0.2, 0.5, 0.3] + 7, atol=1e-8)
    assert np.isnan(again.apply(matrix(np.full((1, 3), np.nan)))).all()


def test_an_aggregate_of_many_items_freezes_from_some_of_them(monkeypatch):
    monkeypatch.setattr("care_ops.frozen.MOST_ITEMS", 300)
    rows_read = []
    monkeypatch.setattr("care_ops.frozen.blocks", lambda items: rows_read.append(items) or iter([slice(0, items)]))
    rng = np.random.default_rng(6)
    values = rng.integers(0, 9, (5_000, 3)) + rng.normal(size=(5_000, 1))
    frozen = freeze(matrix(values), values @ [0.2, 0.5, 0.3] + 7)
    assert rows_read == [300]
    assert frozen.fidelity == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(frozen.apply(matrix(values)), values @ [0.2, 0.5, 0.3] + 7, atol=1e-8)


@pytest.mark.parametrize("alike", [False, True], ids=["judges of their own", "two judges alike"])
def test_aggregates_frozen_together_are_those_of_least_squares_with_items_left_out(monkeypatch, alike):
    monkeypatch.setattr("care_ops.blocks.BLOCK_ROWS", 70)  # so that the items are several blocks
    rng = np.random.default_rng(5)
    values = rng.integers(0, 9, (403, 3)) + rng.normal(size=(403, 1)).round(2)
    if alike:
        values[:, 1] = values[:, 0]
    values[rng.random(values.shape) < 0.1] = np.nan
    aggregates = {
        "curved": np.nan_to_num(values).sum(axis=1) ** 2,
        "noisy": np.nansum(values, axis=1) + 9 * rng.normal(size=403),
        "none for some": np.where(np.arange(403) % 7 == 0, np.nan, np.nansum(values, axis=1)),
    }
    together = freeze_all(matrix(values), aggregates)
    assert list(together) == list(aggregates)
    for name, estimate in aggregates.items():
        frozen = together[name]
        known = np.flatnonzero(~np.isnan(estimate))
        normal = [np.interp(values[known, j], frozen.knots[j], frozen.heights[j]) for j in range(3)]
        standard = (values[known] - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0)
        design = np.nan_to_num(np.column_stack([standard, *normal, np.ones(len(known))]))
        target, fold, guess = estimate[known], np.arange(len(known)) % 5, np.empty(len(known))
        for out in range(5):
            rest = np.linalg.lstsq(design[fold != out], target[fold != out], rcond=None)[0]
            guess[fold == out] = design[fold == out] @ rest
        whole = np.linalg.lstsq(design, target, rcond=None)[0]
        np.testing.assert_allclose([*frozen.coefficients, frozen.intercept], whole, atol=1e-8)
        assert frozen.fidelity == pytest.approx(
            1 - np.sum((target - guess) ** 2) / np.sum((target - target.mean()) ** 2)
        )


def test_what_does_not_follow_from_one_item_is_refused():
    rng = np.random.default_rng(4)
    values = rng.standard_normal((400, 3))
    noisy = freeze(matrix(values), rng.standard_normal(400))
    with pytest.raises(FitError, match="an item's own scores explains only"):
        noisy.apply(matrix(values))
    frozen = freeze(matrix(values), values.sum(axis=1))
    with pytest.raises(FitError, match="lack scores of c"):
        frozen.apply(ScoreMatrix(values[:, :2], matrix(values).item_ids, ("a", "b")))


def test_scores_that_never_varied_have_no_unit_to_drift_by():
    before = np.full(60, 0.1)  # their mean is not .1 in floating point
    after = np.where(np.arange(60) == 3, 0.9, before)
    assert np.isnan(drift(before, after, after).mean_shift)
    copies = copies_of_gold(np.full((60, 1), 0.1), np.arange(60.0), ("constant",))
    assert copies == []


@pytest.mark.parametrize("constant", [0.5, 0.1])  # the mean of two hundred times .1 is not .1 in floating point
def test_a_judge_that_never_varied_has_no_part_in_a_frozen_aggregate(rng, constant):
    values = np.column_stack([rng.normal(size=(200, 2)), np.full(200, constant)])
    frozen = freeze(matrix(values), values[:, :2].mean(axis=1))
    new = values.copy()
    new[:, 2] += 0.1
    np.testing.assert_allclose(frozen.apply(matrix(new)), new[:, :2].mean(axis=1), atol=0.05)
