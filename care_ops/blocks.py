"""Functions that process many items in blocks of rows, to keep intermediate arrays in the processor's cache."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BLOCK_ROWS = 16_384
"""Number of rows in a block; with twenty judges, a block takes 2.6 MB. Fewer items form one block."""


def blocks(items: int) -> Iterator[slice]:
    """Divide the rows into blocks, and yield the slice of each block in order."""
    for start in range(0, items, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, items))


def by_rows(function: Callable[..., Array], *arrays: NDArray[Any]) -> Array:
    """Apply a function to arrays block by block; each result row must depend only on the same row of the arrays.

    Parameters
    ----------
    function : callable
        Function that takes a block of each array and returns an array with as many rows as the block.
    arrays : (n, ...) arrays
        Arrays of any numeric type.
    """
    items = len(arrays[0])
    if items <= BLOCK_ROWS:
        return function(*arrays)
    return np.concatenate([function(*(array[rows] for array in arrays)) for rows in blocks(items)])


def columns(values: Array) -> Iterator[Array]:
    """Yield a contiguous copy of each column of a matrix."""
    for j in range(values.shape[1]):
        yield values[:, j].copy()


def by_columns(function: Callable[[Array], Array], values: Array) -> Array:
    """Apply a length-preserving function to each column, and return an array of shape (n, p)."""
    out = np.empty(values.shape)
    for j, column in enumerate(columns(values)):
        out[:, j] = function(column)
    return out
