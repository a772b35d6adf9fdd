"""CARE-Tensor as in the paper's Algorithm 2, step by step and without EM."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from care_ops.aggregators.base import Problem
from care_ops.aggregators.care_tensor import (
    STATES,
    States,
    described,
    direction_of,
    label_free_map,
    upper_label,
    where_scored,
)
from care_ops.calibration import to_panel_scale
from care_ops.errors import FitError
from care_ops.minimum_sizes import JUDGES_OF_FOUR_STATES
from care_ops.models import cp, mixture
from care_ops.records import Aggregate
from care_ops.scores import Array
from care_ops.structure.views import Views, partition

_ITEMS_A_JUDGE = 10
"""Minimum number of items per judge for a covariance within states that can be inverted."""


def care_tensor_paper(problem: Problem) -> Aggregate:
    """Estimate the log-odds of Q = 1 from the third moment, as in the paper's Algorithm 2 and equation 1.

    The sparse part S determines the views (step A). Alternating least squares decompose the third moment across the
    views (step B) into four components: the states (steps C and D). The two states whose means have the largest
    projections onto the leading eigenvector of L get Q = 1 (step E). With labels, each state instead gets the Q of a
    matching prototype (step F, ``label_prototypes``). The posterior assumes Gaussian states that share one covariance.

    The paper leaves two choices open. The third moment does not determine the scale of its components; therefore scores
    are standardised, and each view gets a constant column. The covariance within states is the judges' covariance minus
    the covariance of the states' means, with eigenvalues of at least ``mixture.VARIANCE_FLOOR``. Raises ``FitError`` if
    the four states cannot be estimated.
    """
    states = four_states(problem)
    latent = where_scored(problem, states.log_odds)
    estimate, offset, _ = to_panel_scale(latent, problem.panel_mean, problem.ends)
    return Aggregate(
        "care_tensor_paper",
        estimate,
        threshold=offset,
        loadings=states.fitted.means.T,
        latent=latent,
        labels_used=0 if states.details["mapped_by"] == "v" else len(problem.labels),
        details={
            **described(problem, states),
            "scale": "location and spread of the panel mean; zero log-odds at the threshold",
        },
    )


def four_states(problem: Problem, views: Views | None = None) -> States:
    """Fit the four states of the paper's mixture, and map each state to a value of Q.

    Raises ``FitError`` if the panel has no sparse + low-rank structure, fewer than seven judges or fewer than ten items
    per judge, or if the third moment does not have four components of positive weight.

    Parameters
    ----------
    views : Views, optional
        Known views, as in the paper's synthetic experiments; by default the views are computed from S (step A).
    """
    structure = problem.require_structure()
    n, p = problem.scores.shape
    if p < JUDGES_OF_FOUR_STATES:
        raise FitError(
            f"care_tensor_paper: at least {JUDGES_OF_FOUR_STATES} judges are needed, but the panel has {p}; add judges"
        )
    if n < _ITEMS_A_JUDGE * p:
        raise FitError(
            f"care_tensor_paper: {p} judges need at least {_ITEMS_A_JUDGE * p} items, but the panel has {n}; add items"
        )
    views = views or partition(structure.sparse)
    tensor = cp.augmented_moment(problem.moments, views, problem.scale)
    weights, means, misfit = cp.mixture_by_least_squares(tensor, views, STATES, problem.rng)
    within, floored = within_states(problem.correlation, weights, means)
    fitted = mixture.Mixture(weights, means, within, float("nan"), True, "third moment")
    score = means @ direction_of(problem)
    quality = label_free_map(score)
    rows, labels = problem.labels.rows(problem.scores.item_ids)
    prototypes = label_prototypes(np.nan_to_num(problem.standardised[rows]), labels, weights, means)
    if prototypes is not None:
        quality = aligned(means, prototypes)
    details = {
        "misfit": misfit,
        "directions_floored": floored,
        "mapped_by": "v" if prototypes is None else "prototypes of anchors",
    }
    return States(fitted, fitted.log_joint(problem.standardised), quality, score, views, details)


def within_states(covariance: Array, weights: Array, means: Array) -> tuple[Array, int]:
    """Estimate the covariance of scores within states, Sigma of the paper's equation 1.

    Parameters
    ----------
    covariance : (p, p) array
        Covariance of the standardised scores.
    weights, means : (k,) array and (k, p) array
        Weight of each state, and mean score of each judge in each state.

    Returns
    -------
    within : (p, p) array, positive definite
    floored : int
        Number of eigenvalues that were raised to the minimum, because the means vary more than the scores.
    """
    centred = means - weights @ means
    left = covariance - (centred.T * weights) @ centred
    return mixture.floored(left), int((np.linalg.eigvalsh(left) < mixture.VARIANCE_FLOOR).sum())


def label_prototypes(scores: Array, labels: Array, weights: Array, means: Array) -> Array | None:
    """Return the mean scores of four groups of labelled items (paper, step F), shape (4, p); None if a group is empty.

    The groups are (Q, C) = (0, 0), (0, 1), (1, 0) and (1, 1). Q is the label. C is 1 if an item's projection on an axis
    exceeds the mean projection of the items with the same label, else 0. The states' means differ most along this axis,
    after the difference between the two labels' mean scores is projected out.
    """
    if len(labels) == 0 or np.ptp(labels) == 0:
        return None
    good = upper_label(labels) > 0
    between = scores[good].mean(axis=0) - scores[~good].mean(axis=0)
    across = (means - weights @ means) * np.sqrt(weights)[:, None]
    across = across - np.outer(across @ between, between) / max(float(between @ between), 1e-300)
    axis = np.linalg.svd(across)[2][0]
    prototypes: list[Array] = []
    for group in (scores[~good], scores[good]):
        side = group @ axis > float(group.mean(axis=0) @ axis)
        if not side.any():  # a single item, or equal items
            return None
        prototypes += [group[~side].mean(axis=0), group[side].mean(axis=0)]
    return np.array(prototypes)


def aligned(means: Array, prototypes: Array) -> Array:
    """Match states to prototypes by least squares, and return Q of each state's prototype (paper, step F); shape (4,).

    Parameters
    ----------
    means, prototypes : (4, p) arrays
        Mean scores of the states, and mean scores of the groups of labelled items (``label_prototypes``).
    """
    distance = np.sum((means[:, None, :] - prototypes[None, :, :]) ** 2, axis=2)
    nearest = linear_sum_assignment(distance)[1]
    return (nearest >= 2).astype(np.float64)
