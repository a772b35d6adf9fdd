"""Maps from a latent quality, which has no unit, to a score scale, each under a declared assumption."""

import numpy as np
import scipy

from care_ops.minimum_sizes import LABELS_TO_CONFIRM, LABELS_TO_SETTLE, MIN_LABELS
from care_ops.scores import Array, varies

_INTERCEPT_SCALE, _SLOPE, _SLOPE_SCALE = 1.5, 1.5, 0.75
"""Cauchy priors of the logit's intercept (around 0) and of its slope on a latent of variance one: as a normal one they
steady a fit by twenty labels, and their tails leave good judges their steep slope."""

_WIDEST, _GRID, _REFINED = 20.0, 41, 5
"""How far the grid of intercepts and slopes reaches at first, its points a side, how often it is drawn in."""

_LATENT = np.linspace(-12.0, 12.0, 961)
"""Where the probability is computed, in standard deviations of the latent; between them it is interpolated."""


def to_panel_scale(
    latent: Array, panel_mean: Array, ends: tuple[float, float] = (-np.inf, np.inf)
) -> tuple[Array, float, float]:
    """Give ``latent`` the location and the spread of the panel's mean score (an increasing affine map).

    The spread is reduced if some items would otherwise lie beyond the ends of the panel's scale.

    The declared assumption is that the panel's mean, whatever its mistakes on single items, is right
    about the level and the range of quality over the whole set.

    Parameters
    ----------
    latent : (n,) array
        NaN if unknown.
    panel_mean : (n,) array
        Mean of the judges' scores by item.
    ends : (low, high)
        Of the panel's scale.

    Returns
    -------
    placed : (n,) array
    offset, unit : float
        ``placed = offset + unit * latent``; the unit turns a latent standard deviation into points.
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
    """Map ranks to a uniform fill of [low, high], ties to their mean rank; NaN stays NaN."""
    filled = np.full(len(estimate), np.nan)
    scored = ~np.isnan(estimate)
    levels = (scipy.stats.rankdata(estimate[scored]) - 0.5) / max(int(scored.sum()), 1)
    filled[scored] = low + (high - low) * levels
    return filled


def to_labels(
    estimate: Array, labels: Array, weights: Array | None = None, *, known: bool = False
) -> tuple[float, float] | None:
    """(offset, unit) of ``offset + unit * estimate`` on the labels' scale; None without labels.

    The slope is its mean given the labels where before them any correlation from 0 to 1 is as likely as any other. With
    too few labels for one, or labels all alike, the map is a shift, shrunk by m / (m + 3).

    Parameters
    ----------
    estimate, labels : (m,) arrays
        Estimates and labels of the labelled items, without NaN.
    weights : (m,) array, optional
        How much each label counts (``FitLabels.weights``); ones by default.
    known : bool
        Whether a scale is declared: a slope of 1 then is a good guess, and another takes more labels.
    """
    if len(labels) == 0:
        return None
    weights = np.ones(len(labels)) if weights is None else weights
    m, share = float(weights.sum()), weights / weights.sum()
    seen, label_mean = float(share @ estimate), float(share @ labels)
    if m < (LABELS_TO_SETTLE if known else MIN_LABELS) or np.ptp(estimate) == 0 or np.ptp(labels) == 0:
        return (label_mean - seen) * m / (m + 3), 1.0
    sds = np.sqrt([share @ (estimate - seen) ** 2, share @ (labels - label_mean) ** 2])
    found = float(share @ ((estimate - seen) * (labels - label_mean))) / float(sds.prod())
    possible = np.linspace(0.0, 1.0, 1001)
    log = -((possible - found) ** 2) * (m - 2) / (2 * max(1 - found**2, 1e-12))
    unit = float(np.average(possible, weights=np.exp(log - log.max())) * sds[1] / sds[0])
    return label_mean - unit * seen, unit


def prevalence_threshold(estimate: Array, prevalence: float) -> float:
    """Return the threshold above which a share ``prevalence`` of the estimates lies (NaN left out)."""
    ordered = np.sort(estimate[~np.isnan(estimate)])
    above = round(prevalence * len(ordered))
    low, high = ordered[max(len(ordered) - above - 1, 0)], ordered[min(len(ordered) - above, len(ordered) - 1)]
    return float(0.5 * (low + high))


def probability_curve(latent: Array, labels: Array, weights: Array | None = None) -> tuple[Array, Array] | None:
    """P(label = 1) by the latent: a logit's, averaged over the posterior of its intercept and slope.

    The mean, and not the logit at the posterior's mode, because few labels leave the slope open. It is by quadrature on
    a grid that is drawn in around the posterior.

    Parameters
    ----------
    latent : (m,) array
        Latent quality of the labelled items, on the scale on which it has mean 0 and variance 1 over all items; by an
        answer that has not seen the item's own label, or the slope is too steep.
    labels : (m,) array
        0 or 1, or where an item has several labels the share of them that is 1.
    weights : (m,) array, optional
        How much each label counts (``FitLabels.weights``); ones by default.

    Returns
    -------
    latent, probability : increasing (k,) arrays, or None
        None if the labels are fewer than ``LABELS_TO_CONFIRM`` or all alike, or do not rise with the latent: no
        calibrated probability can be given.
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
    """Return intercepts and slopes around ``centre``, (k, 2); none of the slopes is negative."""
    intercepts, slopes = centre[:, None] + width[:, None] * np.linspace(-1.0, 1.0, _GRID)
    return np.column_stack([grid.ravel() for grid in np.meshgrid(intercepts, slopes[slopes >= 0.0])])


def _posterior(points: Array, latent: Array, labels: Array, weights: Array) -> Array:
    """Return the posterior probability of each intercept and slope of a grid, (k,)."""
    logit = points[:, :1] + points[:, 1:] * latent
    log = (labels * logit - np.logaddexp(0.0, logit)) @ weights
    log -= np.log1p(((points - [0.0, _SLOPE]) / [_INTERCEPT_SCALE, _SLOPE_SCALE]) ** 2).sum(axis=1)
    posterior = np.exp(log - log.max())
    return posterior / posterior.sum()
