"""Edges within states: the regressions written out, and planted pairs; see test_care_tensor.py for those of a panel."""

import numpy as np
import pytest
from scipy.optimize import minimize

from care_ops.models.dependence import logit, pseudo_likelihood
from tests.support.dependent_draws import dependent_judges


@pytest.mark.parametrize("kind", ["binary", "ordinal"])
def test_planted_edges_come_back_where_the_states_are_known(kind):
    draw = dependent_judges(np.random.default_rng(3), kind, n=6_000)
    found = pseudo_likelihood(draw.scores.astype(int), draw.levels, np.eye(4)[draw.states])
    upper = np.triu_indices(12, 1)
    missed, false = (draw.edges & ~found.edges)[upper].sum(), (found.edges & ~draw.edges)[upper].sum()
    print(f"\n{kind}: {draw.edges[upper].sum()} planted, {missed} missed, {false} false")
    assert missed <= 0.1 * draw.edges[upper].sum()
    assert false <= 1


def test_each_regression_is_a_multinomial_logit(rng):
    """With one state: of each judge on the grades of the others."""
    values = dependent_judges(rng, "categorical", n=3_000, p=3).scores
    graded = [(values[:, [j]] == [1, 2]).astype(float) for j in range(3)]

    def wanted(j, others):
        x = np.column_stack([np.ones(3_000), others])

        def loss(flat):
            beta = flat.reshape(5, 2)
            energy = np.column_stack([np.zeros(3_000), x @ beta])
            chosen = energy[np.arange(3_000), values[:, j].astype(int)]
            return np.sum(np.logaddexp.reduce(energy, axis=1) - chosen) + 5e-4 * flat @ flat

        return minimize(loss, np.zeros(10), method="BFGS", options={"gtol": 1e-6}).x.reshape(5, 2)

    for j in range(3):
        others = np.column_stack([graded[b] for b in range(3) if b != j])
        np.testing.assert_allclose(logit(graded[j], others, np.ones((3_000, 1)))[0], wanted(j, others), atol=2e-3)
