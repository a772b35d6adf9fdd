"""From a latent quality, which has no unit, to a score scale, under a declared assumption.

Belongs here: monotone maps from latent to scale. Does not: estimating the latent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def to_panel_scale(latent: Array, panel_mean: Array) -> tuple[Array, float, float]:
    """Give ``latent`` the location and the spread of the panel's mean score (an increasing affine map).

    The declared assumption is that the panel's mean, whatever its mistakes on single items, is right
    about the level and the range of quality over the whole set.

    Parameters
    ----------
    latent : (n,) array
        NaN where nothing is known.
    panel_mean : (n,) array
        Mean of the judges' scores by item.

    Returns
    -------
    placed : (n,) array
    offset, unit : float
        ``placed = offset + unit * latent``; the unit turns a latent standard deviation into points.
    """
    known = ~np.isnan(latent) & ~np.isnan(panel_mean)
    spread = float(np.std(latent[known]))
    if spread == 0.0:
        return np.where(np.isnan(latent), np.nan, panel_mean[known].mean()), float(panel_mean[known].mean()), 0.0
    unit = float(np.std(panel_mean[known])) / spread
    offset = float(np.mean(panel_mean[known])) - unit * float(np.mean(latent[known]))
    return offset + unit * latent, offset, unit


def fill_uniformly(estimate: Array, low: float, high: float) -> Array:
    """Map ranks to a uniform fill of [low, high], ties to their mean rank.

    One common map for every aggregator: what differs after it is order alone (NaN stays NaN).
    """
    from scipy.stats import rankdata

    placed = np.full(len(estimate), np.nan)
    known = ~np.isnan(estimate)
    m = int(known.sum())
    if m:
        placed[known] = low + (high - low) * (rankdata(estimate[known]) - 0.5) / m
    return placed
