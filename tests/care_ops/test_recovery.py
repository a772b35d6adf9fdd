"""Tests that the estimators recover the parameters of simulated data from the paper's models."""

import numpy as np
import pytest

from care_ops.aggregators.care_svd import fit_structure
from care_ops.aggregators.registry import REGISTRY
from care_ops.config import AGGREGATORS, FitConfig, StructureConfig
from care_ops.fit import fit_panel
from care_ops.models import mixture
from care_ops.moments.state import accumulate
from care_ops.simulate import four_state_mixture, joint_gaussian
from care_ops.structure.factors import extract
from tests.support.matrices import matched_error, matrix

N = 100_000
SEEDS = range(10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "confounders", "floor"),
    # With twelve judges and two confounders S and L are less incoherent, and no number of items helps.
    [(24, 1, 0.99), (24, 2, 0.99), (12, 1, 0.99), (12, 2, 0.985)],
)
def test_care_svd_finds_the_quality_direction(p, confounders, floor):
    """Check the median |cos| to the true K_JQ over ten seeds, and print the lowest."""
    cosines = []
    for seed in SEEDS:
        draw = joint_gaussian(np.random.default_rng(seed), n=N, p=p, confounders=confounders)
        weights = fit_panel(matrix(draw.scores), FitConfig(aggregators=("care_svd",))).aggregates["care_svd"].weights
        # the fit weighs standardised scores; K_JQ weighs raw ones
        truth = draw.directions[:, 0] * draw.scores.std(axis=0)
        cosines.append(abs(float(weights @ truth)) / np.linalg.norm(weights) / np.linalg.norm(truth))
    found = f"median |cos| {np.median(cosines):.4f}, worst {min(cosines):.4f}"
    print(f"\ncare_svd, p = {p}, {confounders} confounder(s): {found}")
    assert np.median(cosines) >= floor


@pytest.mark.slow
def test_care_tensor_finds_the_state_means():
    """Check that the median error is within 5 % of EM started at the truth, and print the largest."""
    ratios = []
    for seed in SEEDS:
        draw = four_state_mixture(np.random.default_rng(seed), n=N, p=12)
        scores = matrix(draw.scores)
        found = fit_panel(scores, FitConfig(aggregators=("care_tensor",))).aggregates["care_tensor"]
        ours = matched_error(np.array(found.details["state_means"]), draw.means)
        oracle = mixture.expectation_maximisation(
            draw.scores, draw.weights, draw.means, np.full(12, draw.noise**2), tolerance=1e-8
        )
        ratios.append(ours / matched_error(oracle.means, draw.means))
    print(f"\ncare_tensor: error over the oracle start's, median {np.median(ratios):.4f}, worst {max(ratios):.4f}")
    assert np.median(ratios) <= 1.05


def test_quality_leads_and_orients_positively(rng):
    draw = joint_gaussian(rng, n=20_000, p=10, confounders=1)
    moments = accumulate(draw.scores)
    structure, details = fit_structure(moments, StructureConfig())
    factors = extract(structure.low_rank, moments.correlation())
    assert structure.certificate.converged
    assert details["tau_lowered"] == 0
    assert factors.orientation > 0.9
    assert factors.rule == "leading"


def test_every_aggregator_is_registered_under_its_name():
    assert all(name == aggregator.name for name, aggregator in REGISTRY.items())
    assert tuple(REGISTRY) == AGGREGATORS
