"""Scales of judges, and conversion of their scores to the common scale of a panel."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from care_ops.errors import InputError, listed
from care_ops.minimum_sizes import MIN_SCORES, MIN_SCORES_TO_DESCRIBE
from care_ops.scores import Array, ScoreMatrix

Scale = tuple[float, float]
"""Lowest and highest score that a judge can give; the highest first if a low score is good."""

SIZES = (1.0, 10.0, 100.0)
"""Highest scores of the three scales that a range can identify: shares, grades and percentages."""

_ROUNDING = 1e-6
"""Maximum distance of a score outside a scale, as a share of the scale, that counts as a rounding error."""

_STRAY = 0.01
"""Maximum share of scores above 1 that may be typing errors of a judge that gives shares."""

_GRADES = (3.0, 4.0, 5.0, 7.0, 10.0)

_LARGER = 2.0
"""Minimum ratio of a judge's highest grade to that of most judges at which the judge uses a larger scale."""


def on_scale(values: Array, scale: Scale) -> Array:
    """Replace scores outside a scale by NaN; a score outside by at most a rounding error becomes the limit."""
    low, high = sorted(scale)
    beyond = _ROUNDING * (high - low)
    return np.where((values < low - beyond) | (values > high + beyond), np.nan, np.clip(values, low, high))


@dataclass(frozen=True)
class RescaledJudge:
    """Conversion of a judge's scores from its own scale to the panel's scale."""

    judge: str
    own: Scale
    panel: Scale
    is_declared: bool

    def __call__(self, values: Array) -> Array:
        """Return the scores on the panel's scale, with NaN for scores outside the judge's own scale."""
        (low, high), (panel_low, panel_high) = self.own, self.panel
        inside = on_scale(values, self.own)
        return panel_low + (inside - low) * ((panel_high - panel_low) / (high - low))

    @property
    def sentence(self) -> str:
        """Message to the user about the conversion."""
        option = shlex.quote(f"{self.judge}=LOW:HIGH")
        wrong = f"; if this is wrong, add --scale {option} (`scales` in YAML and Python)"
        how, remedy = ("declared", "") if self.is_declared else ("inferred", wrong)
        return (
            f"judge {self.judge!r} uses the scale {_words(self.own)} ({how}): its scores are rescaled to the panel's "
            f"scale, {_words(self.panel)}{remedy}"
        )


def to_common_scale(
    scores: ScoreMatrix, scale: Scale | None = None, declared: Mapping[str, Scale] | None = None
) -> tuple[ScoreMatrix, tuple[RescaledJudge, ...]]:
    """Convert all scores to the panel's scale; return the scores and the conversion of each converted judge.

    Parameters
    ----------
    scale : (low, high), optional
        Scale of the panel; by default it is inferred from the ranges of most judges.
    declared : mapping judge -> (low, high), optional
        Scales of single judges. The scale of any other judge is inferred from its range if the range clearly belongs to
        a scale other than the panel's (for example, 0 to 100 on a panel that uses 1 to 5).

    Raises
    ------
    InputError
        A scale is declared for a judge without scores, or the panel's scale is unknown.
    """
    declared = dict(declared or {})
    unknown = sorted(set(declared) - set(scores.judges))
    if unknown:
        raise InputError(
            f"a scale is declared for {unknown[0]!r}, which is not a judge; choose from {listed(scores.judges)}"
        )
    columns = {judge: column[~np.isnan(column)] for judge, column in zip(scores.judges, scores.values.T, strict=True)}
    undeclared = {judge: column for judge, column in columns.items() if judge not in declared}
    panel = scale or _scale_of_most(undeclared)
    if panel is None and declared:
        panel = _one_of(declared, columns)
    if panel is None:
        return scores, ()
    by_range = {
        j: own for j, column in undeclared.items() if (own := _of_another_kind(column, panel, scale)) is not None
    }
    rescaled = tuple(
        RescaledJudge(judge, own, panel, judge in declared)
        for judge, own in (declared | by_range).items()
        if own != panel
    )
    return rescale(scores, rescaled), rescaled


def rescale(scores: ScoreMatrix, rescaled: Sequence[RescaledJudge]) -> ScoreMatrix:
    """Rescale the judges in ``rescaled`` to the panel's scale; return ``scores`` itself if no judge changes."""
    place = {judge: j for j, judge in enumerate(scores.judges)}
    present = [conversion for conversion in rescaled if conversion.judge in place]
    if not present:
        return scores
    values = scores.values.copy()
    for convert in present:
        values[:, place[convert.judge]] = convert(values[:, place[convert.judge]])
    return ScoreMatrix(values, scores.item_ids, scores.judges, scores.families)


def scale_of_grades(scores: ScoreMatrix) -> Scale | None:
    """Return the common scale of all scores if the scores are whole or half grades, else None."""
    columns = {judge: column[~np.isnan(column)] for judge, column in zip(scores.judges, scores.values.T, strict=True)}
    kinds = {_kind(column) for column in columns.values()}
    highest = [column.max(initial=0.0) for column in columns.values()]
    alike = len(kinds) == 1 and None not in kinds and 2 * min(highest) > max(highest)
    return _scale_of_most(columns) if alike and not (2 * scores.values % 1 > 0).any() else None


def share_scale(values: Array) -> bool:
    """Return whether judges use the same scale: the median of their ranges is at least half the range of all scores.

    Parameters
    ----------
    values : (n, p) array
        Scores, with NaN for missing ones; each judge has at least one score.
    """
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    return bool(np.median(high - low) >= 0.5 * (high.max() - low.min()))


def _one_of(declared: Mapping[str, Scale], columns: Mapping[str, Array]) -> Scale:
    rest = [judge for judge in columns if judge not in declared]
    if rest:
        raise InputError(
            f"the scales of {listed(sorted(declared), 5)} are declared, but CARE cannot infer the scale of the other "
            "judges; declare the panel's scale too (--scale 1 10, or `scale: [1, 10]` of the test set)"
        )
    low, high = sorted(Counter(declared.values()).most_common(1)[0][0])
    return low, high


def _kind(column: Array) -> float | None:
    if len(column) < MIN_SCORES or column.min() < 0:
        return None
    highest = column.max()
    beyond = column > 1.0 + _ROUNDING
    if not beyond.any() or (len(column) >= MIN_SCORES_TO_DESCRIBE and beyond.mean() < _STRAY):
        return 1.0
    if highest <= 10:
        return 10.0
    # mostly above ten, because a single typing error among grades does not make them per cent
    return 100.0 if 50 < highest <= 100 and np.median(column) > 10 else None


def _scale_of_most(columns: Mapping[str, Array]) -> Scale | None:
    telling = {judge: column for judge, column in columns.items() if len(column) >= MIN_SCORES}
    kinds = {judge: _kind(column) for judge, column in telling.items()}
    for size in SIZES:
        own = [telling[judge] for judge, kind in kinds.items() if kind == size]
        if 2 * len(own) > len(telling):
            usual = float(np.median([c.max() for c in own]))
            alike = [c for c in own if size != 10.0 or c.max() < _LARGER * usual]
            return _ends(size, min(float(c.min()) for c in alike), max(float(c.max()) for c in alike))
    return None


def _of_another_kind(column: Array, panel: Scale, declared: Scale | None) -> Scale | None:
    """Infer the scale of a judge whose scores clearly lie on a scale other than the panel's; None for other judges.

    A scale smaller than the panel's is inferred from at least ``MIN_SCORES_TO_DESCRIBE`` scores. It is not inferred if
    all scores are whole numbers and most lie on the declared panel scale, because the judge may be severe.
    """
    size = _kind(column)
    of_panel = next((s for s in SIZES if panel[0] >= 0 and panel[1] <= s), None)
    is_larger = size == of_panel == 10.0 and declared is None and column.max() >= _LARGER * panel[1]
    if size is None or of_panel is None or (size == of_panel and not is_larger):
        return None
    if size < of_panel:
        severe = declared is not None and np.mean(column >= declared[0]) > 0.5 and np.all(column % 1 == 0)
        if len(column) < MIN_SCORES_TO_DESCRIBE or severe:
            return None
    return _ends(size, float(column.min()), float(column.max()))


def _ends(size: float, lowest: float, highest: float) -> Scale:
    if size != 10.0:
        return 0.0, size
    return float(lowest >= 1), min(end for end in _GRADES if end >= highest)


def _words(scale: Scale) -> str:
    return f"{scale[0]:g} to {scale[1]:g}"
