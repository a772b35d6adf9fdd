"""Dependence of judges on one another within the states of a mixture: the support of S where judges are not Gaussian.

For such judges the paper's appendix "General CARE Setup" recovers S from pseudo-likelihood.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from care_ops.scores import Array

EDGE_P_VALUE = 5.7e-7
"""p-value below which a pair of judges is an edge, which is that of five standard errors."""

_RIDGE = 1e-3
"""Ridge penalty of the regressions, which keeps coefficients finite where a grade is never given in a state."""

_NEWTON_STEPS = 50


@dataclass(frozen=True)
class Dependence:
    """Graded judges that depend on one another in pairs: log p(x | r) = a_r'x + x'Jx / 2 - log Z_r.

    The vector x holds an indicator of every grade of each judge but the first. The paper's fully binary setting with
    direct edges between judges is the case of two grades, in which J is the sparse part.

    Attributes
    ----------
    statistics : (p, p) array
        Wald statistic of each pair, the weaker of its two regressions.
    p_values : (p, p) array
        Probability of such a statistic by chance.
    edges : (p, p) array of bool
        Pairs with a p-value below ``EDGE_P_VALUE``.
    """

    statistics: Array
    p_values: Array
    edges: NDArray[np.bool_]


def pseudo_likelihood(grades: NDArray[np.intp], levels: Sequence[int], posterior: Array) -> Dependence:
    """Direct dependence between graded judges within states (Besag, 1975).

    Each judge is regressed on a level for each state and on the other judges, by a multinomial logit. Each item counts
    in each state by its posterior. A pair has two statistics, of which the weaker is kept.

    Parameters
    ----------
    grades : (n, p) array of int
        0, 1, ..., none missing.
    levels : sequence of p int
        Number of grades of each judge.
    posterior : (n, k) array
        P(state | J).
    """
    p, k = len(levels), posterior.shape[1]
    grades, posterior = _counted_patterns(grades, levels, posterior)
    x = np.concatenate([grades[:, [j]] == np.arange(1, most) for j, most in enumerate(levels)], axis=1).astype(float)
    widths = np.array([max(m - 1, 1) for m in levels])
    owner = np.repeat(np.arange(p), widths)
    statistics = np.zeros((p, p))
    for j in range(p):
        own, other = np.flatnonzero(owner == j), np.flatnonzero(owner != j)
        coefficients, inverse = logit(x[:, own], x[:, other], posterior)
        statistics[j] = _wald(coefficients, inverse, owner[other], k, p)
    weaker = np.minimum(statistics, statistics.T)
    chance = chi2.sf(weaker, np.outer(widths, widths))
    np.fill_diagonal(chance, 1.0)
    return Dependence(weaker, chance, np.asarray(chance < EDGE_P_VALUE))


def _counted_patterns(
    grades: NDArray[np.intp], levels: Sequence[int], posterior: Array
) -> tuple[NDArray[np.intp], Array]:
    """Each pattern of grades once, with the sums of its items' posteriors, where patterns are fewer than items."""
    if np.prod([float(m) for m in levels]) >= len(grades):
        return grades, posterior
    code = np.ravel_multi_index(tuple(grades.T), tuple(levels))
    _, first, pattern = np.unique(code, return_index=True, return_inverse=True)
    mass = [np.asarray(np.bincount(pattern, w, len(first)), dtype=np.float64) for w in posterior.T]
    return grades[first], np.column_stack(mass)


def _wald(coefficients: Array, inverse: Array, owner: NDArray[np.intp], states: int, judges: int) -> Array:
    """Wald statistic of each other judge in the regression of one judge, shape (p,); 0 for judges left out.

    Parameters
    ----------
    coefficients : (k + c, m) array
        Levels of the states, then one row for each entry of the other judges.
    inverse : ((k + c) m, (k + c) m) array
        Covariance of the coefficients, row by row.
    owner : (c,) array of int
        The judge that each entry belongs to.
    """
    statistics, width = np.zeros(judges), coefficients.shape[1]
    for judge in np.unique(owner):
        rows = states + np.flatnonzero(owner == judge)
        positions = (rows[:, None] * width + np.arange(width)).ravel()
        block = coefficients[rows].ravel()
        statistics[judge] = float(block @ np.linalg.solve(inverse[np.ix_(positions, positions)], block))
    return statistics


def logit(y: Array, x: Array, posterior: Array) -> tuple[Array, Array]:
    """Multinomial logit of a graded judge by Newton's method: coefficients (k + c, m), and the inverse of the Hessian.

    The rows of the coefficients are the levels of the states, then the slopes. The Hessian is of the rows one by one.
    """
    k, m, c = posterior.shape[1], y.shape[1], x.shape[1]
    beta = np.zeros((k + c, m))
    inverse: Array = np.eye((k + c) * m)
    for _ in range(_NEWTON_STEPS):
        slope = x @ beta[k:]
        gradient = -_RIDGE * beta
        curvature = np.zeros((k + c, m, k + c, m))
        total = np.zeros((m, m, len(x)))
        for r, share in enumerate(posterior.T):
            mean = _softmax_with_zero(slope + beta[r])
            residual = share[:, None] * (y - mean)
            gradient[r] += residual.sum(axis=0)
            gradient[k:] += x.T @ residual
            for g in range(m):
                for h in range(g, m):
                    weight = share * mean[:, g] * ((g == h) - mean[:, h])
                    total[g, h] += weight
                    curvature[r, g, r, h] = curvature[r, h, r, g] = weight.sum()
                    across = weight @ x
                    curvature[r, g, k:, h] = curvature[r, h, k:, g] = across
                    curvature[k:, h, r, g] = curvature[k:, g, r, h] = across
        for g in range(m):
            for h in range(g, m):
                inner = (x * total[g, h][:, None]).T @ x
                curvature[k:, g, k:, h] = inner
                curvature[k:, h, k:, g] = inner
        flat = curvature.reshape((k + c) * m, (k + c) * m)
        inverse = np.asarray(np.linalg.inv(flat + _RIDGE * np.eye(len(flat))), dtype=np.float64)
        step = (inverse @ gradient.ravel()).reshape(beta.shape)
        largest = float(np.abs(step).max())
        beta = beta + step * min(1.0, 4.0 / max(largest, 1e-12))
        if largest < 1e-4:
            break
    return beta, inverse


def _softmax_with_zero(energy: Array) -> Array:
    """Probabilities of grades 1, 2, ... where grade 0 has energy 0."""
    by_grade = np.ascontiguousarray(energy.T)  # numpy reduces a short last axis ten times as slowly
    top = np.maximum(by_grade.max(axis=0), 0.0)
    shifted = np.exp(by_grade - top)
    return (shifted / (shifted.sum(axis=0) + np.exp(-top))).T
