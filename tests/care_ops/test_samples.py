"""Tests of fits of many items, which start from a sample and end with the estimates of all items."""

from __future__ import annotations

import numpy as np
import pytest

from care_ops import samples
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.metrics import rank_correlation
from care_ops.models import mixture
from care_ops.records import Aggregate
from care_ops.scores import ScoreMatrix
from tests.support.matrices import matrix

N, JUDGES = 4_000, 9


def panel() -> ScoreMatrix:
    """Simulate judges with one quality, one confounder and missing scores."""
    rng = np.random.default_rng(7)
    quality, confounder = rng.integers(0, 2, N), rng.integers(0, 2, N)
    values = 1.5 * np.outer(quality, rng.uniform(0.6, 1.2, JUDGES))
    values += np.outer(confounder, np.r_[np.zeros(5), rng.uniform(0.5, 0.9, JUDGES - 5)])
    values += rng.normal(size=(N, JUDGES))
    values[rng.random(values.shape) < 0.02] = np.nan
    judges = tuple(f"judge {j}" for j in range(JUDGES))
    return ScoreMatrix(values, tuple(f"item {i}" for i in rng.permutation(N)), judges)


@pytest.fixture
def sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce samples to 2,000 items, so that 4,000 items exceed a sample."""
    monkeypatch.setattr(samples, "MOST_ITEMS", 2_000)


def fitted(name: str, scores: ScoreMatrix) -> Aggregate:
    """Fit one aggregator to a panel."""
    return fit_panel(scores, FitConfig(aggregators=(name,))).aggregates[name]


def test_few_items_are_no_sample() -> None:
    """All rows are returned, and the random generator does not change."""
    rng = np.random.default_rng(0)
    assert np.array_equal(samples.sampled_rows(samples.MOST_ITEMS, rng), np.arange(samples.MOST_ITEMS))
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state
    rows = samples.sampled_rows(samples.MOST_ITEMS + 1, rng)
    assert len(rows) == samples.MOST_ITEMS
    assert np.all(np.diff(rows) > 0)


def test_care_tensor_from_a_sample_ends_where_all_items_end(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = panel()
    whole = fitted("care_tensor", scores)
    monkeypatch.setattr(samples, "MOST_ITEMS", 2_000)
    sampled = fitted("care_tensor", scores)
    assert "start_items" not in whole.details
    assert sampled.details["start_items"] == 2_000
    assert rank_correlation(whole.estimate, sampled.estimate) > 0.9999
    assert sampled.details["log_likelihood"] == pytest.approx(whole.details["log_likelihood"], abs=mixture.SAME_STATES)
    assert not np.array_equal(whole.estimate, sampled.estimate), "no sample was drawn"


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ["care", "factor_analysis", "uws", "care_svd"])
def test_closed_forms_are_those_of_all_items(monkeypatch: pytest.MonkeyPatch, name: str, *, missing: bool) -> None:
    """Estimates, standard deviations and weights differ by less than 1e-9 of their spread."""
    scores = panel()
    if not missing:
        scores = scores.select_items(~np.isnan(scores.values).any(axis=1))
    whole = fitted(name, scores)
    monkeypatch.setattr(samples, "MOST_ITEMS", 2_000)
    sampled = fitted(name, scores)
    for one, other in ((whole.estimate, sampled.estimate), (whole.sd, sampled.sd), (whole.weights, sampled.weights)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-9 * np.nanstd(whole.estimate))


@pytest.mark.usefixtures("sampling")
def test_the_sample_is_the_same_every_time() -> None:
    """The sample depends on the scores, not on the order of items and judges."""
    scores = panel()
    turned = ScoreMatrix(scores.values[::-1, ::-1], scores.item_ids[::-1], scores.judges[::-1])
    once, again = (fitted("care_tensor", s).estimate for s in (scores, turned))
    assert np.array_equal(once, again[::-1])


def test_rows_that_differ_late_are_found() -> None:
    """The first thousand rows are enough if they differ; otherwise all rows are read."""
    values = np.zeros((1_500, 5))
    values[1_100:, :4] = values[1_300:, 4] = 1.0
    with pytest.raises(FitError, match="got 3"):
        fitted("care_tensor", matrix(values))
    values[-300:] += np.random.default_rng(0).normal(size=(300, 5))
    assert np.isfinite(fitted("care_tensor", matrix(values)).estimate).all()
