"""Edges within states: the regressions written out, and planted pairs; see test_care_tensor.py for those of a panel."""

import numpy as np
import pytest
from scipy.optimize import minimize

from care_ops.models.dependence import pseudo_likelihood
from tests.support.dependent_draws import dependent_judges


@pytest.mark.parametrize("kind", ["binary", "ordinal", "mixed"])
def test_planted_edges_come_back_where_the_states_are_known(kind):
    draw = dependent_judges(np.random.default_rng(3), kind, n=6_000)
    found = pseudo_likelihood(draw.scores, draw.levels, np.eye(4)[draw.states])
    upper = np.triu_indices(12, 1)
    missed, false = (draw.edges & ~found.edges)[upper].sum(), (found.edges & ~draw.edges)[upper].sum()
    print(f"\n{kind}: {draw.edges[upper].sum()} planted, {missed} missed, {false} false")
    assert missed <= 0.1 * draw.edges[upper].sum()
    assert false <= 1


def test_pseudo_likelihood_is_a_logit_regression_of_each_judge(rng):
    """With one state: multinomial logit of each judge on the others, the two coefficients of a pair averaged."""
    draw = dependent_judges(rng, "categorical", n=3_000, p=3)
    values = draw.scores
    model = pseudo_likelihood(values, draw.levels, np.ones((3_000, 1)))

    def logit(j):
        x = np.column_stack(
            [np.ones(3_000), *[(values[:, b] == g).astype(float) for b in range(3) if b != j for g in (1, 2)]]
        )

        def loss(flat):
            beta = flat.reshape(5, 2)
            energy = np.column_stack([np.zeros(3_000), x @ beta])
            chosen = energy[np.arange(3_000), values[:, j].astype(int)]
            return np.sum(np.logaddexp.reduce(energy, axis=1) - chosen) + 5e-4 * flat @ flat

        return minimize(loss, np.zeros(10), method="BFGS", options={"gtol": 1e-6}).x.reshape(5, 2)

    zero, one = logit(0), logit(1)
    np.testing.assert_allclose(model.fields[0, :2], zero[0], atol=2e-3)
    np.testing.assert_allclose(model.couplings[:2, 2:4], (zero[1:3].T + one[1:3]) / 2, atol=2e-3)


def test_gaussian_judges_are_the_gaussian_graphical_model(rng):
    """All judges real and one state: the couplings are minus the sample precision."""
    values = rng.normal(size=(2_000, 4)) @ rng.normal(size=(4, 4))
    values -= values.mean(axis=0)
    model = pseudo_likelihood(values, (0, 0, 0, 0), np.ones((2_000, 1)))
    np.testing.assert_allclose(-model.couplings, np.linalg.inv(np.cov(values.T, bias=True)), rtol=1e-3, atol=1e-4)
