"""Which judges depend on one another within the states of a mixture: the support of S where judges are not Gaussian.

The paper's appendix "General CARE Setup" recovers S from pseudo-likelihood or conditional mutual information there.

Belongs here: those two scores of a pair, and the mixture of binary judges with edges. Does not: partial correlations of
Gaussian judges (``views.fisher_z``), the mixture of independent judges (``observation``).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from care_ops import mixture
from care_ops.answers import Answers, softmax
from care_ops.errors import FitError

Array = NDArray[np.float64]

_CLEAR = 5.0

_MOST_TOGETHER = 16


@dataclass(frozen=True)
class CoupledVotes:
    """Binary judges given a state: log p(x | r) = sum_j a_rj x_j + sum_{a < b} J_ab x_a x_b - log Z_r.

    The paper's fully binary setting with direct edges between judges; J is the sparse part.

    Attributes
    ----------
    weights : (k,) array
    levels : (k, p) array
        a_rj.
    couplings : (p, p) array
        J_ab, symmetric, zero where there is no edge.
    statistics : (p, p) array
        Wald statistic of each pair.
    log_likelihood : float
        Of an item.
    """

    weights: Array
    levels: Array
    couplings: Array
    statistics: Array
    log_likelihood: float

    @property
    def edges(self) -> NDArray[np.bool_]:
        """Pairs that depend on one another directly, (p, p)."""
        return self.couplings != 0.0

    def log_joint(self, values: Array) -> Array:
        """log pi_r + log p(J_i | r), shape (n, k); exact, by enumerating each connected group of judges."""
        out = np.tile(np.log(self.weights), (len(values), 1))
        count, label = connected_components(csr_array(self.edges), directed=False)
        for group in range(count):
            members = np.flatnonzero(label == group)
            patterns = np.array(list(itertools.product((0.0, 1.0), repeat=len(members))))
            coupling = np.triu(self.couplings[np.ix_(members, members)], 1)
            energy = (
                np.einsum("ma,ab,mb->m", patterns, coupling, patterns)[:, None] + patterns @ self.levels[:, members].T
            )
            energy = energy - mixture.log_sum(energy.T)
            code = values[:, members].astype(np.intp) @ (1 << np.arange(len(members))[::-1])
            out += energy[code]
        return out

    def posterior(self, values: Array) -> Array:
        """P(state | J), shape (n, k)."""
        return softmax(self.log_joint(values))[0]


def coupled_votes(
    values: Array, posterior: Array, *, limit: float = _CLEAR, tolerance: float = 1e-6, rounds: int = 200
) -> CoupledVotes:
    """EM whose M-step is pseudo-likelihood and whose E-step is exact, from given posteriors.

    Judges taken as independent blur states and edges into one another: a strong edge looks like a state. Letting each
    round's posterior know the edges of the last one takes them apart.

    Parameters
    ----------
    values : (n, p) array of 0 and 1
    posterior : (n, k) array
    limit : float
        Wald statistic from which a pair is an edge.

    Raises
    ------
    FitError
        More than sixteen judges hang together: their patterns cannot be enumerated.
    """
    previous, model = -np.inf, None
    for _ in range(rounds):
        statistics, _, _ = pseudo_likelihood(values, posterior)
        edges = np.abs(statistics) > limit
        if np.bincount(connected_components(csr_array(edges), directed=False)[1]).max() > _MOST_TOGETHER:
            raise FitError(f"dependence: more than {_MOST_TOGETHER} judges hang together; raise the limit")
        _, levels, couplings = pseudo_likelihood(values, posterior, edges)
        model = CoupledVotes(posterior.mean(axis=0), levels, couplings, statistics, 0.0)
        posterior, by_item = softmax(model.log_joint(values))
        current = float(by_item.mean())
        model = replace(model, log_likelihood=current)
        if abs(current - previous) < tolerance:
            break
        previous = current
    assert model is not None
    return model


def pseudo_likelihood(
    values: Array, posterior: Array, edges: NDArray[np.bool_] | None = None, *, ridge: float = 1e-3
) -> tuple[Array, Array, Array]:
    """Direct dependence between binary judges within states (Besag, 1975).

    Each judge is regressed (logit) on a level for each state and on the other judges, items counted in each state by
    its posterior. Of a pair's two statistics the weaker stands for both, of its two coefficients their mean.

    Parameters
    ----------
    values : (n, p) array of 0 and 1
    posterior : (n, k) array
    edges : (p, p) array of bool, optional
        Only these pairs.

    Returns
    -------
    statistics, (p, p)
        Wald, symmetric, zero on the diagonal and off the edges.
    levels : (k, p) array
    couplings : (p, p) array
    """
    p, k = values.shape[1], posterior.shape[1]
    patterns, which = np.unique(values, axis=0, return_inverse=True)
    mass = np.column_stack([np.bincount(which, w, len(patterns)) for w in posterior.T])
    z, couplings, levels = np.zeros((p, p)), np.zeros((p, p)), np.zeros((k, p))
    for j in range(p):
        others = np.delete(np.arange(p), j) if edges is None else np.flatnonzero(edges[j])
        x, y = patterns[:, others], patterns[:, j]
        coefficient = np.zeros(k + len(others))
        curvature = np.eye(k + len(others))
        for _ in range(50):
            mean = expit((x @ coefficient[k:])[:, None] + coefficient[:k])
            residual = mass * (y[:, None] - mean)
            weight = mass * mean * (1 - mean)
            gradient = np.concatenate([residual.sum(axis=0), x.T @ residual.sum(axis=1)]) - ridge * coefficient
            cross = x.T @ weight
            curvature = np.block(
                [[np.diag(weight.sum(axis=0)), cross.T], [cross, (x * weight.sum(axis=1)[:, None]).T @ x]]
            ) + ridge * np.eye(k + len(others))
            step = np.linalg.solve(curvature, gradient)
            coefficient = coefficient + step
            if np.abs(step).max() < 1e-8:
                break
        levels[:, j], couplings[j, others] = coefficient[:k], coefficient[k:]
        z[j, others] = couplings[j, others] / np.sqrt(np.diag(np.linalg.inv(curvature))[k:])
    weaker = np.where(np.abs(z) < np.abs(z.T), z, z.T)
    return weaker, levels, 0.5 * (couplings + couplings.T)


def conditional_mutual_information(answers: Answers, posterior: Array) -> Array:
    """I(J_a; J_b | state) in nats, (p, p), zero diagonal; 2 n I is about chi-squared without dependence.

    Parameters
    ----------
    answers : Answers
        Without missing ones, or with them left out of the pairs they are in.
    posterior : (n, k) array
    """
    indicators, owner = answers.indicators(), answers.owner
    p, n = int(owner.max()) + 1, len(posterior)
    information = np.zeros((p, p))
    for state in posterior.T:
        together = (indicators * state[:, None]).T @ indicators
        for a in range(p):
            for b in range(a + 1, p):
                table = together[np.ix_(owner == a, owner == b)]
                total = table.sum()
                if total <= 0:
                    continue
                expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
                seen = table > 0
                information[a, b] += float(np.sum(table[seen] * np.log(table[seen] / expected[seen]))) / n
    return information + information.T
