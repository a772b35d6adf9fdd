"""CARE-Tensor: quality as a state of a mixture seen from three views (paper, Algorithm 2).

Belongs here: the road from views to E[Q | J]. Does not: the decomposition (``cp``) or EM (``mixture``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.base import Aggregate, Problem
from care_ops.calibration import to_panel_scale
from care_ops.errors import FitError
from care_ops.models import cp, mixture, observation
from care_ops.models.answers import MOST_LEVELS, grades, softmax
from care_ops.models.mixture import Mixture
from care_ops.structure.factors import extract
from care_ops.structure.views import Views, partition, partition_within

Array = NDArray[np.float64]

Found = tuple[Mixture, dict[str, Any]]

_REAL: dict[str, type[observation.StudentT] | type[observation.ScaleMixture]] = {
    "student": observation.StudentT,
    "scale_mixture": observation.ScaleMixture,
}

_K_MEANS_STARTS = 5

_WITHIN_STARTS = 8

_MOST_MAPPED = 12
"""States up to which every map of states to {0, 1} is tried."""


@dataclass(frozen=True)
class Fitted:
    """A mixture on a panel, whatever its judges' likelihoods.

    Attributes
    ----------
    weights : (k,) array
    means : (k, p) array
        Mean standardised score of each judge in each state.
    log_joint : (n, k) array
        log pi_r + log p(J_i | r) over the scores present.
    log_likelihood : float
        Of an item with scores.
    converged : bool
    start : str
        Which start won.
    """

    weights: Array
    means: Array
    log_joint: Array
    log_likelihood: float
    converged: bool
    start: str


@dataclass(frozen=True)
class States:
    """A fitted mixture, and what its states mean.

    Attributes
    ----------
    fitted : Fitted
    quality : (k,) array
        Q of each state: 0 or 1 without labels; with labels of more than two values, their mean in it.
    confounder : (k,) array of int
        States of one Q in the order of their weight: the value of C, up to naming.
    score : (k,) array
        s_r = v' mu_r, v the quality direction of L (step E).
    views : Views
    details : dict
        What the starts and the tensor stage said.
    """

    fitted: Fitted
    quality: Array
    confounder: NDArray[np.intp]
    score: Array
    views: Views
    details: dict[str, Any]

    @property
    def posterior(self) -> Array:
        """P(Q, C | J), shape (n, k); the states' weights where no score is."""
        return softmax(self.fitted.log_joint)[0]


class CareTensor:
    """``care_tensor``: the log-odds of Q = 1 given the scores, on the panel's scale.

    Judges are standardised first, so the answer does not depend on their scales. Tensor, fourth-order and k-means
    starts are each refined by EM; the best likelihood is kept. States are mapped to Q by s_r = v' mu_r with v the
    quality direction of L (step E), or by anchors (step F); with anchors of more than two values the estimate is
    E[Q | J], each state's Q the mean label in it. The posterior is that of conditionally independent judges and hence
    overconfident: it orders items and decides at one half, and is not printed as a probability.
    """

    name = "care_tensor"
    scale_free = True
    uses_labels = True

    def __init__(self, memo: dict[Hashable, Found] | None = None) -> None:
        """``memo`` keeps mixtures by views, for many fits of the same scores that differ in nothing but penalties."""
        self._memo = memo

    def fit(self, problem: Problem) -> Aggregate:
        """Views, third moment, decomposition, EM, states to Q."""
        states = self.states(problem)
        fitted, log_joint = states.fitted, states.fitted.log_joint
        graded = len(np.unique(states.quality)) > 2
        if graded:
            latent = states.posterior @ states.quality
        else:
            positive = states.quality > states.quality.min()
            latent = mixture.log_sum(log_joint[:, positive]) - mixture.log_sum(log_joint[:, ~positive])
        latent = np.where(np.isnan(problem.scores.values).all(axis=1), np.nan, latent)
        estimate, offset, _ = to_panel_scale(latent, problem.panel_mean)
        said = "quality is the mean label of a state" if graded else "zero log-odds at the threshold"
        return Aggregate(
            self.name,
            estimate,
            threshold=problem.cut if graded else offset,
            loadings=fitted.means.T,
            latent=latent,
            labels_used=len(problem.anchors),
            details={
                "views": [[problem.scores.judges[j] for j in group] for group in states.views.groups],
                "view_tolerance": states.views.tolerance,
                "largest_cross_edge": states.views.largest_cross_edge,
                **states.details,
                "state_weights": fitted.weights.tolist(),
                "state_means": (problem.moments.mean() + fitted.means * problem.scale).tolist(),
                "state_quality": states.quality.tolist(),
                "state_confounder": states.confounder.tolist(),
                "state_scores": states.score.tolist(),
                "start": fitted.start,
                "converged": fitted.converged,
                "log_likelihood": fitted.log_likelihood,
                "certificate": asdict(problem.require_structure().certificate),
                "scale": f"location and spread of the panel mean; {said}",
            },
        )

    def states(self, problem: Problem) -> States:
        """The mixture and its meaning; raises ``FitError`` without structure, or where judges make no three views."""
        structure = problem.require_structure()
        known: NDArray[np.bool_] = ~np.all(np.isnan(problem.standardised), axis=1)
        values = problem.standardised[known]
        _distinct_enough(values, problem.config.tensor.states)
        views = self._views(problem, values)
        if problem.config.tensor.observation_model == "gaussian":
            key = tuple(tuple(int(j) for j in group) for group in views.groups)
            found, details = self._once(key, lambda: self.components(problem, views, values))
            joint = found.log_joint(problem.standardised)
            fitted = Fitted(found.weights, found.means, joint, found.log_likelihood, found.converged, found.start)
        else:
            fitted, details = self._observed(problem, known)
        score = fitted.means @ extract(structure.low_rank, problem.correlation).weights
        rows, labels = problem.anchors.rows(problem.scores.item_ids)
        if len(rows) >= 2 and np.ptp(labels) > 0:
            quality = quality_by_anchors(softmax(fitted.log_joint[rows])[0], labels)
        else:
            quality = np.zeros(len(score))
            quality[np.argsort(score, kind="stable")[len(score) // 2 :]] = 1.0
        confounder = np.zeros(len(score), dtype=np.intp)
        for q in np.unique(quality):
            of = np.flatnonzero(quality == q)
            confounder[of[np.argsort(-fitted.weights[of], kind="stable")]] = np.arange(len(of))
        return States(fitted, quality, confounder, score, views, details)

    def components(self, problem: Problem, views: Views, values: Array) -> tuple[Mixture, dict[str, Any]]:
        """The mixture with the best likelihood over the starts, and what the tensor stage said."""
        k, details = problem.config.tensor.states, dict[str, Any]()
        if k == 0:
            k, criterion = mixture.number_of_states(values, problem.rng)
            k = max(k, 2)
            details["bic"] = {str(states): value for states, value in criterion.items()}
        scale = problem.scale
        tensor = cp.augmented_moment(problem.moments, views)
        tensor = cp.scale_tensor(tensor, (scale[views.groups[0]], scale[views.groups[1]], scale[views.groups[2]]))
        by_views, free = problem.rng.spawn(2)  # so that k-means starts are the same whatever the views
        starts, details["tensor"] = view_starts(values, tensor, problem.correlation, views, k, by_views)
        fits = [self._once(("free", k), lambda: mixture.best_of(values, free_starts(values, k, free), finalists=1))]
        if starts:
            fits.append(mixture.best_of(values, starts, finalists=1))
        details["start_likelihoods"] = {name: value for _, short in fits for name, value in short.items()}
        return max((fit for fit, _ in fits), key=lambda fit: fit.log_likelihood), details

    def _observed(self, problem: Problem, known: NDArray[np.bool_]) -> tuple[Fitted, dict[str, Any]]:
        """The mixture whose judges are what their scores look like (``observation``)."""
        k = problem.config.tensor.states or 4
        values, parts = _as_observed(problem)
        model = observation.fit(values[known], parts, k, problem.rng)
        joint = model.log_joint(values)
        weight = softmax(joint[known])[0]
        z = problem.standardised[known]
        present = ~np.isnan(z)
        means = (weight.T @ np.where(present, z, 0.0)) / np.maximum(weight.T @ present, 1e-12)
        fitted = Fitted(model.weights, means, joint, model.log_likelihood, model.converged, "k-means")
        judges = problem.scores.judges
        said = {type(f).__name__: [judges[j] for j in f.columns] for f in model.models}
        return fitted, {"judges": said, "tensor": {"used": False}}

    def _views(self, problem: Problem, values: Array) -> Views:
        if problem.config.tensor.views == "structure":
            return partition(problem.require_structure().sparse)
        complete = values[~np.isnan(values).any(axis=1)]
        k = problem.config.tensor.states or 4
        starts = [(str(s), mixture.k_means_plus_plus(complete, k, problem.rng)) for s in range(_WITHIN_STARTS)]
        within, _ = mixture.best_of(complete, starts, shape="full")
        return partition_within(within.covariance, len(complete))

    def _once(self, key: Hashable, make: Callable[[], Found]) -> Found:
        if self._memo is None:
            return make()
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]


def free_starts(values: Array, k: int, rng: np.random.Generator) -> list[tuple[str, Array]]:
    """Starts for EM that need no views: k-means centres."""
    return [(f"k-means {s + 1}", mixture.k_means_plus_plus(values, k, rng)) for s in range(_K_MEANS_STARTS)]


def view_starts(
    values: Array, tensor: Array, correlation: Array, views: Views, k: int, rng: np.random.Generator
) -> tuple[list[tuple[str, Array]], dict[str, Any]]:
    """Starts for EM from the views: the third moment's components where it has any, fourth-order corners.

    Parameters
    ----------
    values : (n, p) array
        Standardised; NaN is missing.
    tensor : array
        Their augmented third moment (``cp.augmented_moment``).
    correlation : (p, p) array
    views : Views
    k : int
    rng : numpy.random.Generator

    Returns
    -------
    starts : list of (name, (k, p) centres)
    details : dict
        Condition of the third moment, its warning, and why a method could not be used.
    """
    starts: list[tuple[str, Array]] = []
    details: dict[str, Any] = {"used": False}
    methods: tuple[tuple[cp.Method, str], ...] = (("jennrich", "tensor"), ("power", "power"))
    for method, name in methods:
        try:
            bare = cp.decompose(tensor, views, k, rng, method=method, items=len(values))
        except FitError as error:
            details[f"why_not_{method}"] = str(error)
            continue
        starts.append((name, bare.means))
        details |= {
            "used": True,
            "condition": bare.condition,
            "smallest_singular_value": bare.smallest,
            "noise": bare.noise,
            "warning": bare.warning,
        }
    for d in sorted({2, k - 1}):
        if 1 < d < len(correlation):
            subspace = cp.cross_view_subspace(correlation, views, d)
            starts.append((f"fourth order, {d}", mixture.fourth_order(values, subspace, k, rng)))
    return starts, details


def _as_observed(problem: Problem) -> tuple[Array, list[observation.ObservationModel]]:
    """Scores as families want them, and the family of each judge: grades where there are at most ten, else real."""
    kind = problem.config.tensor.observation_model
    values = problem.standardised.copy()
    grade = grades(problem.scores.values)
    levels = grade.max(axis=0) + 1
    few = np.array([len(np.unique(c[~np.isnan(c)])) <= MOST_LEVELS for c in problem.scores.values.T])
    values[:, few] = np.where(grade[:, few] >= 0, grade[:, few], np.nan)
    free = few & ((levels == 2) | (kind == "categorical"))
    models: list[observation.ObservationModel] = []
    for columns, make in (
        (np.flatnonzero(free), lambda c: observation.Graded(c, tuple(int(levels[j]) for j in c))),
        (np.flatnonzero(few & ~free), lambda c: observation.Ordinal(c, tuple(int(levels[j]) for j in c))),
        (np.flatnonzero(~few), _REAL.get(kind, observation.Gaussian)),
    ):
        if len(columns):
            models.append(make(tuple(int(j) for j in columns)))
    return values, models


def quality_by_anchors(posterior: Array, labels: Array) -> Array:
    """Q of each state by labelled items (step F), shape (k,).

    Two label values: the map of states to {0, 1} whose P(Q = 1 | J) lies nearest the labels. More: the mean label of
    a state, by its posterior, with the weight of one item at the labels' mean.

    Parameters
    ----------
    posterior : (m, k) array
        P(state | J) of the labelled items.
    labels : (m,) array
    """
    k = posterior.shape[1]
    if len(np.unique(labels)) > 2 or k > _MOST_MAPPED:
        return (posterior.T @ labels + labels.mean()) / (posterior.sum(axis=0) + 1.0)
    target = (labels > 0.5 * (labels.min() + labels.max())).astype(np.float64)
    maps = [np.array(m, dtype=np.float64) for m in itertools.product((0, 1), repeat=k) if 0 < sum(m) < k]
    loss = [float(np.sum((posterior @ m - target) ** 2)) for m in maps]
    return maps[int(np.argmin(loss))]


def _distinct_enough(values: Array, states: int) -> None:
    """Raise ``FitError`` where there are fewer different rows than states: a state would be a single pattern."""
    different = len(np.unique(np.nan_to_num(values, nan=np.inf), axis=0))
    if different < max(states, 2):
        raise FitError(
            f"care_tensor: {max(states, 2)} states need as many different rows of scores, there are {different}; "
            "lower `fit.states`, or add items"
        )
