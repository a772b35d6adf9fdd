"""Detection of changed judges by sequential tests that are valid over all runs.

In each run, a judge scores a few references again: items that the judge scored before. A difference is the new score
minus the old score. If the judge has not changed, the differences are symmetric about 0.

If differences d are symmetric given earlier ones, the mean of exp(l d) / cosh(l d) is 1 for every l. A capital of 1
that is bet on shifts then reaches 1 / a with a probability of at most a (Ville 1939). The capital is split in advance
over bet sizes and possible starts of the change. If a change is detected, the run whose share grew most is reported.

Differences with a common score are not jointly symmetric, so they belong to different rounds with separate capitals.
Round r = 1, 2, ... is tested at the level a / (r (r + 1)), so the level of all rounds together is a.

The test assumes that an unchanged judge's scores of an item all have the same distribution, and that references are not
selected by score. It cannot detect a change that leaves every difference symmetric, such as additional noise.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from care_ops.records import ChangePoint
from care_ops.scores import Array

FALSE_ALARMS = 0.05
"""Maximum probability, over all runs, that CARE reports a change of a judge although no judge has changed."""

_BETS = tuple(sign * 2.0**k for k in range(6) for sign in (-1.0, 1.0))
"""Sizes of the bets, in 1 / scale: the smallest suits a shift by the whole scale, the largest a shift by 1/30."""


@dataclass(frozen=True)
class Difference:
    """Difference between two scores that a judge gave to the same item.

    Attributes
    ----------
    run_date : int
        Day of the run, as a ``date`` ordinal.
    size : float
        Difference as a share of the scale.
    round : int
        Number of the round, from 1; no two differences of a round use the same score.
    """

    run_date: int
    size: float
    round: int = 1


def log_capitals(runs: Sequence[Array]) -> Array:
    """Compute, after each run, the log capitals that were bet on a change of the judge in each of the runs.

    Parameters
    ----------
    runs : sequence of T (m,) arrays
        Differences of each run as shares of the scale; each run has at least one difference.

    Returns
    -------
    (T, T) array
        Entry (t, k) is the log, after run t, of the share of the capital that was bet on a change in run k.
    """
    k = np.arange(1, len(runs) + 1)
    stakes = np.array(_BETS)[:, None] * np.concatenate(runs)
    starts = np.cumsum([0, *(len(run) for run in runs[:-1])])
    wins = np.add.reduceat(stakes - np.logaddexp(stakes, -stakes) + np.log(2.0), starts, axis=1)
    shares = np.full((len(k), len(k)), -np.inf)
    for won in np.cumsum(wins, axis=1):
        shares = np.logaddexp(shares, won[:, None] - np.r_[0.0, won[:-1]][None, :])
    return np.where(k[None, :] <= k[:, None], shares - np.log(len(_BETS)), 0.0) - np.log(k * (k + 1.0))[None, :]


def change(differences: Iterable[Difference], false_alarms: float) -> ChangePoint | None:
    """Detect the first change of a judge and estimate the run in which it happened; return None if none is detected.

    Parameters
    ----------
    differences : iterable of Difference
    false_alarms : float
        Maximum probability, over all runs, that a change is detected although nothing changed.
    """
    rounds = defaultdict[int, dict[int, list[float]]](dict)
    for difference in differences:
        rounds[difference.round].setdefault(difference.run_date, []).append(difference.size)
    changes = (_of_round(runs, false_alarms / (k * (k + 1))) for k, runs in rounds.items())
    return min(filter(None, changes), key=lambda point: point.detected, default=None)


def _of_round(differences: Mapping[int, Sequence[float]], false_alarms: float) -> ChangePoint | None:
    days = sorted(differences)
    runs = [np.array(differences[day], dtype=np.float64) for day in days]
    shares = log_capitals(runs)
    waiting = 1.0 / (len(runs) + 1.0)  # of runs to come
    capital = np.logaddexp(np.logaddexp.reduce(shares, axis=1), np.log(waiting))
    reached = np.flatnonzero(capital >= -np.log(false_alarms))
    if not len(reached):
        return None
    detected = int(reached[0])
    k = np.arange(1, detected + 2)
    run = int(np.argmax(shares[detected, : detected + 1] + np.log(k * (k + 1.0))))
    since = np.concatenate(runs[run : detected + 1])
    return ChangePoint(days[run], days[detected], float(since.mean()))


def of_judges(changed: Mapping[str, ChangePoint]) -> list[str]:
    """Return a sentence for each judge that has changed."""
    message = "Judge {} changed: its scores for the same answers {} {}."
    return [message.format(name, point.direction, point) for name, point in changed.items()]
