"""CARE-Tensor: quality estimated by a mixture model with three views of the judges (paper, Algorithm 2)."""

import itertools
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, betaln, fdtrc, xlogy

from care_ops.aggregators.base import Problem
from care_ops.calibration import to_panel_scale
from care_ops.errors import FitError
from care_ops.minimum_sizes import LABELS_TO_CONFIRM
from care_ops.models import cp, mixture
from care_ops.models.answers import softmax
from care_ops.models.mixture import Mixture
from care_ops.records import Aggregate
from care_ops.samples import sampled_rows
from care_ops.scores import Array
from care_ops.structure.factors import extract
from care_ops.structure.views import Views, partition

STATES = 4
"""Number of states: two values of quality times two of one confounder, as in the paper."""

_K_MEANS_STARTS, _MORE_ROUNDS = 5, 4
"""Number of k-means starts per round, and maximum number of further rounds until two rounds find the same states."""

_ITERATIONS, _START_TOLERANCE = 100, 1e-6
"""Stopping rule of EM on many items: number of iterations on all items, and rise of the mean log likelihood."""

_FIRST_ROWS = 1_000
"""Number of first rows that are searched for enough distinct rows before all rows are sorted."""

_FOLDS = 10

_BY_CHANCE = 0.05
"""Significance level of the tests that compare labels with the label-free map and with the states."""

_MAP_LABELS = 3.0
"""Weight of the label-free guess of a state's quality, as a number of labels; it takes several labels to overrule."""


@dataclass(frozen=True)
class States:
    """A fitted mixture with the interpretation of its states.

    Attributes
    ----------
    fitted : Mixture
        Mixture of the standardised scores.
    log_joint : (n, k) array
        Log joint density of each state and the observed scores of each item.
    quality : (k,) array
        Q of each state: the mean label if labels have more than two values, otherwise 0 or 1.
    score : (k,) array
        Projection of each state's mean onto the leading eigenvector of L, the quality direction (paper, step E).
    details : dict
        Details of the fit, for ``Aggregate.details``.
    """

    fitted: Mixture
    log_joint: Array
    quality: Array
    score: Array
    views: Views
    details: dict[str, Any]

    @property
    def posterior(self) -> Array:
        """P(Q, C | J), shape (n, k); an item without scores gets the prior weights of the states."""
        return softmax(self.log_joint)[0]

    @property
    def confounder(self) -> NDArray[np.intp]:
        """Confounder value C of each state, shape (k,): the state's rank by weight among the states with the same Q."""
        confounder = np.zeros(len(self.quality), dtype=np.intp)
        for q in np.unique(self.quality):
            same_quality = np.flatnonzero(self.quality == q)
            heaviest_first = same_quality[np.argsort(-self.fitted.weights[same_quality], kind="stable")]
            confounder[heaviest_first] = np.arange(len(same_quality))
        return confounder

    @property
    def log_odds(self) -> Array:
        """Log odds of Q = 1 given the scores, shape (n,), for states that have Q = 0 or Q = 1."""
        positive = self.quality > self.quality.min()
        return softmax(self.log_joint[:, positive])[1] - softmax(self.log_joint[:, ~positive])[1]


def where_scored(problem: Problem, latent: Array) -> Array:
    """Return ``latent`` with NaN for items without a score, shape (n,)."""
    return np.where(np.isnan(problem.scores.values).all(axis=1), np.nan, latent)


def described(problem: Problem, states: States) -> dict[str, Any]:
    """Return the views and states in JSON-serialisable form, for ``Aggregate.details``."""
    return {
        "views": [[problem.scores.judges[j] for j in group] for group in states.views],
        **states.details,
        "state_weights": states.fitted.weights.tolist(),
        "state_means": (problem.moments.mean() + states.fitted.means * problem.scale).tolist(),
        "state_quality": states.quality.tolist(),
        "state_scores": states.score.tolist(),
        "certificate": asdict(problem.require_structure().certificate),
    }


def care_tensor(problem: Problem) -> Aggregate:
    """Estimate the log-odds of Q = 1, mapped linearly to the panel's scale (aggregator ``care_tensor``).

    With labels of more than two values, the estimate is E[Q | J], where Q of a state is the mean label of its items.
    The posterior assumes conditionally independent judges and is therefore overconfident. CARE uses it to rank and to
    classify items, but does not report it as a probability. Raises ``FitError`` if no mixture can be fitted.
    """
    states = fit_states(problem)
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
            "start": fitted.start,
            "converged": fitted.converged,
            "log_likelihood": fitted.log_likelihood,
            "scale": f"location and spread of the panel mean; {placement}",
        },
    )


def fit_states(problem: Problem) -> States:
    """Fit a mixture of four states, and estimate Q of each state from its mean or from labels (paper, steps E and F).

    Scores are standardised by judge, so the states do not depend on the judges' scales. Raises ``FitError`` if the
    panel has no sparse + low-rank structure, fewer than three judges, or fewer distinct rows of scores than states.
    """
    structure = problem.require_structure()
    scored: NDArray[np.bool_] = ~np.all(np.isnan(problem.standardised), axis=1)
    values = problem.standardised if scored.all() else problem.standardised[scored]
    _check_different_rows(values)
    views = partition(structure.sparse)
    fitted, details = _most_likely(problem, views, values)
    joint = fitted.log_joint(problem.standardised)
    score = fitted.means @ direction_of(problem)
    quality = label_free_map(score)
    rows, labels = problem.labels.rows(problem.scores.item_ids)
    if len(rows) >= 2 and np.ptp(labels) > 0:
        labelled = (softmax(joint[rows])[0], labels, quality)
        quality, details = quality_by_labels(*labelled), details | confirmed_by_labels(*labelled)
    return States(fitted, joint, quality, score, views, details)


def _most_likely(problem: Problem, views: Views, values: Array) -> tuple[Mixture, dict[str, Any]]:
    """Fit the mixture by EM from several starts, and return the most likely fit and details about the starts.

    EM starts from k-means and from the third moment. Starts are added, up to a limit, until the two highest likelihoods
    agree. With many items, the starts use a sample, and EM on all items continues from the best fit.
    """
    # separate streams: k-means starts do not depend on the views; the first is unused and preserves recorded digits
    _, by_views, free, of_sample = problem.rng.spawn(4)
    sample = values[sampled_rows(len(values), of_sample)]
    tolerance = _START_TOLERANCE if len(sample) < len(values) else mixture.TOLERANCE
    details: dict[str, Any] = {"tensor": "a start of EM"}
    fits = [mixture.best_of(sample, _k_means_starts(sample, free), tolerance)]
    try:
        _, means = cp.decompose(cp.augmented_moment(problem.moments, views, problem.scale), views, STATES, by_views)
        fits.append(mixture.best_of(sample, [("tensor", means)], tolerance))
    except FitError as error:
        details["tensor"] = str(error)
    for _ in range(_MORE_ROUNDS):
        if _two_agree(fits):
            break
        fits.append(mixture.best_of(sample, _k_means_starts(sample, free), tolerance))
    details["starts_agree"] = _two_agree(fits)
    finished = sorted(fits, key=lambda fit: -fit.log_likelihood)
    if not details["starts_agree"]:
        direction = direction_of(problem)
        first, second = (fit.posterior(sample) @ label_free_map(fit.means @ direction) for fit in finished[:2])
        details["starts_alike"] = float(np.mean((first > 0.5) == (second > 0.5)))
    if len(sample) < len(values):
        details["start_items"] = len(sample)
        return mixture.continued(finished[0], values, _START_TOLERANCE, _ITERATIONS), details
    return finished[0], details


def _k_means_starts(values: Array, rng: np.random.Generator) -> list[tuple[str, Array]]:
    return [("k-means", mixture.k_means_plus_plus(values, STATES, rng)) for _ in range(_K_MEANS_STARTS)]


def _two_agree(fits: list[Mixture]) -> bool:
    """Return whether the two highest likelihoods agree; if not, the highest may be a local maximum."""
    likelihoods = sorted(fit.log_likelihood for fit in fits)
    return len(likelihoods) > 1 and likelihoods[-1] - likelihoods[-2] <= mixture.SAME_STATES


def direction_of(problem: Problem) -> Array:
    """Compute the quality direction, the leading eigenvector of L (paper, step E); shape (p,)."""
    return extract(problem.require_structure().low_rank, problem.correlation).weights


def label_free_map(score: Array) -> Array:
    """Estimate Q of each state without labels: 1 for the half of the states with higher scores, else 0; shape (k,)."""
    quality = np.zeros(len(score))
    quality[np.argsort(score, kind="stable")[len(score) // 2 :]] = 1.0
    return quality


def quality_by_labels(posterior: Array, labels: Array, label_free: Array) -> Array:
    """Estimate the quality Q of each latent state from labelled items (paper, step F); shape (k,).

    The result is ``label_free``, the estimate without labels, unless labels are significant. For binary labels, the
    Bayes factor (``evidence_for``) must be below one, and other values of Q must be over twenty times as likely. The
    result is then the most likely Q, after a pseudo-label equal to ``label_free`` is added to each state. For graded
    labels, means must differ between states (F test). The result is then these means, shrunk towards the overall mean.
    """
    n, k = posterior.shape
    if len(np.unique(labels)) > 2:
        means = (posterior.T @ labels + labels.mean()) / (posterior.sum(axis=0) + 1.0)
        gain = np.sum((labels - labels.mean()) ** 2) / np.sum((labels - posterior @ means) ** 2) - 1
        return means if n > k and fdtrc(k - 1, n - k, gain * (n - k) / (k - 1)) < _BY_CHANCE else label_free
    upper = posterior.T @ upper_label(labels)
    lower = posterior.sum(axis=0) - upper
    maps = np.array([m for m in itertools.product((0.0, 1.0), repeat=k) if 0 < sum(m) < k])
    rise = _log_likelihood(maps, upper, lower).max() - _log_likelihood(label_free[None], upper, lower)[0]
    if evidence_for(label_free, posterior, labels) >= 0 or rise <= -np.log(_BY_CHANCE):
        return label_free
    return maps[np.argmax(_log_likelihood(maps, upper + label_free, lower + 1 - label_free))]


def _log_likelihood(maps: Array, upper: Array, lower: Array) -> Array:
    """Compute the log likelihood of binary labels for each map of states to Q, assuming P(label = 1) rises with Q."""
    counts = np.stack([1 - maps, maps]) @ np.stack([upper, lower], axis=1)
    rates = counts[..., 0] / np.maximum(counts.sum(axis=2), 1e-9)
    pooled = np.where(rates[1] > rates[0], rates, upper.sum() / (upper.sum() + lower.sum()))
    return np.sum(xlogy(counts[..., 0], pooled) + xlogy(counts[..., 1], 1 - pooled), axis=0)


def evidence_for(label_free: Array, posterior: Array, labels: Array) -> float:
    """Compute the log Bayes factor of ``label_free`` (Q of each state) against arbitrary rates of positive labels.

    Both models have a beta prior on each state's rate of positive labels. Under ``label_free``, the prior has most of
    its weight near the state's Q; for arbitrary rates, the prior is uniform.
    """
    target = upper_label(labels)
    upper, lower = posterior.T @ target, posterior.T @ (1 - target)
    for_upper, for_lower = 1 + _MAP_LABELS * label_free, 1 + _MAP_LABELS * (1 - label_free)
    mapped = betaln(for_upper + upper, for_lower + lower) - betaln(for_upper, for_lower)
    return float(np.sum(mapped - betaln(1 + upper, 1 + lower)))


def confirmed_by_labels(posterior: Array, labels: Array, label_free: Array) -> dict[str, Any]:
    """Test the states on binary labels, and return the results as a dict, empty for labels with more than two values.

    - ``anchors_agree``: whether the labels agree with ``label_free``, each state's Q as found without labels
    - ``anchors_right`` (with twenty or more labels): accuracy of the states' predictions in ten-fold cross-validation
    - ``labels_confirm`` (with twenty or more labels): whether the labels agree with ``label_free``, or the
      accuracy ``anchors_right`` is significantly higher than the frequency of the more frequent label
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
    by_chance = float(bdtrc(right - 1, len(labels), max(target.mean(), 1 - target.mean())))
    return {
        "anchors_agree": agree,
        "anchors_right": right / len(labels),
        "labels_confirm": agree or by_chance < _BY_CHANCE,
    }


def upper_label(labels: Array) -> Array:
    """Return 1 for each label with the higher of two values, else 0."""
    return (labels > 0.5 * (labels.min() + labels.max())).astype(np.float64)


def _check_different_rows(values: Array) -> None:
    """Raise ``FitError`` if there are fewer distinct rows of scores than states, too few to fit the mixture."""
    for rows in (values[:_FIRST_ROWS], values):
        if (different := len(np.unique(np.nan_to_num(rows, nan=np.inf), axis=0))) >= STATES:
            return
    raise FitError(f"care_tensor: {STATES} states need {STATES} different rows of scores, got {different}; add items")
