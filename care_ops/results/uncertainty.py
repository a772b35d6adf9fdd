"""How far weights and loadings would move with other items: the bootstrap by split unit.

Belongs here: resampling and intervals. Does not: the uncertainty of one item's estimate (an aggregator's ``sd`` and
``p_quality``) or of a difference between systems (``systems``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.base import Aggregate
from care_ops.anchors import NO_ANCHORS, Anchors
from care_ops.config import LEAST_RESAMPLES, FitConfig
from care_ops.errors import FitError, InputError
from care_ops.fit import fit_panel
from care_ops.scores import ScoreMatrix, content_seed

Array = NDArray[np.float64]

MOST_ITEMS = 10_000
"""Items of a resample; beyond, deviations are scaled to the whole (m out of n bootstrap)."""


@dataclass(frozen=True)
class Interval:
    """Percentile intervals of one aggregator's weights.

    Attributes
    ----------
    lo, hi : (p,) arrays
        In the order of the scores handed in.
    loadings_lo, loadings_hi : (p, h) arrays, optional
        Of the columns of its loadings; each resample's factors are matched to them by direction.
    resamples : int
        Those in which the aggregator could answer.
    """

    lo: Array
    hi: Array
    loadings_lo: Array | None
    loadings_hi: Array | None
    resamples: int


def weight_intervals(
    scores: ScoreMatrix,
    config: FitConfig,
    anchors: Anchors = NO_ANCHORS,
    units: Sequence[str | None] | None = None,
    *,
    whole: Mapping[str, Aggregate] | None = None,
    resamples: int = 100,
    level: float = 0.9,
    most_items: int = MOST_ITEMS,
) -> dict[str, Interval]:
    """Intervals by aggregator that has weights: the whole fit again on resampled split units.

    What they cover is the weight that the same method would find on endless items of the same kind, not a weight
    free of the method's own bias.

    Parameters
    ----------
    scores : ScoreMatrix
        Admitted judges.
    config : FitConfig
    anchors : Anchors
        Resampled with their items.
    units : sequence of n str or None, optional
        Split units; an item without one is its own.
    whole : mapping name -> Aggregate, optional
        The aggregates on all items, where they are there already; else they are made here.
    resamples : int
        At least 20.
    level : float
        Between 0 and 1.
    most_items : int

    Raises
    ------
    InputError
        Too few resamples, a level outside (0, 1), or fewer than two split units.
    FitError
        No aggregator could answer on all items.
    """
    if resamples < LEAST_RESAMPLES or not 0 < level < 1:
        raise InputError(f"intervals: at least 20 resamples and a level in (0, 1), got {resamples} and {level}")
    n = scores.shape[0]
    names = scores.item_ids if units is None else [u if u else i for u, i in zip(units, scores.item_ids, strict=True)]
    members = rows_by_unit(scores.item_ids, names)
    if len(members) < 2:
        raise InputError("intervals: all items share one split unit; there is nothing to resample")
    whole = fit_panel(scores, config, anchors).aggregates if whole is None else whole
    weighed = tuple(name for name, a in whole.items() if a.weights is not None)
    if not weighed:
        return {}
    config, solve = replace(config, aggregators=weighed), "roughly" if "care_svd" in weighed else "not"
    draws = max(2, round(len(members) * min(1.0, most_items / n)))
    rng = np.random.default_rng([content_seed(scores), config.seed])
    weights: dict[str, list[Array]] = {name: [] for name in weighed}
    loadings: dict[str, list[Array]] = {name: [] for name in weighed}
    for _ in range(resamples):
        rows = np.concatenate([members[k] for k in rng.integers(0, len(members), draws)])
        again, seen = _resampled(scores, anchors, rows)
        if (np.nanstd(again.values, axis=0) == 0).any() or np.isnan(again.values).all(axis=0).any():
            continue
        try:
            answers = fit_panel(again, config, seen, solve=solve).aggregates
        except FitError:  # nobody can answer on this resample; ``resamples`` says how many did
            continue
        for name, found in answers.items():
            known, reference = found.weights, whole[name].loadings
            if known is None:
                continue
            weights[name].append(known)
            if reference is not None and found.loadings is not None:
                loadings[name].append(_matched(found.loadings, reference))
    tails, shrink = ((1 - level) / 2, (1 + level) / 2), float(np.sqrt(draws / len(members)))
    intervals: dict[str, Interval] = {}
    for name in weighed:
        centre = whole[name].weights
        if centre is None or len(weights[name]) < 20:
            continue
        lo, hi = _quantiles(weights[name], tails, centre, shrink)
        factors = whole[name].loadings
        bounds = None if factors is None else _quantiles(loadings[name], tails, factors, shrink)
        intervals[name] = Interval(lo, hi, *(bounds or (None, None)), len(weights[name]))
    return intervals


def rows_by_unit(item_ids: Sequence[str], names: Sequence[str]) -> list[NDArray[np.intp]]:
    """Rows of each split unit; units and their rows sorted by name, so that the order of items does not matter."""
    rows: dict[str, list[int]] = {}
    for row in sorted(range(len(item_ids)), key=item_ids.__getitem__):
        rows.setdefault(names[row], []).append(row)
    return [np.array(rows[name], dtype=np.intp) for name in sorted(rows)]


def _resampled(scores: ScoreMatrix, anchors: Anchors, rows: NDArray[np.intp]) -> tuple[ScoreMatrix, Anchors]:
    ids = tuple(f"{k:09d}" for k in range(len(rows)))
    labels = {
        new: anchors.labels[scores.item_ids[int(row)]]
        for new, row in zip(ids, rows, strict=True)
        if scores.item_ids[int(row)] in anchors.labels
    }
    return ScoreMatrix(scores.values[rows], ids, scores.judges, scores.families), Anchors(labels)


def _matched(found: Array, reference: Array) -> Array:
    """Columns of ``found`` nearest in direction to those of ``reference``, with its signs; NaN where none is left."""
    cosines = (reference / np.linalg.norm(reference, axis=0)).T @ (found / np.linalg.norm(found, axis=0))
    out = np.full(reference.shape, np.nan)
    for _ in range(min(cosines.shape)):
        a, b = (int(k) for k in np.unravel_index(int(np.argmax(np.abs(cosines))), cosines.shape))
        out[:, a] = np.sign(cosines[a, b]) * found[:, b]
        cosines[a, :] = 0.0
        cosines[:, b] = 0.0
    return out


def _quantiles(draws: list[Array], tails: tuple[float, float], centre: Array, shrink: float) -> tuple[Array, Array]:
    lo, hi = np.nanquantile(np.array(draws), tails, axis=0, method="weibull")  # tails of the size asked for
    return centre + shrink * (lo - centre), centre + shrink * (hi - centre)
