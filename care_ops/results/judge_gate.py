"""Agreement of a judge with people, and the decision whether the judge may gate a release.

Intervals use influence values, which allow unequal weights and split units; the scale is Fisher's z for kappa and logit
for AUC (Fleiss, Cohen and Everitt, Psychological Bulletin 1969; DeLong, DeLong and Clarke-Pearson, Biometrics 1988).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from care_ops.errors import InputError, capital, counted, listed
from care_ops.metrics import is_binary
from care_ops.minimum_sizes import MIN_LABELS
from care_ops.scores import Array, ScoreMatrix, rows_of

Measure = Literal["kappa", "weighted_kappa", "auc"]
"""Agreement statistics that can be compared with the required agreement (``bar``)."""

MEASURES: tuple[Measure, ...] = get_args(Measure)
GATE_QUESTION = "Is the panel or a judge good enough to approve releases"

DEFAULT_BAR = 0.6
"""Default bar: the smallest kappa that is commonly called substantial agreement (Landis and Koch, Biometrics 1977)."""

Outcome = Literal["yes", "not yet", "no"]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

Scale = Callable[[float], float]
"""Function that maps a statistic to the scale on which intervals are symmetric, or back."""

_END = 0.25
"""Maximum gap between the limits of the gold range and the score range on one scale, as a share of the score range."""

GateNeeds = Literal["", "labels", "cut", "votes"]
"""Missing input for a decision whether judges may gate a release: labels, a pass mark, or labels of 0 and 1."""


@dataclass(frozen=True)
class Statistic:
    """Statistic with its confidence interval."""

    value: float
    lo: float
    hi: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.lo:.2f} to {self.hi:.2f})"

    def against(self, bar: float) -> Outcome:
        """Return ``yes`` if the interval is at or above ``bar``, ``no`` if it is below ``bar``, else ``not yet``."""
        return "yes" if self.lo >= bar else "no" if self.hi < bar else "not yet"


@dataclass(frozen=True)
class PeopleAgreement:
    """Agreement of one judge, or of the panel, with people on the items that have a score and a label.

    Attributes
    ----------
    kappa : Statistic or None
        Cohen's kappa of pass and fail; None if people, or the judge, give all items the same result.
    weighted_kappa : Statistic or None
        Kappa of the grades with quadratic weights; None if labels are not grades on the judge's scale.
    auc : Statistic or None
        Probability that an item that people passed has a higher score than an item that people failed.
    bias : Statistic
        Judge minus people: mean grade if labels are grades, else pass rate (.05 is five percentage points).
    unlabelled : int
        Number of items with a score of the judge, but without a label.
    undefined : str
        Reason why kappa is not defined; empty if kappa is defined.
    """

    judge: str
    labels: int
    kappa: Statistic | None
    weighted_kappa: Statistic | None
    auc: Statistic | None
    bias: Statistic
    unlabelled: int
    undefined: str = ""

    def measure(self, name: Measure) -> Statistic | None:
        """Return the statistic called ``name``, such as ``kappa``."""
        return getattr(self, name)


@dataclass(frozen=True)
class GateAdvice:
    """Advice on whether a judge may gate a release, based on the interval of the agreement with people.

    The outcome is "yes" if the interval is at or above the required agreement (``bar``), "no" if below, else "not yet".
    ``more_labels`` is the number of further labels that a decision needs: 0 if the outcome is decided, None if unknown
    or more than the unlabelled items. ``leans`` is the decision if further labels do not change the statistic.
    """

    judge: str
    outcome: str
    measure: Measure
    bar: float
    more_labels: int | None
    unlabelled: int = 0
    leans: Literal["", "yes", "no"] = ""

    @property
    def remedy(self) -> str:
        """Estimate of how many more labels a decision needs, as a message; empty if no label is needed."""
        if self.outcome != "not yet" or not self.leans:
            return ""
        if self.more_labels is None:
            return f"labels of all {counted(self.unlabelled, 'unlabelled item')} would probably not be enough"
        return f"about {counted(self.more_labels, 'more label')} would be enough; labels so far suggest {self.leans}"


def may_gate(found: PeopleAgreement, bar: float = DEFAULT_BAR, measure: Measure = "kappa") -> GateAdvice:
    """Decide whether a judge may gate a release: its agreement with people must reach ``bar``.

    The number of further labels assumes that the interval's width shrinks with the square root of the number of labels.

    Raises
    ------
    InputError
        ``bar`` is not between 0 and 1.

    Examples
    --------
    >>> from care_ops.results.judge_gate import PeopleAgreement, Statistic, may_gate
    >>> kappa = Statistic(0.7, 0.5, 0.82)
    >>> found = PeopleAgreement("gpt", 50, kappa, None, None, Statistic(0.02, -0.1, 0.1), 150)
    >>> may_gate(found, 0.6).outcome, may_gate(found, 0.4).outcome
    ('not yet', 'yes')
    """
    if not 0 < bar < 1:
        raise InputError(f"gate: the bar must be above 0 and below 1, got {bar:g}; give for example {DEFAULT_BAR:g}")
    statistic = found.measure(measure)
    if statistic is None:
        return GateAdvice(found.judge, "not yet", measure, bar, None, found.unlabelled)
    outcome, above = statistic.against(bar), statistic.value >= bar
    more: int | None = 0
    if outcome == "not yet":
        half = statistic.value - statistic.lo if above else statistic.hi - statistic.value
        distance = abs(statistic.value - bar)
        needed = found.labels * (half / distance) ** 2 if distance > 0 else math.inf
        more = math.ceil(needed) - found.labels if needed <= found.labels + found.unlabelled else None
    return GateAdvice(found.judge, outcome, measure, bar, more, found.unlabelled, "yes" if above else "no")


def gate_advice(
    scores: ScoreMatrix, estimate: Array, gold: Array, cut: float | None
) -> tuple[dict[str, tuple[GateAdvice, PeopleAgreement]], GateNeeds]:
    """Return advice on whether the panel and each judge may gate a release; if there is none, return what is missing.

    The minimum agreement is ``DEFAULT_BAR``. For gold labels of 0 and 1, an item passes if its score exceeds one half
    (if judges vote 0 or 1) or ``cut``. Other labels must be grades on the judge's scale;
    scores and grades are compared directly.
    """
    found: dict[str, tuple[GateAdvice, PeopleAgreement]] = {}
    votes, weights = is_binary(gold), np.ones(len(gold))
    columns = zip(scores.judges, scores.values.T, scores.values.T, strict=True)
    for judge, column, on_scale in (("panel", estimate, scores.values), *columns):
        mark = 0.5 if _on_one_scale(on_scale, gold) else cut if votes else None
        if mark is None or np.sum(~np.isnan(gold) & ~np.isnan(column)) < MIN_LABELS:
            continue
        agreement = agreement_with_people(judge, column, gold, weights, mark, grades=None if votes else gold)
        measure: Measure = "kappa" if votes else "weighted_kappa"
        if agreement.measure(measure) is not None:
            found[judge] = may_gate(agreement, measure=measure), agreement
    known = gold[~np.isnan(gold)]
    enough = len(known) >= MIN_LABELS and np.ptp(known) > 0
    return found, "" if found else "labels" if not enough else "cut" if votes else "votes"


def _on_one_scale(scores: Array, gold: Array) -> bool:
    """Return whether scores and gold are both binary, or gold spans nearly the whole range of the scores."""
    if np.isnan(gold).all() or is_binary(gold) or is_binary(scores):
        return is_binary(gold) == is_binary(scores)
    low, high = np.nanmin(scores), np.nanmax(scores)
    least, largest, margin = np.nanmin(gold), np.nanmax(gold), _END * (high - low)
    return bool(low <= least <= low + margin and high - margin <= largest <= high)


_NAMES: dict[Measure, str] = {"kappa": "kappa", "weighted_kappa": "weighted kappa", "auc": "AUC"}


def gate_sentence(advice: GateAdvice, found: PeopleAgreement) -> str:
    """Return a sentence that states whether a judge may gate a release, and how many more labels a decision needs."""
    statistic, name = found.measure(advice.measure), _NAMES[advice.measure]
    shown = f"{name} is not defined ({found.undefined})" if statistic is None else f"{name} {statistic}"
    more = f"; {advice.remedy}" if advice.remedy else ""
    labels = counted(found.labels, "label")
    return f"can {advice.judge} approve releases? {advice.outcome}: {shown}, bar {advice.bar:g}, {labels}{more}"


def gates_sentence(advices: Sequence[GateAdvice], named: int = 4) -> str:
    """Return a sentence that lists the judges by outcome: may gate a release, may not, or undecided."""
    groups = {outcome: [each.judge for each in advices if each.outcome == outcome] for outcome in OUTCOMES}
    parts = "; ".join(f"{outcome}: {listed(judges, named)}" for outcome, judges in groups.items() if judges)
    bar = f"{_NAMES[advices[0].measure]} {advices[0].bar:g}"
    return f"{GATE_QUESTION} ({bar} or more)? {capital(parts)}."


def people_sentences(found: PeopleAgreement) -> list[str]:
    """Return two phrases about a judge, with intervals: one states kappa and AUC, the other the bias."""
    shown = [f"{words} {value}" for name, words in _NAMES.items() if (value := found.measure(name)) is not None]
    bias, graded = found.bias, found.weighted_kappa is not None
    scale, unit, digits = (1, "points of the scale", 2) if graded else (100, "percentage points of the pass rate", 0)
    kind = "stricter than" if bias.hi < 0 else "milder than" if bias.lo > 0 else "no clear difference from"
    value, lo, hi = (f"{scale * each:+.{digits}f}" for each in (bias.value, bias.lo, bias.hi))
    return [", ".join(shown), f"bias {value} {unit} ({lo} to {hi}): {kind} people"]


def agreement_with_people(
    judge: str,
    scores: Array,
    labels: Array,
    weights: Array,
    cut: float,
    *,
    grades: Array | None = None,
    units: Sequence[str] | None = None,
    level: float = 0.9,
) -> PeopleAgreement:
    """Estimate the agreement of a judge with people over the items that have a score and a label.

    Parameters
    ----------
    scores, labels : (n,) arrays
        NaN is missing. A label is 1 for pass, 0 for fail, or the share of passes among several labels.
    weights : (n,) array
        Weights of the labels.
    cut : float
        Value above which a score passes.
    grades : (n,) array, optional
        Labels as grades on the judge's scale.
    units : sequence of n str, optional
        Split units; labels of the same unit count as one draw.
    """
    from scipy.stats import t as student

    rows = np.flatnonzero(~np.isnan(scores) & ~np.isnan(labels))
    score, people, weight = scores[rows], labels[rows], weights[rows] / weights[rows].sum()
    passes = (score > cut).astype(np.float64)
    names = [str(row) for row in rows] if units is None else [units[int(row)] for row in rows]
    draws = [np.array(group, dtype=np.intp) for group in rows_of(names).values()]

    def interval(value: float, influence: Array, to: Scale, back: Scale, slope: float) -> Statistic:
        sums = np.array([float(weight[group] @ influence[group]) for group in draws])
        count = max(len(draws) - 1, 1)
        error = math.sqrt(float(sums @ sums) * (count + 1) / count) * slope
        half = float(student.ppf((1 + level) / 2, count)) * error
        return Statistic(value, float(back(to(value) - half)), float(back(to(value) + half)))

    difference = (passes - people) if grades is None else (score - grades[rows])
    bias = float(weight @ difference)
    kappa = _kappa(passes, people, weight, interval)
    return PeopleAgreement(
        judge,
        len(rows),
        kappa,
        None if grades is None else _kappa(score, grades[rows], weight, interval),
        _auc(score, people, weight, interval),
        interval(bias, difference - bias, float, float, 1.0),
        int(np.sum(~np.isnan(scores))) - len(rows),
        "" if kappa is not None else _why_undefined(score, people, cut),
    )


def _why_undefined(score: Array, people: Array, cut: float) -> str:
    if np.ptp(people) == 0:
        return "people gave all labelled items the same label"
    which = "every" if score.min() > cut else "no"
    return f"{which} labelled item passes: scores range from {score.min():g} to {score.max():g}, and the cut is {cut:g}"


def _kappa(first: Array, second: Array, weight: Array, interval: Callable[..., Statistic]) -> Statistic | None:
    """Compute kappa with quadratic weights: 1 - observed / expected squared difference.

    For values of 0 and 1 this is Cohen's kappa.
    """
    mean, other = float(weight @ first), float(weight @ second)
    observed = float(weight @ (first - second) ** 2)
    expected = float(weight @ (first**2 + second**2)) - 2 * mean * other
    if expected <= 0 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    value = 1 - observed / expected
    by_observed = (first - second) ** 2 - observed
    by_expected = first**2 + second**2 - 2 * (first * other + second * mean) + 2 * mean * other - expected
    influence = (observed * by_expected - expected * by_observed) / expected**2
    if observed == 0:  # as if half a label disagreed, in the direction that costs most
        value = 1 - 0.5 / (len(first) * expected)
        influence = np.full(len(first), 1 - value) * math.sqrt(len(first))
        found = interval(value, influence, np.arctanh, np.tanh, 1 / (1 - value**2))
        return Statistic(1.0, found.lo, 1.0)
    safe = min(max(value, -0.999), 0.999)
    found = interval(safe, influence, np.arctanh, np.tanh, 1 / (1 - safe**2))
    return Statistic(value, found.lo, found.hi)


def _auc(score: Array, people: Array, weight: Array, interval: Callable[..., Statistic]) -> Statistic | None:
    """Compute the probability that a passed item has a higher score than a failed item; ties count half."""
    from scipy.special import expit, logit

    passed, failed = weight * people, weight * (1 - people)
    if passed.sum() <= 0 or failed.sum() <= 0:
        return None
    order = np.unique(score, return_inverse=True)[1]
    count = int(order.max()) + 1
    above = _above(np.bincount(order, passed, count).astype(np.float64))[order] / passed.sum()
    below = 1 - _above(np.bincount(order, failed, count).astype(np.float64))[order] / failed.sum()
    value = float(passed @ below) / float(passed.sum())
    influence = people * (below - value) / passed.sum() + (1 - people) * (above - value) / failed.sum()
    margin = 0.5 / (len(score) + 1)
    safe = min(max(value, margin), 1 - margin)
    if not margin <= value <= 1 - margin:
        influence = np.full(len(score), math.sqrt(safe * (1 - safe)))
    found = interval(safe, influence, logit, expit, 1 / (safe * (1 - safe)))
    return Statistic(value, min(found.lo, value), max(found.hi, value))


def _above(mass: Array) -> Array:
    """Return, for each value, the total weight of all larger values plus half of its own weight."""
    return mass[::-1].cumsum()[::-1] - 0.5 * mass
