"""Admission of judges to a panel: the admission rule, and statistics that compare each judge with the others.

Low or negative agreement never excludes a judge, because on a confounded panel the best judge may disagree with the
others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten

import numpy as np
from numpy.typing import NDArray

from care_ops.blocks import columns
from care_ops.config import AdmissionRule
from care_ops.errors import counted, listed
from care_ops.minimum_sizes import MIN_SCORES_TO_DESCRIBE
from care_ops.records import JudgeCheck
from care_ops.scores import Array, ScoreMatrix, correlation, varies
from care_ops.sparsity import comparable, is_crowd

_STANDARD_ERRORS = 3.0
"""Maximum distance of an agreement from zero, in standard errors, that may be due to chance."""

_MOST_ALIKE, _MIN_ENTROPY = 0.95, 0.20
"""Maximum share of the most frequent score, and minimum entropy in bits, of a judge that is not degenerate."""

_MIN_RETURN, _MIN_RISE = 0.30, 0.25
"""Minimum agreement after realigning the rows, and minimum rise in agreement, to exclude a judge as misaligned.
Good judges reach this agreement. The minimum rise is several times as large as a rise by chance."""

_MIN_GAIN = 0.05
"""Smallest gain in agreement from shifting the rows that CARE reports."""

_MIN_AGREEMENT = 0.1
"""Minimum agreement with the other judges; a judge with less is reported at any number of items, but not excluded."""

_LACKING = 0.10
"""Maximum share of missing scores, or of scores outside the scale, of a judge that does not lack scores."""

_TIMES_AS_MANY = 2.0
"""Limit of a typical share of missing scores, as a multiple of the median judge's share."""


@dataclass(frozen=True)
class _Alignment:
    """Agreement of a judge with the other judges: in file order, and after the best circular shift or reversal of rows.

    ``best`` is the agreement after the shift or reversal, or minus infinity if chance explains this agreement.
    ``certain``: whether the evidence suffices to exclude the judge. ``how``: the shift or reversal in words.
    """

    agreement: float
    best: float
    certain: bool
    how: str

    @property
    def is_reversed(self) -> bool:
        """Whether a reversed scale explains the scores at least as well as misaligned rows do, within a tolerance."""
        return not self.certain or -self.agreement >= self.best - _MIN_GAIN


def check_panel(
    scores: ScoreMatrix,
    rule: AdmissionRule,
    *,
    out_of_range: Mapping[str, int] | None = None,
    text_mismatches: Mapping[str, int] | None = None,
) -> list[JudgeCheck]:
    """Apply the admission rule to every judge.

    On a crowd-sourced panel, the limits of ``rule`` apply only to judges with at least ``MIN_SCORES_TO_DESCRIBE``
    scores. A judge with fewer scores is admitted even if all of them are equal.

    Parameters
    ----------
    scores : ScoreMatrix
        Scores with the items in the order of the source's rows; the test for shifted rows needs this order.
    out_of_range : mapping judge -> count, optional
        Number of scores that were set to NaN because they lie outside the declared scale.
    text_mismatches : mapping judge -> count, optional
        Number of rows whose text differs from the text of the item.

    Returns
    -------
    list of JudgeCheck, in the order of ``scores.judges``
    """
    outside, mismatches = out_of_range or {}, text_mismatches or {}
    not_asked = means_not_asked(rule, scores.values, sum(outside.values()))
    crowd = not_asked and is_crowd((~np.isnan(scores.values)).sum(axis=0), len(scores.values))
    if not_asked:
        rule = replace(rule, max_missing=1.0)
    elif rule.absent == "auto" and not out_of_range:  # no failure is declared: exclude judges with unusually few scores
        usual = float(np.median(np.isnan(scores.values).mean(axis=0)))
        rule = replace(rule, max_missing=max(rule.max_missing, _TIMES_AS_MANY * usual))
    aligned = _crowd_alignments(scores.values) if crowd else _alignments(scores)
    checks: list[JudgeCheck] = []
    for judge, column, (alignment, notes) in zip(scores.judges, columns(scores.values), aligned, strict=True):
        given, beyond = int((~np.isnan(column)).sum()), outside.get(judge, 0)
        missing = float(np.isnan(column).mean()) if len(column) else 1.0
        mode_share, entropy = concentration(column)
        if given == 0 or (mode_share == 1.0 and not crowd):
            degenerate = "degenerate: fewer than two different scores" if given else "it has no score"
            reason = outside_scale(given, beyond) or degenerate
        elif rule.admit == "all" or (crowd and given < MIN_SCORES_TO_DESCRIBE):
            reason = None
        else:
            off_scale = beyond > _LACKING * len(column) and rule.max_missing < 1.0
            own = replace(rule, max_missing=min(rule.max_missing, _LACKING)) if off_scale else rule
            reason = _reason(own, missing, mode_share, entropy, mismatches.get(judge, 0), alignment)
        agreement = None if np.isnan(alignment.agreement) else alignment.agreement
        notes = None if reason else notes
        checks.append(JudgeCheck(judge, reason is None, reason, notes, missing, mode_share, entropy, agreement, beyond))
    return checks


def why_left_out(checks: Sequence[JudgeCheck], *, loosen: str, declare: str) -> str:
    """Explain why judges were not admitted and what to do; return an empty string if all judges were admitted.

    Parameters
    ----------
    loosen, declare : str
        Instructions to the user: how to admit more judges, and how to declare that absent scores were not requested.
    """
    refused = [check for check in checks if not check.admitted]
    if not refused:
        return ""
    lacking = sum((check.reason or "").startswith("missing") and not check.out_of_range for check in checks)
    if 2 * lacking > len(checks):
        return (
            f"{counted(lacking, 'judge')} lack many scores; if nobody requested these scores, declare this ({declare})."
        )
    reasons = listed([f"{shorten(check.judge, 40, placeholder='...')}: {check.reason}" for check in refused], 3)
    return f"CARE left out {reasons}. {loosen}."


def means_not_asked(rule: AdmissionRule, values: Array, outside: int = 0) -> bool:
    """Return whether an absent score means that the judge was not asked.

    If ``rule.absent`` is ``auto``, the result is true in two cases: the panel is crowd-sourced, or most judges lack
    more than a tenth of the scores and no score lies outside the scale (``outside`` counts such scores).
    """
    if rule.absent != "auto":
        return rule.absent == "not_asked"
    missing = np.isnan(values)
    lacking = missing.mean(axis=0) > _LACKING
    return is_crowd((~missing).sum(axis=0), len(values)) or (not outside and bool(lacking.mean() > 0.5))


def _alignments(scores: ScoreMatrix) -> Iterator[tuple[_Alignment, str | None]]:
    total = np.zeros(len(scores.values))
    for column in columns(scores.values):  # standardised again below, which costs less than a panel of z-scores
        total += _standardise(column)
    spectrum = np.fft.rfft(total)
    for column in columns(scores.values):
        standardised = _standardise(column)
        alignment = _alignment(standardised, total, spectrum)
        yield alignment, _notes(len(column), alignment)


def _crowd_alignments(values: Array) -> Iterator[tuple[_Alignment, str | None]]:
    standardised = comparable(values)  # too sparse to test for shifted rows
    present = ~np.isnan(standardised)
    filled = np.where(present, standardised, 0.0)
    total, count = filled.sum(axis=1), present.sum(axis=1)
    for j in range(values.shape[1]):
        rows = present[:, j] & (count > 1)
        agreement = correlation(filled[rows, j], (total[rows] - filled[rows, j]) / (count[rows] - 1), at_least=3)
        yield _Alignment(agreement, -np.inf, certain=False, how=""), None


def outside_scale(given: int, out_of_range: int) -> str | None:
    """Return a message if more scores of a judge lie outside the scale than inside, else None."""
    if out_of_range <= given:
        return None
    return f"{out_of_range:,} of its {given + out_of_range:,} scores lie outside the scale"


def _reason(
    rule: AdmissionRule, missing: float, mode_share: float, entropy: float, mismatches: int, alignment: _Alignment
) -> str | None:
    returned = alignment.best
    if missing > rule.max_missing:
        return f"missing or out of range: {missing:.1%} of its scores (limit {rule.max_missing:.0%})"
    if mode_share >= _MOST_ALIKE:
        return f"degenerate: the same score on {mode_share:.1%} of items (limit {_MOST_ALIKE:.0%})"
    if entropy < _MIN_ENTROPY:
        return f"degenerate: its scores have an entropy of {entropy:.2f} bits (minimum {_MIN_ENTROPY:.2f})"
    if mismatches:
        return f"misaligned: the texts of {counted(mismatches, 'row')} differ from the texts of their items"
    if not alignment.is_reversed and returned >= _MIN_RETURN and returned - alignment.agreement >= _MIN_RISE:
        return f"misaligned: agreement {alignment.agreement:+.2f} becomes {returned:+.2f} {alignment.how}"
    return None


def _notes(items: int, alignment: _Alignment) -> str | None:
    standard_error = 1 / np.sqrt(max(items, 1))
    agreement = alignment.agreement
    if alignment.is_reversed and agreement < -max(_MIN_AGREEMENT, _STANDARD_ERRORS * standard_error):
        return f"agreement with the other judges is {agreement:+.2f}: is its scale reversed?"
    if alignment.best - agreement >= max(_MIN_GAIN, _STANDARD_ERRORS * np.sqrt(2) * standard_error):
        change = f"agreement {agreement:+.2f} becomes {alignment.best:+.2f} {alignment.how}"
        return f"{change}: are its rows joined to the right items?"
    if agreement < max(_MIN_AGREEMENT, _STANDARD_ERRORS * standard_error):
        return f"agreement with the other judges is {agreement:+.2f}: did it answer the same question about the items?"
    return None


def concentration(column: Array) -> tuple[float, float]:
    """Return the share of the most frequent score and the entropy of all scores in bits; (1, 0) if all are missing."""
    present = column[~np.isnan(column)]
    if not len(present):
        return 1.0, 0.0
    share = np.unique(present, return_counts=True)[1] / len(present)
    return float(share.max()), float(max(-np.sum(share * np.log2(share)), 0.0))


def _standardise(column: Array) -> Array:
    """Compute the z-scores of a judge, with 0 for missing scores and for all scores of a constant judge."""
    present = ~np.isnan(column)
    count = max(int(present.sum()), 1)
    out = np.where(present, column, 0.0)
    out -= out.sum() / count
    out *= present
    sd = float(np.sqrt(out @ out / count))
    return out / sd if sd > 0 and varies(column) else np.zeros(len(column))


def _alignment(judge: Array, total: Array, spectrum: NDArray[np.complex128]) -> _Alignment:
    n = len(judge)
    rest = total - judge
    norm = float(np.linalg.norm(rest) * np.linalg.norm(judge))
    if norm == 0.0 or n < 3:
        return _Alignment(float("nan"), float("-inf"), certain=False, how="")
    own = np.fft.rfft(judge)
    others = spectrum - own  # the transform of the rest
    shifted = np.fft.irfft(others * np.conj(own), n) / norm
    reversed_ = np.roll(np.fft.irfft(others * own, n), 1) / norm
    shifted[0] = -np.inf  # a shift by 0 leaves the rows as they are
    by_shift, moves = (shifted, "") if shifted.max() >= reversed_.max() else (reversed_, "reversed and ")
    best, shift = float(by_shift.max()), int(np.argmax(by_shift))
    rows = f"{counted(min(shift, n - shift), 'row')} {'down' if 2 * shift <= n else 'up'}"
    # The best of 2 n shifts is not evidence if the best of so many chance correlations reaches it. Nor is it
    # if the source repeats itself, so that many shifts fit equally well.
    by_chance = (np.sqrt(2 * np.log(2 * n)) + 2) / np.sqrt(n)
    equally_good = int((by_shift >= best - 0.05).sum())
    agreement = float(rest @ judge) / norm
    return _Alignment(
        agreement,
        best if best >= by_chance else float("-inf"),
        certain=best >= by_chance and equally_good <= max(3, n // 100),
        how=f"when its rows are {moves}shifted {rows}",
    )
