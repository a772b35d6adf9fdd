"""Report on a judge from labels of a probability sample: error rates and agreement with people.

Shares have Jeffreys intervals (Brown, Cai and DasGupta, Statistical Science 2001).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from care_ops.errors import FitError
from care_ops.minimum_sizes import MIN_LABELS
from care_ops.results.judge_gate import PeopleAgreement, agreement_with_people
from care_ops.results.rates import LEVEL
from care_ops.scores import Array


@dataclass(frozen=True)
class Share:
    """Share with an interval; ``count`` is the effective number of labels."""

    value: float
    lo: float
    hi: float
    count: float


@dataclass(frozen=True)
class JudgeReport:
    """Comparison of one judge's decisions with labels of 0 and 1.

    Attributes
    ----------
    passed_of_passed, failed_of_failed : Share or None
        True positive rate (None if people passed no item) and true negative rate (None if people failed no item).
    base_rate : Share
        Share of the items that people pass.
    accuracy : Share
        Share of the items on which the judge and people make the same decision.
    """

    judge: str
    labels: int
    cut: float
    passed_of_passed: Share | None
    failed_of_failed: Share | None
    people: PeopleAgreement
    base_rate: Share
    accuracy: Share


def report_of(
    judge: str,
    scores: Array,
    labels: Array,
    weights: Array,
    cut: float,
    *,
    grades: Array | None = None,
    units: Sequence[str] | None = None,
    level: float = LEVEL,
) -> JudgeReport:
    """Build the report on one judge from scores and labels; raise ``FitError`` if there are too few labels.

    The parameters are those of ``judge_gate.agreement_with_people``.
    """
    rows = np.flatnonzero(~np.isnan(scores) & ~np.isnan(labels))
    if len(rows) < MIN_LABELS:
        raise FitError(f"{judge} scored only {len(rows)} labelled items, but {MIN_LABELS} are needed; label more items")
    passes, people, w = (scores[rows] > cut).astype(np.float64), labels[rows], weights[rows]
    right, passed, failed = np.where(passes > 0, people, 1.0 - people), w * people, w * (1.0 - people)
    return JudgeReport(
        judge=judge,
        labels=len(rows),
        cut=cut,
        passed_of_passed=_share(passed, passes, level) if passed.any() else None,
        failed_of_failed=_share(failed, 1.0 - passes, level) if failed.any() else None,
        people=agreement_with_people(judge, scores, labels, weights, cut, grades=grades, units=units, level=level),
        base_rate=_share(w, people, level),
        accuracy=_share(w, right, level),
    )


def _share(weights: Array, holds: Array, level: float) -> Share:
    from scipy.stats import beta

    total, yes = float(weights.sum()), float(weights @ holds)
    lo, hi = beta.ppf([(1 - level) / 2, (1 + level) / 2], yes + 0.5, total - yes + 0.5)
    return Share(yes / total, 0.0 if yes == 0 else float(lo), 1.0 if yes == total else float(hi), total)
