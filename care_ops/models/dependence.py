"""Dependence of judges on one another within the states of a mixture: the support of S where judges are not Gaussian.

For such judges the paper's appendix "General CARE Setup" recovers S from pseudo-likelihood or from conditional mutual
information, and for heavy tails from a scatter "up to a scalar factor".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
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
from care_ops.scores import Array

EDGE_P_VALUE = 5.7e-7
"""p-value below which a pair of judges is an edge, which is that of five standard errors."""

_MOST_PATTERNS = 65_536
"""Most patterns of grades that the exact normaliser of a connected group of judges enumerates."""

_RIDGE = 1e-3
"""Ridge penalty of the regressions, which keeps coefficients finite where a grade is never given in a state."""

_NEWTON_STEPS = 1
"""Steps of the regressions in a round of EM, which starts them where the round before ended: generalised EM needs each
round to better the last, not to end its regressions."""

_SELECT_EVERY = 5
"""Rounds of EM after which the edges are selected anew."""

_MORE_STARTS = 4
"""Further starts at most, where the most evidence was not reached twice."""

_SETTLED = 1e-6
"""Change of the mean log likelihood at which a start has ended: a hundredth of what counts as the same states."""


@dataclass(frozen=True)
class Dependent:
    """A mixture whose judges depend on one another in pairs: log p(x | r) = a_r'x + x'Jx / 2 - log Z_r.

    Lee and Hastie, "Learning the structure of mixed graphical models", 2015.

    The vector x holds the score of each real judge, and for each graded judge an indicator of every grade but the
    first. The paper's fully binary setting with direct edges between judges is the case of two grades, in which J is
    the sparse part.

    Attributes
    ----------
    weights : (k,) array
    levels : tuple of p int
        Number of grades of each judge, 0 where its scores are real.
    owner : (c,) array of int
        The judge that each entry of x belongs to.
    fields : (k, c) array
        The vectors a_r.
    couplings : (c, c) array
        J, symmetric, zero where there is no edge. On the diagonal it has minus the precision of each real judge.
    statistics : (p, p) array
        Wald statistic of each pair, the weaker of its two regressions.
    p_values : (p, p) array
        Probability of such a statistic by chance.
    edges : (p, p) array of bool
    log_likelihood : float
        Mean over the items.
    starts_agree : bool
        Whether two ways of starting have ended in these states (``likeliest_dependent``).
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
    starts_agree: bool = False

    def evidence(self, items: int) -> float:
        """The mean log likelihood less the Bayesian information criterion's price of the couplings, in nats an item.

        States and grades are the same in every fit that is compared, and are left out.
        """
        linked = np.triu(self.edges[np.ix_(self.owner, self.owner)], 1)
        return self.log_likelihood - float(linked.sum() * np.log(items)) / (2 * items)

    def log_joint(self, values: Array) -> Array:
        """log pi_r + log p(J_i | r), shape (n, k), exact: each connected group of judges is summed and integrated.

        Parameters
        ----------
        values : (n, p) array
            Grades as 0, 1, ... and real scores, none missing.

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
        """log Z_r of a connected group of judges, shape (k,)."""
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
    p_value: float = EDGE_P_VALUE,
    tolerance: float = 1e-5,
    rounds: int = 200,
) -> Dependent:
    """Fit states and edges in turn, by EM with an exact E-step and pseudo-likelihood as M-step.

    Where judges are taken as independent, states and edges blur into one another, because a strong edge looks like a
    state. Here the posterior of each round knows the edges of the round before. Where a connected group of judges has
    more patterns of grades than can be enumerated, its weakest edges are left out of the posterior and of the result.

    Parameters
    ----------
    values : (n, p) array
        Grades as 0, 1, ... and real scores as they are, none missing.
    levels : sequence of p int
        Number of grades of each judge, 0 where its scores are real.
    posterior : (n, k) array
        P(state | J) to start from.
    p_value : float
        A pair with a smaller p-value is an edge.
    rounds : int
        Most rounds of EM, which has converged where the mean log likelihood changes by less than a millionth.

    Raises
    ------
    FitError
        The precision of a group's real judges is not positive.
    """
    rows, mass = _counted_patterns(values, levels, posterior)
    items = mass.sum(axis=1)
    free = pseudo_likelihood(rows, levels, mass, p_value=p_value)
    model, previous = free, -np.inf
    for number in range(1, rounds + 1):
        kept = _enumerable(free)
        model = pseudo_likelihood(rows, levels, mass, edges=kept, start=model, newton_steps=_NEWTON_STEPS)
        of_rows, by_row = softmax(model.log_joint(rows))
        mass = of_rows * items[:, None]
        current = float(items @ by_row) / len(values)
        converged = abs(current - previous) < tolerance
        previous = current
        if converged or number % _SELECT_EVERY == 0:
            before, free = free, pseudo_likelihood(rows, levels, mass, start=free, p_value=p_value)
            if converged and (free.edges == before.edges).all():
                break
    return replace(model, log_likelihood=previous, statistics=free.statistics, p_values=free.p_values)


def likeliest_dependent(
    values: Array, levels: Sequence[int], posterior: Array, further: Callable[[], Array]
) -> Dependent:
    """The model with the most evidence over several starts, and whether two of them ended there.

    From the states of independent judges EM may not find those of judges that depend on one another: a state is then
    an edge, and an edge a state. Further starts are drawn until the most evidence was reached twice, at most four
    times. The evidence tells which of two ends is better; whether one is better still is not known, only whether two
    agree.

    Parameters
    ----------
    values, levels : as in ``dependent``
    posterior : (n, k) array
        P(state | J) of the first start.
    further : callable
        Draws a further start, an (n, k) array like the first. It must not come from an end of an earlier one, which
        it would lead to again: their agreement would tell nothing.

    Raises
    ------
    FitError
        The precision of a group's real judges is not positive.
    """

    def evidence(model: Dependent) -> float:
        return model.evidence(len(values))

    best = dependent(values, levels, posterior, tolerance=_SETTLED)
    for _ in range(_MORE_STARTS):
        another = dependent(values, levels, further(), tolerance=_SETTLED)
        agree = abs(evidence(best) - evidence(another)) <= mixture.SAME_STATES
        best = max(best, another, key=evidence)
        if agree:
            return replace(best, starts_agree=True)
    return best


def pseudo_likelihood(
    values: Array,
    levels: Sequence[int],
    posterior: Array,
    *,
    edges: NDArray[np.bool_] | None = None,
    start: Dependent | None = None,
    p_value: float = EDGE_P_VALUE,
    newton_steps: int = 50,
) -> Dependent:
    """Direct dependence between judges within states (Besag, 1975; for mixed panels Lee and Hastie, 2015).

    Each judge is regressed on a level for each state and on the other judges, by a multinomial logit where it is graded
    and by least squares where it is real. Each item counts in each state by its posterior. A pair has two statistics,
    of which the weaker is kept, and two coefficients, of which the mean is kept.

    Parameters
    ----------
    values : (n, p) array
        Grades as 0, 1, ... and real scores as they are, none missing.
    levels : sequence of p int
        Number of grades of each judge, 0 where its scores are real.
    posterior : (n, k) array
        P(state | J), or the sum of it over the items that a row stands for.
    edges : (p, p) array of bool, optional
        The only pairs that may depend on one another, which are then the edges of the result. Without it every pair
        may, and the edges are the pairs with a p-value below ``p_value``.
    start : Dependent, optional
        The model at which the logit regressions start.
    newton_steps : int
        Most steps of a logit regression.
    """
    p, k = len(levels), posterior.shape[1]
    shares = posterior.sum(axis=0) / posterior.sum()
    values, posterior = _counted_patterns(values, levels, posterior)
    x = _entries(values, levels)
    widths = np.array([max(m - 1, 1) for m in levels])
    owner = np.repeat(np.arange(p), widths)
    fields, couplings = np.zeros((k, len(owner))), np.zeros((len(owner), len(owner)))
    statistics = np.zeros((p, p))
    for j in range(p):
        own = np.flatnonzero(owner == j)
        other = np.flatnonzero(owner != j) if edges is None else np.flatnonzero(edges[j][owner])
        if levels[j] == 0:
            coefficients, inverse, precision = _least_squares(x[:, own[0]], x[:, other], posterior)
            couplings[own[0], own[0]] = -precision
        else:
            begin = None
            if start is not None:
                begin = np.concatenate([start.fields[:, own], start.couplings[np.ix_(other, own)]])
            coefficients, inverse = _logit(x[:, own], x[:, other], posterior, begin, newton_steps)
        fields[:, own] = coefficients[:k]
        couplings[np.ix_(own, other)] = coefficients[k:].T
        statistics[j] = _wald(coefficients, inverse, owner[other], k, p)
    weaker = np.minimum(statistics, statistics.T)
    chance = chi2.sf(weaker, np.outer(widths, widths))
    np.fill_diagonal(chance, 1.0)
    kept = np.asarray(chance < p_value if edges is None else edges, dtype=bool)
    return Dependent(shares, tuple(levels), owner, fields, 0.5 * (couplings + couplings.T), weaker, chance, kept)


def _counted_patterns(values: Array, levels: Sequence[int], posterior: Array) -> tuple[Array, Array]:
    """Each pattern of grades once, with the sums of its items' posteriors, where patterns are fewer than items."""
    if min(levels) == 0 or np.prod([float(m) for m in levels]) >= len(values):
        return values, posterior
    code = np.ravel_multi_index(tuple(values.T.astype(np.intp)), tuple(levels))
    _, first, pattern = np.unique(code, return_index=True, return_inverse=True)
    mass = [np.asarray(np.bincount(pattern, w, len(first)), dtype=np.float64) for w in posterior.T]
    return values[first], np.column_stack(mass)


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


def conditional_mutual_information(answers: Answers, posterior: Array) -> Array:
    """I(J_a; J_b | state) in nats, shape (p, p), with a zero diagonal.

    Where two judges do not depend on one another, 2 n I is about chi-squared.

    Parameters
    ----------
    answers : Answers
        An answer that is missing is left out of the pairs of its judge.
    posterior : (n, k) array
        P(state | J).
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
    """A mixture of judges with heavy tails that depend on one another within states.

    With ``StudentT`` each judge has outliers of its own, and the judges are joined by a Gaussian copula, in which each
    judge's distribution function draws its outliers in. With ``ScaleMixture`` the judges of an item share its outliers,
    which lower the weight of the item; this is a multivariate t.

    Attributes
    ----------
    weights : (k,) array
    tails : StudentT or ScaleMixture
        The fitted observation model of the judges.
    correlation : (b, b) array
        Correlation of the judges within states, from which ``views.fisher_z`` reads edges.
    log_likelihood : float
        Mean over the items.
    """

    weights: Array
    tails: StudentT | ScaleMixture
    correlation: Array
    log_likelihood: float = float("nan")

    def log_joint(self, values: Array) -> Array:
        """log pi_r + log p(J_i | r), shape (n, k)."""
        inverse: Array = np.asarray(np.linalg.inv(self.correlation), dtype=np.float64)
        half_log = 0.5 * float(np.linalg.slogdet(self.correlation)[1])
        if isinstance(self.tails, StudentT):
            extra = [
                -0.5 * np.einsum("ia,ab,ib->i", z, inverse - np.eye(len(inverse)), z)
                for z in _normal_scores(values, self.tails)
            ]
            density = self.tails.log_density(values) + np.column_stack(extra)
        else:
            density = self.tails.log_density(values, inverse)
        return np.asarray(np.log(self.weights) + density - half_log, dtype=np.float64)

    def posterior(self, values: Array) -> Array:
        """P(state | J), shape (n, k)."""
        return softmax(self.log_joint(values))[0]


def tailed_scatter(
    values: Array,
    tails: StudentT | ScaleMixture,
    posterior: Array,
    *,
    rounds: int = 200,
) -> TailedScatter:
    """Fit by EM from a mixture that took the judges as independent; a copula's margins are fitted first (Joe, 1997).

    Parameters
    ----------
    values : (n, b) array
        Scores, none missing.
    tails : StudentT or ScaleMixture
        The fitted observation model of the judges.
    posterior : (n, k) array
        P(state | J) to start from.
    tolerance : float
        Change of the mean log likelihood below which EM has converged.
    rounds : int
        Most rounds of EM.
    """
    previous, model = -np.inf, TailedScatter(posterior.mean(axis=0), tails, np.eye(values.shape[1]))
    for _ in range(rounds):
        if isinstance(tails, StudentT):
            tails = tails.updated(values, posterior)
            residuals, weights = _normal_scores(values, tails), posterior
        else:
            inverse: Array = np.asarray(np.linalg.inv(model.correlation), dtype=np.float64)
            tails, weights = tails.updated_within(values, posterior, inverse)
            assert tails.locations is not None
            assert tails.scale is not None
            residuals = [(values - location) / tails.scale for location in tails.locations]
        scatter = sum((z * w[:, None]).T @ z for z, w in zip(residuals, weights.T, strict=True)) / len(values)
        root = np.sqrt(np.diag(scatter))
        model = TailedScatter(posterior.mean(axis=0), tails, scatter / np.outer(root, root))
        posterior, by_item = softmax(model.log_joint(values))
        current = float(by_item.mean())
        model = replace(model, log_likelihood=current)
        if abs(current - previous) < 1e-6:
            break
        previous = current
    return model


def _normal_scores(values: Array, tails: StudentT) -> list[Array]:
    """For each state the (n, b) normal scores that have the same probabilities under the judges' t distributions."""
    assert tails.locations is not None
    assert tails.scale is not None
    assert tails.degrees is not None
    chance = [stdtr(tails.degrees, (values - location) / tails.scale) for location in tails.locations]
    return [ndtri(np.clip(c, 1e-12, 1 - 1e-12)) for c in chance]


def _enumerable(model: Dependent) -> NDArray[np.bool_]:
    """The edges, taken from the strongest on, without those that join too many patterns."""
    first, second = np.nonzero(np.triu(model.edges, 1))
    order = np.lexsort((-model.statistics[first, second], model.p_values[first, second]))
    group, patterns = list(range(len(model.levels))), [float(max(m, 1)) for m in model.levels]
    kept = np.zeros_like(model.edges)
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
    """The vectors x, shape (n, c): real scores as they are, graded ones as indicators of every grade but the first."""
    parts = [
        values[:, [j]] if most == 0 else (values[:, [j]] == np.arange(1, most)).astype(np.float64)
        for j, most in enumerate(levels)
    ]
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(values), 0))


def _least_squares(y: Array, x: Array, posterior: Array) -> tuple[Array, Array, float]:
    """Regression of a real judge: natural parameters (k + c, 1), their covariance, and the residual precision.

    The natural parameters are the levels of the states, then the slopes, each times the residual precision.
    """
    k = posterior.shape[1]
    cross = posterior.T @ x
    curvature = np.block([[np.diag(posterior.sum(axis=0)), cross], [cross.T, x.T @ x]])
    inverse: Array = np.asarray(np.linalg.inv(curvature + _RIDGE * np.eye(len(curvature))), dtype=np.float64)
    coefficient = inverse @ np.concatenate([posterior.T @ y, x.T @ y])
    residual = y[:, None] - (x @ coefficient[k:])[:, None] - coefficient[:k]
    precision = 1.0 / max(float(np.sum(posterior * residual**2)) / len(y), 1e-9)
    return (coefficient * precision)[:, None], inverse * precision, precision


def _logit(y: Array, x: Array, posterior: Array, start: Array | None, most_steps: int) -> tuple[Array, Array]:
    """Multinomial logit of a graded judge by Newton's method: coefficients (k + c, m), and the inverse of the Hessian.

    The rows of the coefficients are the levels of the states, then the slopes. The Hessian is of the rows one by one.
    """
    k, m, c = posterior.shape[1], y.shape[1], x.shape[1]
    beta = np.zeros((k + c, m)) if start is None else start.copy()
    inverse: Array = np.eye((k + c) * m)
    for _ in range(most_steps):
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
