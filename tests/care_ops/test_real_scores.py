"""Tests of figures on recorded scores with gold."""

import numpy as np
import pytest

from care_ops.admission import check_panel
from care_ops.config import LABEL_FREE, AdmissionRule, FitConfig
from care_ops.fit import fit_panel
from care_ops.scores import ScoreMatrix
from warehouse.sources.files import read_items, read_scores
from warehouse.testsets import ItemColumns

pytestmark = pytest.mark.data

SETS = ("care_asset", "care_civilcomments", "llmbar", "hanna")


def load(data_dir, name) -> tuple[ScoreMatrix, np.ndarray]:
    scores = read_scores(data_dir / name / "scores.parquet").scores
    items = read_items(data_dir / name / "items.parquet", ItemColumns(gold="gold"))
    gold = {r.item_id: np.nan if r.gold is None else r.gold for r in items}
    return scores, np.array([gold[i] for i in scores.item_ids])


def test_baselines_on_asset_have_the_published_errors(data_dir):
    scores, gold = load(data_dir, "care_asset")
    assert scores.shape == (4500, 11)
    found = fit_panel(scores, FitConfig(aggregators=("mv", "avg", "uws"))).aggregates
    errors = {name: round(float(np.abs(a.estimate - gold).mean()), 3) for name, a in found.items()}
    assert errors == {"mv": 31.153, "avg": 33.663, "uws": 33.928}


def test_baselines_on_civilcomments_have_the_published_accuracies(data_dir):
    scores, gold = load(data_dir, "care_civilcomments")
    complete = ~np.isnan(scores.values).any(axis=1)
    assert complete.sum() == 4049
    rows, gold = scores.select_items(complete), gold[complete]
    found = fit_panel(rows, FitConfig(aggregators=("mv", "avg", "uws"), cut=4.5)).aggregates
    right = {n: round(float(np.mean((a.estimate > a.threshold) == gold)), 4) for n, a in found.items()}
    assert right == {"mv": 0.7152, "avg": 0.7286, "uws": 0.7249}


def test_all_items_are_answered_with_scores_missing(data_dir):
    scores, _ = load(data_dir, "care_civilcomments")
    found = fit_panel(scores, FitConfig(aggregators=LABEL_FREE, cut=4.5))
    assert tuple(found.aggregates) == LABEL_FREE
    assert not found.failures
    for aggregate in found.aggregates.values():
        assert aggregate.estimate.shape == (5000,)
        assert not np.isnan(aggregate.estimate).any()


def test_admission_finds_the_degenerate_and_the_missing(data_dir):
    asset, _ = load(data_dir, "care_asset")
    civil, _ = load(data_dir, "care_civilcomments")
    left_out = {
        c.judge: c.reason.split(":")[0]
        for scores in (asset, civil)
        for c in check_panel(scores, AdmissionRule(max_missing=0.1))  # as in the paper
        if not c.admitted
    }
    assert left_out == {
        "Llama-3.2-1B": "degenerate",
        "Qwen3-0.6B": "degenerate",
        "deepseek-llm-7b-chat": "missing or out of range",
    }


@pytest.mark.parametrize("name", SETS)
def test_care_answers_differ_and_do_not_depend_on_the_order_of_judges(data_dir, name):
    scores, _ = load(data_dir, name)
    order = np.random.default_rng(5).permutation(scores.shape[1])
    shuffled = scores.select_judges([scores.judges[j] for j in order])
    one, other = (fit_panel(s, FitConfig()).aggregates for s in (scores, shuffled))
    for method in ("care_svd", "care_tensor"):
        np.testing.assert_allclose(other[method].estimate, one[method].estimate, atol=1e-8)
        assert np.nanmax(np.abs(one[method].estimate - one["avg"].estimate)) > 1e-3
    assert np.nanmax(np.abs(one["care_svd"].estimate - one["care_tensor"].estimate)) > 1e-3
