"""Gold as an evaluation may see it, and values brought into the order of the items."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from care_ops.anchors import Anchors
from care_ops.metrics import evaluate
from care_ops.records import Aggregate, Evaluation
from care_ops.scores import Array, ScoreMatrix
from warehouse.items import ItemColumnsRead


def panel_items(scores: ScoreMatrix, items: ItemColumnsRead, anchors: Anchors) -> ItemColumnsRead:
    """The panel's items in its order, without the gold of anchors and of what shares a split unit with one."""
    if list(scores.item_ids) == items.item_ids:
        return replace(items, gold=held_out_gold(items, anchors))
    gold = dict(zip(items.item_ids, held_out_gold(items, anchors).tolist(), strict=True))
    responses = dict(zip(items.item_ids, items.responses, strict=True))
    units = dict(zip(items.item_ids, items.split_units, strict=True))
    return ItemColumnsRead(
        list(scores.item_ids),
        list(map(responses.get, scores.item_ids)),
        aligned(scores.item_ids, gold),
        list(map(units.get, scores.item_ids)),
    )


def held_out_gold(items: ItemColumnsRead, anchors: Anchors) -> Array:
    """Gold with NaN for anchors and for every item that shares a split unit with one."""
    if not anchors.labels:
        return items.gold
    units = items.units()
    seen = {unit for item, unit in zip(items.item_ids, units, strict=True) if item in anchors.labels}
    return np.where([unit in seen for unit in units], np.nan, items.gold)


def aligned(item_ids: Sequence[str], values: Mapping[str, float | None]) -> Array:
    """Values by item id in the order of ``item_ids``, NaN where null or absent."""
    return np.array(list(map(values.get, item_ids)), dtype=np.float64)


def evaluations(
    aggregates: Mapping[str, Aggregate], gold: Array, scale: tuple[float, float] | None
) -> dict[str, Evaluation]:
    """Every aggregate against gold, (n,) in the order of its estimates; empty where there is none."""
    if np.isnan(gold).all():
        return {}
    return {
        name: evaluate(a.estimate, gold, threshold=a.threshold, scale=scale, sd=a.sd, p_quality=a.p_quality)
        for name, a in aggregates.items()
    }


def best_judge(panel: ScoreMatrix, gold: Array, scale: tuple[float, float] | None) -> Evaluation | None:
    """How the judge that orders the items most as gold does orders them; None where gold can compare no judge."""
    judges = (evaluate(scores, gold, threshold=None, scale=scale) for scores in panel.values.T)
    return max((each for each in judges if each.order is not None), key=lambda each: each.order or 0.0, default=None)
