"""Agreement statistics against the krippendorff and scikit-learn packages (recorded) and closed cases."""

import json
from pathlib import Path

import numpy as np
import pytest

from care_ops.results.agreement import krippendorff_alpha, weighted_kappa
from tests.support.planted import PANELS, votes

RIVALS = json.loads((Path(__file__).parents[1] / "oracles" / "rivals.json").read_text())


def panel(name: str) -> np.ndarray:
    _, grades, _ = votes(**PANELS[name])
    return np.where(grades >= 0, grades, np.nan).astype(float)


@pytest.mark.parametrize("name", sorted(PANELS))
@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_is_krippendorffs(name, level):
    assert krippendorff_alpha(panel(name), level) == pytest.approx(RIVALS[name]["alpha"][level], abs=1e-12)


@pytest.mark.parametrize("name", sorted(PANELS))
@pytest.mark.parametrize(("weights", "theirs"), [("nominal", "None"), ("linear", "linear"), ("quadratic", "quadratic")])
def test_kappa_is_scikit_learns(name, weights, theirs):
    values = panel(name)
    found = weighted_kappa(values[:, 0], values[:, 1], weights)
    assert found == pytest.approx(RIVALS[name]["kappa"][theirs], abs=1e-12)


def test_closed_cases(rng):
    column = rng.integers(0, 4, 50).astype(float)
    for level in ("nominal", "ordinal", "interval"):
        assert krippendorff_alpha(np.column_stack([column] * 3), level) == pytest.approx(1.0)
        assert abs(krippendorff_alpha(rng.integers(0, 4, (20_000, 4)).astype(float), level)) < 0.02
    assert weighted_kappa(column, column) == pytest.approx(1.0)
    assert krippendorff_alpha(np.full((5, 3), 2.0)) is None
    assert krippendorff_alpha(np.array([[1.0, np.nan], [np.nan, 2.0]])) is None
    assert weighted_kappa(np.ones(5), np.ones(5)) is None
    assert krippendorff_alpha(rng.normal(size=(1_000, 3)), "ordinal") is None
