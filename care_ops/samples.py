"""Samples of items for descriptions and starts, which do not need all items.

Estimates of items, their weights and all decisions rest on every item. Descriptions that people read, and the search
for starting points of an iteration that ends on all items, rest on a sample where there are more items than this.
"""

import numpy as np
from numpy.typing import NDArray

MOST_ITEMS = 50_000
"""Most items of a sample. Where there are no more, all of them are used.

A correlation over so many has a standard error of at most 1 / sqrt(50,000) = .0045, and a share one of half of that:
less than half a unit of the second decimal, to which such numbers are printed.
"""


def is_sampled(items: int) -> bool:
    """Return whether a description of so many items rests on a sample."""
    return items > MOST_ITEMS


def sampled_rows(items: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw a sample of rows with equal probabilities, in rising order; return all rows up to ``MOST_ITEMS``.

    The generator is not used if all rows are returned.
    """
    if not is_sampled(items):
        return np.arange(items)
    return np.sort(rng.choice(items, MOST_ITEMS, replace=False, shuffle=False))


def spread_rows(items: int, most: int) -> NDArray[np.intp]:
    """Return at most ``most`` rows, spread evenly over all of them, in rising order; empty without items."""
    return np.unique(np.linspace(0, items - 1, most).astype(np.intp)) if items else np.arange(0)
