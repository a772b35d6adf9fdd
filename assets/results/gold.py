"""Gold as an evaluation may see it, and values brought into the order of the items."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from care_ops.anchors import Anchors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def held_out_gold(
    item_ids: Sequence[str], gold: "Array", split_units: Sequence[str | None], anchors: Anchors
) -> "Array":
    """Gold with NaN for anchors and for every item that shares a split unit with one."""
    import numpy as np

    seen_units = {
        unit for item_id, unit in zip(item_ids, split_units, strict=True) if item_id in anchors.labels and unit
    }
    left_out = [
        item_id in anchors.labels or (unit is not None and unit in seen_units)
        for item_id, unit in zip(item_ids, split_units, strict=True)
    ]
    return np.where(np.array(left_out, dtype=bool), np.nan, gold)


def aligned(item_ids: Sequence[str], values: Mapping[str, float | None]) -> "Array":
    """Values by item id in the order of ``item_ids``, NaN where null or absent."""
    import numpy as np

    out = [values.get(item_id) for item_id in item_ids]
    return np.array([np.nan if v is None else v for v in out], dtype=np.float64)
