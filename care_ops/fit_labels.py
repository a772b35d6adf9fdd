"""Labels for a fit, with weights and sampling probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING

from care_ops.errors import InputError, counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from care_ops.labels import Labels


@dataclass(frozen=True)
class FitLabels:
    """Labels that a fit may use.

    Attributes
    ----------
    labels : mapping item_id -> label
        Finite label of each item on the scale of the gold labels, or the mean if an item has several labels.
    counts : mapping item_id -> float
        Weight of an item's label relative to a single label; 1 for items without an entry.
    sample : mapping item_id -> probability, optional
        Probability with which each item of the probability sample was drawn. Only this sample gives valid estimates for
        all items, such as a rate. None if all labelled items were drawn at random.
    shares : bool
        Whether each individual label is 0 or 1; the mean of several labels is then a share.
    repeats : tuple of str
        Sentences about items with several labels, and about the agreement of these labels.
    """

    labels: Mapping[str, float]
    counts: Mapping[str, float] = field(default_factory=dict[str, float])
    sample: Mapping[str, float] | None = None
    shares: bool = False
    repeats: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for item_id, label in self.labels.items():
            if not isfinite(label):
                raise InputError(f"labels: the label of item {item_id!r} is {label}; give a finite number")

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, labels: Labels) -> FitLabels:
        """Build the labels of a fit from a ``Labels`` object and its probability sample."""
        return cls(labels.values, labels.counts, labels.sample, labels.binary, tuple(labels.repeats()))

    @property
    def binary(self) -> bool:
        """Whether the labels are 0 and 1, or shares of such labels."""
        return self.shares or all(label in (0.0, 1.0) for label in self.labels.values())

    @property
    def left_out(self) -> int:
        """Number of labelled items outside the probability sample."""
        return 0 if self.sample is None else len(self.labels) - len(self.sample)

    def content(self) -> list[tuple[str, float, float, float | None]]:
        """Return a sorted list of (item, label, weight, probability) for the hash of the inputs."""
        return [(i, self.labels[i], self.counts.get(i, 1.0), self.chance_of(i)) for i in sorted(self.labels)]

    def chance_of(self, item_id: str) -> float | None:
        """Return the probability with which a labelled item was drawn; None outside the probability sample."""
        return 1.0 if self.sample is None else self.sample.get(item_id)

    def weights(self, item_ids: Sequence[str]) -> NDArray[np.float64]:
        """Return the weight of each item's label in an estimate for all items, shape (m,).

        Inverse probabilities are scaled to sum to the effective number of labels (Kish, Survey Sampling, 1965), and
        then multiplied by ``counts``. Labels outside the probability sample have weight 0.
        """
        import numpy as np

        chances = [self.chance_of(item_id) for item_id in item_ids]
        inverse = np.array([0.0 if chance is None else 1.0 / chance for chance in chances], dtype=np.float64)
        if not inverse.any():
            return inverse
        return inverse * inverse.sum() / np.sum(inverse**2) * self.counts_of(item_ids)

    def counts_of(self, item_ids: Sequence[str]) -> NDArray[np.float64]:
        """Return the weight of each item's label relative to a single label, shape (m,)."""
        import numpy as np

        return np.array([self.counts.get(item_id, 1.0) for item_id in item_ids], dtype=np.float64)

    def rows(self, item_ids: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the row and the label of each labelled item; raise ``InputError`` if any is not in ``item_ids``."""
        import numpy as np

        if not self.labels:
            return np.empty(0, dtype=np.intp), np.empty(0)
        index = {item_id: i for i, item_id in enumerate(item_ids)}
        unknown = [item_id for item_id in self.labels if item_id not in index]
        if unknown:
            raise InputError(
                f"no scores for {counted(len(unknown), 'labelled item')}, such as {unknown[0]!r}; the first item with "
                f"scores is {item_ids[0]!r}; correct the ids, add scores, or leave out these labels"
            )
        rows = np.array(sorted(index[item_id] for item_id in self.labels), dtype=np.intp)
        return rows, np.array([self.labels[item_ids[int(i)]] for i in rows], dtype=np.float64)


NO_LABELS = FitLabels({})
