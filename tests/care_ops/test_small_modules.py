"""Tests of metrics, calibration, labels, scores and text features against closed forms and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from care_ops.calibration import fill_uniformly, to_panel_scale
from care_ops.errors import InputError, sentence
from care_ops.fit_labels import FitLabels
from care_ops.metrics import auc, changed, evaluate
from care_ops.results.interpret import FEATURES, counted, feature_correlations, text_features
from care_ops.scores import ScoreMatrix
from tests.support.matrices import matrix


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_auc_is_the_chance_that_a_positive_outranks_a_negative(pairs):
    estimate = np.array([float(e) for e, _ in pairs])
    gold = np.array([float(g) for _, g in pairs])
    positive, negative = estimate[gold == 1], estimate[gold == 0]
    if not len(positive) or not len(negative):
        assert auc(estimate, gold) is None
        return
    wins = (positive[:, None] > negative).mean() + 0.5 * (positive[:, None] == negative).mean()
    assert auc(estimate, gold) == pytest.approx(wins)


def test_binary_and_graded_gold_have_their_own_metrics(rng):
    gold = np.array([0.0, 1.0, 1.0, np.nan, 0.0, 1.0])
    estimate = np.array([0.1, 0.9, 0.4, 0.5, 0.2, np.nan])
    binary = evaluate(estimate, gold, threshold=0.5, scale=None)
    assert (binary.n, binary.accuracy, binary.balanced_accuracy, binary.mae) == (4, 0.75, 0.75, None)
    graded = evaluate(np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 5.0]), threshold=None, scale=(0.0, 6.0))
    assert (graded.mae, graded.accuracy) == (1.0, None)
    assert graded.mae_filled == pytest.approx((1 + 1 + 0) / 3)
    assert evaluate(np.array([1.0]), np.array([1.0]), threshold=None, scale=None).tau is None


def test_one_common_mapping_leaves_order_only(rng):
    estimate = rng.normal(size=50)
    estimate[4] = np.nan
    filled = fill_uniformly(np.exp(estimate), 0, 10)
    np.testing.assert_allclose(filled, fill_uniformly(estimate, 0, 10))
    assert np.isnan(filled[4])
    assert np.nanmean(filled) == pytest.approx(5)


def test_ties_that_rounding_breaks_are_no_changes_of_rank(rng):
    votes = rng.integers(0, 3, size=200).astype(float)
    rounded = changed(votes, votes + rng.normal(size=200) * 1e-12)
    assert (rounded.halves_changed, rounded.top_changed, rounded.correlation) == (0, 0, pytest.approx(1.0))
    assert changed(votes, votes + rng.random(200) / 2).halves_changed == 0, (
        "broken ties put no item into the other half"
    )
    assert changed(np.arange(200.0), -np.arange(200.0)).halves_changed == 200


def test_placement_keeps_order_and_takes_the_panels_level(rng):
    latent, panel = rng.normal(size=80), rng.normal(60, 9, 80)
    placed, offset, unit = to_panel_scale(latent, panel)
    assert (placed.mean(), placed.std()) == (pytest.approx(panel.mean()), pytest.approx(panel.std()))
    np.testing.assert_allclose(placed, offset + unit * latent)
    flat, _, _ = to_panel_scale(np.zeros(80), panel)
    np.testing.assert_allclose(flat, panel.mean())


def test_scores_are_checked_where_they_enter(rng):
    values = rng.normal(size=(3, 2))
    for bad, words in (
        (lambda: ScoreMatrix(values, ("a", "b"), ("x", "y")), "shape"),
        (lambda: ScoreMatrix(values, ("a", "b", "a"), ("x", "y")), "item_id 'a'"),
        (lambda: ScoreMatrix(values, ("a", "b", "c"), ("x", "x")), "judge 'x'"),
        (lambda: ScoreMatrix(values / 0 * np.inf, ("a", "b", "c"), ("x", "y")), "infinite"),
        (lambda: matrix(values * 1e80), "rescale"),
        (lambda: matrix(values).select_judges(["nobody"]), "no judge 'nobody'"),
    ):
        with np.errstate(all="ignore"), pytest.raises(InputError, match=words):
            bad()


def test_fingerprint_is_of_content_not_of_order(rng):
    scores = matrix(rng.normal(size=(5, 3)), j001="gpt")
    mixed = ScoreMatrix(scores.values[::-1, ::-1], scores.item_ids[::-1], scores.judges[::-1], scores.families)
    assert mixed.fingerprint() == scores.fingerprint()
    moved = scores.values.copy()
    moved[0, 0] += 1e-9
    assert matrix(moved, j001="gpt").fingerprint() != scores.fingerprint()
    assert matrix(scores.values, j001="claude").fingerprint() != scores.fingerprint()


def test_labels_take_numbers_only():
    with pytest.raises(InputError, match="finite"):
        FitLabels({"a": float("nan")})


def test_features_count_what_they_name():
    text = "See [1] and https://a.b.\n- one, 2 things\n- three\n\nIt was good ✨! Dr. Who et al. agreed."
    row = dict(zip(FEATURES, text_features([text, None, "", "hi"])[0], strict=True))
    assert row["characters"] == len(text)
    assert (row["list_items"], row["numbers"], row["emoji"]) == (2, 2, 1)
    assert row["authority_markers"] == 3
    rest = text_features([text, None, "", "你好"])
    assert np.isnan(rest[1:3]).all()
    assert rest[3, 0] == 2


@pytest.mark.parametrize(
    ("text", "words", "sentences"),
    [
        ("one two. three!", 3, 2),
        ("巴黎在法国。", 5, 1),
        ("パリです。Yes.", 5, 2),
        ("두 단어.", 2, 1),
        ("ไทย", 3, 0),
    ],
)
def test_words_and_sentences_are_counted_where_no_space_parts_them(text, words, sentences):
    found = counted([text])
    assert (found["words"], found["sentences"]) == pytest.approx((np.log1p(words), np.log1p(sentences)))
    assert dict(zip(FEATURES, text_features([text])[0], strict=True))["words"] == words


def test_feature_correlation_is_spearmans_and_undefined_stays_so(rng):
    scores = rng.normal(size=(100, 2))
    features = np.column_stack([np.exp(scores[:, 0]), np.ones(100)])
    found = feature_correlations(scores, features)
    assert found[0, 0] == pytest.approx(1)
    assert np.isnan(found[:, 1]).all()


def test_a_long_error_keeps_its_remedy_from_the_beginning_of_a_clause():
    refused = ", ".join(f"'column {k}' is left out (holds text)" for k in range(30))
    remedy = (
        "give each judge a column of numbers, or of words such as pass and fail; name all judges, each with --judge"
    )
    stated = sentence(f"scores.csv: no judge beside 'item_id': {refused}; {remedy}")
    assert len(stated) <= 400
    assert stated.startswith("scores.csv: no judge beside 'item_id': 'column 0' is left out (holds text), ")
    assert stated.endswith(f" ... {remedy}"), "it began in the middle of a word"
    assert len(sentence("x" * 10_000)) <= 400
    assert sentence("a; " + "b" * 390) == "a; " + "b" * 390
