"""Mixtures whose judges are binary, graded, ordinal, heavy-tailed or Gaussian given the state, in any company.

The paper's appendix "General CARE Setup": only the judges' own likelihoods change, states and posterior stay. An
observation model says how the scores of some judges, its ``columns``, are distributed given the state. ``updated`` has
parameters that raise the expected log likelihood given P(state | item), for (n, b) scores and (n, k) probabilities;
``log_density`` is the sum over the judges present of log p(score | state), shape (n, k).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, gammaln

from care_ops.errors import FitError, InputError
from care_ops.models import mixture
from care_ops.models.answers import Answers, softmax
from care_ops.scores import Array

_PSEUDO_COUNT = 0.5
"""Number of answers of each judge that is added to each state, spread over levels as the judge uses them."""

_LEAST_VARIANCE = 1e-6

_START_ITEMS = 5_000
"""Most items on which starts are told apart: states that these do not show are none that a start could be ranked by."""

_GAUSSIAN, _SHORT = 30, 10
"""Iterations of the Gaussian mixture, and then of the model itself, after which the starts of a round are ranked."""

_MOST_ROUNDS = 5
"""Most rounds of starts, as for Gaussian judges (``aggregators.care_tensor``)."""

_DEGREES = (1.2, 200.0)


@dataclass(frozen=True)
class Gaussian:
    """Real scores with a mean by state and one variance by judge.

    Attributes
    ----------
    means : (k, b) array
    variance : (b,) array
    """

    columns: tuple[int, ...]
    means: Array | None = None
    variance: Array | None = None

    def updated(self, values: Array, weights: Array) -> Gaussian:
        present = ~np.isnan(values)
        filled = np.where(present, values, 0.0)
        mass = np.maximum(weights.T @ present, 1e-9)
        means = (weights.T @ filled) / mass
        scatter = (weights.T @ filled**2 - mass * means**2).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
        return Gaussian(self.columns, means, np.maximum(scatter, _LEAST_VARIANCE))

    def log_density(self, values: Array) -> Array:
        means, variance = _fitted(self.means), _fitted(self.variance)
        present = ~np.isnan(values)
        filled = np.where(present, values, 0.0)
        scaled = means / variance
        squares = (filled**2 @ (1 / variance))[:, None] - 2 * filled @ scaled.T + present @ (means * scaled).T
        return -0.5 * (squares + (present @ np.log(2 * np.pi * variance))[:, None])


@dataclass(frozen=True)
class Graded:
    """Grades 0 ... levels - 1 with a free probability for each state (Bernoulli where there are two).

    Attributes
    ----------
    levels : tuple of int
        Number of grades that each judge may give.
    table : (sum of levels, k) array
        P(grade | state); judges in order, the grades of each in order.
    """

    columns: tuple[int, ...]
    levels: tuple[int, ...]
    table: Array | None = None

    def updated(self, values: Array, weights: Array) -> Graded:
        answers = self.answers(values)
        counts = answers.counts(weights) + _PSEUDO_COUNT * answers.shares()[:, None]
        return replace(self, table=answers.normalise(np.maximum(counts, 1e-12)))

    def log_density(self, values: Array) -> Array:
        return self.answers(values).joint(np.log(_fitted(self.table)))

    def answers(self, values: Array) -> Answers:
        """The judges' grades, packed."""
        grades = np.where(np.isnan(values), -1, np.nan_to_num(values)).astype(np.intp)
        if (grades >= np.array(self.levels)).any() or (np.nan_to_num(values) != np.maximum(grades, 0)).any():
            raise InputError("observation: grades must be whole numbers from 0 to levels - 1; see answers.grades")
        return Answers(grades, self.levels)


@dataclass(frozen=True)
class Ordinal:
    """Ordered logit: P(grade <= l | state r) = sigmoid(cut_l - location_r) (paper, equation for J_i given H).

    Attributes
    ----------
    locations : (k, b) array
        Relative to state 0.
    cuts : tuple of (levels - 1,) arrays
    """

    columns: tuple[int, ...]
    levels: tuple[int, ...]
    locations: Array | None = None
    cuts: tuple[Array, ...] = ()

    def updated(self, values: Array, weights: Array) -> Ordinal:
        answers = Graded(self.columns, self.levels).answers(values)
        counts = answers.counts(weights)
        k = weights.shape[1]
        locations, cuts = np.zeros((k, len(self.columns))), list[Array]()
        for j, levels in enumerate(self.levels):
            table = counts[answers.owner == j]
            start = None
            if self.locations is not None:
                start = np.concatenate([self.locations[1:, j], self.cuts[j][:1], np.log(np.diff(self.cuts[j]))])
            locations[1:, j], own_cuts = _ordered_logit(table, levels, k, start)
            cuts.append(own_cuts)
        return replace(self, locations=locations, cuts=tuple(cuts))

    def log_density(self, values: Array) -> Array:
        locations = _fitted(self.locations)
        tables = [_grade_probabilities(locations[:, j], cut) for j, cut in enumerate(self.cuts)]
        table = np.concatenate(tables)
        return Graded(self.columns, self.levels).answers(values).joint(np.log(np.maximum(table, 1e-300)))


@dataclass(frozen=True)
class StudentT:
    """Real scores with outliers: each judge a t distribution with a location by state, one scale and degrees.

    Attributes
    ----------
    locations : (k, b) array
    scale, degrees : (b,) arrays
    """

    columns: tuple[int, ...]
    locations: Array | None = None
    scale: Array | None = None
    degrees: Array | None = None

    def updated(self, values: Array, weights: Array) -> StudentT:
        b, k = len(self.columns), weights.shape[1]
        locations, scale, degrees = np.zeros((k, b)), np.ones(b), np.full(b, 4.0)
        for j, column in enumerate(values.T):
            scored = ~np.isnan(column)
            x, w = column[scored], weights[scored]
            if self.locations is None or self.scale is None or self.degrees is None:
                at, spread, nu = _weighted_medians(x, w), float(np.median(np.abs(x - np.median(x)))) + 1e-6, 4.0
            else:
                at, spread, nu = self.locations[:, j], float(self.scale[j]), float(self.degrees[j])
            distance = ((x[:, None] - at) / spread) ** 2
            u = w * (nu + 1) / (nu + distance)
            at = (u * x[:, None]).sum(axis=0) / np.maximum(u.sum(axis=0), 1e-12)
            squares = (x[:, None] - at) ** 2
            spread = float(np.sqrt(max(np.sum(u * squares) / w.sum(), _LEAST_VARIANCE)))
            distance = squares / spread**2
            degrees[j] = _degrees(lambda nu, d=distance, w=w: float(np.sum(w * _log_t(d, nu, 1))))
            locations[:, j], scale[j] = at, spread
        return StudentT(self.columns, locations, scale, degrees)

    def log_density(self, values: Array) -> Array:
        locations, scale, degrees = _fitted(self.locations), _fitted(self.scale), _fitted(self.degrees)
        out = np.zeros((len(values), len(locations)))
        for j, column in enumerate(values.T):
            distance = ((column[:, None] - locations[:, j]) / scale[j]) ** 2
            density = _log_t(distance, float(degrees[j]), 1) - np.log(scale[j])
            out += np.where(np.isnan(column)[:, None], 0.0, density)
        return out


@dataclass(frozen=True)
class ScaleMixture:
    """Real scores whose noise has one scale by item, common to these judges: a multivariate t.

    Peel and McLachlan, "Robust mixture modelling using the t distribution", 2000.

    Attributes
    ----------
    locations : (k, b) array
    scale : (b,) array
    """

    columns: tuple[int, ...]
    locations: Array | None = None
    scale: Array | None = None
    degrees: float = 4.0

    def updated(self, values: Array, weights: Array) -> ScaleMixture:
        present = ~np.isnan(values)
        filled = np.where(present, values, 0.0)
        count = present.sum(axis=1)
        if self.locations is None or self.scale is None:
            start = Gaussian(self.columns).updated(values, weights)
            locations, scale = _fitted(start.means), np.sqrt(_fitted(start.variance))
        else:
            locations, scale = self.locations, self.scale
        distance = self._distance(filled, present, locations, scale)
        u = weights * (self.degrees + count[:, None]) / (self.degrees + distance)
        mass = np.maximum(u.T @ present, 1e-12)
        locations = (u.T @ filled) / mass
        squares = (u.T @ filled**2 - mass * locations**2).sum(axis=0)
        scale = np.sqrt(np.maximum(squares / np.maximum(present.sum(axis=0), 1), _LEAST_VARIANCE))
        distance = self._distance(filled, present, locations, scale)
        degrees = _degrees(lambda nu: float(np.sum(weights * _log_t(distance, nu, count[:, None]))))
        return ScaleMixture(self.columns, locations, scale, degrees)

    def log_density(self, values: Array) -> Array:
        locations, scale = _fitted(self.locations), _fitted(self.scale)
        present = ~np.isnan(values)
        distance = self._distance(np.where(present, values, 0.0), present, locations, scale)
        return _log_t(distance, self.degrees, present.sum(axis=1)[:, None]) - (present @ np.log(scale))[:, None]

    @staticmethod
    def _distance(filled: Array, present: NDArray[np.bool_], locations: Array, scale: Array) -> Array:
        scaled = locations / scale**2
        squares = (filled**2 @ (1 / scale**2))[:, None] - 2 * filled @ scaled.T + present @ (locations * scaled).T
        return np.maximum(squares, 0.0)


ObservationModel = Gaussian | Graded | Ordinal | StudentT | ScaleMixture


@dataclass(frozen=True)
class ObservationMixture:
    """A fitted mixture of judges that are independent given the state.

    Attributes
    ----------
    weights : (k,) array
    models : tuple of ObservationModel
        The observation models with their parameters.
    log_likelihood : float
        Mean over the items.
    starts_agree : bool
        Whether two starts have ended at one likelihood, within 1e-4 nats an item; a single one may be stuck anywhere.
    """

    weights: Array
    models: tuple[ObservationModel, ...]
    log_likelihood: float
    converged: bool
    starts_agree: bool = False

    def log_joint(self, values: Array) -> Array:
        """log pi_r + log p(J_i | r) over the scores present, shape (n, k)."""
        return np.log(self.weights) + sum(f.log_density(values[:, list(f.columns)]) for f in self.models)

    def posterior(self, values: Array) -> Array:
        """P(state | J), shape (n, k)."""
        return softmax(self.log_joint(values))[0]

    def score(self, values: Array) -> float:
        """Log likelihood of an item, for instance of held-out ones."""
        return float(mixture.log_sum(self.log_joint(values)).mean())


def fit(
    values: Array,
    models: Sequence[ObservationModel],
    states: int,
    rng: np.random.Generator,
    *,
    starts: int = 5,
    tolerance: float = 1e-7,
    max_iterations: int = 1_000,
) -> ObservationMixture:
    """EM from the posteriors of Gaussian mixtures of the scores, the likeliest kept.

    Each round of starts is followed a short way on at most five thousand items, with grades in any order, which costs
    far less than an ordered logit, and its leading one to the end on all of them. Rounds are drawn until the
    likeliest end was reached twice, at most five: ``starts_agree`` says whether it was. A Gaussian mixture's
    likelihood does not tell which start leads, because votes and grades have states that it cannot see.

    Parameters
    ----------
    values : (n, p) array
        NaN is missing; grades as 0, 1, ...
    models : sequence of ObservationModel
        Every column in just one of them.
    starts : int
        Number of k-means starts in a round.

    Raises
    ------
    InputError
        A judge is in no observation model, or in two.
    FitError
        Fewer different rows than states, or a judge that does not vary.
    """
    n, p = values.shape
    if sorted(c for f in models for c in f.columns) != list(range(p)):
        raise InputError("observation: every judge must be in just one observation model")
    if (np.nanmax(values, axis=0) == np.nanmin(values, axis=0)).any():
        raise FitError("observation: a judge gives every item the same score; leave it out")
    if mixture.different_rows(values, at_least=states) < states:
        raise FitError(f"observation: {states} states need as many different rows of scores")
    embedded = _embedded(values, models)
    quick = [Graded(f.columns, f.levels) if isinstance(f, Ordinal) else f for f in models]
    drawn = np.sort(rng.choice(n, _START_ITEMS, replace=False)) if n > _START_ITEMS else np.arange(n)
    sample, embedded = values[drawn], embedded[drawn]
    ended: list[ObservationMixture] = []
    agree, likelihood = False, attrgetter("log_likelihood")
    while not agree and len(ended) < _MOST_ROUNDS:
        short: list[ObservationMixture] = []
        for _ in range(starts):
            near = mixture.start_near(embedded, mixture.k_means_plus_plus(embedded, states, rng))
            gaussian = mixture.expectation_maximisation(embedded, *near, max_iterations=_GAUSSIAN)
            short.append(expectation_maximisation(sample, quick, gaussian.posterior(embedded), tolerance, _SHORT))
        leading = max(short, key=likelihood)
        ended.append(expectation_maximisation(values, models, leading.posterior(values), tolerance, max_iterations))
        likelihoods = sorted(map(likelihood, ended))
        agree = len(ended) > 1 and likelihoods[-1] - likelihoods[-2] <= mixture.SAME_STATES
    return replace(max(ended, key=likelihood), starts_agree=agree)


def expectation_maximisation(
    values: Array, models: Sequence[ObservationModel], posterior: Array, tolerance: float, max_iterations: int
) -> ObservationMixture:
    """EM from P(state | J), stopped when the mean log likelihood rises by less than ``tolerance``."""
    current, previous, converged = tuple(models), -np.inf, False
    weights, likelihood = posterior.mean(axis=0), -np.inf
    for _ in range(max_iterations):
        weights = np.maximum(posterior.mean(axis=0), 1.0 / (10 * len(values)))
        weights = weights / weights.sum()
        current = tuple(f.updated(values[:, list(f.columns)], posterior) for f in current)
        joint = np.log(weights) + sum(f.log_density(values[:, list(f.columns)]) for f in current)
        posterior, by_item = softmax(joint)
        likelihood = float(by_item.mean())
        converged = likelihood - previous < tolerance
        if converged:
            break
        previous = likelihood
    return ObservationMixture(weights, current, likelihood, converged)


def _embedded(values: Array, models: Sequence[ObservationModel]) -> Array:
    """Scores as numbers for k-means: graded judges by indicators, all standardised, tails drawn in."""
    parts: list[Array] = []
    for model in models:
        block = values[:, list(model.columns)]
        if isinstance(model, Graded) and max(model.levels) > 2:
            parts.append(model.answers(block).indicators())
        else:
            middle = np.nanmedian(block, axis=0)
            spread = np.nanmean(np.abs(block - middle), axis=0)
            parts.append(np.clip(np.nan_to_num((block - middle) / spread), -4, 4))
    joined = np.concatenate(parts, axis=1)
    spread = joined.std(axis=0)
    return (joined - joined.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _ordered_logit(table: Array, levels: int, k: int, start: Array | None) -> tuple[Array, Array]:
    """Locations of states 1 ... k - 1 and cuts, by maximum likelihood on a (levels, k) table of counts."""
    smoothed = table + _PSEUDO_COUNT * table.sum(axis=1, keepdims=True) / max(float(table.sum()), 1.0)
    total = float(smoothed.sum())

    def loss(x: Array) -> tuple[float, Array]:
        location = np.concatenate([[0.0], x[: k - 1]])
        steps = np.exp(x[k:])
        cuts = np.concatenate([x[k - 1 : k], x[k - 1] + np.cumsum(steps)])
        below = expit(cuts[:, None] - location)
        edges = np.concatenate([np.zeros((1, k)), below, np.ones((1, k))])
        chance = np.maximum(np.diff(edges, axis=0), 1e-12)
        ratio = smoothed / chance
        slope = below * (1 - below)
        by_cut = slope * (ratio[:-1] - ratio[1:])
        along = by_cut.sum(axis=1)
        later = np.cumsum(along[::-1])[::-1]
        gradient = np.concatenate([-by_cut.sum(axis=0)[1:], later[:1], later[1:] * steps])
        return -float(np.sum(smoothed * np.log(chance))) / total, -gradient / total

    if start is None:
        share = np.clip(np.cumsum(smoothed.sum(axis=1))[:-1] / total, 1e-3, 1 - 1e-3)
        cuts = np.log(share / (1 - share))
        start = np.concatenate([np.zeros(k - 1), cuts[:1], np.log(np.maximum(np.diff(cuts), 1e-2))])
    bounds = [(-15.0, 15.0)] * k + [(-9.0, 3.0)] * (levels - 2)
    optimum = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 50})
    x = optimum.x
    return x[: k - 1], np.concatenate([x[k - 1 : k], x[k - 1] + np.cumsum(np.exp(x[k:]))])


def _grade_probabilities(location: Array, cuts: Array) -> Array:
    below = expit(cuts[:, None] - location)
    edges = np.concatenate([np.zeros((1, len(location))), below, np.ones((1, len(location)))])
    return np.diff(edges, axis=0)


def _log_t(distance: Array, degrees: float, dimension: Array | int) -> Array:
    """Log density of a t at squared standardised distance, less the log scale."""
    total = np.asarray(dimension, dtype=np.float64) + degrees
    constant = gammaln(total / 2) - gammaln(degrees / 2) - 0.5 * (total - degrees) * np.log(degrees * np.pi)
    return np.asarray(constant - 0.5 * total * np.log1p(distance / degrees), dtype=np.float64)


def _degrees(likelihood: object) -> float:
    optimum = minimize_scalar(lambda log: -likelihood(float(np.exp(log))), bounds=np.log(_DEGREES), method="bounded")  # type: ignore[operator]
    return float(np.exp(optimum.x))


def _weighted_medians(x: Array, weights: Array) -> Array:
    order = np.argsort(x)
    running = np.cumsum(weights[order], axis=0)
    place = [int(np.searchsorted(c, 0.5 * c[-1])) for c in running.T]
    return np.array([x[order[min(q, len(x) - 1)]] for q in place])


def _fitted(parameter: Array | None) -> Array:
    if parameter is None:
        raise FitError("observation: the observation model has no parameters yet; fit it first")
    return parameter
