"""Tests of penalties chosen by labels: permitted labels, measured items, simulated truth."""

import numpy as np
import pytest

from care_ops.config import FitConfig
from care_ops.errors import FitError, InputError
from care_ops.fit import fit_panel
from care_ops.metrics import tau
from care_ops.selection import GRIDS, fit_grid, select_with_labels, validation_items
from care_ops.simulate import joint_gaussian
from tests.support.matrices import matrix


@pytest.fixture
def drawn(rng):
    draw = joint_gaussian(rng, n=900, p=9, confounders=1)
    quality = draw.scores @ draw.directions[:, 0]
    return matrix(draw.scores), quality


def test_whole_split_units_are_drawn(rng):
    units = [f"u{k // 7}" for k in range(700)]
    taken = validation_items(units, 0.15, rng)
    assert 0.15 <= taken.mean() <= 0.17
    assert {u for u, t in zip(units, taken, strict=True) if t}.isdisjoint(
        {u for u, t in zip(units, taken, strict=True) if not t}
    )
    with pytest.raises(InputError, match="no split unit is left"):
        validation_items(["a"] * 90 + ["b"] * 10, 0.95, np.random.default_rng(0))


@pytest.mark.parametrize(
    "aggregator", ["care_svd", "care_tensor", pytest.param("care_tensor_paper", marks=pytest.mark.slow)]
)
def test_the_choice_is_the_best_of_the_grid_on_the_labels(drawn, rng, aggregator):
    scores, quality = drawn
    labels = np.where(rng.random(900) < 0.15, quality, np.nan)
    grid = GRIDS[aggregator][:: 3 if aggregator == "care_svd" else 6]
    found = select_with_labels(scores, FitConfig(), labels, aggregator=aggregator, grid=grid)
    assert [(c.gamma, c.tau) for c in found.candidates] == list(grid)
    assert found.labels_used == int((~np.isnan(labels)).sum())
    values = [c.value for c in found.candidates]
    assert sum(v is not None for v in values) >= 3
    assert found.best.value == max(v for v in values if v is not None)
    again = fit_panel(scores, FitConfig(aggregators=(aggregator,), structure=found.best.config)).aggregates[aggregator]
    known = ~np.isnan(labels)
    assert tau(again.estimate[known], labels[known]) == pytest.approx(found.best.value)
    assert again.labels_used == 0


def test_literal_weights_come_with_literal_penalties(drawn):
    """Algorithm 1 uses gamma_n as in the grid, for any number of items."""
    scores, _ = drawn
    config = FitConfig(placement="weights")
    (literal,), (relative,) = (fit_grid(scores, c, "care_svd", grid=[(0.1, None)]) for c in (config, FitConfig()))
    assert relative.config.gamma == 0.1
    (twice,) = fit_grid(scores.select_items(np.arange(900) < 225), config, "care_svd", grid=[(0.1, None)])
    assert literal.config.gamma / twice.config.gamma == pytest.approx(2, rel=0.1), "the rate falls as 1 / sqrt(n)"


def test_error_counts_scale_and_accuracy(drawn, rng):
    scores, quality = drawn
    labels = np.where(rng.random(900) < 0.2, (quality > 0).astype(float), np.nan)
    config = FitConfig(cut=0.0)
    binary = select_with_labels(scores, config, labels, criterion="error", grid=[(1.0, None), (2.0, None)])
    assert 0.5 < binary.best.value <= 1.0
    graded = select_with_labels(scores, config, quality, criterion="error", grid=[(1.0, None)])
    assert graded.best.value < 0


def test_what_cannot_choose_is_reported(drawn, rng):
    scores, _ = drawn
    with pytest.raises(InputError, match="two different labels"):
        select_with_labels(scores, FitConfig(), np.full(900, np.nan))
    noise = matrix(rng.normal(size=(400, 5)))
    with pytest.raises(FitError, match="no estimate at any penalty"):
        select_with_labels(noise, FitConfig(), rng.normal(size=400), grid=[(1e4, None)])
