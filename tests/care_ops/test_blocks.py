"""Tests that computations in blocks of rows equal those on all rows at once."""

import numpy as np
import pytest

from care_ops.blocks import BLOCK_ROWS, blocks, by_columns, by_rows, columns
from care_ops.models.factor_analysis import normal_scores
from care_ops.models.mixture import expectation_maximisation


@pytest.mark.parametrize("items", [1, BLOCK_ROWS, BLOCK_ROWS + 1, 2 * BLOCK_ROWS + 5])
def test_every_row_is_in_one_block(items):
    assert [row for rows in blocks(items) for row in range(items)[rows]] == list(range(items))
    values = np.arange(2.0 * items).reshape(items, 2)
    np.testing.assert_array_equal(by_rows(lambda v, w: v.sum(axis=1) - w, values, values[:, 0]), values[:, 1])


@pytest.mark.parametrize("judges", [1, 8, 11])
def test_every_column_is_taken_once(judges):
    values = np.arange(3.0 * judges).reshape(3, judges)
    assert [column.tolist() for column in columns(values)] == values.T.tolist()
    np.testing.assert_array_equal(by_columns(lambda column: column[::-1], values), values[::-1])


def test_normal_scores_are_quantiles_of_mean_ranks():
    values = np.array([[5.0, np.nan], [1.0, 2.0], [5.0, np.nan], [2.0, 4.0]])
    scores = normal_scores(values)
    assert scores[0, 0] == scores[2, 0] > scores[3, 0] > scores[1, 0]
    np.testing.assert_allclose(np.nanstd(scores, axis=0), 1.0)
    np.testing.assert_allclose(scores[[1, 3], 1], [-1.0, 1.0])
    assert np.isnan(scores[[0, 2], 1]).all()


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_em_does_not_depend_on_the_blocks(monkeypatch, rng, missing):
    values = rng.normal(size=(900, 4)) + 3 * (rng.random(900) < 0.4)[:, None]
    values[rng.random(values.shape) < missing] = np.nan
    start = (np.array([0.5, 0.5]), np.array([[0.0] * 4, [2.0] * 4]), np.ones(4))
    whole = expectation_maximisation(values, *start)
    monkeypatch.setattr("care_ops.blocks.BLOCK_ROWS", 70)
    separate = expectation_maximisation(values, *start)
    np.testing.assert_allclose(separate.means, whole.means, atol=1e-9)
    np.testing.assert_allclose(separate.posterior(values), whole.posterior(values), atol=1e-9)
