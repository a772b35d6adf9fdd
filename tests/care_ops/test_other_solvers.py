"""Wrong answers that are planted into our solvers are told by the others, and right ones are not."""

from dataclasses import replace

import numpy as np
import pytest

from care_ops.errors import FitError
from care_ops.models import cp
from care_ops.moments.state import accumulate
from care_ops.records import Certificate
from care_ops.structure.program import solve
from care_ops.structure.views import Views
from tests.support.matrices import random_correlation
from tests.support.other_solvers import compare_decomposition, compare_structure, objective

VIEWS = Views((np.arange(0, 4), np.arange(4, 8), np.arange(8, 12)), 0.0, 0.0)


@pytest.fixture
def structure(rng):
    correlation = random_correlation(rng, 12)
    return correlation, solve(correlation, lambda_s=0.02, lambda_l=0.1)


@pytest.fixture
def moment(rng):
    """The third moment of two thousand items in four states, which no exact components make."""
    means = rng.uniform(1, 4, (4, 12))
    scores = means[rng.choice(4, 2000, p=(0.35, 0.15, 0.2, 0.3))] + rng.normal(size=(2000, 12))
    moments = accumulate(scores)
    scale = np.sqrt(np.diag(moments.covariance()))
    first, second, third = VIEWS.groups
    return cp.scale_tensor(cp.augmented_moment(moments, VIEWS), (scale[first], scale[second], scale[third]))


@pytest.mark.parametrize("program", ["frobenius", "dtrace"])
def test_a_right_structure_agrees_and_a_rough_one_is_as_far_off_as_it_says(rng, program):
    correlation = random_correlation(rng, 12)
    for tolerance in (1e-3, 1e-6):
        structure = solve(correlation, lambda_s=0.02, lambda_l=0.1, program=program, tolerance=tolerance)
        assert compare_structure(correlation, structure).agrees


def test_a_structure_that_uses_up_its_whole_gap_agrees(structure):
    """Its dual is at the optimum, so that the gap is the primal's alone, and each gap has its own scale."""
    correlation, _ = structure
    best = solve(correlation, lambda_s=0.5, lambda_l=2.0, tolerance=1e-9)
    rough = replace(best, sparse=best.sparse + 0.1 * np.eye(len(best.sparse)))
    primal, optimum = objective(correlation, rough), best.certificate.primal
    assert primal > 1.001 * optimum > 1, "the scales are the objectives"
    certificate = Certificate(primal, optimum, (primal - optimum) / primal, 1e-6, 0, converged=False)
    assert compare_structure(correlation, replace(rough, certificate=certificate)).agrees


def test_a_structure_off_by_a_thousandth_is_told(structure):
    correlation, right = structure
    wrong = right.sparse.copy()
    wrong[0, 1] = wrong[1, 0] = wrong[0, 1] + 0.01
    comparison = compare_structure(correlation, replace(right, sparse=wrong))
    assert not comparison.agrees
    assert comparison.difference > 2 * comparison.allowed


def test_a_structure_outside_the_cone_is_told_however_good_its_objective(structure):
    correlation, right = structure
    values, vectors = np.linalg.eigh(right.low_rank)
    values[0] = -0.01
    wrong = replace(right, low_rank=(vectors * values) @ vectors.T)
    assert compare_structure(correlation, wrong).difference == float("inf")


def test_a_right_decomposition_agrees_and_one_off_by_a_thousandth_is_told(moment, monkeypatch):
    assert compare_decomposition(moment, VIEWS, 4, np.random.default_rng(0)).agrees
    jennrich = cp._jennrich

    def slightly_wrong(*arguments):
        view, factor = jennrich(*arguments)
        return view, factor * (1 + 1e-3 * np.eye(*factor.shape))

    monkeypatch.setattr(cp, "_jennrich", slightly_wrong)
    comparison = compare_decomposition(moment, VIEWS, 4, np.random.default_rng(0))
    assert comparison.difference > 1e3 * comparison.allowed


def test_views_that_are_too_small_have_nothing_to_compare(moment):
    with pytest.raises(FitError, match="6 components need 5 judges in each view"):
        compare_decomposition(moment, VIEWS, 6, np.random.default_rng(0))
