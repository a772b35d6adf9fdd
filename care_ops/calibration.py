"""Maps from a latent quality, which has no unit, to a score scale, each under a declared assumption."""

import numpy as np
import scipy

from care_ops.least import LABELS_TO_ADVISE, LABELS_TO_CONFIRM
from care_ops.scores import Array, varies

_LEVEL_SD = 1.5
_SLOPE, _SLOPE_SD = 1.5, 0.75
"""Normal priors of the logit's intercept (around 0) and of its slope on a latent of variance one."""


def to_panel_scale(
    latent: Array, panel_mean: Array, ends: tuple[float, float] = (-np.inf, np.inf)
) -> tuple[Array, float, float]:
    """Give ``latent`` the location and the spread of the panel's mean score (an increasing affine map).

    The spread is smaller where some items would otherwise lie beyond the ends of the panel's scale.

    The declared assumption is that the panel's mean, whatever its mistakes on single items, is right
    about the level and the range of quality over the whole set.

    Parameters
    ----------
    latent : (n,) array
        NaN where nothing is known.
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
    """Map ranks to a uniform fill of [low, high], ties to their mean rank.

    The map is the same for every aggregator, so that aggregates differ in order alone after it (NaN stays NaN).
    """
    return low + (high - low) * _levels(estimate)


def as_distributed(estimate: Array, target: Array) -> Array:
    """Map ranks to the quantiles of ``target``: the estimate takes on its distribution (NaN stays NaN).

    Parameters
    ----------
    estimate : (n,) array
    target : (m,) array
        Scores whose distribution is declared to be that of quality; NaN are left out.
    """
    levels = _levels(estimate)
    scored = ~np.isnan(levels)
    levels[scored] = np.quantile(target[~np.isnan(target)], levels[scored], method="hazen")
    return levels


def _levels(estimate: Array) -> Array:
    """Rank of each estimate as a share of the estimates present, between 0 and 1, ties at their mean; NaN stays NaN."""
    levels = np.full(len(estimate), np.nan)
    scored = ~np.isnan(estimate)
    levels[scored] = (scipy.stats.rankdata(estimate[scored]) - 0.5) / max(int(scored.sum()), 1)
    return levels


def to_labels(estimate: Array, labels: Array, weights: Array | None = None) -> tuple[float, float] | None:
    """(offset, unit) of ``offset + unit * estimate`` on the labels' scale; None without labels.

    With fewer than ``LABELS_TO_ADVISE`` labels the map is a shift, shrunk by m / (m + 3). With more it is that of least
    squares, with a slope that is not negative.

    Parameters
    ----------
    estimate, labels : (m,) arrays
        Estimates and labels of the labelled items, without NaN.
    weights : (m,) array, optional
        How much each label counts (``Anchors.weights``); ones by default.
    """
    if len(labels) == 0:
        return None
    weights = np.ones(len(labels)) if weights is None else weights
    m, share = float(weights.sum()), weights / weights.sum()
    seen, said = float(share @ estimate), float(share @ labels)
    spread = float(share @ (estimate - seen) ** 2)
    if m < LABELS_TO_ADVISE or np.ptp(estimate) == 0:
        return (said - seen) * m / (m + 3), 1.0
    unit = max(0.0, float(share @ ((estimate - seen) * (labels - said))) / spread)
    return said - unit * seen, unit


def prevalence_threshold(estimate: Array, prevalence: float) -> float:
    """The threshold above which a share ``prevalence`` of the estimates lies (NaN left out)."""
    ordered = np.sort(estimate[~np.isnan(estimate)])
    above = round(prevalence * len(ordered))
    low, high = ordered[max(len(ordered) - above - 1, 0)], ordered[min(len(ordered) - above, len(ordered) - 1)]
    return float(0.5 * (low + high))


def logistic_map(latent: Array, labels: Array, weights: Array | None = None) -> tuple[float, float] | None:
    """Intercept and slope of P(label = 1) = expit(a + b latent), the posterior mode (Newton, with halved steps).

    Parameters
    ----------
    latent : (m,) array
        Latent quality of the labelled items, on the scale on which it has mean 0 and variance 1 over all items.
    labels : (m,) array
        0 or 1, or where an item has several labels the share of them that is 1.
    weights : (m,) array, optional
        How much each label counts (``Anchors.weights``); ones by default.

    Returns
    -------
    (a, b), or None where the labels are fewer than ``LABELS_TO_CONFIRM`` or all alike, or fall as the latent rises: no
    calibrated probability can be given.
    """
    if len(labels) < LABELS_TO_CONFIRM or np.ptp(labels) == 0:
        return None
    weights = np.ones(len(labels)) if weights is None else weights
    at = np.array([0.0, _SLOPE])
    value, gradient, curvature = _posterior(at, latent, labels, weights)
    for _ in range(100):
        step = np.linalg.solve(curvature, gradient).astype(np.float64)
        if gradient @ step < 1e-18:  # twice what a parabola of this curvature has left to fall
            break
        further = _posterior(at - step, latent, labels, weights)
        while further[0] > value + 1e-12 * abs(value):  # too far where labels are few and the latent is skewed
            step = step / 2
            further = _posterior(at - step, latent, labels, weights)
        at, (value, gradient, curvature) = at - step, further
    intercept, slope = map(float, at)
    return (intercept, slope) if slope > 0 else None


def _posterior(at: Array, latent: Array, labels: Array, weights: Array) -> tuple[float, Array, Array]:
    """Minus the log posterior of intercept and slope, which is convex; its gradient, (2,), and curvature, (2, 2)."""
    logit = at[0] + at[1] * latent
    p = scipy.special.expit(logit)
    w, residual = weights * p * (1.0 - p), weights * (p - labels)
    off = (at - [0.0, _SLOPE]) / [_LEVEL_SD, _SLOPE_SD]
    value = float(weights @ (np.logaddexp(0.0, logit) - labels * logit)) + 0.5 * float(off @ off)
    gradient = np.array([residual.sum(), residual @ latent]) + off / [_LEVEL_SD, _SLOPE_SD]
    mixed = w @ latent
    curvature = np.array([[w.sum(), mixed], [mixed, w @ latent**2]]) + np.diag([_LEVEL_SD**-2, _SLOPE_SD**-2])
    return value, gradient, curvature
