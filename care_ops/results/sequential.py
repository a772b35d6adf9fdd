"""Rates and differences of systems with intervals that hold however often one looks while labels come in.

An interval for a fixed number of labels covers what it promises once. Who looks after every ten labels and stops where
the interval excludes zero finds differences that are not there. A confidence sequence covers at all looks together, and
costs width for it.

Method: testing by betting, without replacement (Waudby-Smith and Ramdas, Journal of the Royal Statistical Society B
2024). For each mean that a system's labels might have, a capital of 1 is bet against it, label by label. If the mean is
the true one the game is fair, and the capital ever reaches 1 / (1 - level) with a probability of at most 1 - level
(Ville 1939): means against which it has are excluded. The bet is not on the label itself but on the label less what the
judges' answer predicts, by a regression on the labels before it, plus the mean prediction of all items not labelled
before: the correction of prediction-powered inference (Angelopoulos, Duchi and Zrnic 2023), with a slope that has not
seen the label. Two systems are compared by the product of their capitals.

It needs labels within known bounds, of items that are drawn at random without replacement, in the order in which they
came. Nothing is assumed of the judges or of the number of labels. For the items given nothing is assumed of how they
resemble one another; for items to come, that split units are independent.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import InputError
from care_ops.results.rates import LEVEL, Difference, Labelled, Rates, item_scores, rates_of
from care_ops.scores import Array

Rows = NDArray[np.intp]

_CANDIDATES = 1001
"""How many values are tried for a system's mean. An interval ends one value beyond the last that is not excluded."""

_LARGEST_BET = 0.5
"""Share of the capital that is put at stake at most, as Waudby-Smith and Ramdas recommend."""

_MIXING = 4.0
"""How boldly is bet on the distance between the mean of the items given and that of endless items like them.

It is tau in ``_kept``. At the level .9, intervals are narrowest with about 4 where few items are given.
"""

_PRIOR_LABELS = 2.0
"""How many labels the starting guess counts for, that scores say nothing of labels (a slope of 0)."""

_PRIOR_VARIANCE = 0.25
"""Variance of a prediction's error before any label is known: the largest that a number between 0 and 1 can have."""


@dataclass(frozen=True)
class Stream:
    """Labels of one system in the order in which they came.

    Attributes
    ----------
    scores : (N,) array
        Of all its items: the judges' answer, standardised; the same for all where labels alone are to count.
    rows : (m,) array of int
        Labelled rows of ``scores``, in order; no row twice.
    labels : (m,) array
        Between 0 and 1.
    """

    scores: Array
    rows: Rows
    labels: Array


@dataclass(frozen=True)
class Evidence:
    """The capital against each of many means.

    Attributes
    ----------
    means : (G,) array
        Of all N labels, from the least to the largest that the labels seen allow.
    log_capital : (G,) array
    sampling : float
        At most this is the variance of the mean of these N items about that of endless items like them, where the
        latter is the target; 0 where these items are.
    """

    means: Array
    log_capital: Array
    sampling: float = 0.0


@dataclass(frozen=True)
class SequentialRates(Rates):
    """Rates whose intervals, and those of the differences, hold at all looks together."""

    _evidence: dict[str, Evidence] = field(default_factory=dict[str, Evidence])
    _unit: float = 1.0

    def difference(self, first: str, second: str) -> Difference:
        """The difference of two systems, without a posterior probability; ``InputError`` where one has no rate."""
        self.require(first, second)
        value = {rate.system: rate.value for rate in self.rates}
        lo, hi = difference_interval(self._evidence[first], self._evidence[second], self.level)
        lo, hi = lo * self._unit, hi * self._unit
        return Difference(first, second, float(np.clip(value[first] - value[second], lo, hi)), lo, hi, None)

    def of_wins(self, first: str, second: str) -> Difference:
        """As ``Rates.of_wins``, without a posterior probability."""
        value, lo, hi = (2.0 * end - 1.0 for end in (self.rates[0].value, self.rates[0].lo, self.rates[0].hi))
        return Difference(first, second, value, lo, hi, None)


def log_capitals(stream: Stream, means: Array) -> Iterator[Array]:
    """Logarithm of the capital against each mean of all N labels, after each label of the stream; (G,) arrays.

    At the true mean the expectation of the capital, over the order in which items are drawn, is 1 after every label.
    """
    size = len(stream.scores)
    waiting = np.ones(size, dtype=bool)
    log_capital, spent, squares = np.zeros(len(means)), 0.0, _PRIOR_VARIANCE
    predicted = _Predictions()
    for count, (row, label) in enumerate(zip(stream.rows.tolist(), stream.labels.tolist(), strict=True)):
        predictions = predicted.of(stream.scores[waiting])
        own, centre = float(predicted.of(stream.scores[row])), float(predictions.mean())
        mean = (size * means - spent) / (size - count)
        possible = (mean > -1e-9) & (mean < 1 + 1e-9)
        mean = np.clip(mean, 0.0, 1.0)
        below = np.maximum(mean - (centre - predictions.max()), 1e-12)
        above = np.maximum((1.0 + centre - predictions.min()) - mean, 1e-12)
        expected = centre + predicted.bias
        bet = (expected - mean) / (squares / (count + 1) + (expected - mean) ** 2)
        bet = np.clip(bet, -_LARGEST_BET / above, _LARGEST_BET / below)
        log_capital = np.where(possible, log_capital + np.log1p(bet * (label - own + centre - mean)), np.inf)
        yield log_capital
        squares += (label - own) ** 2
        predicted.learn(float(stream.scores[row]), label, own)
        waiting[row] = False
        spent += label


class _Predictions:
    """Least squares of the labels so far on their scores, shrunk to no slope and to a mean of one half."""

    def __init__(self) -> None:
        self._count = 0
        self._x = self._y = self._xx = self._xy = self._errors = 0.0

    @property
    def bias(self) -> float:
        """Mean error of the predictions so far."""
        return self._errors / self._count if self._count else 0.0

    def of(self, scores: Array | float) -> Array:
        """Predicted labels, within 0 and 1."""
        if not self._count:
            return np.full(np.shape(scores), 0.5)
        x, y = self._x / self._count, (self._y + 0.5) / (self._count + 1)
        slope = (self._xy - self._x * self._y / self._count) / (self._xx - self._x * x + _PRIOR_LABELS)
        return np.clip(y + slope * (np.asarray(scores) - x), 0.0, 1.0)

    def learn(self, score: float, label: float, predicted: float) -> None:
        """Add a label that was predicted."""
        self._count += 1
        self._x, self._y = self._x + score, self._y + label
        self._xx, self._xy = self._xx + score**2, self._xy + score * label
        self._errors += label - predicted


def evidence_of(stream: Stream, sampling: float = 0.0) -> Evidence:
    """Capital against evenly spaced means, of which those that the labels seen rule out are left out."""
    size, known = len(stream.scores), float(stream.labels.sum())
    means = np.linspace(known / size, (known + size - len(stream.labels)) / size, _CANDIDATES)
    *_, log_capital = log_capitals(stream, means)
    return Evidence(means, log_capital, sampling)


def interval(evidence: Evidence, level: float) -> tuple[float, float]:
    """The means that are not excluded, from the least to the largest."""
    means = evidence.means
    step = float(means[1] - means[0])
    possible = (float(means[0]), float(means[-1])) if evidence.sampling == 0 else (0.0, 1.0)
    return _kept(means, evidence.log_capital, level, evidence.sampling, step, possible)


def difference_interval(first: Evidence, second: Evidence, level: float) -> tuple[float, float]:
    """Differences of two means that are not excluded by the product of the capitals."""
    together = first.log_capital[:, None] + second.log_capital[None, :]
    difference = first.means[:, None] - second.means[None, :]
    step = float(first.means[1] - first.means[0] + second.means[1] - second.means[0])
    sampling = first.sampling + second.sampling
    possible = (float(difference.min()), float(difference.max())) if sampling == 0 else (-1.0, 1.0)
    return _kept(difference.ravel(), together.ravel(), level, sampling, step, possible)


def _kept(
    values: Array, log_capital: Array, level: float, sampling: float, step: float, possible: tuple[float, float]
) -> tuple[float, float]:
    """The interval from the least to the largest value that is not excluded, one step further on either side.

    Where the target is endless items like those given, the capital against a value d of the items given is multiplied
    by what a mixture of bets wins against a deviation of d from the target x, exp(tau (d - x)^2 / (2 v (1 + tau))) /
    sqrt(1 + tau) for a variance v and ``_MIXING`` = tau (Robbins, Annals of Mathematical Statistics 1970).

    Where every value is excluded, the true one is too, which happens with the probability that the level leaves or
    where the labels did not come in random order. Then nothing is said: all that labels allow is in the interval.
    """
    margin = -np.log1p(-level) - log_capital + (0.5 * np.log1p(_MIXING) if sampling > 0 else 0.0)
    open_ = margin > 0
    if not open_.any():
        return possible
    reach = np.sqrt(margin[open_] * 2.0 * sampling * (1.0 + _MIXING) / _MIXING)
    least, largest = float((values[open_] - reach).min()), float((values[open_] + reach).max())
    return max(least - step, possible[0]), min(largest + step, possible[1])


def rates_at_looks(
    given: Labelled,
    *,
    level: float = LEVEL,
    of_these_items: bool = True,
    seed: int = 0,
) -> Rates:
    """The mean label of each system's items: ``rates_of``, or where the labels have an order, ``SequentialRates``.

    Of these, values are those of ``rates_of``, as far as the intervals allow. Split units say which
    items came independently of one another, where the target is endless items.

    Raises
    ------
    InputError, FitError
        Bounds are missing or exceeded, or as in ``rates_of``.
    """
    if given.order is None:
        return rates_of(given, level=level, of_these_items=of_these_items, seed=seed)
    at_one_look = replace(given, chance=None, repeats=None)
    fixed = rates_of(at_one_look, level=level, of_these_items=of_these_items, seed=seed)
    lo, hi = _bounds(given.labels, given.bounds)
    score = item_scores(given.estimate, shares=fixed.kind == "share")
    rows_of = given.rows_by_system()
    assisted: dict[str, Evidence] = {}
    by_labels: dict[str, Evidence] = {}
    for name in (rate.system for rate in fixed.rates):
        stream = _stream(score, (given.labels - lo) / (hi - lo), given.order, rows_of[name])
        sampling = 0.0 if of_these_items else _sampling_variance(rows_of[name], given.units)
        assisted[name] = evidence_of(stream, sampling)
        by_labels[name] = evidence_of(replace(stream, scores=np.zeros(len(stream.scores))), sampling)
    rates = [
        replace(
            rate,
            **dict(zip(("value", "lo", "hi"), _within(rate.value, assisted[rate.system], level, lo, hi), strict=True)),
            by_labels=_within(rate.by_labels[0], by_labels[rate.system], level, lo, hi),
        )
        for rate in fixed.rates
    ]
    best_first = sorted(rates, key=lambda rate: -rate.value)
    return SequentialRates(fixed.kind, level, best_first, fixed.left_out, _evidence=assisted, _unit=hi - lo)


def _sampling_variance(rows: Rows, units: Sequence[str] | None) -> float:
    """Hoeffding's bound for the mean of labels between 0 and 1: 1/4 over the number of independent items.

    Of items in units that resemble one another without limit, as many count as units of equal size would be.
    """
    if units is None:
        return 0.25 / len(rows)
    sizes = np.array(list(Counter(units[int(row)] for row in rows).values()), dtype=np.float64)
    return 0.25 * float(np.sum(sizes**2)) / len(rows) ** 2


def _stream(score: Array, labels: Array, order: Sequence[int], rows: Rows) -> Stream:
    place = {row: k for k, row in enumerate(rows.tolist())}
    labelled = [row for row in order if row in place]
    return Stream(score[rows], np.array([place[row] for row in labelled], dtype=np.intp), labels[labelled])


def _within(value: float, evidence: Evidence, level: float, lo: float, hi: float) -> tuple[float, float, float]:
    """A value moved into the interval, and the interval, in units of the labels."""
    least, largest = (lo + (hi - lo) * end for end in interval(evidence, level))
    return min(max(value, least), largest), least, largest


def _bounds(labels: Array, bounds: tuple[float, float] | None) -> tuple[float, float]:
    known = labels[~np.isnan(labels)]
    if bounds is None:
        if not np.isin(known, (0.0, 1.0)).all():
            raise InputError("labels are not all 0 and 1; say between which bounds a label must lie, such as 1 and 5")
        return 0.0, 1.0
    lo, hi = bounds
    if not lo < hi:
        raise InputError(f"the bounds of labels rise, got {lo:g} and {hi:g}")
    outside = known[(known < lo) | (known > hi)]
    if len(outside):
        raise InputError(f"a label is {outside[0]:g}, outside the bounds {lo:g} and {hi:g}; widen them")
    return lo, hi
