"""Pairwise items as a fit is told of them."""

from collections.abc import Sequence


def pairs_of(
    item_ids: Sequence[str], named: Sequence[tuple[str, ...] | None], units: Sequence[str]
) -> dict[str, tuple[str, str, str]]:
    """Left and right system and split unit, by item; empty where items name one system or none."""
    return {
        item: (names[0], names[1], unit)
        for item, names, unit in zip(item_ids, named, units, strict=True)
        if names is not None and len(names) == 2
    }
