"""Tests of CARE-Tensor: meaning and number of its states, and degenerate panels."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from care_ops.aggregators.base import Problem
from care_ops.aggregators.care_svd import fit_structure
from care_ops.aggregators.care_tensor import (
    STATES,
    _check_different_rows,
    confirmed_by_labels,
    evidence_for,
    fit_states,
    quality_by_labels,
)
from care_ops.config import FitConfig, StructureConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.fit_labels import FitLabels
from care_ops.metrics import auc, tau
from care_ops.moments.state import accumulate
from care_ops.simulate import four_state_mixture
from tests.support.matrices import matrix


def tensor(scores, seen_labels=None):
    return fit_panel(scores, FitConfig(aggregators=("care_tensor",)), seen_labels or FitLabels({})).aggregates[
        "care_tensor"
    ]


def two_binary_latents(rng, n=4_000, p=12):
    q, c = rng.integers(0, 2, (2, n))
    judges = 5 + np.outer(2 * q - 1, rng.uniform(0.6, 1.2, p)) + np.outer(2 * c - 1, rng.uniform(-0.6, 0.6, p))
    return q, c, judges + rng.normal(scale=0.7, size=(n, p))


def test_states_are_quality_and_confounder(rng):
    q, c, values = two_binary_latents(rng)
    scores = matrix(values)
    moments = accumulate(values)
    structure, _ = fit_structure(moments, StructureConfig())
    states = fit_states(Problem(scores, moments, structure, rng))
    posterior = states.posterior
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    label = posterior.argmax(axis=1)
    assert np.mean(states.quality[label] == q) > 0.98
    assert sorted(zip(states.quality.tolist(), states.confounder.tolist(), strict=True)) == [
        (0.0, 0),
        (0.0, 1),
        (1.0, 0),
        (1.0, 1),
    ]
    # each of the four states is one (Q, C): C is found up to its naming within each Q
    for quality in (0, 1):
        of = q == quality
        assert abs(np.mean(states.confounder[label[of]] == c[of]) - 0.5) > 0.4
    assert (np.diff(states.score[np.argsort(states.quality, kind="stable")][[1, 2]]) > 0).all()


def test_labels_turn_a_panel_that_follows_the_confounder(rng):
    n = 4_000
    q, c = rng.integers(0, 2, (2, n))
    load = np.r_[np.zeros(4), np.ones(8)]
    values = np.outer(2 * q - 1, 1 - load) + np.outer(2 * c - 1, 1.2 * load) + rng.normal(scale=0.8, size=(n, 12))
    scores = matrix(values)
    blind = tensor(scores)
    chosen = rng.choice(n, 30, replace=False)
    seeing = tensor(scores, FitLabels({scores.item_ids[i]: float(q[i]) for i in chosen}))
    assert np.mean((blind.estimate > blind.threshold) == q) < 0.7
    assert np.mean((seeing.estimate > seeing.threshold) == q) > 0.95


def test_starts_that_disagree_are_reported(rng):
    clear = matrix(four_state_mixture(rng, n=3_000, p=12, noise=0.6).scores)
    agreed = tensor(clear).details
    assert agreed["starts_agree"] is True
    assert "starts_alike" not in agreed
    rng = np.random.default_rng(0)
    quality = rng.standard_normal((60, 1))  # no states at all, and votes that are not Gaussian
    votes = matrix((quality + rng.standard_normal((60, 12)) > 0).astype(float))
    details = tensor(votes).details
    assert details["starts_agree"] is False
    assert 0.5 < details["starts_alike"] < 1


def test_labels_that_the_states_do_not_show_are_reported(rng):
    quality, _, judges = two_binary_latents(rng, n=1_000)
    scores = matrix(judges)
    chosen = rng.choice(len(quality), 30, replace=False)
    true = tensor(scores, FitLabels({scores.item_ids[i]: float(quality[i]) for i in chosen})).details
    assert true["labels_confirm"] is True
    assert true["anchors_right"] > 0.8
    unrelated = tensor(scores, FitLabels({scores.item_ids[i]: float(k % 2) for k, i in enumerate(chosen)})).details
    assert unrelated["labels_confirm"] is False
    few = tensor(scores, FitLabels({scores.item_ids[i]: float(quality[i]) for i in chosen[:19]})).details
    assert "labels_confirm" not in few


def test_a_few_labels_against_the_map_without_labels_do_not_turn_a_state():
    """Five of eight labels contradict the third of four states by chance; the other labels agree by .8.

    The nearest map reverses the third state. With twice as many labels against every state, the labels decide.
    """
    label_free = np.array([0.0, 0.0, 1.0, 1.0])
    posterior = np.repeat(np.eye(4), 8, axis=0)
    labels = np.concatenate([np.arange(8) < ones for ones in (1, 2, 3, 7)]).astype(float)
    assert quality_by_labels(posterior, labels, label_free).tolist() == [0, 0, 1, 1]
    assert quality_by_labels(posterior, 1 - labels, label_free).tolist() == [1, 1, 1, 0]
    assert quality_by_labels(posterior, 5 + 4 * labels, label_free).tolist() == [0, 0, 1, 1], "labels of 5 and 9"
    reported = confirmed_by_labels(posterior, labels, label_free)
    assert reported["anchors_agree"]
    assert reported["labels_confirm"]
    assert reported["anchors_right"] == (7 + 6 + 3 + 7) / 32, "whichever fold is left out, the map is the same"
    against = confirmed_by_labels(posterior, 1 - labels, label_free)
    assert not against["anchors_agree"]
    assert against["labels_confirm"], "labels left out are predicted all the same"


def labelled_draws(scores, truth, rng, count, draws=40):
    """Yield, for each draw of labels, the label-free estimate and the estimate with labels."""
    moments = accumulate(scores.values)
    states = fit_states(Problem(scores, moments, fit_structure(moments, StructureConfig())[0], rng))
    for _ in range(draws):
        rows = rng.choice(len(truth), count, replace=False)
        quality = quality_by_labels(states.posterior[rows], truth[rows], states.quality)
        graded = len(np.unique(quality)) > 2
        yield states.log_odds, states.posterior @ quality if graded else replace(states, quality=quality).log_odds


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_few_correct_labels_do_not_reverse_the_order_of_votes(rng, share):
    """Two judges are near copies and most labels have one value, so that no state has a high rate of the other."""
    truth = rng.random(400) < share
    sensitivity, specificity = np.array([[0.85, 0.75, 0.9, 0.8, 0.97, 0.65], [0.9, 0.85, 0.75, 0.8, 0.12, 0.92]])
    votes = rng.random((400, 6)) < np.where(truth[:, None], sensitivity, 1 - specificity)
    scores = matrix(np.column_stack([votes, votes[:, 3] ^ (rng.random(400) < 0.05)]).astype(float))
    for count in (10, 20):
        pairs = labelled_draws(scores, truth.astype(float), rng, count)
        assert min(auc(seeing, truth) - auc(blind, truth) for blind, seeing in pairs) > -0.1


def test_few_correct_grades_do_not_reverse_the_order(rng):
    quality = rng.standard_normal(500)
    scores = matrix(np.round(np.clip(3 + 0.5 * quality[:, None] + 1.2 * rng.standard_normal((500, 7)), 1, 5)))
    grades = np.round(np.clip(3 + quality, 1, 5))
    for count in (6, 10):
        assert min(tau(seeing, grades) for _, seeing in labelled_draws(scores, grades, rng, count)) > 0.1
    assert np.mean([tau(seeing, grades) for _, seeing in labelled_draws(scores, grades, rng, 100)]) > 0.4


def test_an_even_chance_predicts_the_lower_label():
    """An estimate equal to its threshold does not exceed it."""
    posterior = np.tile([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], (10, 1))
    labels = np.tile([0.0, 1.0, 1.0], 10)
    assert confirmed_by_labels(posterior, labels, np.array([0.0, 1.0]))["anchors_right"] == pytest.approx(2 / 3)


def test_evidence_for_a_map_is_the_ratio_of_two_chances_of_the_labels():
    """The expected value is a ratio of integrals of the rate under two beta distributions."""
    mapped = quad(lambda rate: rate**2 * (1 - rate) * beta(4, 1).pdf(rate), 0, 1)[0]
    free = quad(lambda rate: rate**2 * (1 - rate), 0, 1)[0]
    evidence = evidence_for(np.ones(1), np.ones((3, 1)), np.array([1.0, 0.0, 1.0]))
    assert evidence == pytest.approx(np.log(mapped / free))


def test_grades_do_not_confirm_a_map_of_two_labels():
    assert confirmed_by_labels(np.eye(3), np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 1.0])) == {}


def test_fewer_different_rows_than_states_are_reported(rng):
    _check_different_rows(np.repeat(np.eye(STATES), 10, axis=0))
    rows = rng.integers(0, 2, 300)
    with pytest.raises(FitError, match="different rows"):
        tensor(matrix(np.column_stack([rows, 1 - rows, rows, rows]).astype(float)))


def test_fewer_than_three_judges_and_constant_ones_are_reported(rng):
    with pytest.raises(FitError, match="three judges"):
        tensor(matrix(rng.normal(size=(100, 2))))
    values = rng.normal(size=(100, 1)) + rng.normal(size=(100, 5))
    values[:, 2] = 4.0
    with pytest.raises(FitError, match="j002"):
        tensor(matrix(values))


def test_a_panel_of_two_states_instead_of_four_gives_quality(rng):
    q = rng.integers(0, 2, 3_000)
    values = np.outer(2 * q - 1, np.ones(12)) + rng.normal(scale=0.8, size=(3_000, 12))
    found = tensor(matrix(values))
    assert np.mean((found.estimate > found.threshold) == q) > 0.98
