"""Tests of degenerate scores: each gives a clear error or a documented estimate, without a library's warning.

The table in docs/data.md lists the cases.
"""

import numpy as np
import pytest

from care_ops.config import FitConfig
from care_ops.errors import CareError
from care_ops.fit import fit_panel
from tests.support.matrices import matrix

EVERY = ("care", "mv", "avg", "uws", "care_svd", "care_tensor")
SIMPLE = ("mv", "avg", "uws")


def panel(n: int = 400, p: int = 9) -> np.ndarray:
    rng = np.random.default_rng(7)
    quality, confounder = rng.normal(size=(2, n))
    load = np.where(np.arange(p) >= 2 * p // 3, 0.8, 0.0)
    return 5 + quality[:, None] + confounder[:, None] * load + rng.normal(scale=0.8, size=(n, p))


X = panel()
HALF = np.arange(400)[:, None] < 200
INFINITE = X.copy()
INFINITE[34, 3] = np.inf

CASES = {
    "one judge": (X[:, :1], (), "at least two judges"),
    "two judges": (X[:, :2], ("mv", "avg"), "at least three judges"),
    "three judges": (X[:, :3], EVERY, None),
    "a constant judge": (np.column_stack([X, np.full(400, 3.0)]), SIMPLE, "'j009' gives every item the same score"),
    "a judge twice": (np.column_stack([X, X[:, :2]]), EVERY, None),
    "fewer items than judges": (panel(12, 40), EVERY, None),
    "fewer than ten items": (X[:6], SIMPLE, "at least ten items"),
    "ten items": (panel(10, 3), ("care", *SIMPLE), "no shared factor"),
    "no items": (X[:0], SIMPLE, "at least ten items"),
    "a judge without a score": (np.column_stack([X, np.full(400, np.nan)]), SIMPLE, "'j009' has no score"),
    "no score at all": (np.full((50, 4), np.nan), SIMPLE, "'j000' has no score"),
    "judges that share no item": (np.where((np.arange(9) < 5) == HALF, X, np.nan), SIMPLE, "no scored items in common"),
    "half of the scores missing": (np.where(np.random.default_rng(3).random(X.shape) < 0.5, np.nan, X), EVERY, None),
    "an infinite score": (INFINITE, (), "the score of judge 'j003' on item 'i00034' is infinite"),
    "perfect collinearity": (np.column_stack([X, X[:, 0] + X[:, 1], 3 * X[:, 0] - 7]), EVERY, None),
    "300 judges on 50 items": (panel(50, 300), EVERY, None),
    "rows all alike": (np.repeat(X[:1], 50, axis=0), SIMPLE, "gives every item the same score"),
}


LONG = ("300 judges on 50 items",)
"""No score is missing in this case, so EM has no work."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in CASES])
def test_each_has_its_answer_or_its_error(name):
    values, answer, words = CASES[name]
    if not answer:
        with pytest.raises(CareError, match=words):
            fit_panel(matrix(values), FitConfig())
        return
    found = fit_panel(matrix(values), FitConfig())
    assert tuple(found.aggregates) == answer
    scored = ~np.isnan(values).all(axis=1)
    for aggregate in found.aggregates.values():
        assert np.isfinite(aggregate.estimate[scored]).all()
    if words is None:
        assert found.structure is not None
        assert found.structure.certificate.gap <= 1e-6
        assert not found.failures
    else:
        assert words in found.failures["structure"]
