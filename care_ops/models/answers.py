"""Graded answers of many judges, packed so that EM over them is a few table lookups.

A model in which judges answer independently given a class needs, in every iteration, the sum over judges of
log P(answer | class) by item, and the expected number of each answer by class. Answers of several judges together
make one code, so that both take a lookup or a count for each *group* of judges instead of each judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from care_ops.blocks import blocks
from care_ops.scores import Array

MOST_LEVELS = 10
"""Number of different scores up to which a judge counts as graded."""

_FEW_COLUMNS = 7
"""Columns up to which numpy adds the numbers of a row one after the other, so that adding whole columns, which is three
times as fast, gives the same sums."""

_MOST_PATTERNS = 4096
"""Most patterns of the answers of a group of judges, so that its table stays in the processor's cache."""


class Answers:
    """Answers of p judges to n items.

    Parameters
    ----------
    grades : (n, p) array of int
        0, 1, ...; -1 is missing.
    levels : sequence of p int
        Number of grades that each judge may give.

    Attributes
    ----------
    items : int
    owner : (sum of levels,) array of int
        The judge of each column: judges in order, the grades of each in order.
    grade : (sum of levels,) array of int
        The grade of each column.
    """

    def __init__(self, grades: NDArray[np.intp], levels: Sequence[int]) -> None:
        self.items, p = grades.shape
        self._levels = np.asarray(levels, dtype=np.intp)
        self.owner = np.repeat(np.arange(p), self._levels)
        self.grade = np.concatenate([np.arange(k) for k in self._levels])
        self._groups = [_Group(grades, self._levels, first, last) for first, last in _split(self._levels)]

    def joint(self, by_column: Array) -> Array:
        """Sum over the answers present of ``by_column`` (columns, k), by item; shape (n, k)."""
        total = np.zeros((self.items, by_column.shape[1]))
        for group in self._groups:
            total += np.take(group.design @ by_column[group.columns], group.code, axis=0)
        return total

    def counts(self, weights: Array) -> Array:
        """Sum of ``weights`` (n, k) over the items with each answer; shape (columns, k)."""
        out = np.empty((len(self.owner), weights.shape[1]))
        columns = np.ascontiguousarray(weights.T)
        for group in self._groups:
            size = len(group.design)
            by_pattern = np.column_stack([np.bincount(group.code, w, size) for w in columns])
            out[group.columns] = group.design.T @ by_pattern
        return out

    def indicators(self, rows: slice = slice(None)) -> Array:
        """Return 1 if the item has the answer, else 0; shape (n, columns), or for some rows."""
        return np.concatenate([group.design[group.code[rows]] for group in self._groups], axis=1)

    def together(self) -> Array:
        """Count the items that have both of two answers, (columns, columns)."""
        count = np.zeros((len(self.owner), len(self.owner)))
        for rows in blocks(self.items):
            has = self.indicators(rows)
            count += has.T @ has
        return count

    def of_rows(self, rows: NDArray[np.intp]) -> Answers:
        """Return the answers to some items, with the columns of all."""
        some = copy(self)
        some.items, some._groups = len(rows), [group.of_rows(rows) for group in self._groups]
        return some

    def normalise(self, counts: Array) -> Array:
        """Each judge's columns over their sum: P(answer | class)."""
        totals = np.zeros((len(self._levels), counts.shape[1]))
        np.add.at(totals, self.owner, counts)
        return counts / totals[self.owner]


class _Group:
    """Judges ``first`` to ``last``: one code by item, and which columns each code stands for."""

    def __init__(self, grades: NDArray[np.intp], levels: NDArray[np.intp], first: int, last: int) -> None:
        before = int(levels[:first].sum())
        self.columns = slice(before, before + int(levels[first:last].sum()))
        sizes = levels[first:last] + 1
        self.code = np.zeros(len(grades), dtype=np.intp)
        for j, size in zip(range(first, last), sizes, strict=True):
            self.code = self.code * size + (grades[:, j] + 1)
        pattern = np.array(np.unravel_index(np.arange(int(np.prod(sizes))), sizes)).T
        self.design = np.concatenate(
            [(pattern[:, [k]] == np.arange(1, size)).astype(np.float64) for k, size in enumerate(sizes)], axis=1
        )

    def of_rows(self, rows: NDArray[np.intp]) -> _Group:
        """Return the group on some items."""
        some = copy(self)
        some.code = self.code[rows]
        return some


def _split(levels: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Split the judges into runs whose answers together form at most ``_MOST_PATTERNS`` patterns."""
    runs: list[tuple[int, int]] = []
    first, patterns = 0, 1
    for j, size in enumerate(levels + 1):
        if j > first and patterns * int(size) > _MOST_PATTERNS:
            runs.append((first, j))
            first, patterns = j, 1
        patterns *= int(size)
    runs.append((first, len(levels)))
    return runs


def softmax(joint: Array) -> tuple[Array, Array]:
    """exp(joint) with rows adding to one, (n, k), and the log of what they added to, (n,)."""
    if joint.shape[1] <= _FEW_COLUMNS:
        columns = np.ascontiguousarray(joint.T)
        top = columns.max(axis=0)
        shifted = np.exp(columns - top)
        total = shifted.sum(axis=0)
        return np.ascontiguousarray((shifted / total).T), top + np.log(total)
    top = joint.max(axis=1, keepdims=True)
    shifted = np.exp(joint - top)
    total = shifted.sum(axis=1, keepdims=True)
    return shifted / total, (top + np.log(total))[:, 0]
