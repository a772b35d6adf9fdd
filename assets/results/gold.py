"""Held-out gold for evaluation: gold labels that no fit has used."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from care_ops.fit_labels import FitLabels
from care_ops.metrics import evaluate
from care_ops.records import Aggregate, Evaluation
from care_ops.scores import Array, ScoreMatrix
from warehouse.compute import pc
from warehouse.items import ItemColumnsRead


def panel_items(scores: ScoreMatrix, items: ItemColumnsRead, labels: FitLabels) -> ItemColumnsRead:
    """Return the items in the panel's order; gold is NaN in split units that contain a labelled item."""
    gold = held_out_gold(items, labels)
    if list(scores.item_ids) == items.item_ids:
        return replace(items, gold=gold)
    places = pc.index_in(pa.array(scores.item_ids, pa.string()), pa.array(items.item_ids, pa.string()))
    rows = places.fill_null(len(items.item_ids)).to_numpy()  # an item that is gone takes the null at the end
    columns = ((*column, None) for column in (items.responses, items.split_units))
    responses, units = (np.array(column, dtype=object)[rows].tolist() for column in columns)
    return ItemColumnsRead(list(scores.item_ids), responses, np.append(gold, np.nan)[rows], units)


def held_out_gold(items: ItemColumnsRead, labels: FitLabels) -> Array:
    """Return gold, with NaN for all items of split units that contain a labelled item; shape (n,)."""
    if not labels.labels:
        return items.gold
    units = items.units()
    seen = {unit for item, unit in zip(items.item_ids, units, strict=True) if item in labels.labels}
    return np.where([unit in seen for unit in units], np.nan, items.gold)


def aligned(item_ids: Sequence[str], values: Mapping[str, float | None]) -> Array:
    """Return an array of values in the order of ``item_ids``, with NaN for a missing value."""
    return np.array(list(map(values.get, item_ids)), dtype=np.float64)


def evaluations(
    aggregates: Mapping[str, Aggregate], gold: Array, scale: tuple[float, float] | None
) -> dict[str, Evaluation]:
    """Evaluate every aggregate against the items' gold; the result is empty if no item has gold."""
    if np.isnan(gold).all():
        return {}
    return {
        name: evaluate(a.estimate, gold, threshold=a.threshold, scale=scale, sd=a.sd, p_quality=a.p_quality)
        for name, a in aggregates.items()
    }


def best_judge(panel: ScoreMatrix, gold: Array, scale: tuple[float, float] | None) -> Evaluation | None:
    """Return the evaluation of the judge that agrees best with gold; None if no judge can be compared with gold."""
    judges = (evaluate(scores, gold, threshold=None, scale=scale) for scores in panel.values.T)
    return max((each for each in judges if each.order is not None), key=lambda each: each.order or 0.0, default=None)
