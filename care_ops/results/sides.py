"""Detection of position bias: judges that prefer the left or the right of two answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from care_ops.errors import listed
from care_ops.minimum_sizes import MIN_SCORES_TO_DESCRIBE
from care_ops.results.verdict import MOST_NAMED, Reason
from care_ops.scores import Array, mean_of_present

_LEVEL = 0.99
_PLAIN = 0.05
"""Minimum distance from one half at which a share is reported."""


@dataclass(frozen=True)
class Sides:
    """Share of left choices over all judges, and for each judge that has a significant position bias.

    ``plain``: whether ``share`` differs significantly from one half. ``known``: whether the systems of pairs are known.
    """

    share: float
    plain: bool
    judges: Mapping[int, float]
    known: bool


def sides_of(values: Array, middle: float, systems: Sequence[tuple[str, str] | None]) -> Sides | None:
    """Find the judges with position bias; return None if there is no evidence of position bias.

    A score above ``middle`` favours the left answer. ``systems`` holds the (left, right) systems of each pair, or None.
    """
    chosen = np.where(np.isnan(values) | (values == middle), np.nan, values > middle)
    plain = 1.0 - (1.0 - _LEVEL) / values.shape[1]
    shares = {j: _share(column, systems, plain) for j, column in enumerate(chosen.T)}
    judges = {j: share for j, (share, off) in shares.items() if off}
    together, all_plain = _share(mean_of_present(chosen, axis=1), systems, _LEVEL)
    return Sides(together, all_plain, judges, any(systems)) if judges or all_plain else None


def always_left(systems: Sequence[tuple[str, str] | None]) -> str | None:
    """Return the system that is on the left in every pair, if all pairs compare the same two systems; else None."""
    orders = {pair for pair in systems if pair is not None and pair[0] != pair[1]}
    return orders.pop()[0] if len(orders) == 1 else None


def _share(chosen: Array, systems: Sequence[tuple[str, str] | None], level: float) -> tuple[float, bool]:
    """Return the share of left choices and whether it differs from .5; NaN if too few pairs appear in both orders."""
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


def reason_of_sides(sides: Sides, judges: Sequence[str]) -> Reason:
    """Return the verdict's reason about position bias."""
    side, share = ("left", sides.share) if sides.share > 0.5 else ("right", 1.0 - sides.share)
    who = tuple(judges[j] for j, own in sides.judges.items() if not sides.plain or (own > 0.5) == (side == "left"))
    message = f"Some judges seem to have a position bias towards the left or right answer: {listed(who, MOST_NAMED)}"
    if sides.plain:
        message = f"The judges choose the {side} answer in {100 * share:.0f} % of the pairs"
        message += f" ({len(who)} of {len(judges)} judges significantly more often)"
    why = "each system was in both positions" if sides.known else "a bias, unless better answers are in that position"
    shares = ", ".join(f"{judges[j]} {100 * own:.0f} %" for j, own in sides.judges.items())
    detail = f"Share of choices for the left answer: {shares or 'no single judge differs significantly from 50 %'}."
    return Reason("followed", f"{message}; {why}.", who, detail)
