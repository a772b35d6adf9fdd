"""Constraints on S and L: what they change, and the certificate of the constrained program."""

import numpy as np
import pytest

from care_ops.aggregators.care_svd import fit_structure
from care_ops.config import FitConfig, StructureConfig
from care_ops.errors import InputError
from care_ops.fit import fit_panel
from care_ops.moments.state import accumulate
from care_ops.scores import ScoreMatrix
from care_ops.structure.conic import pairs_within, solve_conic
from care_ops.structure.program import solve
from tests.support.matrices import random_correlation
from warehouse.sources.files import read_scores

PROGRAMS = ("frobenius", "dtrace")


def is_certified(structure):
    """By our own duality gap and by the solver's."""
    certificate = structure.certificate
    assert certificate.converged
    assert 0 <= certificate.gap <= 1e-6
    assert certificate.solver_gap <= 1e-6
    assert certificate.dual <= certificate.primal + 1e-9
    return True


def opposed_panel(n=4000):
    """Judges a, b, c and d follow quality, a and b against a confounder and c and d with it; e and f share an edge.

    The edge is a common error that no other judge has.
    """
    rng = np.random.default_rng(7)
    quality, confounder = rng.normal(size=(2, n))
    noise = rng.normal(size=(n, 6))
    noise[:, 5] = 0.8 * noise[:, 4] + 0.6 * noise[:, 5]
    along = np.array([-1.5, -1.5, 1.5, 1.5, 0.0, 0.0])
    return ScoreMatrix(
        np.outer(quality, np.ones(6)) + np.outer(confounder, along) + noise,
        tuple(f"item {i:04d}" for i in range(n)),
        tuple("abcdef"),
    )


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("p", [6, 11, 24])
def test_every_constrained_solve_is_certified(rng, program, p):
    sigma = random_correlation(rng, p)
    penalties = {"lambda_s": 0.02, "lambda_l": 0.1, "program": program}
    families = pairs_within(range(p), [range(0, p // 2), range(p // 2, p)])
    free = solve(sigma, **penalties)
    held = {
        name: solve_conic(sigma, **masks, **penalties)
        for name, masks in {
            "neither": {},
            "support": {"support": families},
            "nonnegative": {"nonnegative": families},
            "both": {"support": families, "nonnegative": families},
        }.items()
    }
    assert all(is_certified(structure) for structure in held.values())
    assert held["neither"].certificate.primal == pytest.approx(free.certificate.primal, abs=2e-6)
    for name in ("support", "both"):
        assert not held[name].sparse[~families].any()
    for name in ("nonnegative", "both"):
        assert held[name].low_rank[families].min() >= 0
    for structure in held.values():
        assert np.linalg.eigvalsh(structure.low_rank)[0] >= -1e-9
        assert np.linalg.eigvalsh(structure.precision)[0] >= -1e-9
    # a constraint never makes the optimum better, and each optimum lies above the bound of the freer program
    assert held["support"].certificate.primal >= free.certificate.dual
    assert held["both"].certificate.primal >= max(held[name].certificate.dual for name in ("support", "nonnegative"))


def test_a_planted_conflict_is_taken_out_of_the_low_rank_part():
    panel = opposed_panel()
    moments = accumulate(panel.values)
    free, _ = fit_structure(moments, StructureConfig(), panel.judges)
    assert free.low_rank[0, 2] < -0.05, "the confounder sets a against c"
    declared = StructureConfig(nonnegative_within=(("a", "b", "c", "d"),))
    held, _ = fit_structure(moments, declared, panel.judges)
    assert is_certified(held)
    assert held.low_rank[:4, :4].min() >= 0
    assert held.certificate.primal > free.certificate.primal + 1e-3, "the conflict was in the scores"


def test_a_planted_edge_that_is_ruled_out_is_gone_and_one_that_is_allowed_stays():
    panel = opposed_panel()
    moments = accumulate(panel.values)
    allowed, _ = fit_structure(moments, StructureConfig(edges_within=(("e", "f"),)), panel.judges)
    ruled_out, _ = fit_structure(moments, StructureConfig(edges_within=()), panel.judges)
    assert is_certified(allowed)
    assert is_certified(ruled_out)
    assert allowed.sparse[4, 5] < -0.3
    assert np.count_nonzero(np.triu(allowed.sparse, 1)) == 1
    assert np.count_nonzero(np.triu(ruled_out.sparse, 1)) == 0
    assert ruled_out.certificate.primal > allowed.certificate.primal


@pytest.mark.data
@pytest.mark.parametrize("name", ["care_asset", "care_civilcomments"])
def test_constraints_change_the_fit_of_a_real_panel_as_asked(data_dir, name):
    scores = read_scores(data_dir / name / "scores.parquet").scores
    moments = accumulate(scores.values)
    free, _ = fit_structure(moments, StructureConfig(), scores.judges)
    half = scores.judges[: len(scores.judges) // 2]
    within = pairs_within(scores.judges, [half])
    assert free.low_rank[within].min() < -1e-3
    assert np.abs(free.sparse[~within]).max() > 1e-3
    held, _ = fit_structure(moments, StructureConfig(edges_within=(half,), nonnegative_within=(half,)), scores.judges)
    assert is_certified(held)
    assert held.low_rank[within].min() >= 0
    assert not held.sparse[~within].any()


def test_a_fit_goes_by_the_constraints_whatever_the_order_of_judges():
    panel = opposed_panel(400)
    shuffled = panel.select_judges(["d", "f", "a", "c", "e", "b"])
    config = FitConfig(
        ("care_svd",), structure=StructureConfig(edges_within=(("e", "f"),), nonnegative_within=(("a", "c"),))
    )
    one, other = fit_panel(panel, config), fit_panel(shuffled, config)
    np.testing.assert_allclose(other.aggregates["care_svd"].estimate, one.aggregates["care_svd"].estimate, atol=1e-9)
    assert one.aggregates["care_svd"].details["certificate"]["solver_gap"] <= 1e-6


def test_constraints_that_cannot_be_used_are_told():
    with pytest.raises(InputError, match="is no pair of judges"):
        StructureConfig(nonnegative_within=(("a",),))
    with pytest.raises(InputError, match="hand over the names"):
        fit_structure(accumulate(opposed_panel(100).values), StructureConfig(edges_within=()))
