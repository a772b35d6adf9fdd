"""Which judges depend on one another within the states of a mixture: the support of S where judges are not Gaussian.

The paper's appendix "General CARE Setup" recovers S from pseudo-likelihood or conditional mutual information there, and
for heavy tails from a scatter "up to a scalar factor".

Belongs here: those scores of a pair, and the mixture whose judges, real and graded together, have edges. Does not:
partial correlations of Gaussian judges (``views.fisher_z``), the mixture of independent judges (``observation``).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtri, stdtr
from scipy.stats import chi2

from care_ops.errors import FitError
from care_ops.models import mixture
from care_ops.models.answers import Answers, softmax
from care_ops.models.observation import ScaleMixture, StudentT

Array = NDArray[np.float64]

_CLEAR = 5.7e-7
"""p-value under which a pair is an edge: five standard errors."""

_MOST_PATTERNS = 65_536

_RIDGE = 1e-3

_SELECT_EVERY = 5
"""Rounds between two looks at which pairs are edges."""


@dataclass(frozen=True)
class Dependent:
    """Judges given a state, in pairs: log p(x | r) = a_r'x + x'Jx / 2 - log Z_r.

    Lee and Hastie, "Learning the structure of mixed graphical models", 2015.

    x holds a real judge's score, and of a graded one an indicator of each grade but the first. The paper's fully binary
    setting with direct edges between judges is the case of two grades; J is the sparse part.

    Attributes
    ----------
    weights : (k,) array
    levels : tuple of p int
        Grades of each judge, 0 where its scores are real.
    owner : (c,) array of int
        The judge of each entry of x.
    fields : (k, c) array
        a_r.
    couplings : (c, c) array
        J, symmetric, zero where there is no edge; minus a real judge's own precision on the diagonal.
    statistics, p_values : (p, p) array
        Wald statistic of each pair, the weaker of its two regressions, and what chance gives.
    edges : (p, p) array of bool
    log_likelihood : float
        Of an item.
    """

    weights: Array
    levels: tuple[int, ...]
    owner: NDArray[np.intp]
    fields: Array
    couplings: Array
    statistics: Array
    p_values: Array
    edges: NDArray[np.bool_]
    log_likelihood: float = float("nan")

    def log_joint(self, values: Array) -> Array:
        """log pi_r + log p(J_i | r), shape (n, k); exact, each connected group of judges summed and integrated.

        Raises
        ------
        FitError
            The precision of a group's real judges is not positive.
        """
        x = _entries(values, self.levels)
        out = np.log(self.weights) + x @ self.fields.T + 0.5 * np.einsum("ia,ab,ib->i", x, self.couplings, x)[:, None]
        count, label = connected_components(csr_array(self.edges), directed=False)
        for group in range(count):
            out -= self._log_normaliser(np.flatnonzero(label == group))
        return out

    def posterior(self, values: Array) -> Array:
        """P(state | J), shape (n, k)."""
        return softmax(self.log_joint(values))[0]

    def _log_normaliser(self, members: NDArray[np.intp]) -> Array:
        """log Z_r of a group of judges, (k,)."""
        levels = np.array(self.levels)
        graded = [int(j) for j in members if levels[j] > 0]
        grades = np.array(list(itertools.product(*(range(levels[j]) for j in graded))), dtype=np.float64)
        patterns = _entries(grades, [self.levels[j] for j in graded])
        discrete = np.flatnonzero(np.isin(self.owner, graded))
        real = np.flatnonzero(np.isin(self.owner, members[levels[members] == 0]))
        inner = 0.5 * np.einsum("ma,ab,mb->m", patterns, self.couplings[np.ix_(discrete, discrete)], patterns)
        energy = inner[:, None] + patterns @ self.fields[:, discrete].T
        if len(real):
            precision = -self.couplings[np.ix_(real, real)]
            try:
                root = np.linalg.cholesky(precision)
            except np.linalg.LinAlgError:
                raise FitError(
                    "dependence: the real judges' precision is not positive; fewer edges (a lower p-value) are safer"
                ) from None
            half = np.linalg.inv(root)
            pull = (patterns @ self.couplings[np.ix_(discrete, real)])[:, None, :] + self.fields[None, :, real]
            energy += 0.5 * np.sum((pull @ half.T) ** 2, axis=2)
            energy += 0.5 * len(real) * np.log(2 * np.pi) - float(np.log(np.diag(root)).sum())
        return mixture.log_sum(energy.T)


def dependent(
    values: Array,
    levels: Sequence[int],
    posterior: Array,
    *,
    p_value: float = _CLEAR,
    tolerance: float = 1e-5,
    rounds: int = 200,
) -> Dependent:
    """EM whose M-step is pseudo-likelihood and whose E-step is exact, from given posteriors.

    Judges taken as independent blur states and edges into one another: a strong edge looks like a state. Letting each
    round's posterior know the edges of the last one takes them apart. Where more judges hang together than can be
    enumerated, the strongest edges that leave groups small enough are the posterior's, and the result's.

    Parameters
    ----------
    values : (n, p) array
        Grades as 0, 1, ...; real scores as they are; nothing missing.
    levels : sequence of p int
        Grades of each judge, 0 where its scores are real.
    posterior : (n, k) array
    p_value : float
        Under which a pair is an edge.

    Raises
    ------
    FitError
        As ``Dependent.log_joint``.
    """
    free = pseudo_likelihood(values, levels, posterior, p_value=p_value)
    model, previous = free, -np.inf
    for number in range(1, rounds + 1):
        model = pseudo_likelihood(values, levels, posterior, edges=_enumerable(free), start=model)
        posterior, by_item = softmax(model.log_joint(values))
        current = float(by_item.mean())
        still = abs(current - previous) < tolerance
        previous = current
        if still or number % _SELECT_EVERY == 0:
            before, free = free, pseudo_likelihood(values, levels, posterior, start=free, p_value=p_value)
            if still and (free.edges == before.edges).all():
                break
    return replace(model, log_likelihood=previous, statistics=free.statistics, p_values=free.p_values)


def pseudo_likelihood(
    values: Array,
    levels: Sequence[int],
    posterior: Array,
    *,
    edges: NDArray[np.bool_] | None = None,
    start: Dependent | None = None,
    p_value: float = _CLEAR,
) -> Dependent:
    """Direct dependence between judges within states (Besag, 1975; mixed panels: Lee and Hastie, 2015).

    Each judge is regressed (multinomial logit where graded, least squares where real) on a level for each state and on
    the other judges, items counted in each state by its posterior. Of a pair's two statistics the weaker stands for
    both, of its two coefficients their mean.

    Parameters
    ----------
    values, levels, posterior
        As ``dependent``.
    edges : (p, p) array of bool, optional
        Only these pairs, and they are the result's edges; without, every pair, and the edges are those under
        ``p_value``.
    start : Dependent, optional
        Where the logit regressions begin.
    """
    p, k = len(levels), posterior.shape[1]
    shares = posterior.mean(axis=0)
    if min(levels) > 0 and np.prod([float(m) for m in levels]) < len(values):  # few patterns: count each once
        _, first, which = np.unique(values, axis=0, return_index=True, return_inverse=True)
        patterns = values[first]
        mass = [np.asarray(np.bincount(which.ravel(), w, len(patterns)), dtype=np.float64) for w in posterior.T]
        values, posterior = patterns, np.column_stack(mass)
    x = _entries(values, levels)
    owner = np.repeat(np.arange(p), [max(m - 1, 1) for m in levels])
    fields, couplings = np.zeros((k, len(owner))), np.zeros((len(owner), len(owner)))
    statistics = np.zeros((p, p))
    for j in range(p):
        own = np.flatnonzero(owner == j)
        other = np.flatnonzero(owner != j) if edges is None else np.flatnonzero(edges[j][owner])
        if levels[j] == 0:
            coefficient, inverse = _least_squares(x[:, own[0]], x[:, other], posterior)
            precision = 1.0 / float(coefficient[-1])
            coefficient = coefficient[:-1] * precision
            inverse = inverse * precision
            couplings[own[0], own[0]] = -precision
            blocks = coefficient[:, None]
        else:
            begin = None
            if start is not None:
                begin = np.concatenate([start.fields[:, own], start.couplings[np.ix_(other, own)]])
            blocks, inverse = _logit(x[:, own], x[:, other], posterior, begin)
        fields[:, own] = blocks[:k]
        couplings[np.ix_(own, other)] = blocks[k:].T
        for b in np.unique(owner[other]):
            rows = k + np.flatnonzero(owner[other] == b)
            part = (rows[:, None] * len(own) + np.arange(len(own))).ravel()
            block = blocks[rows].ravel()
            statistics[j, b] = float(block @ np.linalg.solve(inverse[np.ix_(part, part)], block))
    freedom = np.array([max(m - 1, 1) for m in levels])
    weaker = np.minimum(statistics, statistics.T)
    chance = chi2.sf(weaker, np.outer(freedom, freedom))
    np.fill_diagonal(chance, 1.0)
    found = chance < p_value if edges is None else edges
    couplings = 0.5 * (couplings + couplings.T)
    return Dependent(shares, tuple(levels), owner, fields, couplings, weaker, chance, np.asarray(found, dtype=bool))


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


@dataclass(frozen=True)
class TailedScatter:
    """Judges with heavy tails that depend on one another within states.

    Outliers of a judge of its own are drawn in by its distribution function (a Gaussian copula over ``StudentT``
    margins); outliers that an item's judges share weigh the item down (``ScaleMixture``: a multivariate t).

    Attributes
    ----------
    weights : (k,) array
    family : StudentT or ScaleMixture
    correlation : (b, b) array
        Within states; for ``views.fisher_z``.
    log_likelihood : float
        Of an item.
    """

    weights: Array
    family: StudentT | ScaleMixture
    correlation: Array
    log_likelihood: float = float("nan")

    def log_joint(self, values: Array) -> Array:
        """log pi_r + log p(J_i | r), shape (n, k)."""
        inverse: Array = np.asarray(np.linalg.inv(self.correlation), dtype=np.float64)
        half_log = 0.5 * float(np.linalg.slogdet(self.correlation)[1])
        if isinstance(self.family, StudentT):
            extra = [
                -0.5 * np.einsum("ia,ab,ib->i", z, inverse - np.eye(len(inverse)), z)
                for z in _normal_scores(values, self.family)
            ]
            density = self.family.log_density(values) + np.column_stack(extra)
        else:
            density = self.family.log_density(values, inverse)
        return np.asarray(np.log(self.weights) + density - half_log, dtype=np.float64)

    def posterior(self, values: Array) -> Array:
        """P(state | J), shape (n, k)."""
        return softmax(self.log_joint(values))[0]


def tailed_scatter(
    values: Array,
    family: StudentT | ScaleMixture,
    posterior: Array,
    *,
    tolerance: float = 1e-6,
    rounds: int = 200,
) -> TailedScatter:
    """EM from a fit that took the judges as independent; a copula's margins are fitted by themselves (Joe, 1997).

    Parameters
    ----------
    values : (n, b) array
        Scores of the family's judges, nothing missing.
    family : StudentT or ScaleMixture
        Fitted.
    posterior : (n, k) array
    """
    previous, model = -np.inf, TailedScatter(posterior.mean(axis=0), family, np.eye(values.shape[1]))
    for _ in range(rounds):
        if isinstance(family, StudentT):
            family = family.updated(values, posterior)
            residuals, weights = _normal_scores(values, family), posterior
        else:
            inverse: Array = np.asarray(np.linalg.inv(model.correlation), dtype=np.float64)
            family, weights = family.updated_within(values, posterior, inverse)
            assert family.locations is not None
            assert family.scale is not None
            residuals = [(values - location) / family.scale for location in family.locations]
        scatter = sum((z * w[:, None]).T @ z for z, w in zip(residuals, weights.T, strict=True)) / len(values)
        root = np.sqrt(np.diag(scatter))
        model = TailedScatter(posterior.mean(axis=0), family, scatter / np.outer(root, root))
        posterior, by_item = softmax(model.log_joint(values))
        current = float(by_item.mean())
        model = replace(model, log_likelihood=current)
        if abs(current - previous) < tolerance:
            break
        previous = current
    return model


def _normal_scores(values: Array, family: StudentT) -> list[Array]:
    """By state, what each score would be if its judge's tails were a Gaussian's."""
    assert family.locations is not None
    assert family.scale is not None
    assert family.degrees is not None
    chance = [stdtr(family.degrees, (values - location) / family.scale) for location in family.locations]
    return [ndtri(np.clip(c, 1e-12, 1 - 1e-12)) for c in chance]


def _enumerable(found: Dependent) -> NDArray[np.bool_]:
    """The edges, strongest first, less those that would join more patterns of grades than can be enumerated."""
    first, second = np.nonzero(np.triu(found.edges, 1))
    order = np.lexsort((-found.statistics[first, second], found.p_values[first, second]))
    group, patterns = list(range(len(found.levels))), [float(max(m, 1)) for m in found.levels]
    kept = np.zeros_like(found.edges)
    for a, b in zip(first[order], second[order], strict=True):
        into, other = group[a], group[b]
        if into != other:
            if patterns[into] * patterns[other] > _MOST_PATTERNS:
                continue
            patterns[into] *= patterns[other]
            group = [into if g == other else g for g in group]
        kept[a, b] = kept[b, a] = True
    return kept


def _entries(values: Array, levels: Sequence[int]) -> Array:
    """Real scores as they are, graded ones as indicators of every grade but the first; (n, c)."""
    parts = [
        values[:, [j]] if most == 0 else (values[:, [j]] == np.arange(1, most)).astype(np.float64)
        for j, most in enumerate(levels)
    ]
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(values), 0))


def _least_squares(y: Array, x: Array, posterior: Array) -> tuple[Array, Array]:
    """Levels by state and slopes, then the residual variance; and the inverse of the normal equations."""
    k = posterior.shape[1]
    cross = posterior.T @ x
    curvature = np.block([[np.diag(posterior.sum(axis=0)), cross], [cross.T, x.T @ x]])
    inverse: Array = np.asarray(np.linalg.inv(curvature + _RIDGE * np.eye(len(curvature))), dtype=np.float64)
    coefficient = inverse @ np.concatenate([posterior.T @ y, x.T @ y])
    residual = y[:, None] - (x @ coefficient[k:])[:, None] - coefficient[:k]
    variance = max(float(np.sum(posterior * residual**2)) / len(y), 1e-9)
    return np.append(coefficient, variance), inverse


def _logit(y: Array, x: Array, posterior: Array, start: Array | None) -> tuple[Array, Array]:
    """Multinomial logit by Newton: levels by state, then slopes, (k + c, m); and the inverse Hessian, row by row."""
    k, m, c = posterior.shape[1], y.shape[1], x.shape[1]
    beta = np.zeros((k + c, m)) if start is None else start.copy()
    inverse: Array = np.eye((k + c) * m)
    for _ in range(50):
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
    top = np.maximum(energy.max(axis=1, keepdims=True), 0.0)
    shifted = np.exp(energy - top)
    return shifted / (shifted.sum(axis=1, keepdims=True) + np.exp(-top))
