"""Rows of a page's items: ranks with intervals, and the items on which two estimates differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assets.report.data import ReportData
from care_ops.scores import Array, ranks
from warehouse.documents import plain

MOST_ROWS = 5_000
"""Maximum number of items that the page of items lists."""

_MOST_LABEL_ROWS = 10

_NINETY_PERCENT = 1.645
"""Half width of a normal distribution's central 90 % interval, in standard deviations."""


@dataclass(frozen=True)
class ItemRow:
    """Rank of an item (1 is the highest estimate), and its estimate with a 90 % interval."""

    rank: int
    item_id: str
    estimate: float
    lo: float | None
    hi: float | None
    gold: float | None
    response: str | None


@dataclass(frozen=True)
class LabelRow:
    """Item whose rank differs between two estimates: its scores, and its relative rank (0 to 1) in each estimate."""

    item_id: str
    ranks: Sequence[float]
    scores: Sequence[float | None]
    gold: float | None
    response: str | None


def item_rows(data: ReportData) -> list[ItemRow]:
    """Return rows of items with an estimate, best first; if there are too many, only the best and the worst items."""
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
    places = np.arange(len(order))
    if len(order) > MOST_ROWS:
        places = np.concatenate([places[: MOST_ROWS // 2], places[-MOST_ROWS // 2 :]])
    return [
        ItemRow(
            place + 1,
            data.scores.item_ids[i],
            float(estimate[i]),
            plain(lo[i]),
            plain(hi[i]),
            plain(data.gold[i]),
            data.responses[i],
        )
        for place, i in zip(places.tolist(), order[places].tolist(), strict=True)
    ]


def item_count(data: ReportData) -> int:
    """Count the items that have an estimate."""
    return int((~np.isnan(data.aggregates[data.lead].estimate)).sum()) if data.lead else 0


def label_rows(data: ReportData) -> list[LabelRow]:
    """Return rows of the items whose ranks differ most between the two estimates in ``data.rivals``."""
    if not data.rivals:
        return []
    shares = [_share_below(estimate) for estimate in data.rivals.values()]
    differ = np.nan_to_num(np.abs(shares[0] - shares[1]))
    return [
        LabelRow(
            data.scores.item_ids[k],
            [float(share[k]) for share in shares],
            plain(data.scores.values[k, data.judge_order]),
            plain(data.gold[k]),
            data.responses[k],
        )
        for k in np.argsort(-differ, kind="stable")[:_MOST_LABEL_ROWS].tolist()
        if differ[k] > 0
    ]


def _share_below(estimate: Array) -> Array:
    """Compute, for each item, the share of items that are not better; NaN marks a missing estimate."""
    known = ~np.isnan(estimate)
    out = np.full(len(estimate), np.nan)
    out[known] = ranks(estimate[known]) / max(int(known.sum()), 1)
    return out
