"""CARE-Tensor: quality as a state of a mixture with three views (paper, Algorithm 2)."""

import itertools
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln
from scipy.stats import binom

from care_ops.aggregators.base import Problem
from care_ops.calibration import to_panel_scale
from care_ops.errors import FitError
from care_ops.minimum_sizes import LABELS_TO_CONFIRM
from care_ops.models import cp, mixture
from care_ops.models.answers import softmax
from care_ops.models.mixture import Mixture
from care_ops.records import Aggregate
from care_ops.samples import is_sampled, sampled_rows
from care_ops.scores import Array
from care_ops.structure.factors import extract
from care_ops.structure.views import Views, partition, partition_within

MixtureWithDetails = tuple[Mixture, dict[str, Any]]

STATES = 4
"""Of quality and one confounder, two values each (the paper's four states)."""

_K_MEANS_STARTS = 5

_MORE_ROUNDS = 4
"""Number of further rounds of k-means starts if no two kinds of starts find the same states."""

_WITHIN_STARTS = 8

_ITERATIONS = 100
"""Most iterations with many items, for the mixture that gives the views and for EM on all items."""

_WITHIN_ITEMS = 10
"""Items a judge, all of whose scores are there, that views within states need; with fewer they come from S."""

_START_TOLERANCE = 1e-6
"""Rise of the mean log likelihood at which a mixture has settled from which views or starts are taken."""

_FIRST_ROWS = 1_000
"""Rows among which different ones are looked for before all rows are sorted."""

_FOLDS = 10
_BY_CHANCE = 0.05

_MAP_LABELS = 3.0
"""How many labels the guess of a state's quality counts for, which is made without labels.

Each state also starts with one imagined label of 0 and one of 1. A state that is guessed to be good then has four
imagined labels of 1 in five, so that it takes several real labels to overturn the guess.
"""


@dataclass(frozen=True)
class States:
    """A fitted mixture with the interpretation of its states.

    Attributes
    ----------
    fitted : Mixture
        Of standardised scores.
    log_joint : (n, k) array
        log pi_r + log p(J_i | r) over the scores present.
    quality : (k,) array
        Q of each state. It is 0 or 1 without labels and with labels of two values, else the mean label in the state.
    score : (k,) array
        s_r = v' mu_r, where v is the quality direction of L (step E).
    details : dict
        Facts about the starts and the tensor stage.
    """

    fitted: Mixture
    log_joint: Array
    quality: Array
    score: Array
    views: Views
    details: dict[str, Any]

    @property
    def posterior(self) -> Array:
        """P(Q, C | J), shape (n, k). Items without any score have the weights of the states."""
        return softmax(self.log_joint)[0]

    @property
    def confounder(self) -> NDArray[np.intp]:
        """C up to its name, shape (k,): the rank of each state by its weight among the states of the same Q."""
        confounder = np.zeros(len(self.quality), dtype=np.intp)
        for q in np.unique(self.quality):
            same_quality = np.flatnonzero(self.quality == q)
            heaviest_first = same_quality[np.argsort(-self.fitted.weights[same_quality], kind="stable")]
            confounder[heaviest_first] = np.arange(len(same_quality))
        return confounder

    @property
    def log_odds(self) -> Array:
        """Return log P(Q = 1 | J) - log P(Q = 0 | J), shape (n,), if Q of every state is 0 or 1."""
        positive = self.quality > self.quality.min()
        return softmax(self.log_joint[:, positive])[1] - softmax(self.log_joint[:, ~positive])[1]


def where_scored(problem: Problem, latent: Array) -> Array:
    """Return the latent quality of the items that a judge has scored, NaN elsewhere, (n,)."""
    return np.where(np.isnan(problem.scores.values).all(axis=1), np.nan, latent)


def described(problem: Problem, states: States) -> dict[str, Any]:
    """Describe views and states, for JSON."""
    return {
        "views": [[problem.scores.judges[j] for j in group] for group in states.views.groups],
        "view_tolerance": states.views.tolerance,
        "largest_cross_edge": states.views.largest_cross_edge,
        **states.details,
        "state_weights": states.fitted.weights.tolist(),
        "state_means": (problem.moments.mean() + states.fitted.means * problem.scale).tolist(),
        "state_quality": states.quality.tolist(),
        "state_scores": states.score.tolist(),
        "certificate": asdict(problem.require_structure().certificate),
    }


@dataclass(frozen=True)
class CareTensor:
    """Aggregator ``care_tensor``: log-odds of Q = 1 given the scores, on the panel's scale.

    Judges are standardised first, so the estimate does not depend on their scales. Tensor, fourth-order and k-means
    starts are each refined by EM; the best likelihood is kept. States are mapped to Q by s_r = v' mu_r with v the
    leading direction of L (step E), or by labels (step F). With labels of more than two values the estimate is E[Q |
    J], each state's Q the mean label in it. The posterior is that of conditionally independent judges and hence
    overconfident: it orders items and decides at one half, and is not printed as a probability.

    Attributes
    ----------
    memo : dict, optional
        Keeps mixtures by their views, for many fits of the same scores that differ in nothing but penalties.
    """

    memo: dict[Hashable, MixtureWithDetails] | None = None

    def fit(self, problem: Problem) -> Aggregate:
        """Fit the mixture by views, third moment, decomposition and EM, and map its states to Q.

        Raises ``FitError`` if the panel has no structure, too few different rows of scores, or judges that make no
        three views.
        """
        states = self.states(problem)
        fitted = states.fitted
        graded = len(np.unique(states.quality)) > 2
        latent = where_scored(problem, states.posterior @ states.quality if graded else states.log_odds)
        estimate, offset, _ = to_panel_scale(latent, problem.panel_mean, problem.ends)
        placement = "quality is the mean label of a state" if graded else "zero log-odds at the threshold"
        return Aggregate(
            "care_tensor",
            estimate,
            threshold=problem.cut if graded else offset,
            loadings=fitted.means.T,
            latent=latent,
            labels_used=len(problem.labels),
            details={
                **described(problem, states),
                "views_from": "within states" if self._has_items_for_views(problem) else "S",
                "state_confounder": states.confounder.tolist(),
                "start": fitted.start,
                "converged": fitted.converged,
                "log_likelihood": fitted.log_likelihood,
                "scale": f"location and spread of the panel mean; {placement}",
            },
        )

    def states(self, problem: Problem) -> States:
        """Fit the mixture and interpret its states.

        Raises ``FitError`` if the panel has no structure, too few different rows of scores, or judges that make no
        three views.
        """
        problem.require_structure()
        scored: NDArray[np.bool_] = ~np.all(np.isnan(problem.standardised), axis=1)
        values = problem.standardised if scored.all() else problem.standardised[scored]
        _distinct_enough(values)
        views = self.views(problem)
        key = tuple(tuple(int(j) for j in group) for group in views.groups)
        fitted, details = self._once(key, lambda: self.components(problem, views, values))
        joint, details = fitted.log_joint(problem.standardised), dict(details)
        score = fitted.means @ direction_of(problem)
        quality = label_free_map(score)
        rows, labels = problem.labels.rows(problem.scores.item_ids)
        if len(rows) >= 2 and np.ptp(labels) > 0:
            of_labels, label_free = softmax(joint[rows])[0], quality
            quality = quality_by_labels(of_labels, labels, label_free)
            details |= confirmed_by_labels(of_labels, labels, label_free)
        return States(fitted, joint, quality, score, views, details)

    def components(self, problem: Problem, views: Views, values: Array) -> MixtureWithDetails:
        """Fit Gaussian mixtures from all starts; return the one with the best likelihood, and facts about it.

        Starts from the views and k-means starts run separately. If their results differ, more k-means starts are drawn
        until two rounds agree. ``starts_agree`` in the details is whether any did, and where none did ``starts_alike``
        which share of the items the two likeliest ends decide alike without labels: other states may give the same
        answer.

        Where there are many items, all of this is done on a sample of them (``samples``), and EM on all items goes on
        from the best fit of the sample.

        Parameters
        ----------
        values : (m, p) array
            Standardised scores of the items that have any.
        """
        details, scale = dict[str, Any](), problem.scale
        tensor = cp.augmented_moment(problem.moments, views)
        tensor = cp.scale_tensor(tensor, (scale[views.groups[0]], scale[views.groups[1]], scale[views.groups[2]]))
        by_views, free = problem.rng.spawn(2)  # so that k-means starts are the same whatever the views
        sample = _sample(values, problem)
        starts, details["tensor"] = view_starts(sample, tensor, problem.correlation, views, by_views)
        tolerance = _START_TOLERANCE if len(sample) < len(values) else mixture.TOLERANCE
        from_starts = partial(mixture.best_of, sample, tolerance=tolerance)
        fits = [self._once("free", lambda: from_starts(free_starts(sample, free)))]
        if starts:
            fits.append(from_starts(starts))
        for number in range(1, _MORE_ROUNDS + 1):
            if _two_agree(fits):
                break
            fits.append(from_starts(free_starts(sample, free, first=number * _K_MEANS_STARTS)))
        details["starts_agree"] = _two_agree(fits)
        details["start_likelihoods"] = {name: value for _, short in fits for name, value in short.items()}
        finished = sorted((fit for fit, _ in fits), key=lambda fit: -fit.log_likelihood)
        if not details["starts_agree"]:
            direction = direction_of(problem)
            first, second = (fit.posterior(sample) @ label_free_map(fit.means @ direction) for fit in finished[:2])
            details["starts_alike"] = float(np.mean((first > 0.5) == (second > 0.5)))
        if len(sample) < len(values):
            details["start_items"] = len(sample)
            best = mixture.continued(finished[0], values, tolerance=_START_TOLERANCE, max_iterations=_ITERATIONS)
            return best, details
        return finished[0], details

    def views(self, problem: Problem) -> Views:
        """Find views by the precision within states, or by S if too few items are complete.

        They only provide starts for EM, so a sample suffices if there are many items (``samples``).

        Raises ``FitError`` if the panel has no structure, or fewer than three judges.
        """
        # its own, also where it is not used, so that EM's starts do not hang on the views
        (rng,) = problem.rng.spawn(1)
        if not self._has_items_for_views(problem):
            return partition(problem.require_structure().sparse)
        complete = _sample(problem.standardised, problem, np.flatnonzero(_complete(problem)))

        def within() -> MixtureWithDetails:
            starts = [(str(s), mixture.k_means_plus_plus(complete, STATES, rng)) for s in range(_WITHIN_STARTS)]
            fitted, likelihoods = mixture.best_of(
                complete,
                starts,
                shape="full",
                tolerance=_START_TOLERANCE,
                max_iterations=_ITERATIONS if is_sampled(len(problem.standardised)) else 500,
            )
            return fitted, dict(likelihoods)

        fitted, _ = self._once("within", within)
        return partition_within(fitted.covariance, len(complete))

    @staticmethod
    def _has_items_for_views(problem: Problem) -> bool:
        """Return whether the complete items suffice for views within states."""
        return int(_complete(problem).sum()) >= _WITHIN_ITEMS * problem.scores.shape[1]

    def _once(self, key: Hashable, make: Callable[[], MixtureWithDetails]) -> MixtureWithDetails:
        if self.memo is None:
            return make()
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]


def free_starts(values: Array, rng: np.random.Generator, first: int = 0) -> list[tuple[str, Array]]:
    """Return starts of EM without views: k-means centres, numbered from ``first + 1``."""
    numbers = range(first + 1, first + _K_MEANS_STARTS + 1)
    return [(f"k-means {number}", mixture.k_means_plus_plus(values, STATES, rng)) for number in numbers]


def _sample(values: Array, problem: Problem, among: NDArray[np.intp] | None = None) -> Array:
    """Return a sample of the given rows if there are many (``samples``), else all of them."""
    many = len(values) if among is None else len(among)
    if not is_sampled(many):
        return values if among is None else values[among]
    (rng,) = problem.rng.spawn(1)  # its own, so that nothing else that is drawn depends on the sample
    rows = sampled_rows(many, rng)
    return values[rows if among is None else among[rows]]


def _complete(problem: Problem) -> NDArray[np.bool_]:
    """Return whether every judge scored the item, (n,)."""
    complete: NDArray[np.bool_] = ~np.any(np.isnan(problem.standardised), axis=1)
    return complete


def _two_agree(fits: list[tuple[Mixture, dict[str, float]]]) -> bool:
    """Return whether two sets of starts reach the best likelihood; one alone may be a local maximum."""
    likelihoods = sorted(fit.log_likelihood for fit, _ in fits)
    return len(likelihoods) > 1 and likelihoods[-1] - likelihoods[-2] <= mixture.SAME_STATES


def direction_of(problem: Problem) -> Array:
    """Return the leading direction (p,) of L, which identifies quality (step E)."""
    return extract(problem.require_structure().low_rank, problem.correlation).weights


def label_free_map(score: Array) -> Array:
    """Estimate Q of each state (k,) without labels: 1 for the upper half of the states by s_r."""
    quality = np.zeros(len(score))
    quality[np.argsort(score, kind="stable")[len(score) // 2 :]] = 1.0
    return quality


def view_starts(
    values: Array, tensor: Array, correlation: Array, views: Views, rng: np.random.Generator
) -> tuple[list[tuple[str, Array]], dict[str, Any]]:
    """Start EM from the views: components of the third moment, if any, and fourth-order corners."""
    starts: list[tuple[str, Array]] = []
    details: dict[str, Any] = {"used": False}
    try:
        bare = cp.decompose(tensor, views, STATES, rng, items=len(values))
        starts.append(("tensor", bare.means))
        details = {
            "used": True,
            "condition": bare.condition,
            "smallest_singular_value": bare.smallest,
            "noise": bare.noise,
            "warning": bare.warning,
        }
    except FitError as error:
        details["why_not"] = str(error)
    for d in (2, STATES - 1):
        if 1 < d < len(correlation):
            subspace = cp.cross_view_subspace(correlation, views, d)
            starts.append((f"fourth order, {d}", mixture.fourth_order(values, subspace, STATES, rng)))
    return starts, details


def quality_by_labels(posterior: Array, labels: Array, label_free: Array) -> Array:
    """Estimate Q of each state (k,) from labelled items (step F).

    With two label values it is the label-free map if the labels do not contradict it (``evidence_for``), else the map
    of states to {0, 1} whose P(Q = 1 | J) is nearest to the labels. With more values it is the mean label of a state,
    by its posterior, shrunk to the mean of all labels with the weight of one item.
    """
    k = posterior.shape[1]
    if len(np.unique(labels)) > 2:
        return (posterior.T @ labels + labels.mean()) / (posterior.sum(axis=0) + 1.0)
    if evidence_for(label_free, posterior, labels) >= 0:
        return label_free
    target = upper_label(labels)
    maps = [np.array(m, dtype=np.float64) for m in itertools.product((0, 1), repeat=k) if 0 < sum(m) < k]
    loss = [float(np.sum((posterior @ m - target) ** 2)) for m in maps]
    return maps[int(np.argmin(loss))]


def evidence_for(label_free: Array, posterior: Array, labels: Array) -> float:
    """Compute the log Bayes factor of the label-free map against a separate rate for each state.

    In both cases the rate of the upper label in a state has a beta distribution: under the map with most of its weight
    near the map's label, otherwise uniform. A few dozen labels leave the rate of a state open by some .2, so the
    nearest of all maps is often not the best one, whereas the label-free map makes no choice by the labels.
    """
    target = upper_label(labels)
    upper, lower = posterior.T @ target, posterior.T @ (1 - target)
    for_upper, for_lower = 1 + _MAP_LABELS * label_free, 1 + _MAP_LABELS * (1 - label_free)
    mapped = betaln(for_upper + upper, for_lower + lower) - betaln(for_upper, for_lower)
    return float(np.sum(mapped - betaln(1 + upper, 1 + lower)))


def confirmed_by_labels(posterior: Array, labels: Array, label_free: Array) -> dict[str, Any]:
    """Return whether two-valued labels agree with the label-free map (``anchors_agree``), or else with the states.

    From twenty labels on, they are left out in ten folds: ``anchors_right`` is the share that the states predict, and
    ``labels_confirm`` is whether the labels agree, or that share is better than the commoner label's (at 5 %).
    """
    if len(np.unique(labels)) > 2:
        return {}
    agree = evidence_for(label_free, posterior, labels) >= 0
    if len(labels) < LABELS_TO_CONFIRM:
        return {"anchors_agree": agree}
    target = upper_label(labels) > 0
    right, fold = 0, np.arange(len(labels)) % _FOLDS
    for held_out in (fold == f for f in range(_FOLDS)):
        if np.ptp(labels[~held_out]) > 0:
            quality = quality_by_labels(posterior[~held_out], labels[~held_out], label_free)
            right += int(np.sum((posterior[held_out] @ quality > 0.5) == target[held_out]))
    commoner = max(float(target.mean()), 1 - float(target.mean()))
    by_chance = float(binom.sf(right - 1, len(labels), commoner))
    return {
        "anchors_agree": agree,
        "anchors_right": right / len(labels),
        "labels_confirm": agree or by_chance < _BY_CHANCE,
    }


def upper_label(labels: Array) -> Array:
    """Return 1 for the upper one of two label values, else 0."""
    return (labels > 0.5 * (labels.min() + labels.max())).astype(np.float64)


def _distinct_enough(values: Array) -> None:
    """Raise ``FitError`` if there are fewer different rows than states: a state would be a single pattern."""
    different = 0
    for rows in (values[:_FIRST_ROWS], values):
        different = len(np.unique(np.nan_to_num(rows, nan=np.inf), axis=0))
        if different >= STATES:
            return
    raise FitError(
        f"care_tensor: {STATES} states need as many different rows of scores, there are {different}; add items"
    )
