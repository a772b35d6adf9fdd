"""Tests of duplicate judges, which accuracy alone cannot explain."""

import numpy as np
import pytest

from care_ops.models.duplicates import find_duplicates
from care_ops.models.factor_analysis import normal_scores


def found_in(x: np.ndarray, families: list[int] | None = None):
    return find_duplicates(np.corrcoef(normal_scores(x).T), len(x), np.array(families or range(x.shape[1])))


def honest(rng: np.random.Generator, items: int, judges: int) -> np.ndarray:
    return rng.normal(size=(items, 1)) + 0.9 * rng.normal(size=(items, judges))


@pytest.mark.parametrize(("judges", "copies"), [(6, 2), (10, 2), (10, 4), (16, 6)])
def test_copies_of_a_judge_that_follows_nobody_count_as_one(rng, judges, copies):
    x = honest(rng, 300, judges)
    x[:, :copies] = rng.normal(size=(300, 1)) + 0.1 * rng.normal(size=(300, copies))
    found = found_in(x)
    assert found.group[:copies].tolist() == [0] * copies
    assert len(set(found.group.tolist())) == judges - copies + 1


def test_two_runs_of_one_ordinary_model_count_as_one(rng):
    x = honest(rng, 1_000, 6)
    x[:, 1] = x[:, 0] + 0.1 * rng.normal(size=1_000)
    assert found_in(x).group.tolist() == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("good", [2, 3, 4, 7])
@pytest.mark.parametrize("items", [300, 3_200])
def test_accurate_judges_who_vote_independently_are_never_duplicates(good, items):
    """Seven good judges among nine, with a shared error of the others, are not duplicates."""
    for seed in range(5):
        rng = np.random.default_rng([3, good, items, seed])
        truth, hard, mistake = rng.random(items) < 0.6, rng.random(items) < 0.08, rng.random(items) < 0.3
        right = rng.random((items, good)) < np.where(hard, 0.4, 0.99)[:, None]
        poor = np.where(mistake[:, None], rng.random((items, 9 - good)) < 0.2, rng.random((items, 9 - good)) < 0.85)
        votes = np.where(np.column_stack([right, poor]), truth[:, None], ~truth[:, None]).astype(float)
        assert found_in(votes).group.tolist() == list(range(9))


def test_copies_that_are_most_of_a_panel_are_reported_and_not_merged(rng):
    x = honest(rng, 400, 9)
    x[:, :6] = rng.normal(size=(400, 1)) + 0.05 * rng.normal(size=(400, 6))
    found = found_in(x)
    assert len(set(found.group.tolist())) == 9
    assert found.uncertain == tuple(range(6))


def test_better_judges_than_the_others_are_reported_and_not_merged(rng):
    """Nearly equal judges that correlate less with the others may be copies or better judges."""
    quality, mistake = rng.normal(size=(2, 500, 1))
    good = quality + 0.1 * rng.normal(size=(500, 3))
    poor = 0.5 * quality + 0.8 * mistake + 0.6 * rng.normal(size=(500, 6))
    found = found_in(np.column_stack([good, poor]))
    assert len(set(found.group.tolist())) == 9
    assert found.uncertain == (0, 1, 2)
    declared = found_in(np.column_stack([good, poor]), [0, 0, 0, 1, 2, 3, 4, 5, 6])
    assert declared.group.tolist() == [0, 0, 0, 1, 2, 3, 4, 5, 6], "runs of one model that was declared"
