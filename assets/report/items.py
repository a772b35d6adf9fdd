"""Items of a page: their ranks with intervals, and the items on which two estimates differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.stats import rankdata

from assets.report.charts import Ranked, domain, ranked_list
from assets.report.data import ReportData
from care_ops.blocks import blocks, by_rows
from care_ops.scores import Array
from warehouse.documents import plain

MOST_ROWS = 5_000
"""Items that the page of items lists; a browser opens it at once."""

_ENDS = 10
"""Items at each end of the ranking that are drawn."""

_NINETY_PERCENT = 1.645
"""Standard deviations on each side that a normal distribution keeps nine tenths within."""


@dataclass(frozen=True)
class ItemRow:
    """One item: rank (1 is the highest estimate), estimate with 90 % interval, and the judges' disagreement.

    ``spread`` is the standard deviation of the judges' standardised scores.
    """

    rank: int
    item_id: str
    estimate: float
    lo: float | None
    hi: float | None
    spread: float
    gold: float | None
    response: str | None


@dataclass(frozen=True)
class LabelRow:
    """An item to label first: every score, and its rank by each rival estimate (share of items not above it)."""

    item_id: str
    ranks: Sequence[float]
    scores: Sequence[float | None]
    gold: float | None
    response: str | None


def item_rows(data: ReportData) -> list[ItemRow]:
    """Return the items that have an estimate, best first: all, or the ``MOST_ROWS`` most informative."""
    if not data.lead:
        return []
    aggregate = data.aggregates[data.lead]
    estimate = aggregate.estimate
    known = np.flatnonzero(~np.isnan(estimate))
    order = known[np.argsort(-estimate[known], kind="stable")]
    sd = np.full(len(estimate), np.nan) if aggregate.sd is None else aggregate.sd
    scale = np.nanmin(data.scores.values), np.nanmax(data.scores.values)
    if np.any((estimate < scale[0]) | (estimate > scale[1])):
        scale = -np.inf, np.inf  # the estimate has its own unit
    lo, hi = (np.clip(estimate + side * _NINETY_PERCENT * sd, *scale) for side in (-1, 1))
    spread = _spread(data)
    places = range(len(order))
    if len(order) > MOST_ROWS:
        places = _informative(spread[order], MOST_ROWS).tolist()
    return [
        ItemRow(
            place + 1,
            data.scores.item_ids[i],
            float(estimate[i]),
            plain(lo[i]),
            plain(hi[i]),
            float(spread[i]),
            plain(data.gold[i]),
            data.responses[i],
        )
        for place, i in zip(places, order[places].tolist(), strict=True)
    ]


def item_count(data: ReportData) -> int:
    """Count the items that have an estimate."""
    return int((~np.isnan(data.aggregates[data.lead].estimate)).sum()) if data.lead else 0


def _informative(spread: Array, most: int) -> NDArray[np.intp]:
    """Choose ranked items to show: a quarter from each end, and the most disputed of the others."""
    quarter, n = most // 4, len(spread)
    middle = quarter + np.argsort(-spread[quarter : n - quarter], kind="stable")[: most - 2 * quarter]
    return np.concatenate([np.arange(quarter), np.sort(middle), np.arange(n - quarter, n)])


def ends(rows: Sequence[ItemRow]) -> dict[str, Markup]:
    """Draw the best and the worst items on one scale, or all items if there are few."""
    ranks = [Ranked(f"{row.rank}. {row.item_id}", row.estimate, row.lo, row.hi) for row in rows]
    parts = {f"The {_ENDS} best": ranks[:_ENDS], f"The {_ENDS} worst": ranks[-_ENDS:]}
    if len(ranks) <= 2 * _ENDS:
        parts = {"All items": ranks} if ranks else {}
    scale = domain([rank for part in parts.values() for rank in part])
    return {heading: ranked_list(part, "estimate", scale) for heading, part in parts.items()}


def label_rows(data: ReportData) -> list[LabelRow]:
    """Return the items whose ranks differ most between the two rival estimates."""
    if not data.rivals:
        return []
    ranks = [_share_below(estimate) for estimate in data.rivals.values()]
    index = {item: k for k, item in enumerate(data.scores.item_ids)}
    return [
        LabelRow(
            item,
            [float(rank[k]) for rank in ranks],
            plain(data.scores.values[k, data.judge_order]),
            plain(data.gold[k]),
            data.responses[k],
        )
        for item in data.items_to_label
        if (k := index.get(item)) is not None
    ]


def _share_below(estimate: Array) -> Array:
    """Return, for each item, the share of items that are not above it; NaN without an estimate."""
    known = ~np.isnan(estimate)
    out = np.full(len(estimate), np.nan)
    out[known] = rankdata(estimate[known]) / max(int(known.sum()), 1)
    return out


def _spread(data: ReportData) -> Array:
    """Return the standard deviation of each item's standardised scores; 0 for fewer than two."""
    values = data.scores.values
    items = len(values)
    counts = np.maximum(sum((~np.isnan(values[rows])).sum(axis=0) for rows in blocks(items)), 1)
    mean = sum(np.nansum(values[rows], axis=0) for rows in blocks(items)) / counts
    scale = np.sqrt(sum(np.nansum((values[rows] - mean) ** 2, axis=0) for rows in blocks(items)) / counts)

    def spread(values: Array) -> Array:
        present = ~np.isnan(values)
        z = np.where(present, values - mean, 0.0) / np.where(scale > 0, scale, 1.0)
        judges = np.maximum(present.sum(axis=1), 1)
        middle = z.sum(axis=1) / judges
        return np.sqrt((np.where(present, z - middle[:, None], 0.0) ** 2).sum(axis=1) / judges)

    return by_rows(spread, values)
