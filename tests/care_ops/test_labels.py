"""Tests of labels: permitted uses, noise from repeated labels, and weights in a fit."""

import numpy as np
import pytest
from scipy.special import expit

from care_ops.calibration import probability_curve
from care_ops.errors import InputError
from care_ops.fit_labels import FitLabels
from care_ops.labels import Label, Labels
from care_ops.models.label_model import Columns, fit_labels
from care_ops.results.rates import Labelled, Repeats, rates_of


def test_estimates_rest_on_labels_of_a_probability_sample_only():
    labels = Labels((Label("a", 1.0, "random"), Label("b", 0.0, "random"), Label("c", 1.0, "chosen")))
    assert labels.sample == {"a": 1.0, "b": 1.0}
    assert (labels.left_out, labels.binary) == (1, True)
    seen_labels = FitLabels.of(labels)
    assert seen_labels.labels == {"a": 1.0, "b": 0.0, "c": 1.0}
    assert (seen_labels.chance_of("c"), seen_labels.left_out) == (None, 1)
    np.testing.assert_allclose(seen_labels.weights(["a", "b", "c"]), [1.0, 1.0, 0.0])
    weighted = Labels((Label("a", 1.0, "random", 0.5), Label("b", 0.0, "chosen", 0.1), Label("c", 1.0)))
    assert weighted.sample == {"a": 0.5, "b": 0.1}
    first, second, left_out = FitLabels.of(weighted).weights(["a", "b", "c"])
    assert (second / first, left_out) == (pytest.approx(5.0), 0.0)
    assert first + second == pytest.approx(12**2 / (2**2 + 10**2))


def test_a_record_that_contradicts_itself_is_refused():
    with pytest.raises(InputError, match="disagree on `drawn` or `probability`"):
        Labels((Label("a", 1.0, "random"), Label("a", 0.0, "chosen")))
    with pytest.raises(InputError, match="item 'b' was drawn at random but has no probability"):
        Labels((Label("a", 1.0, "chosen", 0.5), Label("b", 0.0, "random")))
    with pytest.raises(InputError, match=r"sampling probability 1\.5; give one in \(0, 1\]"):
        Label("a", 1.0, "random", 1.5)
    with pytest.raises(InputError, match="the label of item 'a' is nan"):
        Label("a", float("nan"))


def repeated(noise, items=400, seed=0):
    """Simulate two labels of each item, with variance 1 between items and ``noise`` ** 2 within."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=items)
    return Labels(
        tuple(Label(f"i{k}", float(quality[k] + noise * rng.normal()), "random") for k in range(items) for _ in "ab")
    )


@pytest.mark.parametrize("noise", [0.5, 1.0, 2.0])
def test_reliability_is_estimated_from_repeats_and_sets_what_an_item_counts(noise):
    labels = repeated(noise)
    truth = 1 / (1 + noise**2)
    assert labels.reliability == pytest.approx(truth, abs=0.08)
    assert labels.counts["i0"] == pytest.approx(2 / (1 + labels.reliability))


def test_repeats_that_agree_count_once_and_single_labels_measure_no_noise():
    agreeing = Labels(tuple(Label(f"i{k}", float(k % 2), "random") for k in range(10) for _ in "abc"))
    assert agreeing.reliability == 1.0
    assert set(agreeing.counts.values()) == {1.0}
    assert Labels((Label("a", 1.0), Label("b", 0.0))).reliability is None
    alike = Labels((Label("a", 1.0), Label("a", 1.0), Label("b", 1.0)))
    assert (alike.reliability, alike.counts) == (1.0, {"a": 1.0})


def test_labels_of_one_rater_are_one_opinion():
    """The agreement of a rater with herself does not measure agreement between people."""
    twice = [Label(f"i{k}", float(k % 2), "random", rater="anna") for k in range(10) for _ in "ab"]
    single = Labels(tuple(twice))
    assert (single.reliability, single.counts) == (None, {})
    (*_, stated) = single.sentences()
    assert stated == "10 items with several labels by one rater, which count as one label"
    other = [Label(f"i{k}", float(k % 3 == 0), "random", rater="bert") for k in range(10)]
    once = Labels((*twice[::2], *other))
    assert Labels((*twice, *other)).reliability == once.reliability
    assert Labels((*twice, *other)).counts == once.counts
    assert Labels((*twice, *other)).values == once.values


def test_labels_that_contradict_each_other_are_reported_as_such():
    """Each of fifteen items has the labels 1 and 0; an earlier release reported a correlation of 0.00."""
    twice = [Label(f"i{k}", float(value), "random") for k in range(15) for value in (0, 1)]
    once = [Label(f"j{k}", float(k % 2), "random") for k in range(35)]
    *_, stated = Labels((*twice, *once)).sentences()
    assert stated.startswith("warning: 15 of 15 items with several labels have labels that contradict each other")
    agreeing = [Label(f"i{k}", float(k % 2), "random") for k in range(15) for _ in range(2)]
    *_, stated = Labels((*agreeing, *once)).sentences()
    assert "labels of the same item have a correlation of 1.00" in stated


def test_a_label_that_counts_more_pulls_the_answer_further():
    rng = np.random.default_rng(0)
    score = rng.normal(size=60)
    score = (score - score.mean()) / score.std()
    judges = np.column_stack([score, rng.normal(size=60)])
    rows, labels = np.arange(6), np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])

    def latent(counts):
        return fit_labels(Columns(score, score[:, None], judges), rows, labels, counts, None).latent

    more, equal, less = (latent(np.where(rows == 5, count, 1.0))[5] for count in (5.0, 1.0, 0.2))
    assert more > equal > less


def test_a_weighted_probability_is_that_of_labels_repeated():
    rng = np.random.default_rng(1)
    latent = rng.normal(size=30)
    labels = (rng.random(30) < expit(2 * latent)).astype(float)
    weights = rng.integers(1, 4, 30)
    repeated_labels = probability_curve(np.repeat(latent, weights), np.repeat(labels, weights))
    np.testing.assert_allclose(probability_curve(latent, labels, weights.astype(float)), repeated_labels)


def test_two_labels_that_contradict_each_other_keep_a_rate_a_share():
    rng = np.random.default_rng(2)
    estimate = rng.normal(size=200)
    share = np.full(200, np.nan)
    share[:40] = (rng.random(40) < expit(estimate[:40])).astype(float)
    whole = rates_of(Labelled(estimate, share))
    share[3] = 0.5
    rates = rates_of(Labelled(estimate, share, repeats=Repeats(np.where(np.arange(200) == 3, 1.5, 1.0), True)))
    assert (whole.kind, rates.kind) == ("share", "share")
    assert rates.rates[0].value == pytest.approx(whole.rates[0].value, abs=0.03)


def test_the_first_label_of_each_item_in_the_order_in_which_they_came():
    timed = [("b", 1.0, "2026-03-02T10:00:00Z"), ("a", 0.0, "2026-03-01"), ("b", 0.0, "2026-03-01T23:59:00+01:00")]
    labels = Labels(tuple(Label(item, value, "random", labelled_at=when) for item, value, when in timed))
    assert list(labels.first.items()) == [("a", 0.0), ("b", 0.0)]
    untimed = Labels((*labels.given, Label("c", 1.0, "random", labelled_at="yesterday")))
    assert list(untimed.first.items()) == [("b", 1.0), ("a", 0.0), ("c", 1.0)]
