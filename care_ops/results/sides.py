"""Judges of pairs that choose by the side on which an answer stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from care_ops.minimum_sizes import MIN_SCORES_TO_DESCRIBE
from care_ops.scores import Array, mean_of_present

_LEVEL = 0.99
_PLAIN = 0.05
"""From one half, below which a share is not worth telling, however sure it is."""


@dataclass(frozen=True)
class Sides:
    """How often judges choose the left answer of a pair: the share of the pairs over all judges, in which each pair
    counts once, and whether it is plainly not one half; the shares of the judges, by their columns, whose own plainly
    are not; whether it is known which system stood where, so that two systems count alike in both orders.
    """

    share: float
    plain: bool
    judges: Mapping[int, float]
    known: bool


def sides_of(values: Array, middle: float, systems: Sequence[tuple[str, str] | None]) -> Sides | None:
    """Which judges choose by the side; None where no share is plainly off one half, or each system has its side.

    ``values`` are (n, p): above ``middle`` a judge chooses the left answer, at it none; NaN is missing. Each of the n
    ``systems`` is (left, right), or None where that is not known.
    """
    chosen = np.where(np.isnan(values) | (values == middle), np.nan, values > middle)
    plain = 1.0 - (1.0 - _LEVEL) / values.shape[1]
    found = {j: _share(column, systems, plain) for j, column in enumerate(chosen.T)}
    judges = {j: share for j, (share, off) in found.items() if off}
    together, all_plain = _share(mean_of_present(chosen, axis=1), systems, _LEVEL)
    return Sides(together, all_plain, judges, any(systems)) if judges or all_plain else None


def always_left(systems: Sequence[tuple[str, str] | None]) -> str | None:
    """The one of two systems that stood on the left in all pairs; None where both did, or there are others."""
    orders = {pair for pair in systems if pair is not None and pair[0] != pair[1]}
    return orders.pop()[0] if len(orders) == 1 else None


def _share(chosen: Array, systems: Sequence[tuple[str, str] | None], level: float) -> tuple[float, bool]:
    """The share of left choices, and whether an interval of this level holds it plainly off one half.

    It is NaN where too few pairs stood in both orders.
    """
    known = any(systems)
    groups: dict[tuple[str, str] | None, list[float]] = {}
    for pair, choice in zip(systems, chosen.tolist(), strict=True):
        if choice == choice and (pair is not None or not known):
            groups.setdefault(pair, []).append(choice)
    mirrors = {pair: groups.get(pair if pair is None else (pair[1], pair[0]), []) for pair in groups}
    sizes = {
        pair: len(own) + len(mirrors[pair]) for pair, own in groups.items() if min(len(own), len(mirrors[pair])) > 1
    }
    total = sum(sizes.values())
    if sum(len(groups[pair]) for pair in sizes) < MIN_SCORES_TO_DESCRIBE:
        return np.nan, False
    parts = [(size / total, np.array(groups[pair])) for pair, size in sizes.items()]
    variance = sum(weight**2 * own.var(ddof=1) / len(own) for weight, own in parts)
    share = float(sum(weight * own.mean() for weight, own in parts))
    return share, abs(share - 0.5) >= max(_PLAIN, float(scipy.special.ndtri((1 + level) / 2) * np.sqrt(variance)))
