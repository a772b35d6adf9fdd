"""Work on many items some rows at a time, so that what is made on the way stays in the cache.

Arrays of a million items that are made only to be summed cost more than the sums: the system clears their memory
each time.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BLOCK_ROWS = 16_384
"""Rows of a block: those of twenty judges are 2.6 MB. Fewer items than that are one block."""

_TOGETHER = 8
"""Columns that are taken at once: a line of the cache brings eight numbers of a row."""


def blocks(items: int) -> Iterator[slice]:
    """Iterate over the rows of each block, in order."""
    for start in range(0, items, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, items))


def by_rows(function: Callable[..., Array], *arrays: NDArray[Any]) -> Array:
    """Apply ``function`` to the arrays block by block; its value for an item must depend on the item's rows only.

    Parameters
    ----------
    function : callable
        Takes a block of each array and gives one with as many rows.
    arrays : (n, ...) arrays
        Of any type of number.
    """
    items = len(arrays[0])
    if items <= BLOCK_ROWS:
        return function(*arrays)
    return np.concatenate([function(*(array[rows] for array in arrays)) for rows in blocks(items)])


def columns(values: Array) -> Iterator[Array]:
    """Each column, contiguous in memory; whoever keeps one beyond the next step copies it."""
    for _, several in _several(values):
        yield from several


def by_columns(function: Callable[[Array], Array], values: Array) -> Array:
    """Apply ``function`` to each column, which returns a column of the same length; shape (n, p)."""
    out = np.empty(values.shape)
    for where, several in _several(values):
        for column in several:
            column[:] = function(column)
        out[:, where] = several.T
    return out


def _several(values: Array) -> Iterator[tuple[slice, Array]]:
    """Iterate over some columns at a time: their places, and a copy as rows in memory that is used again each time."""
    width = values.shape[1]
    memory = np.empty((min(_TOGETHER, width), len(values)))
    for first in range(0, width, _TOGETHER):
        where = slice(first, min(first + _TOGETHER, width))
        several = memory[: where.stop - first]
        several[...] = values[:, where].T
        yield where, several
