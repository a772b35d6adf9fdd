"""Outliers in a table of scores: codes for missing values, and typing errors."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import listed
from care_ops.minimum_sizes import MIN_SCORES_TO_DESCRIBE
from care_ops.scales import SIZES, Brought, Scale, brought_to_one_scale
from care_ops.scores import Array, ScoreMatrix
from care_ops.sparsity import scales_are_unlike

Chosen = NDArray[np.bool_]

_MOST = 0.1
"""Maximum share of a judge's scores that count as outliers; more of them are its way of scoring."""

_CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0)
"""Common codes for a missing answer in numeric tables."""

_UNLIKE = (
    "judges score on unlike scales that their ranges do not tell, so that means, units and `avg` mix them; --scale "
    "JUDGE=LOW:HIGH declares one"
)

_TIMES, _UPWARDS = 5.0, 50.0
"""A number is no slip among grades that is not beyond five times their greatest, and upwards beyond 50."""

_WIDTHS = 50.0
"""So many times the width of the middle nine tenths of a judge's numbers, where they are on no usual scale: of heavy
tails (Student's t with two degrees of freedom) not one in ten thousand lies beyond."""


@dataclass(frozen=True)
class Outliers:
    """Numbers of a judge that are treated as missing."""

    judge: str
    numbers: tuple[float, ...]
    count: int
    scores: int
    lowest: float
    highest: float

    @property
    def sentence(self) -> str:
        """Describe the treatment of the outliers, for a person to check."""
        numbers = listed([f"{number:,.10g}" for number in self.numbers], 3)
        option = shlex.quote(f"{self.judge}=LOW:HIGH")
        return (
            f"judge {self.judge!r}: outside of its other scores, {self.lowest:g} to {self.highest:g}, are "
            f"{numbers} ({self.count:,} of {self.scores:,}): taken as missing; --scale {option} declares its scale"
        )


def on_one_scale(
    scores: ScoreMatrix, scale: Scale | None, declared: Mapping[str, Scale]
) -> tuple[ScoreMatrix, tuple[Brought, ...], list[str]]:
    """Rescale scores to the panel's scale; without a declared scale, remove outliers first.

    Also returns the rescaled judges, and sentences about all changes.

    Raises ``InputError`` as ``brought_to_one_scale`` does.
    """
    scores, outliers = without_outliers(scores, declared) if scale is None else (scores, ())
    scores, brought = brought_to_one_scale(scores, scale, declared)
    sentences = [one.sentence for one in (*outliers, *brought)]
    return scores, brought, sentences + ([_UNLIKE] if scales_are_unlike(scores.values) else [])


def without_outliers(scores: ScoreMatrix, declared: Mapping[str, Scale]) -> tuple[ScoreMatrix, tuple[Outliers, ...]]:
    """Set outliers to missing; return the scores and the judges of the outliers.

    An outlier lies far outside of all other scores of its judge. On a usual scale (shares, grades, per cent) it is more
    than five times the greatest score or, among whole grades, a code below 0 for a missing answer; elsewhere it is
    fifty times as far away as the judge's other scores are from each other. Frequent values are not outliers. Nor is a
    100 of a judge that otherwise gives 0, if other judges use the whole scale from 0 to 100.

    Examples
    --------
    >>> import numpy as np
    >>> grades = np.tile(np.arange(1.0, 11.0), 3)
    >>> grades[4] = 99
    >>> scores = ScoreMatrix(grades[:, None], tuple(f"i{k}" for k in range(30)), ("gpt",))
    >>> print(without_outliers(scores, {})[1][0].sentence)  # doctest: +NORMALIZE_WHITESPACE
    judge 'gpt': outside of its other scores, 1 to 10, are 99 (1 of 30): taken as missing;
    --scale gpt=LOW:HIGH declares its scale
    """
    columns = {
        judge: np.ascontiguousarray(scores.values[:, j])
        for j, judge in enumerate(scores.judges)
        if judge not in declared
    }
    sizes = {judge: _size(column) for judge, column in columns.items()}
    usual = float(np.median([size for size in sizes.values() if size is not None] or [SIZES[0]]))
    found: list[Outliers] = []
    values = scores.values
    for judge, column in columns.items():
        size = sizes[judge]
        far = _far_off(column) if size is None else _beyond(column, max(size, usual))
        rest = column[~far & ~np.isnan(column)]
        count = int(far.sum()) + len(rest)
        if not far.any() or far.sum() > _MOST * count or count < MIN_SCORES_TO_DESCRIBE or rest.min() == rest.max():
            continue
        values = values.copy() if values is scores.values else values
        values[far, scores.judges.index(judge)] = np.nan
        values_found = tuple(np.unique(column[far])[::-1].tolist())
        found.append(Outliers(judge, values_found, int(far.sum()), count, float(rest.min()), float(rest.max())))
    if not found:
        return scores, ()
    return ScoreMatrix(values, scores.item_ids, scores.judges, scores.families, scores.features), tuple(found)


def _size(column: Array) -> float | None:
    """Return the top of the smallest common scale that holds all but a judge's outliers; None if there is none.

    A judge without numbers is on the smallest scale.
    """
    low, high = np.fmin.reduce(column, initial=np.inf), np.fmax.reduce(column, initial=-np.inf)
    for size in SIZES:
        if low >= 0 and high <= size:  # nothing lies beyond
            return size
        rest = column[~_beyond(column, size) & ~np.isnan(column)]
        if not len(rest) or (rest.min() >= 0 and rest.max() <= size):
            return size
    return None


def _beyond(column: Array, size: float) -> Chosen:
    """Find numbers (n,) that are not scores on a scale from 0 to ``size``."""
    above = column[(column >= 0) & (column <= size)]
    grades = (above == np.round(above)).all()
    codes = _CODES if grades and above.max(initial=0.0) > 1 else _CODES[1:]  # of votes, -1 may be the third
    coded = grades and np.isin(column[column < 0], codes).all()
    return (column > max(_TIMES * size, _UPWARDS)) | (column < (0 if coded else -_TIMES * size))


def _far_off(column: Array) -> Chosen:
    """Find numbers (n,) that are far from the other scores of a judge without a usual scale."""
    low, high = np.nanquantile(column, (0.05, 0.95))
    return np.maximum(low - column, column - high) > (_WIDTHS * (high - low) if high > low else np.inf)
