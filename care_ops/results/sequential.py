"""Confidence sequences for rates of systems: intervals that hold simultaneously at all looks while labels arrive.

Method: testing by betting, without replacement (Waudby-Smith and Ramdas, Journal of the Royal Statistical Society B
2024). A capital of 1 is bet against each possible mean, label by label. Against the true mean the game is fair, so
the probability that the capital ever reaches 1 / (1 - level) is at most 1 - level (Ville 1939). A mean is excluded once
its capital reaches this value. The bet is on the label minus its prediction by a regression on earlier labels, plus the
mean prediction of all unlabelled items (prediction-powered inference, Angelopoulos, Duchi and Zrnic 2023). Two systems
are compared by the product of their capitals.

Labels must have known bounds, and the labelled items must be drawn at random without replacement, in the given order.
For inference on future items, split units (groups of related items) must be independent.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import InputError
from care_ops.results.rates import LEVEL, Difference, Labelled, Rate, Rates, item_scores, rates_of
from care_ops.scores import Array

Rows = NDArray[np.intp]

_CANDIDATES = 1001
_LARGEST_BET = 0.5
"""Largest bet, as a share of the capital (Waudby-Smith and Ramdas)."""

_MIXING = 4.0
"""Parameter tau in ``_kept``; at the level .9 intervals of few items are narrowest with about 4."""

_PRIOR_LABELS = 2.0
"""Weight of the prior slope of 0, as a number of labels."""

_PRIOR_VARIANCE = 0.25
"""Initial variance of a prediction error, the largest possible for a number between 0 and 1."""


@dataclass(frozen=True)
class Stream:
    """Scores of a system's items; rows of the labelled items in labelling order, and their labels scaled to [0, 1]."""

    scores: Array
    rows: Rows
    labels: Array


@dataclass(frozen=True)
class Evidence:
    """Log capital after bets against each candidate value of the mean label of a system's items; shape (candidates,).

    ``sampling`` bounds the variance of this mean around the population mean; 0 if only these items are of interest.
    """

    means: Array
    log_capital: Array
    sampling: float = 0.0


def log_capitals(stream: Stream, means: Array) -> Iterator[Array]:
    """Yield, after each label, the log capital of the bets against each candidate mean label; shape (candidates,).

    After every label, the expected capital against the true mean, over random orders of the items, is 1.
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
    """Least-squares regression of labels on scores, shrunk towards a slope of 0 and a mean of one half."""

    def __init__(self) -> None:
        self._count = 0
        self._x = self._y = self._xx = self._xy = self._errors = 0.0

    @property
    def bias(self) -> float:
        """Mean error of all earlier predictions."""
        return self._errors / self._count if self._count else 0.0

    def of(self, scores: Array | float) -> Array:
        if not self._count:
            return np.full(np.shape(scores), 0.5)
        x, y = self._x / self._count, (self._y + 0.5) / (self._count + 1)
        slope = (self._xy - self._x * self._y / self._count) / (self._xx - self._x * x + _PRIOR_LABELS)
        return np.clip(y + slope * (np.asarray(scores) - x), 0.0, 1.0)

    def learn(self, score: float, label: float, predicted: float) -> None:
        self._count += 1
        self._x, self._y = self._x + score, self._y + label
        self._xx, self._xy = self._xx + score**2, self._xy + score * label
        self._errors += label - predicted


def evidence_of(stream: Stream, sampling: float = 0.0) -> Evidence:
    """Compute the log capital against evenly spaced means that are consistent with the labels."""
    size, known = len(stream.scores), float(stream.labels.sum())
    means = np.linspace(known / size, (known + size - len(stream.labels)) / size, _CANDIDATES)
    *_, log_capital = log_capitals(stream, means)
    return Evidence(means, log_capital, sampling)


def interval(evidence: Evidence, level: float) -> tuple[float, float]:
    """Return the confidence interval: all candidate means whose capital is below the limit for exclusion."""
    return _kept(evidence.means, evidence.log_capital, level, evidence.sampling, (0.0, 1.0), _step(evidence))


def difference_interval(first: Evidence, second: Evidence, level: float) -> tuple[float, float]:
    """Return the confidence interval for the difference of two systems, from the product of both betting capitals."""
    together = first.log_capital[:, None] + second.log_capital[None, :]
    difference = first.means[:, None] - second.means[None, :]
    sampling, step = first.sampling + second.sampling, _step(first) + _step(second)
    return _kept(difference.ravel(), together.ravel(), level, sampling, (-1.0, 1.0), step)


def _step(evidence: Evidence) -> float:
    return float(evidence.means[1] - evidence.means[0])


def _kept(
    values: Array, log_capital: Array, level: float, sampling: float, endless: tuple[float, float], step: float
) -> tuple[float, float]:
    """Return the interval of values that are not excluded, widened by one step; all values if all are excluded.

    With v = ``sampling`` > 0, the interval is for a population value x between the limits ``endless``. The capital
    against each sample value d is then multiplied by exp(tau (d - x)^2 / (2 v (1 + tau))) / sqrt(1 + tau), a mixture of
    bets on d - x with tau = ``_MIXING`` (Robbins, Annals of Mathematical Statistics 1970).
    """
    low, high = (float(values.min()), float(values.max())) if sampling == 0 else endless
    margin = -np.log1p(-level) - log_capital + (0.5 * np.log1p(_MIXING) if sampling > 0 else 0.0)
    open_ = margin > 0
    if not open_.any():
        return low, high
    reach = np.sqrt(margin[open_] * 2.0 * sampling * (1.0 + _MIXING) / _MIXING)
    least, largest = float((values[open_] - reach).min()), float((values[open_] + reach).max())
    return max(least - step, low), min(largest + step, high)


def rates_at_looks(given: Labelled, *, level: float = LEVEL, of_these_items: bool = True, seed: int = 0) -> Rates:
    """Estimate the mean label of each system, by a confidence sequence if ``order`` is given, else by ``rates_of``.

    Raises
    ------
    InputError, FitError
        A level, a probability, a bound or a label is invalid (``InputError``), or no system has ``MIN_LABELS`` labels.
    """
    if given.order is None:
        return rates_of(given, level=level, of_these_items=of_these_items, seed=seed)
    at_one_look = replace(given, chance=None, repeats=None)
    fixed = rates_of(at_one_look, level=level, of_these_items=of_these_items, seed=seed)
    lo, hi = _bounds(given.labels, given.bounds)
    score = item_scores(given.estimate, shares=fixed.kind == "share")
    rows_of = given.rows_by_system()
    assisted: dict[str, Evidence] = {}
    for name in (rate.system for rate in fixed.rates):
        rows = rows_of[name]
        place = {row: k for k, row in enumerate(rows.tolist())}
        labelled = [row for row in given.order if row in place]
        labels = (given.labels[labelled] - lo) / (hi - lo)
        stream = Stream(score[rows], np.array([place[row] for row in labelled], dtype=np.intp), labels)
        sampling = 0.0 if of_these_items else _sampling_variance(rows, given.units)
        assisted[name] = evidence_of(stream, sampling)
    rates: list[Rate] = []
    for rate in fixed.rates:
        least, largest = (lo + (hi - lo) * end for end in interval(assisted[rate.system], level))
        rates.append(replace(rate, value=min(max(rate.value, least), largest), lo=least, hi=largest))
    values = {rate.system: rate.value for rate in rates}

    def compare(first: str, second: str) -> Difference:
        ends = difference_interval(assisted[first], assisted[second], level)
        least, largest = ((hi - lo) * end for end in ends)
        value = float(np.clip(values[first] - values[second], least, largest))
        return Difference(first, second, value, least, largest)

    best_first = sorted(rates, key=lambda rate: -rate.value)
    return replace(fixed, rates=best_first, _compare=compare)


def _sampling_variance(rows: Rows, units: Sequence[str] | None) -> float:
    """Bound the variance of a mean by 1/4 divided by the effective number of independent units (Hoeffding)."""
    if units is None:
        return 0.25 / len(rows)
    sizes = np.array(list(Counter(units[int(row)] for row in rows).values()), dtype=np.float64)
    return 0.25 * float(np.sum(sizes**2)) / len(rows) ** 2


def _bounds(labels: Array, bounds: tuple[float, float] | None) -> tuple[float, float]:
    known = labels[~np.isnan(labels)]
    if bounds is None:
        if not np.isin(known, (0.0, 1.0)).all():
            raise InputError("labels need bounds, because some labels are not 0 or 1; give the bounds, such as 1 and 5")
        return 0.0, 1.0
    lo, hi = bounds
    if not lo < hi:
        raise InputError(f"the lower bound of labels must be below the upper bound, got {lo:g} and {hi:g}")
    outside = known[(known < lo) | (known > hi)]
    if len(outside):
        raise InputError(
            f"a label is {outside[0]:g}, outside the bounds {lo:g} and {hi:g}; correct it, or widen the bounds"
        )
    return lo, hi
