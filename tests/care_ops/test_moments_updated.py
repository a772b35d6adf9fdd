"""Moments brought up to date against a full pass."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from care_ops.config import FitConfig
from care_ops.fit import run_aggregators, try_structure
from care_ops.moments import incremental
from care_ops.moments.incremental import change, updated
from care_ops.moments.state import Moments, accumulate, default_shift
from care_ops.scores import ScoreMatrix

N, P = 4_000, 12


def panel(seed: int = 0, n: int = N, p: int = P, holes: float = 0.03) -> ScoreMatrix:
    rng = np.random.default_rng(seed)
    quality, style = rng.normal(size=(2, n))
    values = 5 + quality[:, None] * rng.uniform(0.5, 1.2, p) + style[:, None] * rng.uniform(-0.6, 0.9, p)
    values += rng.normal(size=(n, p))
    values[rng.random((n, p)) < holes] = np.nan
    return ScoreMatrix(values, tuple(f"i{k:05}" for k in range(n)), tuple(f"j{k:02}" for k in range(p)))


def moments_of(scores: ScoreMatrix) -> Moments:
    return accumulate(scores.canonical().values)


def update(then: ScoreMatrix, now: ScoreMatrix) -> Moments | None:
    return updated(moments_of(then), then, now, default_shift(now.canonical().values))


def assert_equal(found: Moments, scores: ScoreMatrix, tolerance: float = 1e-11) -> None:
    """The same counts, and the same sums once both are taken about one point."""
    whole = accumulate(scores.canonical().values, found.shift)
    assert found.n == whole.n
    for name in ("count1", "count2", "count3"):
        assert np.array_equal(getattr(found, name), getattr(whole, name)), name
    for name in ("sum1", "sum2", "partial2", "square2", "sum3"):
        assert np.abs(getattr(found, name) - getattr(whole, name)).max() <= tolerance * whole.n, name


def edited(
    scores: ScoreMatrix,
    *,
    drop: int = 0,
    more: int = 0,
    edits: int = 0,
    judges: int = 0,
    without: int = 0,
    hole: float = np.nan,
) -> ScoreMatrix:
    """Some items gone, some new, some rescored by one judge; judges come and go; everything shuffled."""
    rng = np.random.default_rng(drop + 10 * more + 100 * edits)
    values, ids, names = scores.values.copy(), list(scores.item_ids), list(scores.judges)
    for row in rng.choice(len(ids), edits, replace=False):
        values[row, rng.integers(len(names))] = rng.choice([hole, 3.0])
    fresh = panel(1, n=more, p=len(names), holes=0.0).values if more else np.empty((0, len(names)))
    values, ids = np.vstack([values[drop:], fresh]), ids[drop:] + [f"new{k}" for k in range(more)]
    values = np.column_stack([values, values[:, :1] + rng.normal(size=(len(ids), judges))]) if judges else values
    names = names + [f"a{k}" for k in range(judges)]  # sorts before the others
    rows, columns = rng.permutation(len(ids)), rng.permutation(len(names) - without)
    return ScoreMatrix(values[np.ix_(rows, columns)], tuple(ids[i] for i in rows), tuple(names[j] for j in columns))


CHANGES = [
    {"judges": 1},
    {"more": 40},
    {"drop": 40},
    {"edits": 40},
    {"without": 2},
    {"drop": 20, "more": 50, "edits": 30, "judges": 1},
    {"judges": 1, "without": 1, "edits": 5},
]


@pytest.mark.parametrize("what", CHANGES, ids=str)
def test_an_update_is_a_full_pass(what):
    then = panel(holes=0.0)
    now = edited(then, **what, hole=3.0)
    assert_moments(update(then, now), moments_of(now))


@pytest.mark.parametrize("what", [{"judges": 1}, {"more": 40}, {"without": 2}, {"judges": 1, "more": 40}], ids=str)
def test_with_missing_scores_too_where_the_first_rows_stay(what):
    then = panel()
    now = edited(then, **what)
    assert_moments(update(then, now), moments_of(now))


def test_with_missing_scores_and_another_shift_a_full_pass_is_needed():
    then = panel()
    assert update(then, edited(then, drop=20)) is None


def assert_moments(found: Moments | None, whole: Moments) -> None:
    assert found is not None
    assert found.n == whole.n
    assert np.array_equal(found.count3, whole.count3)
    assert np.abs(found.mean() - whole.mean()).max() < 1e-11
    assert np.abs(found.correlation() - whole.correlation()).max() < 1e-11
    index = np.arange(found.p)
    assert np.abs(found.third_central(index, index, index) - whole.third_central(index, index, index)).max() < 1e-11


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 1), st.integers(0, 2), st.integers(0, 9)
)
def test_whatever_changed(drop, more, edits, judges, without, seed):
    then = panel(seed, n=600, p=10)
    now = edited(then, drop=drop, more=more, edits=edits, judges=judges, without=without)
    state = moments_of(then)
    known = dict(zip(sorted(then.judges), state.shift, strict=True))
    found = updated(state, then, now, np.array([known.get(j, 5.0) for j in sorted(now.judges)]))
    if found is None:
        assert change(then.canonical(), now.canonical()).work > incremental.MOST_WORK
    else:
        assert_equal(found, now)


def test_a_rescored_judge_is_another_judge_and_a_new_panel_a_full_pass():
    then = panel()
    values = then.values.copy()
    values[:, 4] += 1.0
    now = ScoreMatrix(values, then.item_ids, then.judges)
    assert change(then, now).added.tolist() == [4]
    assert len(change(then, now).added_rows) == 0
    found = update(then, now)
    assert found is not None
    assert_equal(found, now)
    assert update(then, panel(5)) is None
    assert update(then, edited(then, drop=2_500)) is None


def test_the_fit_is_that_of_a_full_pass():
    """One judge more and one per cent more items: every aggregate and weight within 1e-10 of their spread."""
    then = panel(3, holes=0.0)
    now = edited(then, more=N // 100, judges=1)
    now = ScoreMatrix(np.nan_to_num(now.values, nan=5.0), now.item_ids, now.judges)
    found = update(then, now)
    assert found is not None
    config = FitConfig(aggregators=("avg", "uws", "care", "care_svd", "care_tensor"))
    answers = [
        run_aggregators(now, state, try_structure(state, config.structure)[0], config)[0]
        for state in (found, moments_of(now))
    ]
    for name, whole in answers[1].items():
        spread = np.nanstd(whole.estimate)
        assert np.nanmax(np.abs(answers[0][name].estimate - whole.estimate)) / spread < 1e-10, name
