"""Agreement statistics against the krippendorff and scikit-learn packages (recorded) and closed cases."""

import json
from pathlib import Path

import numpy as np
import pytest

from care_ops.results.agreement import krippendorff_alpha, weighted_kappas
from tests.support.planted import PANELS, votes

RIVALS = json.loads((Path(__file__).parents[1] / "oracles" / "rivals.json").read_text())


def panel(name: str) -> np.ndarray:
    _, grades, _ = votes(**PANELS[name])
    return np.where(grades >= 0, grades, np.nan).astype(float)


@pytest.mark.parametrize("name", sorted(PANELS))
def test_alpha_is_krippendorffs(name):
    assert krippendorff_alpha(panel(name)) == pytest.approx(RIVALS[name]["alpha"]["interval"], abs=1e-12)


@pytest.mark.parametrize("name", sorted(PANELS))
def test_kappa_is_scikit_learns(name):
    kappas = weighted_kappas(panel(name))
    assert kappas[0, 1] == pytest.approx(RIVALS[name]["kappa"]["quadratic"], abs=1e-12)
    np.testing.assert_array_equal(kappas, kappas.T)


def test_closed_cases(rng):
    column = rng.integers(0, 4, 50).astype(float)
    assert krippendorff_alpha(np.column_stack([column] * 3)) == pytest.approx(1.0)
    assert abs(krippendorff_alpha(rng.integers(0, 4, (20_000, 4)).astype(float))) < 0.02
    assert krippendorff_alpha(np.full((5, 3), 2.0)) is None
    assert krippendorff_alpha(np.array([[1.0, np.nan], [np.nan, 2.0]])) is None
    assert weighted_kappas(np.column_stack([column, column, 3 - column]))[0, 1] == pytest.approx(1.0)
    assert weighted_kappas(np.column_stack([column, 3 - column]))[0, 1] < 0


def test_kappa_counts_grades_and_not_points():
    """Grades of 1, 2 and 10 lie one apart."""
    points = np.array([[1.0, 2.0], [2.0, 10.0], [10.0, 10.0], [1.0, 1.0]])
    grades = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 2.0], [0.0, 0.0]])
    np.testing.assert_allclose(weighted_kappas(points), weighted_kappas(grades))


def test_where_kappa_is_not_defined(rng):
    nothing = np.array([[1.0, np.nan], [np.nan, 2.0]])
    for undefined in (nothing, np.ones((5, 2)), rng.normal(size=(1_000, 3))):
        assert np.isnan(weighted_kappas(undefined)).all()
