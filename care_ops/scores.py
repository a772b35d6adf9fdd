"""Score matrix: the input of every estimator."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from care_ops.blocks import Array, blocks
from care_ops.errors import InputError, listed

_LARGEST = 1e75  # the cube of a score, summed over the items, must be a number


@dataclass(frozen=True)
class ScoreMatrix:
    """Scores of p judges on n items; a missing score is NaN.

    Attributes
    ----------
    values : (n, p) array of float64
        Scores, finite or NaN.
    item_ids : tuple of str, length n
        Unique ids; rows are matched by these ids, never by position.
    judges : tuple of str, length p
        Unique names of the judges.
    families : mapping judge -> family
        Declared family of each judge (base model, vendor, prompt family). A judge without an entry has no family.
    features : mapping name -> (n,) array
        Observable properties of the items, such as the number of words; NaN if unknown.
    """

    values: Array
    item_ids: tuple[str, ...]
    judges: tuple[str, ...]
    families: Mapping[str, str] = field(default_factory=dict[str, str])
    features: Mapping[str, Array] = field(default_factory=dict[str, Array])

    def __post_init__(self) -> None:
        values = np.ascontiguousarray(self.values, dtype=np.float64)
        object.__setattr__(self, "values", values)
        if values.ndim != 2 or values.shape != (len(self.item_ids), len(self.judges)):
            raise InputError(
                f"scores: values have shape {values.shape}, but must have a row for each of {len(self.item_ids)} item "
                f"ids and a column for each of {len(self.judges)} judges"
            )
        for name, ids in (("item_id", self.item_ids), ("judge", self.judges)):
            if len(set(ids)) < len(ids):
                repeated = Counter(ids).most_common(1)[0][0]
                raise InputError(f"scores: {name} {repeated!r} occurs more than once; keep only one of them")
        highest, lowest = np.nanmax(values, initial=0.0), np.nanmin(values, initial=0.0)
        if max(highest, -lowest) > _LARGEST:
            row, column = map(int, np.argwhere(np.abs(values) > _LARGEST)[0])
            raise InputError(
                f"scores: the score of judge {self.judges[column]!r} on item {self.item_ids[row]!r} is infinite or "
                f"beyond {_LARGEST:g}; leave it empty if it stands for a missing score, or rescale the judge's scores"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of items and number of judges."""
        return len(self.item_ids), len(self.judges)

    def canonical(self) -> ScoreMatrix:
        """Return the same scores with items and judges in sorted order."""
        return self._canonical

    @cached_property
    def _canonical(self) -> ScoreMatrix:
        rows, columns = canonical_order(self.item_ids), canonical_order(self.judges)
        if all(np.array_equal(order, np.arange(len(order))) for order in (rows, columns)):
            return self
        return self._taken(self.values[np.ix_(rows, columns)], rows.tolist(), columns.tolist())

    def _taken(self, values: Array, rows: Sequence[int], columns: Sequence[int]) -> ScoreMatrix:
        """Select rows and columns, each at most once, without validating the scores again."""
        taken = object.__new__(ScoreMatrix)
        object.__setattr__(taken, "values", np.ascontiguousarray(values))
        object.__setattr__(taken, "item_ids", tuple([self.item_ids[i] for i in rows]))
        object.__setattr__(taken, "judges", tuple([self.judges[j] for j in columns]))
        object.__setattr__(taken, "families", self.families)
        object.__setattr__(taken, "features", {name: feature[rows] for name, feature in self.features.items()})
        return taken

    def select_judges(self, judges: Sequence[str]) -> ScoreMatrix:
        """Select judges by name, in the order of ``judges``; raise ``InputError`` if a judge is not in the matrix."""
        index = {judge: j for j, judge in enumerate(self.judges)}
        unknown = [judge for judge in judges if judge not in index]
        if unknown:
            raise InputError(f"scores: there is no judge {unknown[0]!r}; choose from {listed(self.judges)}")
        if tuple(judges) == self.judges:
            return self
        columns = [index[judge] for judge in judges]
        return replace(self, values=self.values[:, columns], judges=tuple(judges))

    def select_items(self, keep: NDArray[np.bool_] | NDArray[np.intp]) -> ScoreMatrix:
        """Select items by a boolean mask (n,) or by positions."""
        rows = np.flatnonzero(keep) if keep.dtype == np.bool_ else keep
        return self._taken(self.values[rows], rows.tolist(), range(len(self.judges)))

    def fingerprint(self) -> str:
        """Return a hash of the content, independent of the order of items and judges."""
        if not self.features:
            return self.fingerprint_of_scores
        digest = hashlib.sha256(self.fingerprint_of_scores.encode())
        for name, feature in sorted(self.canonical().features.items()):
            digest.update(name.encode() + (feature + 0.0).tobytes())
        return digest.hexdigest()

    @cached_property
    def fingerprint_of_scores(self) -> str:
        """Hash of the scores, ids and families, without the features of the items."""
        canonical = self.canonical()
        if canonical is not self:
            return canonical.fingerprint_of_scores
        digest = hashlib.sha256()
        digest.update("\x1f".join(canonical.item_ids).encode())
        digest.update("\x1e".join(canonical.judges).encode())
        declared = [f"{j}\x1f{canonical.families.get(j, '')}" for j in canonical.judges]
        digest.update("\x1e".join(declared).encode())
        for rows in blocks(len(canonical.values)):  # without a copy of the whole matrix
            digest.update((canonical.values[rows] + 0.0).tobytes())  # + 0.0 turns -0.0 into 0.0
        return digest.hexdigest()


def content_seed(scores: ScoreMatrix) -> int:
    """Return a seed that depends on the scores but not on the order of items and judges."""
    return int(scores.fingerprint_of_scores[:16], 16)


def restore(values: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    """Reorder the first axis of ``values`` from canonical order to the caller's order."""
    out = np.empty_like(values)
    out[order] = values
    return out


def varies(values: Array) -> NDArray[np.bool_]:
    """Check for each judge whether the scores vary.

    The test compares minimum and maximum; the variance is unreliable, because the mean of equal numbers may be rounded.

    Parameters
    ----------
    values : (n, p) array, or (n,) for one judge
        Scores; NaN marks a missing score.
    """
    return np.fmax.reduce(values, axis=0, initial=-np.inf) > np.fmin.reduce(values, axis=0, initial=np.inf)


def correlation(x: Array, y: Array, *, at_least: int = 2) -> float:
    """Compute Pearson's correlation over common rows; NaN for fewer than ``at_least`` rows or a constant array."""
    both = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[both], y[both]
    if len(x) < at_least or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


def ranks(values: NDArray[Any], then: Callable[[Array], Array] = lambda ranks: ranks) -> Array:
    """Return the ranks (n,) of values, from 1; equal values share their mean rank, and a NaN makes all ranks NaN.

    Parameters
    ----------
    then : callable
        Function that transforms the ranks of the distinct values, for example to normal scores.
    """
    if np.isnan(values).any():
        return np.full(len(values), np.nan)
    order = np.argsort(values)
    ascending = values[order]
    first = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]])[: len(values)])
    count = np.diff(np.append(first, len(values)))
    out = np.empty(len(values))
    out[order] = np.repeat(then(first + (count + 1) / 2), count)
    return out


def mean_of_present(values: Array, axis: int = 0) -> Array:
    """Return the mean along an axis over the entries that are not NaN; NaN if there are none."""
    present = ~np.isnan(values)
    count = present.sum(axis=axis)
    return np.where(count > 0, np.where(present, values, 0.0).sum(axis=axis) / np.maximum(count, 1), np.nan)


def rows_of(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the row positions of each name, with names in order of first occurrence."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows


def canonical_order(names: Sequence[str]) -> NDArray[np.intp]:
    """Return the positions that sort ``names``."""
    return np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.intp)
