"""Tests of the effect of labels on the scores, and of the forecast for ten more labels."""

import numpy as np
import pytest

from assets.results.comparison import recommended_estimate
from assets.table.label_effect import BATCH, label_effect
from care_ops.config import FitConfig
from care_ops.fit_labels import NO_LABELS, FitLabels
from care_ops.scores import ScoreMatrix


def misled(seed, items=200):
    """Simulate six judges, four with a shared bias; return their scores and the quality."""
    rng = np.random.default_rng(seed)
    quality, bias = rng.normal(size=(2, items))
    loads = np.array([0.1, 0.1, 0.2, 0.2, 1.0, 1.0])
    values = np.outer(quality, loads) + np.outer(bias, 1 - loads) + 0.4 * rng.normal(size=(items, 6))
    return ScoreMatrix(values, tuple(f"i{k:03}" for k in range(items)), tuple("abcdef")), quality


def test_labels_change_the_top_items_under_a_shared_bias_and_later_labels_change_fewer():
    panel, quality = misled(0)
    rows = np.random.default_rng(1).permutation(200)
    given = {panel.item_ids[k]: float(quality[k]) for k in rows[:40]}
    effect = label_effect(panel, FitConfig(), FitLabels(given))
    before, after = (recommended_estimate(panel, FitConfig(), a) for a in (NO_LABELS, FitLabels(given)))
    best = [{*np.argsort(-one, kind="stable")[:20].tolist()} for one in (before, after)]
    assert (effect.labels, effect.top, effect.moved) == (40, 20, len(best[1] - best[0]))
    assert effect.moved > effect.next_moved
    assert effect.correlation < 0.8
    for part in ("40 labels changed", f"{effect.moved} of the top 20", "ten more labels would probably change"):
        assert part in effect.sentence()


def best(panel, labels):
    """Return the twenty best items of a fit with these labels."""
    answer = recommended_estimate(panel, FitConfig(), FitLabels(labels))
    return {*np.argsort(-answer, kind="stable")[:20].tolist()}


def test_the_expected_effect_of_ten_more_labels_is_right_on_average():
    predicted, realised = [], []
    for seed in range(10):
        panel, quality = misled(seed)
        rows = np.random.default_rng([seed, 1]).permutation(200)
        given, more = ({panel.item_ids[k]: float(quality[k]) for k in rows[: m * BATCH]} for m in (2, 3))
        predicted.append(label_effect(panel, FitConfig(), FitLabels(given)).next_moved)
        realised.append(len(best(panel, more) - best(panel, given)))
    assert np.mean(predicted) == pytest.approx(np.mean(realised), abs=2.0)


def test_without_labels_of_scored_items_there_is_no_effect():
    panel, _ = misled(0, 30)
    assert label_effect(panel, FitConfig(), NO_LABELS) is None
    assert label_effect(panel, FitConfig(), FitLabels({"nobody": 1.0})) is None
