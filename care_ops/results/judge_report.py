"""A judge by the standard of people: what it passes of what they pass, and what it follows beside them.

Every figure rests on labels of a probability sample, which are weighted by how the items were drawn. Shares have
Jeffreys intervals (Brown, Cai and DasGupta, Statistical Science 2001).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm
from scipy.stats import t as student

from care_ops.errors import FitError
from care_ops.metrics import rank_correlation
from care_ops.minimum_sizes import MIN_ITEMS, MIN_LABELS
from care_ops.results.judge_gate import PeopleAgreement, agreement_with_people
from care_ops.results.rates import LEVEL, Labelled, Repeats, rates_of
from care_ops.scores import Array

SENT = (0.1, 0.2, 0.3, 0.5)
"""Shares of the items that people are asked about, the least certain first, for which the rest is measured."""

_MISSES = 5


@dataclass(frozen=True)
class Share:
    """A share and its interval; ``count`` is the effective number of labels behind it."""

    value: float
    lo: float
    hi: float
    count: float


@dataclass(frozen=True)
class LengthEffect:
    """Rank correlation of length (of a text, or of the difference of two) with the judge and with the labels."""

    judge: float
    lo: float
    hi: float
    people: float
    items: int


@dataclass(frozen=True)
class PositionEffect:
    """What the order in which two texts are shown does to a judge.

    Attributes
    ----------
    difference, lo, hi : float
        Mean score in the one order less that in the other, over pairs shown in both.
    turned : Share
        Pairs whose verdict depends on the order.
    """

    difference: float
    lo: float
    hi: float
    turned: Share


def position_effect(one: Array, other: Array, cut: float, level: float = LEVEL) -> PositionEffect | None:
    """How a judge's scores of the same pairs in both orders differ (NaN: no score); None below ten pairs.

    The interval is Student's t of the paired differences.
    """
    both = ~np.isnan(one) & ~np.isnan(other)
    count = int(both.sum())
    if count < MIN_ITEMS:
        return None
    difference = one[both] - other[both]
    mean = float(difference.mean())
    half = float(student.ppf((1 + level) / 2, count - 1) * difference.std(ddof=1) / np.sqrt(count))
    turned = _certain(_share(np.ones(count), ((one[both] > cut) != (other[both] > cut)).astype(np.float64), level))
    return PositionEffect(mean, mean - half, mean + half, turned)


@dataclass(frozen=True)
class JudgeReport:
    """One judge against labels of 0 and 1.

    Attributes
    ----------
    cut : float
        A score above it passes.
    passed_of_passed, failed_of_failed : Share or None
        True positive and true negative rate; None where people passed, or failed, none.
    people : PeopleAgreement
        Kappa, AUC and bias, with intervals.
    base_rate : Share
        Of what people pass.
    accuracy : Share
        By the labels alone.
    assisted : Share
        Accuracy over all items, the labels assisted by the panel's answer (``rates_of``).
    sent : dict share -> error
        Share of the judge's decisions that are wrong where people decide about that share, the least certain first.
    misses : tuple of int
        Rows of the labelled items on which the judge is furthest on the wrong side, worst first.
    """

    judge: str
    labels: int
    cut: float
    passed_of_passed: Share | None
    failed_of_failed: Share | None
    people: PeopleAgreement
    base_rate: Share
    accuracy: Share
    assisted: Share
    sent: dict[float, float]
    length: LengthEffect | None
    misses: tuple[int, ...]


def report_of(
    judge: str,
    scores: Array,
    given: Labelled,
    weights: Array,
    cut: float,
    *,
    grades: Array | None = None,
    lengths: Array | None = None,
    level: float = LEVEL,
) -> JudgeReport:
    """Return the figures of one judge.

    Parameters
    ----------
    scores : (n,) array
        The judge's; NaN where it gave none, which are left out.
    given : Labelled
        The panel's answer without a label, which helps to tell on which items the judge is right; labels of 0 and 1, or
        the share of several that is 1, on which an estimate may rest.
    weights : (n,) array
        How much each label counts (``FitLabels.weights``).
    grades : (n,) array, optional
        The labels as grades on the judge's scale.
    lengths : (n,) array, optional
        Of the text that is judged, or the difference of two.

    Raises
    ------
    FitError
        The judge has scored fewer than ``MIN_LABELS`` labelled items.
    """
    labels, rows = given.labels, np.flatnonzero(~np.isnan(scores) & ~np.isnan(given.labels))
    if len(rows) < MIN_LABELS:
        raise FitError(f"{judge}: {len(rows)} labels of items that it scored; {MIN_LABELS} are needed")
    passes, people, w = (scores[rows] > cut).astype(np.float64), labels[rows], weights[rows]
    right = np.where(passes > 0, people, 1.0 - people)
    margin = np.abs(scores - cut)
    return JudgeReport(
        judge=judge,
        labels=len(rows),
        cut=cut,
        passed_of_passed=_share(w * people, passes, level),
        failed_of_failed=_share(w * (1.0 - people), 1.0 - passes, level),
        people=agreement_with_people(
            judge, scores, labels, weights, cut, grades=grades, units=given.units, level=level
        ),
        base_rate=_certain(_share(w, people, level)),
        accuracy=_certain(_share(w, right, level)),
        assisted=_assisted(given, np.where(scores > cut, 1.0, -1.0), rows, right, level),
        sent=_sent(margin, rows, right, w),
        length=None if lengths is None else _length(lengths, scores, labels, level),
        misses=_misses(rows, margin, right),
    )


def _assisted(given: Labelled, side: Array, rows: NDArray[np.intp], right: Array, level: float) -> Share:
    """Accuracy over all items, by the panel's answer, turned round where the judge fails an item (``side`` is -1)."""
    agreed = np.full(len(side), np.nan)
    agreed[rows] = right
    repeats = Repeats(np.ones(len(side)), shares=True)
    rate = rates_of(replace(given, estimate=side * given.estimate, labels=agreed, repeats=repeats), level=level).rates[
        0
    ]
    return Share(rate.value, rate.lo, rate.hi, float(rate.labels))


def _share(weights: Array, holds: Array, level: float) -> Share | None:
    """Weighted share of what holds, with a Jeffreys interval; None where nothing counts."""
    total = float(weights.sum())
    if total <= 0:
        return None
    yes = float(weights @ holds)
    lo, hi = beta.ppf([(1 - level) / 2, (1 + level) / 2], yes + 0.5, total - yes + 0.5)
    return Share(yes / total, 0.0 if yes == 0 else float(lo), 1.0 if yes == total else float(hi), total)


def _certain(share: Share | None) -> Share:
    assert share is not None  # the weights of a sample add to more than 0
    return share


def _sent(margin: Array, rows: NDArray[np.intp], right: Array, weights: Array) -> dict[float, float]:
    """Error of what is left to the judge, for each share that is sent to people; none where no label is left."""
    errors: dict[float, float] = {}
    for share in (0.0, *SENT):
        kept = margin[rows] >= np.nanquantile(margin, share) if share else np.ones(len(rows), dtype=np.bool_)
        if kept.any():
            errors[share] = 1.0 - float(np.average(right[kept], weights=weights[kept]))
    return errors


def _length(lengths: Array, scores: Array, labels: Array, level: float) -> LengthEffect | None:
    """None where fewer than ten items have both a length and a score, or one of the two does not vary."""
    known = ~np.isnan(lengths) & ~np.isnan(scores)
    by_judge = rank_correlation(lengths, scores, at_least=MIN_ITEMS)
    if np.isnan(by_judge):
        return None
    half = float(norm.ppf((1 + level) / 2)) / np.sqrt(max(int(known.sum()) - 3, 1))
    lo, hi = np.tanh(np.arctanh(np.clip(by_judge, -0.999, 0.999)) + np.array([-half, half]))
    by_people = rank_correlation(np.where(known, lengths, np.nan), labels)
    return LengthEffect(by_judge, float(lo), float(hi), by_people, int(known.sum()))


def _misses(rows: NDArray[np.intp], margin: Array, right: Array) -> tuple[int, ...]:
    wrong = rows[right < 0.5]
    return tuple(int(row) for row in wrong[np.argsort(-margin[wrong], kind="stable")][:_MISSES])
