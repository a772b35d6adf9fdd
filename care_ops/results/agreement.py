"""How far judges agree: Krippendorff's alpha over the panel, weighted kappa between two judges.

Belongs here: agreement statistics that need no model. Does not: the effective number of judges (``factors``).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

Level = Literal["nominal", "ordinal", "interval"]

MOST_VALUES = 500
"""Different scores up to which nominal and ordinal agreement are computed; the table has their square."""


def krippendorff_alpha(values: Array, level: Level = "interval") -> float | None:
    """1 - observed over expected disagreement (Krippendorff, "Content Analysis", 2004); missing scores are left out.

    Parameters
    ----------
    values : (n, p) array
        NaN is missing.
    level : {"nominal", "ordinal", "interval"}

    Returns
    -------
    float, or None where no item has two scores, all scores are alike, or nominal or ordinal agreement is asked of
    more than ``MOST_VALUES`` different scores.
    """
    present = ~np.isnan(values)
    paired = present.sum(axis=1) >= 2
    values, present = values[paired], present[paired]
    if not len(values):
        return None
    if level == "interval":
        return _interval(values, present)
    distinct, code = np.unique(values[present], return_inverse=True)
    if not 1 < len(distinct) <= MOST_VALUES:
        return None
    row, count = np.nonzero(present)[0], present.sum(axis=1)
    by_item = np.zeros((len(values), len(distinct)))
    np.add.at(by_item, (row, code), 1.0)
    weight = 1.0 / (count - 1)
    together = by_item.T @ (by_item * weight[:, None]) - np.diag(weight @ by_item)
    margin = together.sum(axis=0)
    if level == "nominal":
        distance = 1.0 - np.eye(len(distinct))
    else:
        below = np.cumsum(margin) - margin / 2
        distance = (below[:, None] - below[None, :]) ** 2
    expected = np.outer(margin, margin) - np.diag(margin)
    return 1.0 - (margin.sum() - 1) * float(np.sum(together * distance)) / float(np.sum(expected * distance))


def _interval(values: Array, present: NDArray[np.bool_]) -> float | None:
    """The same without the table: squared distances are sums of squares."""
    filled = np.where(present, values - values[present].mean(), 0.0)
    count = present.sum(axis=1)
    total = int(count.sum())
    observed = float(np.sum((count * (filled**2).sum(axis=1) - filled.sum(axis=1) ** 2) / (count - 1)))
    expected = total * float(np.sum(filled**2)) - float(filled.sum()) ** 2
    return None if expected <= 0 else 1.0 - (total - 1) * observed / expected


def weighted_kappa(
    one: Array, other: Array, weights: Literal["nominal", "linear", "quadratic"] = "quadratic"
) -> float | None:
    """Cohen's kappa of two judges over the items that both scored (Cohen, 1960 and 1968).

    Disagreement counts by how many grades lie between two scores; grades are the scores that either gave.

    Returns
    -------
    float, or None where both give one and the same score throughout, or share no item.
    """
    both = ~np.isnan(one) & ~np.isnan(other)
    distinct, code = np.unique(np.concatenate([one[both], other[both]]), return_inverse=True)
    k, m = len(distinct), int(both.sum())
    if k < 2 or k > MOST_VALUES:
        return None
    table = np.zeros((k, k))
    np.add.at(table, (code[:m], code[m:]), 1.0)
    apart = np.abs(np.subtract.outer(np.arange(k), np.arange(k))).astype(np.float64)
    distance = {"nominal": (apart > 0).astype(np.float64), "linear": apart, "quadratic": apart**2}[weights]
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / m
    return 1.0 - float(np.sum(table * distance)) / float(np.sum(expected * distance))
