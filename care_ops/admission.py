"""Is a judge fit to sit on the panel? Statistics of one judge against the rest, and the admission rule.

Belongs here: missing, degenerate and misaligned judges (law 1). Does not: how good a judge is. Low or
negative agreement alone is reported and never excludes: on a confounded panel the odd judge out can be
the best one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.config import AdmissionRule
from care_ops.scores import Array, ScoreMatrix

_STANDARD_ERRORS = 3.0
"""Agreement of so many standard errors of chance agreement, or less, cannot be told from none."""


_LEAST_GAIN = 0.05
"""Agreement that a shift must add to be reported."""


@dataclass(frozen=True)
class JudgeCheck:
    """What admission found about one judge.

    Attributes
    ----------
    judge : str
    admitted : bool
    reason : str or None
        Why not admitted.
    notes : str or None
        Reported, without consequence.
    missing_rate, mode_share, entropy, agreement : float
        Share missing or out of range; share of the commonest score; bits; correlation with the mean of
        the other judges (NaN where undefined).
    out_of_range : int
        Scores dropped because they lie outside the judge's declared scale.
    """

    judge: str
    admitted: bool
    reason: str | None
    notes: str | None
    missing_rate: float
    mode_share: float
    entropy: float
    agreement: float
    out_of_range: int


def check_panel(
    scores: ScoreMatrix,
    rule: AdmissionRule,
    *,
    out_of_range: Mapping[str, int] | None = None,
    text_mismatches: Mapping[str, int] | None = None,
) -> list[JudgeCheck]:
    """Apply the admission rule to every judge.

    Parameters
    ----------
    scores : ScoreMatrix
        In the order of the source's rows, which is what the shift test reads.
    rule : AdmissionRule
    out_of_range : mapping judge -> count, optional
        Scores already set to NaN for leaving the declared scale.
    text_mismatches : mapping judge -> count, optional
        Rows where the text that the judge scored is not the item's text.

    Returns
    -------
    list of JudgeCheck, in the order of ``scores.judges``
    """
    standard = _standardise(scores.values)
    error = 1 / np.sqrt(max(len(scores.item_ids), 1))
    low = max(rule.report_agreement, _STANDARD_ERRORS * error)
    gain = max(_LEAST_GAIN, _STANDARD_ERRORS * np.sqrt(2) * error)
    checks: list[JudgeCheck] = []
    for j, judge in enumerate(scores.judges):
        column = scores.values[:, j]
        missing = float(np.isnan(column).mean()) if len(column) else 1.0
        mode_share, entropy = concentration(column)
        agreement, returned, certain, how = _alignment(standard, j)
        mismatched = (text_mismatches or {}).get(judge, 0)
        reason = None
        if len(np.unique(column[~np.isnan(column)])) < 2:
            reason = "degenerate: fewer than two different scores"
        elif rule.admit == "rule":
            if missing > rule.max_missing:
                reason = f"missing or out of range: {missing:.1%} (limit {rule.max_missing:.0%})"
            elif mode_share >= rule.max_mode_share:
                reason = f"degenerate: one score on {mode_share:.1%} of items (limit {rule.max_mode_share:.0%})"
            elif entropy < rule.min_entropy:
                reason = f"degenerate: {entropy:.2f} bits (limit {rule.min_entropy:.2f})"
            elif mismatched:
                reason = f"misaligned: {mismatched} rows carry another text than the item they are joined to"
            elif certain and returned >= rule.min_return and returned - agreement >= rule.min_gain:
                reason = f"misaligned: agreement {agreement:+.2f} becomes {returned:+.2f} {how}"
        notes = None
        if reason is None and agreement < low:
            notes = f"agreement with the other judges is {agreement:+.2f}: are its rows joined to the right items?"
        elif reason is None and returned - agreement >= gain:
            notes = f"agreement {agreement:+.2f} becomes {returned:+.2f} {how}: are its rows joined to the right items?"
        checks.append(
            JudgeCheck(
                judge,
                reason is None,
                reason,
                notes,
                missing,
                mode_share,
                entropy,
                agreement,
                (out_of_range or {}).get(judge, 0),
            )
        )
    return checks


def concentration(column: Array) -> tuple[float, float]:
    """Share of the commonest score, and the entropy of the scores in bits (1, 0 if there are none)."""
    present = column[~np.isnan(column)]
    if not len(present):
        return 1.0, 0.0
    share = np.unique(present, return_counts=True)[1] / len(present)
    return float(share.max()), float(max(-np.sum(share * np.log2(share)), 0.0))


def _standardise(values: Array) -> Array:
    """Z-scores with missing scores at 0, the mean; a constant judge is all 0."""
    present = ~np.isnan(values)
    count = np.maximum(present.sum(axis=0), 1)
    filled = np.where(present, values, 0.0)
    mean = filled.sum(axis=0) / count
    centred = np.where(present, values - mean, 0.0)
    sd = np.sqrt((centred**2).sum(axis=0) / count)
    return centred / np.where(sd > 0, sd, 1.0)


def _alignment(standard: NDArray[np.float64], j: int) -> tuple[float, float, bool, str]:
    """Agreement of judge j with the rest as joined, the best under a circular shift or reversal, and how.

    The third value is whether that best is evidence enough to exclude.
    """
    n = len(standard)
    rest = standard.sum(axis=1) - standard[:, j]
    norm = float(np.linalg.norm(rest) * np.linalg.norm(standard[:, j]))
    if norm == 0.0 or n < 3:
        return float("nan"), float("-inf"), False, ""
    spectrum = np.fft.rfft(rest)
    shifted = np.fft.irfft(spectrum * np.conj(np.fft.rfft(standard[:, j])), n) / norm
    reversed_ = np.fft.irfft(spectrum * np.conj(np.fft.rfft(standard[::-1, j])), n) / norm
    shifted[0] = -np.inf  # the rows as they are
    by_shift, words = (
        (shifted, "when its rows are shifted by")
        if shifted.max() >= reversed_.max()
        else (reversed_, "when its rows are reversed and shifted by")
    )
    best, at = float(by_shift.max()), int(np.argmax(by_shift))
    # 2 n shifts were tried: what the best of as many chance correlations reaches is no evidence, and neither
    # is a source that repeats itself, where many shifts fit alike.
    chance = (np.sqrt(2 * np.log(2 * n)) + 2) / np.sqrt(n)
    alike = int((by_shift >= best - 0.05).sum())
    certain = best >= chance and alike <= max(3, n // 100)
    how = f"{words} {at}"
    agreement = float(rest @ standard[:, j]) / norm
    return agreement, best if best >= chance else float("-inf"), certain, how
