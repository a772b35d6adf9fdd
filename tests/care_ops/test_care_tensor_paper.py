"""Tests of the paper's Algorithm 2 against Jennrich's algorithm, simulated truth and scipy's densities."""

import builtins
import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from care_ops.aggregators.care_tensor_paper import aligned, label_prototypes, within_states
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.fit_labels import FitLabels
from care_ops.models import cp
from care_ops.scores import ScoreMatrix
from care_ops.simulate import four_state_mixture, grouped_mixture
from tests.support.matrices import matched_error, matrix, shuffled


def fitted(scores: ScoreMatrix, seen_labels: FitLabels | None = None):
    return fit_panel(scores, FitConfig(aggregators=("care_tensor_paper", "avg")), seen_labels or FitLabels({}))


def answer(scores: ScoreMatrix, seen_labels: FitLabels | None = None):
    return fitted(scores, seen_labels).aggregates["care_tensor_paper"]


def planted(rng, n=6_000, p=12, noise=0.6):
    """Simulate quality in all judges and a confounder of either sign; different weights identify third moments."""
    states = rng.choice(4, size=n, p=[0.35, 0.15, 0.2, 0.3])
    quality, confounder = np.divmod(states, 2)
    means = np.array(
        [q * rng.uniform(1.0, 2.0, p) + c * rng.uniform(-0.8, 0.8, p) for q, c in itertools.product((0, 1), repeat=2)]
    )
    return quality, confounder, means, means[states] + noise * rng.standard_normal((n, p))


def test_least_squares_and_jennrich_find_the_planted_components(rng):
    """Both are exact on the exact moment; on a sample, both are near the truth."""
    first, second, third = np.array_split(np.arange(12), 3)
    views = (first, second, third)
    truth = four_state_mixture(rng, n=40_000, p=12, noise=0.5)
    centred = truth.means - truth.weights @ truth.means
    columns = [np.column_stack([np.ones(4), centred[:, group]]) for group in views]
    exact = np.einsum("r,ra,rb,rc->abc", truth.weights, *columns)
    weights, means, misfit = cp.mixture_by_least_squares(exact, views, 4, rng)
    _, jennrich = cp.decompose(exact, views, 4, rng)
    assert misfit < 1e-3
    assert matched_error(means, jennrich) < 0.02
    assert matched_error(means, centred) < 0.02
    np.testing.assert_allclose(sorted(weights), sorted(truth.weights), atol=0.02)

    tensor = np.einsum(
        "na,nb,nc->abc",
        *(
            np.column_stack([np.ones(len(truth.scores)), (truth.scores - truth.scores.mean(axis=0))[:, g]])
            for g in views
        ),
        optimize=True,
    ) / len(truth.scores)
    weights, means, _ = cp.mixture_by_least_squares(tensor, views, 4, rng)
    assert matched_error(means, cp.decompose(tensor, views, 4, rng)[1]) < 0.1
    assert matched_error(means, truth.means - truth.scores.mean(axis=0)) < 0.05


def test_too_few_judges_for_unique_components_are_reported(rng):
    views = (np.array([0, 1]), np.array([2, 3]), np.array([4, 5]))
    with pytest.raises(FitError, match="4 components are not unique"):
        cp.mixture_by_least_squares(np.ones((3, 3, 3)), views, 4, rng)


def test_without_tensorly_it_reports_what_to_install(rng, monkeypatch):
    real = builtins.__import__

    def missing(name, *more, **named):
        if name.startswith("tensorly"):
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    failures = fitted(matrix(planted(rng, n=500)[3])).failures
    assert "[pipeline]" in failures["care_tensor_paper"]


def test_planted_states_come_back_and_decide_as_the_density_does(rng):
    quality, _, means, values = planted(rng)
    found = answer(matrix(values))
    states = np.array(found.details["state_means"])
    assert matched_error(states, means) < 0.1
    assert np.mean((found.estimate > found.threshold) == quality) > 0.97
    assert found.details["mapped_by"] == "v"

    correlation = np.corrcoef(values.T)  # equation 1 by scipy, from the states that the answer names
    z, scale = (values - values.mean(axis=0)) / values.std(axis=0), values.std(axis=0)
    weights, mu = np.array(found.details["state_weights"]), (states - values.mean(axis=0)) / scale
    between = (mu - weights @ mu).T * weights @ (mu - weights @ mu)
    joint = np.array(
        [w * multivariate_normal(m, correlation - between).pdf(z[:200]) for w, m in zip(weights, mu, strict=True)]
    )
    positive = np.array(found.details["state_quality"]) > 0
    odds = np.log(joint[positive].sum(axis=0) / joint[~positive].sum(axis=0))
    assert found.latent is not None
    assert np.corrcoef(odds, found.latent[:200])[0, 1] > 0.999
    assert np.mean((odds > 0) == (found.latent[:200] > 0)) > 0.99


def test_the_covariance_within_states_is_the_law_of_total_covariance(rng):
    draw, _ = grouped_mixture(rng, n=50_000, p=9, noise=1.0)
    residual = draw.scores - draw.means[draw.states]
    within, floored = within_states(np.cov(draw.scores.T), draw.weights, draw.means)
    np.testing.assert_allclose(within, np.cov(residual.T), atol=0.03)
    assert floored == 0
    separate = 3 * draw.means  # means that differ by more than the judges vary leave no covariance in their directions
    within, floored = within_states(np.cov(draw.scores.T), draw.weights, separate)
    assert floored == 3
    assert np.linalg.eigvalsh(within)[0] == pytest.approx(1e-3)


def test_labels_turn_a_panel_whose_leading_direction_is_the_confounder(rng):
    """Every state has its own means.

    If the effects of Q and C were additive, four states would span two dimensions, and Kruskal's condition for unique
    components would fail.
    """
    states = rng.choice(4, size=6_000, p=[0.35, 0.15, 0.2, 0.3])
    quality = states // 2
    means = np.array([q * rng.uniform(-0.2, 0.8, 12) + c * rng.uniform(1.5, 2.5, 12) for q in (0, 1) for c in (0, 1)])
    scores = matrix(means[states] + 0.3 * rng.standard_normal((6_000, 12)))
    chosen = rng.choice(6_000, 40, replace=False)
    seen_labels = FitLabels({scores.item_ids[i]: float(quality[i]) for i in chosen})
    blind, seeing = answer(scores), answer(scores, seen_labels)
    assert np.mean((blind.estimate > blind.threshold) == quality) < 0.8
    assert np.mean((seeing.estimate > seeing.threshold) == quality) > 0.95
    assert (blind.labels_used, seeing.labels_used) == (0, 40)
    assert seeing.details["mapped_by"] == "prototypes of anchors"


def test_prototypes_are_the_planted_states_and_alignment_is_the_best_permutation(rng):
    quality, confounder, means, values = planted(rng, n=400, noise=0.2)
    weights = np.bincount(2 * quality + confounder) / 400
    prototypes = label_prototypes(values, quality.astype(float), weights, means)
    assert prototypes is not None
    by_state = [[0, 1], [2, 3]]  # which side is C = 1 is a name
    for pair in by_state:
        either = [np.linalg.norm(prototypes[pair] - means[order]) for order in (pair, pair[::-1])]
        assert min(either) / np.linalg.norm(means[pair]) < 0.1
    turned = means[[3, 0, 2, 1]]
    best = min(itertools.permutations(range(4)), key=lambda o: np.sum((turned[list(o)] - prototypes) ** 2))
    expected = np.zeros(4)
    expected[list(best[2:])] = 1.0
    assert aligned(turned, prototypes).tolist() == expected.tolist() == [1, 0, 1, 0]


def test_labels_of_one_value_or_of_one_item_make_no_prototypes(rng):
    _, _, means, values = planted(rng, n=10)
    weights = np.full(4, 0.25)
    assert label_prototypes(values, np.ones(10), weights, means) is None
    assert label_prototypes(values, np.r_[1.0, np.zeros(9)], weights, means) is None


@pytest.mark.parametrize(("n", "p", "why"), [(500, 6, "at least 7 judges"), (80, 9, "at least 90 items")])
def test_panels_that_are_too_small_are_refused(rng, n, p, why):
    assert why in fitted(matrix(planted(rng, n=n, p=p)[3])).failures["care_tensor_paper"]


def test_order_of_judges_and_items_and_a_judges_scale_do_not_matter_and_scores_may_be_missing(rng):
    quality, _, _, values = planted(rng, n=3_000)
    values[rng.random(values.shape) < 0.05] = np.nan
    values[7] = np.nan
    scores = matrix(values)
    moved, items, _ = shuffled(scores, rng)
    one, other = answer(scores), answer(moved)
    np.testing.assert_allclose(other.estimate, one.estimate[items], atol=1e-8)
    assert np.isnan(one.estimate[7])
    known = ~np.isnan(one.estimate)
    assert np.mean((one.estimate > one.threshold)[known] == quality[known]) > 0.9
    stretched = values.copy()
    stretched[:, 2] = 40 * values[:, 2] - 7  # starts are seeded by content, which has changed
    assert np.corrcoef(answer(matrix(stretched)).latent[known], one.latent[known])[0, 1] > 0.999
