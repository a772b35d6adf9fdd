"""Records of the details that aggregators report, such as certificates, states and items to label."""

from dataclasses import dataclass, field
from typing import TypeVar

from care_ops.concerns import CareSummary
from care_ops.errors import WarehouseError
from care_ops.records import Aggregate, Certificate
from warehouse.documents import record_of


@dataclass(frozen=True)
class StructuredDetails:
    """Details of an aggregator: the duality gap of its structure; None if the aggregator uses no structure."""

    certificate: Certificate | None = None


@dataclass(frozen=True)
class CareDetails(CareSummary):
    """Details that the aggregator ``care`` reports.

    Attributes
    ----------
    items_to_label : tuple of str
        Items whose ranks differ most between two plausible estimates; labels can show which estimate is better.
    labels_better : float or None
        Probability that the estimate with labels is at least as good as the plain average; None if labels do not vary.
    labels_gain, labels_at_random : float
        Expected gain in Kendall's tau from labels, and probability that the labels are unrelated to the scores.
    turned : float
        Correlation of the estimates with and without labels.
    """

    items_to_label: tuple[str, ...]
    labels_better: float | None = None
    labels_gain: float = 0.0
    labels_at_random: float = 0.0
    turned: float = 1.0
    follows: dict[str, float] = field(default_factory=dict[str, float])
    removed_effects: dict[str, float] = field(default_factory=dict[str, float])
    features: tuple[str, ...] | None = None


@dataclass(frozen=True)
class CareTensorDetails:
    """State means, state weights and views that the aggregator ``care_tensor`` reports.

    Attributes
    ----------
    state_means, state_weights : lists
        Mean score of each judge in each state, and share of the items in each state.
    views : list of three lists of judges
        Groups of judges without edges between the groups.
    """

    state_means: list[list[float]]
    state_weights: list[float]
    views: list[list[str]]


D = TypeVar("D", StructuredDetails, CareDetails, CareTensorDetails)


def read_details(aggregate: Aggregate, kind: type[D]) -> D:
    """Read an aggregate's details as a record; raise ``WarehouseError`` if they are in another release's format."""
    try:
        return record_of(kind, aggregate.details)
    except ValueError as error:
        raise WarehouseError(
            f"the details of aggregate {aggregate.name} are not in this release's format ({error}); run `care run` to "
            "rebuild the fit"
        ) from None
