"""CARE-Tensor as the paper writes it: Algorithm 2 step by step, without EM."""

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
"""Items a judge behind the covariance within states, which is inverted."""


def care_tensor_paper(problem: Problem) -> Aggregate:
    """``care_tensor_paper``: the log-odds of Q = 1 by the third moment (paper, Algorithm 2 and equation 1).

    A. Views from the S of the sparse + low-rank program. B. The third moment across them. C, D. Its decomposition into
    four components by alternating least squares. E. The two states of highest s_r = v'mu_r are Q = 1, where v is the
    leading eigenvector of L; F. with labels, the states are those of the nearest prototypes. Then the posterior of
    Gaussian states with one full covariance.

    Two things the paper leaves open. The third moment of the scores has no scale for its components, so that
    judges are standardised and each view has a constant column; T is its image under an invertible map of each
    view. And the covariance within states is the judges' own less that of the states' means, its eigenvalues held above
    the least variance of a mixture.

    Raises ``FitError`` as ``four_states`` does.
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
    """Return the four states and their meaning.

    Parameters
    ----------
    views : Views, optional
        Known groups of judges, as in the paper's synthetic experiments; by default those of S (step A).

    Raises ``FitError`` if the panel has no structure, fewer than seven judges or fewer than ten items a judge;
    its judges make no three views; or the third moment has no four components of positive weight.
    """
    structure = problem.require_structure()
    n, p = problem.scores.shape
    if p < JUDGES_OF_FOUR_STATES:
        raise FitError(f"care_tensor_paper: four states need at least {JUDGES_OF_FOUR_STATES} judges, there are {p}")
    if n < _ITEMS_A_JUDGE * p:
        raise FitError(f"care_tensor_paper: {p} judges need at least {_ITEMS_A_JUDGE * p} items, there are {n}")
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
    """Sigma of equation 1: what the states' means leave of the judges' covariance, (p, p).

    Parameters
    ----------
    covariance : (p, p) array
        Of the standardised scores.
    weights : (k,) array
    means : (k, p) array

    Returns
    -------
    within : (p, p) array, positive definite
    floored : int
        Directions in which the means differ by more than the judges vary, so that the least variance stands there.
    """
    centred = means - weights @ means
    left = covariance - (centred.T * weights) @ centred
    return mixture.floored(left), int((np.linalg.eigvalsh(left) < mixture.VARIANCE_FLOOR).sum())


def label_prototypes(scores: Array, labels: Array, weights: Array, means: Array) -> Array | None:
    """Mean scores of labelled items in the states (Q, C) = 00, 01, 10, 11 (step F), (4, p); None without them.

    Labels give Q. C is read off the axis along which the states differ most once the direction between the two labels'
    means is taken out: items of one label on either side of their mean on that axis are C = 0 and C = 1.
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
        if not side.any():  # one item, or several that are alike
            return None
        prototypes += [group[~side].mean(axis=0), group[side].mean(axis=0)]
    return np.array(prototypes)


def aligned(means: Array, prototypes: Array) -> Array:
    """Q of each state under the permutation of least squares between means and prototypes (step F), shape (4,).

    Parameters
    ----------
    means : (4, p) array
    prototypes : (4, p) array
        Of (Q, C) = 00, 01, 10, 11.
    """
    distance = np.sum((means[:, None, :] - prototypes[None, :, :]) ** 2, axis=2)
    nearest = linear_sum_assignment(distance)[1]
    return (nearest >= 2).astype(np.float64)
