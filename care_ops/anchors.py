"""Anchors: the one door through which a label reaches a fit.

Belongs here: labelled items and what a fit may see of them. Does not: gold used for evaluation, which
never passes through here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from care_ops.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Anchors:
    """Items whose label a fit may see.

    Attributes
    ----------
    labels : mapping item_id -> label
        Finite numbers, on the scale of the gold.
    """

    labels: Mapping[str, float]

    def __post_init__(self) -> None:
        for item_id, label in self.labels.items():
            if not isfinite(label):
                raise InputError(f"anchors: the label of item {item_id!r} is {label}; give a finite number")

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, item_ids: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Positions and labels of the anchors among ``item_ids``.

        Raises
        ------
        InputError
            An anchor is not among the items.
        """
        import numpy as np

        index = {item_id: i for i, item_id in enumerate(item_ids)}
        unknown = [item_id for item_id in self.labels if item_id not in index]
        if unknown:
            raise InputError(
                f"anchors: {len(unknown)} labelled item(s) have no scores, the first is {unknown[0]!r}; "
                "remove them from the labels or add their scores"
            )
        rows = np.array(sorted(index[item_id] for item_id in self.labels), dtype=np.intp)
        return rows, np.array([self.labels[item_ids[int(i)]] for i in rows], dtype=np.float64)


NO_ANCHORS = Anchors({})
