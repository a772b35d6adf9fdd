"""What is found out of a fit by fits of some of its items or judges: for a test set and for a table."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from assets.fit.stages import recommended
from assets.results.gold import PanelItems
from care_ops.anchors import Anchors
from care_ops.config import FitConfig
from care_ops.fit import Watch
from care_ops.probes import ProbeResponses
from care_ops.records import Aggregate, Intervals
from care_ops.results.drop_evidence import NO_REFITS, Dropping
from care_ops.results.dropping import leave_each_out
from care_ops.results.influence import influence_of
from care_ops.results.uncertainty import weight_intervals
from care_ops.scores import ScoreMatrix


def unwatched(_what: str, _done: int, _total: int) -> None:
    """A ``Watch`` for nobody."""


@dataclass(frozen=True)
class Refits:
    """A fit as it is made again with some of its items or judges; with ``config.resamples`` 0 nothing is."""

    scores: ScoreMatrix
    config: FitConfig
    anchors: Anchors
    items: PanelItems
    aggregates: Mapping[str, Aggregate]
    probes: ProbeResponses
    watch: Watch = unwatched

    def intervals(self) -> dict[str, Intervals]:
        """Intervals of the weights by aggregate; raises ``InputError`` where there are too few split units."""
        if not self.config.resamples:
            return {}
        return weight_intervals(
            self.scores,
            self.config,
            self.anchors,
            self.items.units,
            whole=self.aggregates,
            resamples=self.config.resamples,
            watch=partial(self.watch, "intervals of the weights"),
            probes=self.probes,
        )

    def dropping(self) -> Dropping:
        """What labels that the fit has not seen say of its recommended answer without each judge; and the influence."""
        if not self.config.resamples:
            return Dropping(refused=NO_REFITS)
        lead = recommended(self.aggregates)
        dropping = leave_each_out(
            self.scores,
            self.config,
            lead,
            self.items.gold,
            self.items.units,
            self.anchors,
            probes=self.probes,
            watch=partial(self.watch, "the answer without each judge"),
        )
        weights = self.aggregates[lead].weights
        if lead != "care" or weights is None:
            return dropping
        self.watch("the answer if a judge said anything", 0, 0)
        influence = influence_of(self.scores, self.config, weights, self.anchors, probes=self.probes)
        return replace(dropping, influence=influence)
