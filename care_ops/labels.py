"""Human labels, with the sampling design of the labelled items.

A fit may use any label. An estimate for all items (a rate, a calibrated probability, a report on a judge) uses only a
probability sample: items drawn at random or with a known probability, with weights of 1 / probability (Horvitz and
Thompson, Journal of the American Statistical Association 1952).

The intraclass correlation (ICC) of several labels of an item measures their reliability (Shrout and Fleiss,
Psychological Bulletin 1979); k labels of an item count as k / (1 + (k - 1) ICC) labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from math import isfinite
from numbers import Real
from typing import Literal

from care_ops.errors import InputError, counted
from care_ops.minimum_sizes import MIN_LABELS

Drawn = Literal["random", "chosen"]


@dataclass(frozen=True)
class Label:
    """Label that one person gave to one item.

    Attributes
    ----------
    drawn : {"random", "chosen"}
        Whether the item was drawn at random or chosen by its properties.
    probability : float, optional
        Probability with which the item was drawn; by default equal for items drawn at random, unknown for chosen ones.
    rater, labelled_at : str, optional
        Person who gave the label, and the time (ISO 8601).
    """

    item_id: str
    value: float
    drawn: Drawn = "chosen"
    probability: float | None = None
    rater: str | None = None
    labelled_at: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.value, Real) or not isfinite(self.value):
            raise InputError(f"labels: the label of item {self.item_id!r} is {self.value}; give a finite number")
        if self.probability is not None and not 0 < self.probability <= 1:
            raise InputError(
                f"labels: item {self.item_id!r} has the sampling probability {self.probability:g}; give one in (0, 1]"
            )


@dataclass(frozen=True)
class Labels:
    """Labels in the order of the input; an item may have several labels.

    Attributes
    ----------
    given : tuple of Label
        All labels; the labels of one item have the same ``drawn`` and ``probability``.
    """

    given: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        first: dict[str, Label] = {}
        for label in self.given:
            other = first.setdefault(label.item_id, label)
            if (label.drawn, label.probability) != (other.drawn, other.probability):
                raise InputError(
                    f"labels: the rows of item {label.item_id!r} disagree on `drawn` or `probability`; write the same "
                    "values in all rows of an item, because it is drawn only once"
                )
        weighted = {label.drawn == "random" and label.probability is None for label in self.given if _usable(label)}
        if len(weighted) > 1:
            unlike = next(x for x in self.given if _usable(x) and x.probability is None)
            raise InputError(
                f"labels: item {unlike.item_id!r} was drawn at random but has no probability; other items have one; "
                "give the probability of every item that was drawn at random, or of none"
            )

    def __len__(self) -> int:
        return len(self.given)

    @cached_property
    def by_item(self) -> Mapping[str, tuple[Label, ...]]:
        """Labels of each item, in the order of the input."""
        labels: dict[str, tuple[Label, ...]] = {}
        for label in self.given:
            labels[label.item_id] = (*labels.get(label.item_id, ()), label)
        return labels

    @cached_property
    def opinions(self) -> Mapping[str, list[float]]:
        """Mean label of each rater, by item; a label without a rater counts as the label of a separate rater."""
        by_rater: dict[str, dict[object, list[float]]] = {item: {} for item in self.by_item}
        for k, label in enumerate(self.given):
            by_rater[label.item_id].setdefault(label.rater or k, []).append(label.value)
        return {item: [sum(own) / len(own) for own in raters.values()] for item, raters in by_rater.items()}

    @cached_property
    def values(self) -> Mapping[str, float]:
        """Mean label of each item over its raters."""
        return {item: sum(opinions) / len(opinions) for item, opinions in self.opinions.items()}

    @property
    def binary(self) -> bool:
        """Whether all labels are 0 or 1."""
        return all(label.value in (0.0, 1.0) for label in self.given)

    def as_shares(self, bounds: tuple[float, float]) -> Labels:
        """Rescale pair labels from ``bounds`` to [0, 1]: 0 if the answer on the right wins, 1 if the left one wins."""
        low, high = bounds
        outside = [label.value for label in self.given if not low <= label.value <= high]
        if outside or not low < high:
            raise InputError(
                f"labels: a label of a pair must lie between {low:g} (the answer on the right is better) and {high:g} "
                f"(the left one is better), got {outside[0] if outside else low:g}; give the bounds with --label-bounds"
            )
        return Labels(tuple(replace(label, value=(label.value - low) / (high - low)) for label in self.given))

    @cached_property
    def reliability(self) -> float | None:
        """Intraclass correlation of an item's labels by different raters, from 0 to 1; None if no item has two raters.

        The correlation is 1 if all labels are equal, because equal labels show no error.
        """
        groups = list(self.opinions.values())
        total, items = sum(map(len, groups)), len(groups)
        if total == items or items < 2:
            return None
        grand = sum(map(sum, groups)) / total
        within = sum((v - sum(g) / len(g)) ** 2 for g in groups for v in g) / (total - items)
        between = sum(len(g) * (sum(g) / len(g) - grand) ** 2 for g in groups) / (items - 1)
        size = (total - sum(len(g) ** 2 for g in groups) / total) / (items - 1)
        spread = between + (size - 1) * within
        return 1.0 if spread <= 0 else min(max((between - within) / spread, 0.0), 1.0)

    @cached_property
    def counts(self) -> Mapping[str, float]:
        """Weight of each item's mean label relative to a single label, for the items with several labels.

        The weight is the variance of a single label divided by the variance of the mean of the item's labels.
        """
        alike = 1.0 if self.reliability is None else self.reliability
        return {
            item: len(opinions) / (1.0 + (len(opinions) - 1) * alike)
            for item, opinions in self.opinions.items()
            if len(opinions) > 1
        }

    @cached_property
    def sample(self) -> Mapping[str, float]:
        """Sampling probability of each item in the probability sample; 1 if no probability is given."""
        return {
            item: 1.0 if labels[0].probability is None else labels[0].probability
            for item, labels in self.by_item.items()
            if _usable(labels[0])
        }

    @cached_property
    def first(self) -> Mapping[str, float]:
        """First label of each item, by time if every label has an ISO 8601 time, and otherwise by row."""
        times = [_time(label) for label in self.given]
        order = list(range(len(self.given)))
        if all(time is not None for time in times):
            order.sort(key=lambda place: times[place] or 0.0)
        values: dict[str, float] = {}
        for place in order:
            values.setdefault(self.given[place].item_id, self.given[place].value)
        return values

    @property
    def left_out(self) -> int:
        """Number of labelled items outside the probability sample; estimates for all items do not use these labels."""
        return len(self.by_item) - len(self.sample)

    def sentences(self) -> list[str]:
        """Return sentences that describe how the labelled items were chosen."""
        items = self.by_item
        random = sum(labels[0].drawn == "random" for labels in items.values())
        lines = [
            f"{counted(len(self.given), 'label')} of {counted(len(items), 'item')}: {random} drawn at random, "
            f"{len(items) - random} chosen"
        ]
        if self.left_out:
            lines.append(
                f"{counted(self.left_out, 'item')} chosen with an unknown probability: a fit uses the labels, but "
                "rates and calibrated probabilities do not"
            )
        return [*lines, *self.repeats()]

    def repeats(self) -> list[str]:
        """Return sentences about items with several labels and about the agreement of their labels; empty if none."""
        if self.reliability is None:
            again = sum(len(labels) > 1 for labels in self.by_item.values())
            message = f"{counted(again, 'item')} with several labels by one rater, which count as one label"
            return [message] if again else []
        unlike = sum(len({*opinions}) > 1 for opinions in self.opinions.values())
        if unlike >= MIN_LABELS and 2 * unlike > len(self.counts) and self.reliability < 0.2:
            return [
                f"warning: {unlike} of {len(self.counts)} items with several labels have labels that contradict each "
                "other; check whether labels were joined to the wrong items, or one rater uses a reversed scale"
            ]
        return [
            f"{counted(len(self.counts), 'item')} with several labels; labels of the same item have a correlation of "
            f"{self.reliability:.2f}, and labels are weighted accordingly"
        ]


def _time(label: Label) -> float | None:
    """Convert the time of a label to seconds; a time without a time zone is read as UTC."""
    try:
        when = datetime.fromisoformat(label.labelled_at or "")
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _usable(label: Label) -> bool:
    return label.drawn == "random" or label.probability is not None
