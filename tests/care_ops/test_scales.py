"""Tests of judges on different scales: detection by range, and rescaled scores."""

import numpy as np
import pytest

from care_ops.errors import InputError
from care_ops.scales import on_scale, to_common_scale
from care_ops.scores import ScoreMatrix
from tests.support.matrices import matrix

ITEMS = 60


def grades(rng, low, high, step=1.0):
    """Simulate a judge's scores over a whole scale, with both ends."""
    steps = round((high - low) / step)
    column = low + step * rng.integers(0, steps, size=ITEMS, endpoint=True)
    column[:2] = low, high
    return column.astype(float)


def of(**columns):
    return ScoreMatrix(np.column_stack(list(columns.values())), tuple(f"i{k}" for k in range(ITEMS)), tuple(columns))


@pytest.mark.parametrize(
    ("most", "odd", "own", "panel"),
    [
        ((1, 10, 1), (0, 100, 1), (0, 100), (1, 10)),
        ((1, 5, 1), (0, 100, 5), (0, 100), (1, 5)),
        ((0, 10, 1), (0, 1, 0.01), (0, 1), (0, 10)),
        ((1, 10, 1), (0, 1, 1), (0, 1), (1, 10)),
        ((0, 1, 1), (1, 10, 1), (1, 10), (0, 1)),
        ((0, 100, 1), (0, 1, 0.01), (0, 1), (0, 100)),
        ((0, 100, 1), (1, 7, 1), (1, 7), (0, 100)),
    ],
)
def test_a_range_of_another_kind_shows_the_judges_scale(rng, most, odd, own, panel):
    scores = of(a=grades(rng, *most), b=grades(rng, *most), odd=grades(rng, *odd))
    found, (rescaled,) = to_common_scale(scores)
    assert (rescaled.judge, rescaled.own, rescaled.panel) == ("odd", own, panel)
    assert str(rescaled.sentence).startswith(f"judge 'odd' uses the scale {own[0]} to {own[1]} (inferred)")
    np.testing.assert_array_equal(found.values[:, :2], scores.values[:, :2])
    low, high = panel
    want = low + (scores.values[:, 2] - own[0]) / (own[1] - own[0]) * (high - low)
    np.testing.assert_allclose(found.values[:, 2], want, rtol=1e-12)


@pytest.mark.parametrize(
    ("columns", "scale"),
    [
        ({"a": (1, 10, 1), "b": (1, 10, 1), "c": (1, 5, 1)}, None),  # both are grades
        ({"a": (1, 10, 1), "b": (0, 100, 1)}, None),  # neither is what most judges do
        ({"a": (-3, 3, 0.1), "b": (-3, 3, 0.1), "c": (0, 100, 1)}, None),  # no usual scale
        ({"a": (0, 10, 1), "b": (0, 10, 1), "c": (0, 1, 1)}, (0.0, 10.0)),  # a severe judge on the declared scale
        ({"a": (0, 20, 1), "b": (1, 10, 1), "c": (1, 10, 1)}, None),
    ],
)
def test_what_a_range_does_not_show_is_left_as_it_is(rng, columns, scale):
    scores = of(**{judge: grades(rng, *its) for judge, its in columns.items()})
    assert to_common_scale(scores, scale) == (scores, ())


def test_a_typing_error_makes_no_percent_and_few_scores_show_nothing_narrow(rng):
    typed = grades(rng, 1, 10)
    typed[7] = 77
    few = np.full(ITEMS, np.nan)
    few[:12] = 1.0, *np.linspace(0, 1, 11)
    scores = of(a=grades(rng, 1, 10), b=grades(rng, 1, 10), c=grades(rng, 1, 10), typed=typed, few=few)
    assert to_common_scale(scores)[1] == ()


def test_what_is_declared_counts_and_the_order_of_judges_does_not(rng):
    scores = of(a=grades(rng, 1, 10), b=grades(rng, 1, 10), c=grades(rng, 1, 5), d=grades(rng, 0, 100))
    found, rescaled = to_common_scale(scores, (1.0, 10.0), {"c": (1.0, 5.0), "d": (0.0, 50.0)})
    assert {one.judge: one.is_declared for one in rescaled} == {"c": True, "d": True}
    assert np.nanmax(found.values[:, 2]) == 10.0
    beyond = scores.values[:, 3] > 50
    assert np.isnan(found.values[beyond, 3]).all(), "beyond the declared scale is missing"
    assert not np.isnan(found.values[~beyond, 3]).any()
    turned = to_common_scale(
        scores.select_judges(["d", "c", "b", "a"]), (1.0, 10.0), {"d": (0.0, 50.0), "c": (1.0, 5.0)}
    )[0]
    np.testing.assert_array_equal(turned.values[:, ::-1], found.values)


def test_a_scale_of_nobody_is_refused(rng):
    scores = of(a=grades(rng, 1, 10), b=grades(rng, 1, 10))
    with pytest.raises(InputError, match="a scale is declared for 'x', which is not a judge; choose from a, b"):
        to_common_scale(scores, None, {"x": (0.0, 1.0)})
    odd = of(a=grades(rng, -3, 3), b=grades(rng, 0, 100))
    with pytest.raises(InputError, match="declare the panel's scale too"):
        to_common_scale(odd, None, {"b": (0.0, 100.0)})


def test_a_rounding_error_or_a_typing_error_makes_no_other_scale(rng):
    """Single precision gives shares such as 1.0000001, and a single grade among shares is a typing error."""
    shares = np.clip(rng.random((200, 5)), 0.0, 1.0)
    for beyond in (1.0000001, 7.0):
        values = shares.copy()
        values[3, 0] = beyond
        found, rescaled = to_common_scale(matrix(values))
        assert rescaled == ()
        np.testing.assert_array_equal(found.values, values)
    np.testing.assert_array_equal(on_scale(np.array([1.0000001, 1.1, -0.5]), (0.0, 1.0)), [1.0, np.nan, np.nan])


def test_continuous_scores_that_pass_ten_now_and_then_are_on_no_scale(rng):
    values = np.clip(5.5 + 1.6 * rng.normal(size=(300, 5)), 0.5, None)
    values[:2, 0] = 10.4
    found, rescaled = to_common_scale(matrix(values))
    assert rescaled == ()
    np.testing.assert_array_equal(found.values, values)


def test_a_scale_in_reverse_order_reverses_the_scores_of_a_judge(rng):
    good = rng.integers(1, 11, size=40).astype(float)
    columns = np.column_stack([good, good, 11 - good])
    scores, rescaled = to_common_scale(matrix(columns), (1.0, 10.0), {"j002": (10.0, 1.0)})
    np.testing.assert_allclose(scores.values[:, 2], good)
    assert [each.sentence for each in rescaled] == [
        "judge 'j002' uses the scale 10 to 1 (declared): its scores are rescaled to the panel's scale, 1 to 10"
    ]


def test_most_judges_determine_the_scale_of_grades(rng):
    """One judge that grades up to 10 must not make a scale up to 10 of a panel that grades from 1 to 5."""
    quality = rng.uniform(size=200)
    grades = [1 + np.round(4 * np.clip(quality + rng.normal(0, 0.1, 200), 0, 1)) for _ in range(4)]
    long, percent = np.round(10 * quality), np.round(100 * quality)
    scores = matrix(np.column_stack([*grades, long, percent]))
    done, rescaled = to_common_scale(scores)
    assert {one.judge: (one.own, one.panel) for one in rescaled} == {
        scores.judges[4]: ((0.0, 10.0), (1.0, 5.0)),
        scores.judges[5]: ((0.0, 100.0), (1.0, 5.0)),
    }
    np.testing.assert_allclose(done.values[:, 4], 1 + 4 * long / 10)
    np.testing.assert_array_equal(done.values[:, :4], scores.values[:, :4])
    assert to_common_scale(scores, (0.0, 10.0))[1][0].judge == scores.judges[5], "a declared scale stays"
