"""What a judge could do to the answer, beside adversaries that are written here and truth that is planted."""

from dataclasses import replace

import numpy as np
import pytest

from care_ops.config import FitConfig
from care_ops.fit import fit_panel
from care_ops.frozen import freeze, with_features
from care_ops.results.influence import MOST_JUDGES, influence_of
from care_ops.scores import ScoreMatrix
from tests.support.matrices import matrix

CARE = FitConfig(aggregators=("care",), scale=(1.0, 10.0))


def panel(seed: int, judges: int, items: int = 300, noise: float = 0.9) -> ScoreMatrix:
    """Whole scores from 1 to 10 by judges of one quality and errors of their own."""
    rng = np.random.default_rng([31, seed])
    quality = rng.normal(size=(items, 1))
    return matrix(np.clip(np.round(5.5 + 1.6 * (quality + noise * rng.normal(size=(items, judges)))), 1, 10))


def fitted(scores: ScoreMatrix):
    return fit_panel(scores, CARE, solve="not").aggregates["care"]


def best(estimate) -> set[int]:
    return set(np.argsort(-estimate, kind="stable")[: len(estimate) // 10].tolist())


def adversaries(rng, own, other, now):
    """What somebody might do who does not know what ``influence`` tries, each as the judge's scores."""
    worst, target = np.argsort(now)[:15], own.copy()
    target[worst] = 10.0
    yield from (11.0 - own, other, rng.permutation(own), rng.integers(1, 11, len(own)).astype(float), target)


@pytest.mark.parametrize("judges", [5, 9])
def test_no_simple_adversary_does_more_than_what_is_said(judges):
    """Reversed scores, another's scores, noise of two kinds, and the worst items pushed up, fitted anew each time."""
    for seed in range(3):
        scores = panel(seed, judges).canonical()
        answer = fitted(scores)
        said = influence_of(scores, CARE, "care", answer.weights)
        rng = np.random.default_rng(seed)
        for j, judge in enumerate(scores.judges):
            own, other = scores.values[:, j], scores.values[:, (j + 1) % judges]
            for lies in adversaries(rng, own, other, answer.estimate):
                values = scores.values.copy()
                values[:, j] = lies
                changes = len(best(answer.estimate) - best(fitted(replace(scores, values=values)).estimate))
                assert changes <= said.moved[judge], (seed, judge)


def test_what_is_said_is_reached_by_somebody_and_costs_truth():
    """The planted order: after the worst attack so many items as are said stand where better ones stood."""
    scores = panel(4, 6).canonical()
    answer = fitted(scores)
    said = influence_of(scores, CARE, "care", answer.weights)
    assert said.top == 30
    assert 0 < min(said.moved.values()) <= max(said.moved.values()) <= 30
    j = scores.judges.index(max(said.moved, key=said.moved.get))
    without = fitted(scores.select_judges([name for k, name in enumerate(scores.judges) if k != j])).estimate
    assert said.silent[scores.judges[j]] == len(best(answer.estimate) - best(without))
    order, reached = np.argsort(-without, kind="stable"), []
    for number in range(2, 31, 2):
        values = scores.values.copy()
        values[np.argsort(without, kind="stable"), j] = np.sort(scores.values[:, j])
        values[order[30 - number : 30], j], values[order[30 : 30 + number], j] = 1.0, 10.0
        reached.append(len(best(answer.estimate) - best(fitted(replace(scores, values=values)).estimate)))
    assert max(reached) >= 0.8 * said.moved[scores.judges[j]]
    assert max(reached) <= 1.25 * said.moved[scores.judges[j]], "a finer search finds little more"


def test_one_of_many_can_do_less_and_few_together_more():
    few, many = (influence_of(s, CARE, "care", fitted(s).weights) for s in (panel(5, 4), panel(5, 12, noise=0.3)))
    assert max(many.moved.values()) < max(few.moved.values())
    assert len(few.together) == 1
    assert len(many.together) != 1
    assert many.most >= max(many.moved.values()) or not many.together


def test_neither_the_order_of_judges_and_items_nor_a_second_run_changes_it():
    scores = panel(6, 5)
    said = influence_of(scores, CARE, "care", fitted(scores).weights)
    assert influence_of(scores, CARE, "care", fitted(scores).weights) == said
    turned = ScoreMatrix(scores.values[::-1, ::-1].copy(), scores.item_ids[::-1], scores.judges[::-1])
    assert influence_of(turned, CARE, "care", fitted(turned).weights) == said


def test_more_items_and_judges_cost_no_more():
    """Of a large panel items are drawn, and the judges that weigh most."""
    scores = panel(7, MOST_JUDGES + 3, 2_000)
    weights = fitted(scores).weights
    said = influence_of(scores, CARE, "care", weights)
    assert (said.items, said.top) == (500, 50)
    heaviest = {scores.judges[j] for j in np.argsort(-np.abs(weights))[:MOST_JUDGES]}
    assert set(said.moved) == heaviest


def most_swaps(estimate, low, high) -> int:
    """The most of the best tenth that can change where each item lies anywhere between two ends."""
    order, top = np.argsort(-estimate, kind="stable"), len(estimate) // 10
    inside, outside = np.sort(low[order[:top]]), np.sort(high[order[top:]])[::-1]
    return int(np.sum(outside[:top] > inside))


def test_weights_as_they_stand_give_no_bound_as_a_judge_of_noise_gains_weight_by_agreeing():
    """By its weight now the judge could hardly change anything; fitted anew it changes more than that bound."""
    scores = panel(8, 6).canonical()
    values = scores.values.copy()
    values[:, 0] = np.random.default_rng(9).integers(1, 11, len(values))
    scores = replace(scores, values=values)
    answer = fitted(scores)
    frozen = freeze(with_features(scores), answer.estimate)
    ends = []
    for said in (1.0, 10.0):
        attacked = values.copy()
        attacked[:, 0] = said
        change = frozen.features(attacked) - frozen.features(values)
        ends.append(answer.estimate + change @ frozen.coefficients)
    bound = most_swaps(answer.estimate, np.minimum(*ends), np.maximum(*ends))
    said = influence_of(scores, CARE, "care", answer.weights)
    assert said.moved[scores.judges[0]] > bound
