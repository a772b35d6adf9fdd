"""Outliers in a table of scores: codes for missing values, such as -99, and typos."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import listed
from care_ops.minimum_sizes import MIN_SCORES_TO_DESCRIBE
from care_ops.scales import SIZES, RescaledJudge, Scale, to_common_scale
from care_ops.scores import Array, ScoreMatrix
from care_ops.sparsity import scales_are_unlike

Chosen = NDArray[np.bool_]

_MOST = 0.1
"""Maximum share of outliers among a judge's scores; if there are more, none of them counts as an outlier."""

_CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0)
"""Common codes for a missing answer in numeric tables."""

_UNLIKE = (
    "the judges use different scales that CARE cannot infer, so `avg` and other means mix units; declare each judge's "
    "scale with --scale JUDGE=LOW:HIGH"
)

_TIMES, _UPWARDS = 5.0, 50.0
"""Minimum size of an outlier above a usual scale: as a multiple of the scale's maximum, and as an absolute value."""

_WIDTHS = 50.0
"""Minimum distance of an outlier from the middle 90 % of a judge's numbers, in widths of that range, if no scale fits.
With heavy tails (Student's t with two degrees of freedom) fewer than one number in ten thousand lies beyond."""


@dataclass(frozen=True)
class Outliers:
    """Scores of a judge that count as missing, with the range of the judge's other scores."""

    judge: str
    numbers: tuple[float, ...]
    count: int
    scores: int
    lowest: float
    highest: float

    @property
    def sentence(self) -> str:
        """Message to the user about the scores that count as missing."""
        numbers = listed([f"{number:,.10g}" for number in self.numbers], 3)
        option = shlex.quote(f"{self.judge}=LOW:HIGH")
        return (
            f"judge {self.judge!r}: {self.count:,} of {self.scores:,} scores count as missing, because they lie far "
            f"outside its other scores ({self.lowest:g} to {self.highest:g}): {numbers}; if valid, add --scale {option}"
        )


def on_one_scale(
    scores: ScoreMatrix, scale: Scale | None, declared: Mapping[str, Scale]
) -> tuple[ScoreMatrix, tuple[RescaledJudge, ...], list[str]]:
    """Rescale scores to the panel's scale; without a declared scale, remove outliers first.

    Also returns each judge's conversion, and messages about all changes. Raises the same errors as ``to_common_scale``.
    """
    scores, outliers = without_outliers(scores, declared) if scale is None else (scores, ())
    scores, rescaled = to_common_scale(scores, scale, declared)
    sentences = [change.sentence for change in (*outliers, *rescaled)]
    return scores, rescaled, sentences + ([_UNLIKE] if scales_are_unlike(scores.values) else [])


def without_outliers(scores: ScoreMatrix, declared: Mapping[str, Scale]) -> tuple[ScoreMatrix, tuple[Outliers, ...]]:
    """Set outliers to missing, except those of judges in ``declared``; return the scores and each judge's outliers.

    An outlier is rare and lies far outside the judge's other scores. If the others fit a scale with maximum 1, 10 or
    100, an outlier exceeds both 50 and five times this maximum, or is a negative code such as -99 among whole grades.
    Otherwise, its distance from the middle 90 % of the scores exceeds fifty times the width of this interval. A maximum
    of 100 for most judges also applies to judges with smaller scores: a single 100 among zeros is then valid.

    Examples
    --------
    >>> import numpy as np
    >>> grades = np.tile(np.arange(1.0, 11.0), 3)
    >>> grades[4] = 99
    >>> scores = ScoreMatrix(grades[:, None], tuple(f"i{k}" for k in range(30)), ("gpt",))
    >>> print(without_outliers(scores, {})[1][0].sentence)  # doctest: +NORMALIZE_WHITESPACE
    judge 'gpt': 1 of 30 scores count as missing, because they lie far outside its other scores (1 to 10): 99;
    if valid, add --scale gpt=LOW:HIGH
    """
    columns = {
        judge: np.ascontiguousarray(scores.values[:, j])
        for j, judge in enumerate(scores.judges)
        if judge not in declared
    }
    sizes = {judge: _size(column) for judge, column in columns.items()}
    usual = float(np.median([size for size in sizes.values() if size is not None] or [SIZES[0]]))
    outliers: list[Outliers] = []
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
        outliers.append(Outliers(judge, values_found, int(far.sum()), count, float(rest.min()), float(rest.max())))
    if not outliers:
        return scores, ()
    return ScoreMatrix(values, scores.item_ids, scores.judges, scores.families, scores.features), tuple(outliers)


def _size(column: Array) -> float | None:
    """Return the maximum of the smallest scale in ``SIZES`` that fits all scores except outliers, or None."""
    low, high = np.fmin.reduce(column, initial=np.inf), np.fmax.reduce(column, initial=-np.inf)
    for size in SIZES:
        if low >= 0 and high <= size:  # nothing lies beyond
            return size
        rest = column[~_beyond(column, size) & ~np.isnan(column)]
        if not len(rest) or (rest.min() >= 0 and rest.max() <= size):
            return size
    return None


def _beyond(column: Array, size: float) -> Chosen:
    above = column[(column >= 0) & (column <= size)]
    grades = (above == np.round(above)).all()
    codes = _CODES if grades and above.max(initial=0.0) > 1 else _CODES[1:]  # of votes, -1 may be the third
    coded = grades and np.isin(column[column < 0], codes).all()
    return (column > max(_TIMES * size, _UPWARDS)) | (column < (0 if coded else -_TIMES * size))


def _far_off(column: Array) -> Chosen:
    low, high = np.nanquantile(column, (0.05, 0.95))
    return np.maximum(low - column, column - high) > (_WIDTHS * (high - low) if high > low else np.inf)
