"""Graded answers of many judges, as a sparse matrix of indicators."""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from care_ops.scores import Array

MOST_LEVELS = 10
"""Maximum number of distinct scores that are used as grades; more scores are binned."""


class Answers:
    """Indicator matrix of the answers of p judges to n items, with one column for each judge and grade.

    Parameters
    ----------
    grades : (n, p) array of int
        Grades 0, 1, ..., ``classes`` - 1; -1 marks a missing answer.
    classes : int
        Number of classes and of grades.

    Attributes
    ----------
    items, judges, classes : int
        Numbers of items, judges and classes.
    owner : (p * classes,) array of int
        Judge of each column; columns are sorted by judge and then by grade.
    """

    def __init__(self, grades: NDArray[np.intp], classes: int) -> None:
        (self.items, self.judges), self.classes = grades.shape, classes
        self.owner = np.repeat(np.arange(self.judges), classes)
        present = grades >= 0
        columns = (grades + classes * np.arange(self.judges))[present]
        starts = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
        shape = (self.items, len(self.owner))
        self._given = csr_array((np.ones(len(columns)), columns, starts), shape=shape)

    def joint(self, by_column: Array) -> Array:
        """Sum, for each item, the rows of ``by_column`` (columns, k) that belong to its answers; shape (n, k)."""
        return self._given @ by_column

    def counts(self, weights: Array) -> Array:
        """Sum, for each column, the rows of ``weights`` (n, k) of the items that got its answer; shape (columns, k)."""
        return self._given.T @ weights

    def together(self) -> Array:
        """Count, for each pair of columns, the items that got both answers; shape (columns, columns)."""
        return (self._given.T @ self._given).toarray()

    def of_rows(self, rows: NDArray[np.intp]) -> Answers:
        """Return the answers to the items in ``rows``."""
        some = copy(self)
        some.items, some._given = len(rows), self._given[rows]
        return some

    def by_judge(self, by_column: Array) -> Array:
        """Sum the rows of an array over the columns of each judge; from shape (columns, ...) to (p, ...)."""
        return by_column.reshape(self.judges, self.classes, *by_column.shape[1:]).sum(axis=1)

    def own_class(self) -> Array:
        """Return 1 where the grade of a column equals the class, else 0; shape (columns, classes)."""
        return np.tile(np.eye(self.classes), (self.judges, 1))


def softmax(joint: Array) -> tuple[Array, Array]:
    """Compute the softmax, shape (n, k), and the log-sum-exp, shape (n,), of each row of ``joint``.

    The array is transposed first, because numpy sums over axis 0 three times as fast as over axis 1.
    """
    columns = np.ascontiguousarray(joint.T)
    top = columns.max(axis=0)
    shifted = np.exp(columns - top)
    total = shifted.sum(axis=0)
    return np.ascontiguousarray((shifted / total).T), top + np.log(total)
