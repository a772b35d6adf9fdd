"""Tests of numbers that are not scores: codes for missing answers, and typing errors."""

import numpy as np
import pytest

from care_ops.outliers import without_outliers
from care_ops.scores import ScoreMatrix

ITEMS = 200


def panel(rng, draw, **first_scores):
    """Simulate five judges that score by ``draw``, with given scores of a judge on the first items."""
    values = np.column_stack([draw(rng) for _ in range(5)]).astype(float)
    for judge, instead in first_scores.items():
        values[: len(instead), int(judge[1])] = instead
    return ScoreMatrix(values, tuple(f"i{k}" for k in range(ITEMS)), tuple(f"j{k}" for k in range(5)))


def grades(low, high):
    return lambda rng: rng.integers(low, high, size=ITEMS, endpoint=True)


def votes(rng):
    return rng.random(ITEMS) < 0.3


def logits(rng):
    return rng.normal(size=ITEMS) * 3


def heavy(rng):
    return rng.standard_t(2, size=ITEMS)


@pytest.mark.parametrize(
    ("draw", "outlier"),
    [
        (grades(1, 10), [-1] * 6),
        (grades(0, 10), [-1]),
        (grades(1, 5), [-99, -99]),
        (grades(1, 10), [99]),
        (grades(1, 10), [1_000_000, -999]),
        (grades(0, 100), [-1]),
        (grades(0, 100), [999, 999]),
        (votes, [-9]),
        (votes, [99, 99]),
        (logits, [-999]),
        (logits, [1e6]),
        (heavy, [1e5]),
    ],
)
def test_what_lies_far_outside_of_all_other_scores_is_missing_and_reported(rng, draw, outlier):
    scores = panel(rng, draw, j2=outlier)
    found, (reported,) = without_outliers(scores, {})
    assert np.isnan(found.values[: len(outlier), 2]).all()
    rest = scores.values.copy()
    rest[: len(outlier), 2] = np.nan
    np.testing.assert_array_equal(found.values, rest)
    assert (reported.judge, reported.count, reported.scores, set(reported.numbers)) == (
        "j2",
        len(outlier),
        ITEMS,
        set(outlier),
    )
    assert f"{len(outlier)} of 200 scores" in reported.sentence


def test_a_code_that_every_judge_gives_is_no_grade(rng):
    found, reported = without_outliers(panel(rng, grades(1, 10), **{f"j{k}": [-1] * (k + 1) for k in range(5)}), {})
    assert [int(np.isnan(column).sum()) for column in found.values.T] == [1, 2, 3, 4, 5]
    assert len(reported) == 5


@pytest.mark.parametrize(
    ("draw", "instead"),
    [
        (grades(-1, 1), []),
        (votes, [-1, -1]),  # a tie
        (votes, [2, 2]),  # a grade that is rare
        (grades(1, 5), [10]),
        (grades(1, 10), [0]),
        (grades(1, 10), [-1] * 40),  # too often for a slip
        (grades(0, 10), [-1, -2]),  # a scale that goes below 0
        (grades(1, 10), list(range(0, 100, 5))),  # another scale, or none
        (lambda rng: 5 + rng.random(ITEMS).round(1), [-1]),
        (logits, [25]),
        (heavy, []),
    ],
)
def test_what_may_be_a_score_stays_one(rng, draw, instead):
    scores = panel(rng, draw, j2=instead)
    assert without_outliers(scores, {}) == (scores, ())


def test_a_declared_scale_reports_what_is_a_score(rng):
    scores = panel(rng, grades(1, 10), j2=[-1])
    assert without_outliers(scores, {"j2": (-1, 10)}) == (scores, ())
    assert without_outliers(scores, {"j1": (0, 10)})[1]


def test_outliers_are_outliers_in_any_order(rng):
    scores = panel(rng, grades(1, 10), j2=[-1], j4=[99, 99])
    order = rng.permutation(ITEMS)
    turned = ScoreMatrix(scores.values[order], tuple(scores.item_ids[k] for k in order), scores.judges)
    assert without_outliers(turned, {})[1] == without_outliers(scores, {})[1]
