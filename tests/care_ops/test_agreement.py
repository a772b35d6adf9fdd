"""Tests of Krippendorff's alpha against the krippendorff package (recorded) and closed forms."""

import json
from pathlib import Path

import numpy as np
import pytest

from care_ops.results.agreement import krippendorff_alpha
from tests.support.planted import PANELS, votes

RIVALS = json.loads((Path(__file__).parents[1] / "oracles" / "rivals.json").read_text())


def panel(name: str) -> np.ndarray:
    _, grades, _ = votes(**PANELS[name])
    return np.where(grades >= 0, grades, np.nan).astype(float)


@pytest.mark.parametrize("name", sorted(PANELS))
def test_alpha_is_krippendorffs(name):
    assert krippendorff_alpha(panel(name)) == pytest.approx(RIVALS[name]["alpha"]["interval"], abs=1e-12)


def test_closed_cases(rng):
    column = rng.integers(0, 4, 50).astype(float)
    assert krippendorff_alpha(np.column_stack([column] * 3)) == pytest.approx(1.0)
    assert abs(krippendorff_alpha(rng.integers(0, 4, (20_000, 4)).astype(float))) < 0.02
    assert krippendorff_alpha(np.full((5, 3), 2.0)) is None
    assert krippendorff_alpha(np.array([[1.0, np.nan], [np.nan, 2.0]])) is None
