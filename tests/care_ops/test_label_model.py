"""Tests of quality given labels: the closed form, sides of a threshold, and calibration of the probability."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kendalltau

from care_ops.config import FitConfig
from care_ops.fit import fit_panel
from care_ops.fit_labels import FitLabels
from care_ops.models.label_model import (
    AT_RANDOM,
    DEPARTURES,
    NOISES,
    NOISES_OF_SIDES,
    NOT_WORSE,
    SLOPE,
    SLOPE_SD,
    Columns,
    fit_labels,
)
from care_ops.results.fit_facts import LabelEvidence
from tests.support.matrices import matrix


@pytest.mark.parametrize("m", [5, 40])
def test_the_posterior_is_that_of_the_joint_gaussian(rng, m):
    """The expected mean conditions the joint covariance of all items, for few and for many labels."""
    n = 60
    rows = np.sort(rng.choice(n, m, replace=False))
    score, factors, judges = rng.normal(size=n), rng.normal(size=(n, 2)), rng.normal(size=(n, 3))
    labels = rng.normal(size=m)
    evidence, answers = [], []
    y = (labels - labels.mean()) / labels.std(ddof=1)
    for a, b, noise in itertools.product(DEPARTURES, DEPARTURES, NOISES):
        k = a**2 * factors @ factors.T / 2 + b**2 * judges @ judges.T / 3 + SLOPE_SD**2 * np.outer(score, score)
        here = k[np.ix_(rows, rows)] + noise**2 * np.eye(m) + 10.0
        residual = y - SLOPE * score[rows]
        inverse = np.linalg.inv(here)
        answers.append(SLOPE * score + k[:, rows] @ inverse @ residual)
        evidence.append(-0.5 * residual @ inverse @ residual - 0.5 * np.linalg.slogdet(here)[1])
    at_random = np.eye(m) + 10.0  # labels that follow nothing, and leave quality what it was thought to be
    of_nothing = -0.5 * y @ np.linalg.inv(at_random) @ y - 0.5 * np.linalg.slogdet(at_random)[1]
    logs = np.array([*(np.log((1 - AT_RANDOM) / len(evidence)) + np.array(evidence)), np.log(AT_RANDOM) + of_nothing])
    weight = np.exp(logs - logs.max())
    weight = weight / weight.sum()
    total = weight @ np.array([*answers, SLOPE * score])
    found = fit_labels(Columns(score, factors, judges), rows, labels, np.ones(len(labels)), None)
    assert found is not None
    np.testing.assert_allclose(found.latent, total, atol=1e-8)
    assert found.at_random == pytest.approx(weight[-1])


def test_labels_of_two_values_are_sides_of_a_threshold(rng):
    """The expected mean weights draws from the prior by the probability of the labels' sides."""
    n, m, draws = 40, 6, 40_000
    rows = np.sort(rng.choice(n, m, replace=False))
    score, factors, judges = rng.normal(size=n), rng.normal(size=(n, 2)), rng.normal(size=(n, 3))
    sides = np.array([1, -1, 1, 1, -1, -1])
    answers, chance = [], []
    for a, b, noise in itertools.product(DEPARTURES, DEPARTURES, NOISES_OF_SIDES):
        slope = SLOPE + SLOPE_SD * rng.normal(size=(draws, 1))
        drawn = slope * score + a * rng.normal(size=(draws, 2)) @ factors.T / 2**0.5
        drawn += b * rng.normal(size=(draws, 3)) @ judges.T / 3**0.5
        level = 10**0.5 * rng.normal(size=(draws, 1))
        fits = ndtr(sides * (drawn[:, rows] / noise + level)).prod(axis=1)
        answers.append(fits @ drawn / fits.sum())
        chance.append(fits.mean())
    at_random = float(ndtr(sides * 10**0.5 * rng.normal(size=(draws, 1))).prod(axis=1).mean())
    weight = np.array([*(np.array(chance) * (1 - AT_RANDOM) / len(chance)), at_random * AT_RANDOM])
    total = weight / weight.sum() @ np.array([*answers, SLOPE * score])
    for labels in (np.maximum(sides, 0.0), np.where(sides > 0, 5.0, 1.0)):
        found = fit_labels(Columns(score, factors, judges), rows, labels, np.ones(len(labels)), None)
        assert found is not None
        np.testing.assert_allclose(found.latent, total, atol=0.06)
        assert found.at_random == pytest.approx(weight[-1] / weight.sum(), abs=0.02)


def test_the_gain_over_the_plain_average_is_that_of_draws_from_the_posterior(rng):
    """Many labels leave one grid cell and little uncertainty."""
    n = 400
    judges = rng.normal(size=(n, 4))
    quality = judges @ [1.0, 0.0, 0.0, 0.0] + 0.3 * rng.normal(size=n)
    plain = judges.mean(axis=1) / judges.mean(axis=1).std()
    rows = np.arange(200)
    found = fit_labels(Columns(plain, plain[:, None], judges), rows, quality[rows], np.ones(len(rows)), plain)
    assert found is not None
    true = [2 / np.pi * np.arcsin(np.corrcoef(each, judges[:, 0])[0, 1]) for each in (found.latent, plain)]
    assert found.gain == pytest.approx(true[0] - true[1], abs=0.03)
    assert found.better > 0.99


def test_stated_probabilities_of_being_no_worse_than_the_average_are_true():
    """If quality follows the prior, a probability of p is right in about p of the panels."""
    stated, true = [], []
    for seed in range(150):
        rng = np.random.default_rng([8, seed])
        judges = rng.normal(size=(300, 6)) + 0.7 * rng.normal(size=(300, 1))
        judges = (judges - judges.mean(axis=0)) / judges.std(axis=0)
        plain = judges.mean(axis=1) / judges.mean(axis=1).std()
        departure = rng.choice(DEPARTURES) * judges @ rng.normal(size=6) / 6**0.5
        quality = (SLOPE + SLOPE_SD * rng.normal()) * plain + departure
        labels = quality[:20] + rng.choice(NOISES) * rng.normal(size=20)
        found = fit_labels(Columns(plain, plain[:, None], judges), np.arange(20), labels, np.ones(20), plain)
        assert found is not None
        gain = [2 / np.pi * np.arcsin(np.corrcoef(each, quality)[0, 1]) for each in (found.latent, plain)]
        stated.append(found.better)
        true.append(gain[0] - gain[1] >= -NOT_WORSE)
    assert abs(np.mean(stated) - np.mean(true)) < 0.1
    sure = np.array(stated) > 0.9
    assert np.mean(np.array(true)[sure]) > 0.85


@pytest.mark.slow
def test_labels_that_settle_planted_groups_make_the_estimate_at_least_as_good_as_the_average():
    gains = []
    for seed in range(60):
        rng = np.random.default_rng([7, seed])
        n, p = int(rng.choice([150, 300])), int(rng.integers(5, 11))
        biased = np.arange(p) < rng.integers(2, p - 1)
        quality = rng.normal(size=(n, 1))
        confounder = (rng.normal(size=(n, 1)), 2.2 * (rng.random((n, 1)) < 0.3), rng.standard_t(4, size=(n, 1)))[
            seed % 3
        ]
        slopes, biases, noise = (rng.uniform(*ends, size=p) for ends in ((0.3, 1.0), (0.5, 1.3), (0.4, 1.1)))
        x = slopes * quality + biased * biases * confounder + noise * rng.normal(size=(n, p))
        scores = matrix(np.round(1.2 * x + 3).clip(1, 5) if seed % 2 else x)
        plain = kendalltau(scores.values.mean(axis=1), quality[:, 0])[0]
        noisy = quality[:, 0] + 0.5 * rng.normal(size=n)
        for count in (20, 50):
            labels = {scores.item_ids[i]: float(noisy[i] > 0) for i in range(count)}
            found = fit_panel(scores, FitConfig(("care",)), FitLabels(labels), solve="not").aggregates["care"]
            evidence = LabelEvidence(count, found.details["labels_better"], 0.0, found.details["labels_at_random"])
            if found.details["concerns"] and evidence.settles:
                gains.append(kendalltau(found.estimate, quality[:, 0])[0] - plain)
    assert len(gains) > 20
    assert np.mean(np.array(gains) >= -0.01) >= 0.9
    assert np.mean(gains) > 0.05
