"""What is found out of a fit by gold, and by fits of some of its items or judges: for a test set and for a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from assets.fit.stages import recommended
from assets.results.gold import aligned, held_out_gold
from care_ops.anchors import Anchors
from care_ops.config import FitConfig
from care_ops.fit import Watch
from care_ops.metrics import evaluate
from care_ops.probes import ProbeResponses
from care_ops.records import Aggregate, Evaluation, Intervals
from care_ops.results.drop_evidence import NO_REFITS, Dropping
from care_ops.results.dropping import leave_each_out
from care_ops.results.uncertainty import weight_intervals
from care_ops.scores import Array, ScoreMatrix
from warehouse.matrix import ItemColumnsRead


def unwatched(_what: str, _done: int, _total: int) -> None:
    """A ``Watch`` for nobody."""


@dataclass(frozen=True)
class PanelItems:
    """The panel's items in its order: responses, gold with NaN where it is unknown or held out, and split units."""

    responses: Sequence[str | None]
    gold: Array
    units: Sequence[str | None]


def panel_items(scores: ScoreMatrix, items: ItemColumnsRead, anchors: Anchors) -> PanelItems:
    """The panel's items, without the gold of anchors and of what shares a split unit with one."""
    gold = held_out_gold(items.item_ids, items.gold, items.split_units, anchors)
    responses, units = (
        dict(zip(items.item_ids, column, strict=True)) for column in (items.responses, items.split_units)
    )
    return PanelItems(
        [responses.get(item) for item in scores.item_ids],
        aligned(scores.item_ids, dict(zip(items.item_ids, gold.tolist(), strict=True))),
        [units.get(item) for item in scores.item_ids],
    )


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


@dataclass(frozen=True)
class Refits:
    """A fit as it is made again with some of its items or judges.

    Attributes
    ----------
    resamples : int
        For the intervals; with 0 nothing is made again.
    """

    scores: ScoreMatrix
    config: FitConfig
    anchors: Anchors
    items: PanelItems
    aggregates: Mapping[str, Aggregate]
    probes: ProbeResponses
    resamples: int
    watch: Watch = unwatched

    def intervals(self) -> dict[str, Intervals]:
        """Intervals of the weights by aggregate; raises ``InputError`` where there are too few split units."""
        if not self.resamples:
            return {}
        return weight_intervals(
            self.scores,
            self.config,
            self.anchors,
            self.items.units,
            whole=self.aggregates,
            resamples=self.resamples,
            watch=partial(self.watch, "intervals of the weights"),
            probes=self.probes,
        )

    def dropping(self) -> Dropping:
        """What labels that the fit has not seen say of its recommended answer without each judge."""
        if not self.resamples:
            return Dropping(refused=NO_REFITS)
        return leave_each_out(
            self.scores,
            self.config,
            recommended(self.aggregates),
            self.items.gold,
            self.items.units,
            self.anchors,
            probes=self.probes,
            watch=partial(self.watch, "the answer without each judge"),
        )
