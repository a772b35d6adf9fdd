"""Maps from unitless quality estimates to a scale of scores; each map relies on one stated assumption."""

import numpy as np
import scipy

from care_ops.minimum_sizes import LABELS_TO_CONFIRM, LABELS_TO_SETTLE, MIN_LABELS
from care_ops.scores import Array, ranks, varies

_INTERCEPT_SCALE, _SLOPE, _SLOPE_SCALE = 1.5, 1.5, 0.75
"""Scale of the Cauchy prior on a logit's intercept, and location and scale of the Cauchy prior on the slope. The priors
stabilise a fit to twenty labels. Heavy tails allow good judges a steep slope. The quality estimate has variance one."""

_WIDEST, _GRID, _REFINED = 20.0, 41, 5
"""Initial range of the grid of intercepts and slopes, number of points per side, and number of refinements."""

_LATENT = np.linspace(-12.0, 12.0, 961)
"""Grid of quality estimates, in standard deviations; probabilities between grid points are interpolated."""


def to_panel_scale(
    latent: Array, panel_mean: Array, ends: tuple[float, float] = (-np.inf, np.inf)
) -> tuple[Array, float, float]:
    """Shift and rescale ``latent`` to the location and spread of the panel's mean score.

    This assumes that the panel's mean score has the correct location and spread over all items. The spread is reduced
    if items would otherwise lie outside the panel's scale.

    Parameters
    ----------
    latent : (n,) array
        Latent quality of each item; NaN if unknown.
    panel_mean : (n,) array
        Mean of the judges' scores by item.
    ends : (low, high)
        Ends of the panel's scale.

    Returns
    -------
    placed : (n,) array
        ``offset + unit * latent``, within ``ends``.
    offset, unit : float
    """
    scored = ~np.isnan(latent) & ~np.isnan(panel_mean)
    if not varies(latent[scored]):
        return np.where(np.isnan(latent), np.nan, panel_mean[scored].mean()), float(panel_mean[scored].mean()), 0.0
    unit = float(np.std(panel_mean[scored]) / np.std(latent[scored]))
    centre, middle = float(np.mean(panel_mean[scored])), float(np.mean(latent[scored]))
    below, above = middle - float(np.nanmin(latent)), float(np.nanmax(latent)) - middle
    unit = max(0.0, min(unit, (centre - ends[0]) / below, (ends[1] - centre) / above))
    offset = centre - unit * middle
    return np.clip(offset + unit * latent, *ends), offset, unit  # clipped, since it may be beyond an end by a rounding


def fill_uniformly(estimate: Array, low: float, high: float) -> Array:
    """Spread estimates uniformly over [low, high] in the order of their ranks; ties share a value, NaN stays NaN."""
    filled = np.full(len(estimate), np.nan)
    scored = ~np.isnan(estimate)
    levels = (ranks(estimate[scored]) - 0.5) / max(int(scored.sum()), 1)
    filled[scored] = low + (high - low) * levels
    return filled


def to_labels(
    estimate: Array, labels: Array, weights: Array | None = None, *, declared: bool = False
) -> tuple[float, float] | None:
    """Estimate the offset and slope that map estimates to the labels' scale; None if there are no labels.

    The slope is a posterior mean under a uniform prior on [0, 1] for the correlation of estimates and labels. If the
    sum m of the weights is below five (ten if ``declared``), or if all labels or all estimates are equal, the slope is
    1, and the offset is the difference of the means times m / (m + 3).

    Parameters
    ----------
    estimate, labels : (m,) arrays
        Estimates and labels of the labelled items, without NaN.
    weights : (m,) array, optional
        Weight of each label (``FitLabels.weights``); ones by default.
    declared : bool
        Whether the scale of the scores is declared. If so, a slope of 1 is likely, and another slope needs more labels.
    """
    if len(labels) == 0:
        return None
    weights = np.ones(len(labels)) if weights is None else weights
    m, share = float(weights.sum()), weights / weights.sum()
    seen, label_mean = float(share @ estimate), float(share @ labels)
    if m < (LABELS_TO_SETTLE if declared else MIN_LABELS) or np.ptp(estimate) == 0 or np.ptp(labels) == 0:
        return (label_mean - seen) * m / (m + 3), 1.0
    sds = np.sqrt([share @ (estimate - seen) ** 2, share @ (labels - label_mean) ** 2])
    observed = float(share @ ((estimate - seen) * (labels - label_mean))) / float(sds.prod())
    possible = np.linspace(0.0, 1.0, 1001)
    log = -((possible - observed) ** 2) * (m - 2) / (2 * max(1 - observed**2, 1e-12))
    unit = float(np.average(possible, weights=np.exp(log - log.max())) * sds[1] / sds[0])
    return label_mean - unit * seen, unit


def prevalence_threshold(estimate: Array, prevalence: float) -> float:
    """Return a threshold such that a share ``prevalence`` of the estimates lies above it; NaN is ignored."""
    ordered = np.sort(estimate[~np.isnan(estimate)])
    above = round(prevalence * len(ordered))
    low, high = ordered[max(len(ordered) - above - 1, 0)], ordered[min(len(ordered) - above, len(ordered) - 1)]
    return float(0.5 * (low + high))


def probability_curve(latent: Array, labels: Array, weights: Array | None = None) -> tuple[Array, Array] | None:
    """Estimate P(label = 1) as a function of the latent quality by Bayesian logistic regression.

    The result is a mean over the posterior of intercept and slope, because few labels do not determine the slope. The
    mean is computed by quadrature on a grid that is narrowed around the posterior.

    Parameters
    ----------
    latent : (m,) array
        Latent quality of the labelled items, scaled to mean 0 and variance 1 over all items. Each value must come from
        a fit without the item's own label; otherwise the slope is too steep.
    labels : (m,) array
        Label of each item: 0, 1, or the share of ones if the item has several labels.
    weights : (m,) array, optional
        Weight of each label (``FitLabels.weights``); ones by default.

    Returns
    -------
    latent, probability : increasing (k,) arrays, or None
        None if there are fewer than ``LABELS_TO_CONFIRM`` labels, if all labels are equal, or if labels do not rise
        with quality.
    """
    if len(labels) < LABELS_TO_CONFIRM or np.ptp(labels) == 0:
        return None
    weights = np.ones(len(labels)) if weights is None else weights
    if weights @ ((latent - np.average(latent, weights=weights)) * labels) <= 0:
        return None
    points = _grid(np.array([0.0, _WIDEST / 2]), np.array([_WIDEST, _WIDEST / 2]))
    for _ in range(_REFINED):
        posterior = _posterior(points, latent, labels, weights)
        centre = posterior @ points
        spread = np.sqrt(posterior @ (points - centre) ** 2)
        points = _grid(centre, np.maximum(6.0 * spread, np.ptp(points, axis=0) * 2.0 / _GRID))
    posterior = _posterior(points, latent, labels, weights)
    likely = posterior > posterior.max() * 1e-6
    probability = scipy.special.expit(points[likely, :1] + points[likely, 1:] * _LATENT)
    return _LATENT, posterior[likely] @ probability / posterior[likely].sum()


def _grid(centre: Array, width: Array) -> Array:
    intercepts, slopes = centre[:, None] + width[:, None] * np.linspace(-1.0, 1.0, _GRID)
    return np.column_stack([grid.ravel() for grid in np.meshgrid(intercepts, slopes[slopes >= 0.0])])


def _posterior(points: Array, latent: Array, labels: Array, weights: Array) -> Array:
    logit = points[:, :1] + points[:, 1:] * latent
    log = (labels * logit - np.logaddexp(0.0, logit)) @ weights
    log -= np.log1p(((points - [0.0, _SLOPE]) / [_INTERCEPT_SCALE, _SLOPE_SCALE]) ** 2).sum(axis=1)
    posterior = np.exp(log - log.max())
    return posterior / posterior.sum()
