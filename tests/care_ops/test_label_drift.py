"""Judges that agree less with newer labels: false alarms under no change, found where one has changed."""

import numpy as np
import pytest
from scipy.special import expit

from care_ops.least import LABELS_TO_CONFIRM
from care_ops.results.label_drift import FALSE_ALARM, agreement_drift

JUDGES = ("a", "b", "c", "d", "e", "f")


def labelled(rng, older, newer, *, broken=(), graded=False, better=0.0):
    """Scores of six judges, labels, which items are newer; ``broken`` judges give noise for the newer ones."""
    is_newer = np.arange(older + newer) >= older
    quality = rng.normal(size=older + newer) + better * is_newer
    scores = quality[:, None] + 0.8 * rng.normal(size=(older + newer, len(JUDGES)))
    for judge in broken:
        column = JUDGES.index(judge)
        scores[is_newer, column] = rng.normal(size=newer)
    labels = quality + 0.3 * rng.normal(size=len(quality)) if graded else rng.random(len(quality)) < expit(3 * quality)
    return scores, labels.astype(float), is_newer


@pytest.mark.parametrize("weighted", [False, True], ids=["random", "weighted"])
def test_no_change_raises_no_more_alarms_than_declared(weighted):
    """150 nights of 60 older and 30 newer labels; the newer ones are drawn with unequal chances and weighted."""
    alarms = 0
    for seed in range(150):
        rng = np.random.default_rng([seed, 2])
        scores, labels, newer = labelled(rng, 60, 200 if weighted else 30)
        weights = np.ones(len(labels))
        if weighted:
            chance = 0.05 + 0.2 / (1 + np.abs(scores[:, 0]))
            kept = ~newer | (rng.random(len(labels)) < chance)
            scores, labels, newer, weights = (
                scores[kept],
                labels[kept],
                newer[kept],
                np.where(newer, 1 / chance, 1.0)[kept],
            )
            weights[newer] /= weights[newer].mean()
        alarms += bool(agreement_drift(scores, labels, newer, weights, JUDGES, seed))
    assert alarms / 150 <= FALSE_ALARM + 3 * np.sqrt(FALSE_ALARM * (1 - FALSE_ALARM) / 150)


@pytest.mark.parametrize("graded", [False, True], ids=["yes or no", "grades"])
def test_the_judge_that_has_changed_is_named(graded):
    scores, labels, newer = labelled(np.random.default_rng(0), 200, 80, broken=("c",), graded=graded)
    scores[::7, 1] = np.nan
    (moved,) = agreement_drift(scores, labels, newer, np.ones(280), JUDGES)
    assert moved.judge == "c"
    assert moved.after > moved.before + 0.08


def test_better_answers_are_no_drift():
    """Answers of which people pass more, as the judges do."""
    scores, labels, newer = labelled(np.random.default_rng(1), 200, 200, better=1.0)
    assert agreement_drift(scores, labels, newer, np.ones(400), JUDGES) == []


def test_few_labels_say_nothing():
    scores, labels, newer = labelled(np.random.default_rng(2), 200, LABELS_TO_CONFIRM - 1, broken=JUDGES)
    assert agreement_drift(scores, labels, newer, np.ones(len(labels)), JUDGES) == []
