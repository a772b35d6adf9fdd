"""Biases of individual judges towards a feature of an item, such as its length.

A judge's score is modelled as z_j = a_j q + b_j w + e_j, with a known feature w of the item. If quality itself
correlates with the feature, the slopes b_j are proportional to the loadings a_j on quality. The part of a slope that
exceeds this proportional value is the judge's own bias. CARE removes only this part, and only if the slopes clearly
differ from proportional values, the biases are not negligible, and the biased judges still measure quality. A bias that
*all* judges share looks like quality; only labels or a declaration distinguish the two.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from care_ops.blocks import by_rows
from care_ops.minimum_sizes import MIN_ITEMS
from care_ops.models.one_factor import common_loadings
from care_ops.scores import Array, ranks

_MIN_EXCESS, _MIN_SIGHT, _MIN_SIZE = 0.20, 0.50, 0.15
"""Minimum values for removing an effect: share of the slopes' energy that quality does not explain, median loading of
judges with larger slopes divided by the other judges' median loading, and root mean square of the effect. Weaker limits
lowered Kendall's tau by .014 on one recorded panel and raised it on none (``make bench-real``)."""

_SHRINK = 0.10
"""Weight of the panel's ratio of slope to loading, relative to a family's ratio."""

_FEW_FAMILIES, _LOW = 6, 0.15
"""Maximum number of families for which the lowest ratio counts as common to all, and the quantile for more families."""

_MIN_LEFT = 0.01
"""Minimum share of a judge's variance after a removal; if less would remain, the scores are kept unchanged."""

_DIGITS = 9
"""Number of decimals after a removal; rounding keeps ties between items with equal scores and equal features."""


def remove_feature_effects(
    standardised: Array, features: Mapping[str, Array], families: NDArray[np.intp]
) -> tuple[Array, tuple[str, ...]]:
    """Remove the part of each judge's feature effects that exceeds the effect common to all judges.

    Parameters
    ----------
    standardised : (n, p) array
        Standardised scores; NaN marks a missing score.
    features : mapping name -> (n,) array
        Features of mean 0 and variance 1 (``unit_feature``).
    families : (p,) array of int
        The family of each judge.

    Returns
    -------
    (n, p) array of standardised scores, and the names of the features whose effects were removed
    """
    removed: list[str] = []
    for name, w in features.items():
        own = own_slopes(standardised, w, families)
        if own is not None:
            removed.append(name)
            standardised = by_rows(lambda rows, w, own=own: np.round(rows - w[:, None] * own, _DIGITS), standardised, w)
    return standardised, tuple(removed)


def own_slopes(standardised: Array, w: Array, families: NDArray[np.intp]) -> Array | None:
    """Estimate each judge's bias towards a feature w of unit variance, shape (p,); None if no bias is to be removed."""
    seen = ~np.isnan(standardised)
    z = np.where(seen, standardised, 0.0)
    count = seen.T.astype(float) @ seen
    correlation = (z.T @ z) / np.maximum(count, 1.0)
    slopes = (w @ z) / np.maximum(w**2 @ seen, 1e-9)
    loadings = _between_families(correlation - np.outer(slopes, slopes), families)
    ratio = float(loadings @ slopes) / max(float(loadings @ loadings), 1e-9)
    beyond, energy, p = slopes - ratio * loadings, float(slopes @ slopes), len(slopes)
    by_chance = float(np.sum((1.0 - slopes**2) / np.maximum(np.diag(count), 1.0))) * (p - 1) / p
    excess = max(0.0, float(beyond @ beyond) - by_chance) / max(energy, 1e-12)
    sign = 1.0 if ratio >= 0 else -1.0
    common = _common_ratio(slopes, loadings, families, ratio, sign)
    more = sign * beyond > 0
    sees = 1.0
    if more.any() and not more.all():
        sees = float(np.median(loadings[more])) / max(float(np.median(loadings[~more])), 1e-9)
    own = slopes - common * loadings
    size = float(np.sqrt(np.mean(own**2)))
    if excess <= _MIN_EXCESS or sees <= _MIN_SIGHT or size <= _MIN_SIZE:
        return None
    spread = (w**2 @ seen) / np.maximum(np.diag(count), 1.0)
    left = 1.0 - spread * own * (2.0 * slopes - own)
    return np.where(left > _MIN_LEFT, own, 0.0)


def controlled(standardised: Array, w: Array) -> Array:
    """Regress the scores of each judge on a feature w, the square of w and the rank of w; return the residuals.

    If the feature correlates with quality, this also removes a part of quality.
    """
    explains = np.column_stack([np.ones(len(w)), w, w**2, ranks(w) / len(w)])
    missing = np.isnan(standardised).any(axis=0)
    out = standardised - explains @ np.linalg.lstsq(explains, np.where(missing, 0.0, standardised), rcond=None)[0]
    for j in np.flatnonzero(missing):
        seen = ~np.isnan(standardised[:, j])
        coefficients = np.linalg.lstsq(explains[seen], standardised[seen, j], rcond=None)[0]
        out[seen, j] = standardised[seen, j] - explains[seen] @ coefficients
    return out


def surely_follow(standardised: Array, w: Array) -> NDArray[np.bool_]:
    """Return whether each judge correlates significantly with a feature (familywise error rate 1 %), shape (p,)."""
    seen = ~np.isnan(standardised)
    z = np.where(seen, standardised, 0.0)
    correlation = (w @ z) / np.sqrt(np.maximum((w**2 @ seen) * np.sum(z**2, axis=0), 1e-12))
    return np.abs(correlation) > np.sqrt(2.0 * np.log(2.0 * len(correlation) / 0.01) / np.maximum(seen.sum(axis=0), 1))


def unit_feature(feature: Array) -> Array | None:
    """Standardise a feature, with 0 for NaN; return None if there are too few values, or nearly all are equal."""
    known = feature[~np.isnan(feature)]
    if len(known) < MIN_ITEMS or np.mean(known != np.median(known)) < 0.05 or np.std(known) <= 0:
        return None
    return np.where(np.isnan(feature), 0.0, (feature - known.mean()) / known.std())


def _between_families(correlation: Array, families: NDArray[np.intp]) -> Array:
    """Estimate common loadings from pairs of judges of different families; from all pairs if there are few families."""
    several = len(np.unique(families)) >= 3
    return common_loadings(
        correlation, families[:, None] != families if several else ~np.eye(len(families), dtype=bool)
    )


def _common_ratio(slopes: Array, loadings: Array, families: NDArray[np.intp], ratio: float, sign: float) -> float:
    """Return a low quantile of the families' ratios of slope to loading; CARE attributes this ratio to quality."""
    ratios: list[float] = []
    for family in np.unique(families):
        a, b = loadings[families == family], slopes[families == family]
        ratios.append(sign * (float(a @ b) + _SHRINK * ratio) / (float(a @ a) + _SHRINK))
    least = min(ratios) if len(ratios) <= _FEW_FAMILIES else float(np.quantile(ratios, _LOW))
    return sign * max(0.0, min(least, sign * ratio))
