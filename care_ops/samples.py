"""Samples of items for summaries of panels and for starting points of iterations.

Estimates, weights and decisions use all items. If there are more than ``MOST_ITEMS`` items, summaries that people read,
the search for starting points and the function that scores new items (``frozen``) use a sample.
"""

import numpy as np
from numpy.typing import NDArray

MOST_ITEMS = 50_000
"""Maximum number of items in a sample. A correlation over 50,000 items has a standard error of at most .0045. Printed
correlations have two decimals, so this error is less than half a unit of the last digit."""


def is_sampled(items: int) -> bool:
    """Return whether summaries of a panel with this number of items use a sample of the items."""
    return items > MOST_ITEMS


def sampled_rows(items: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw a simple random sample of at most ``MOST_ITEMS`` rows, in ascending order.

    With fewer items, all rows are returned, and the generator is not used.
    """
    if not is_sampled(items):
        return np.arange(items)
    return np.sort(rng.choice(items, MOST_ITEMS, replace=False, shuffle=False))


def spread_rows(items: int, most: int) -> NDArray[np.intp]:
    """Return the indices of at most ``most`` evenly spaced rows, in ascending order; empty if there are no items."""
    return np.unique(np.linspace(0, items - 1, most).astype(np.intp)) if items else np.arange(0)
