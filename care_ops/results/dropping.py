"""Whether labels say that an answer is better without one of its judges.

To disagree with the others is no reason to drop a judge: where most judges share a bias, the one that disagrees may be
right. Only labels tell, and only enough of them.

Belongs here: the difference in order with its interval, and the advice that follows. Belongs elsewhere: the answers
themselves, words for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

Array = NDArray[np.float64]

LEAST_LABELS = 30
"""Labels from which on advice is given. Fewer do not carry the interval, which rests on a normal approximation."""

_MOST_LABELS = 1_000
"""Labels that are compared pair by pair; more are thinned evenly, because the pairs grow with their square."""

Advice = Literal["drop", "keep", "unclear"]


@dataclass(frozen=True)
class DropEvidence:
    """How much better an answer orders the labelled items with a judge than without it.

    Attributes
    ----------
    labels : int
        Labelled items that were compared.
    gain, lo, hi : float
        Share of the pairs of different labels that the answer orders rightly, less the share without the judge; ties
        count one half. With two classes of labels that is the difference of two AUCs.
    needed : int or None
        Labels by which a difference of this size would be told from none; None where there is no difference.
    """

    labels: int
    gain: float
    lo: float
    hi: float
    needed: int | None

    @property
    def advice(self) -> Advice:
        """``drop`` where the whole interval says that the answer is better without the judge."""
        if self.labels < LEAST_LABELS or self.lo <= 0 <= self.hi:
            return "unclear"
        return "drop" if self.hi < 0 else "keep"


def drop_evidence(whole: Array, without: Array, labels: Array, judges: int, level: float = 0.9) -> DropEvidence | None:
    """Compare an answer with the same answer without one judge, item by item.

    The interval is Student's t over the influence of each item, as of any ratio of two U-statistics. Its level is
    adjusted for the number of judges (Bonferroni), so that chance advises to drop one of them that should stay in at
    most a twentieth of all panels. Items count as drawn independently of one another.

    Parameters
    ----------
    whole, without : (n,) array
        The two answers.
    labels : (n,) array
        NaN where there is none.
    judges : int
        How many judges are compared so.

    Returns
    -------
    DropEvidence or None
        None where fewer than three items are labelled, or all labels are alike.
    """
    rows = np.flatnonzero(~np.isnan(labels) & ~np.isnan(whole) & ~np.isnan(without))
    if len(rows) > _MOST_LABELS:
        rows = rows[np.linspace(0, len(rows) - 1, _MOST_LABELS).astype(np.intp)]
    if len(rows) < 3 or np.ptp(labels[rows]) == 0:
        return None
    order = _signs(labels[rows])
    better = (_signs(whole[rows]) - _signs(without[rows])) * order / 2
    pairs = np.abs(order).mean(axis=1)
    gain = float(better.mean() / pairs.mean())
    influence = 2 * (better.mean(axis=1) - gain * pairs) / pairs.mean()
    n = len(rows)
    error = float(influence.std(ddof=1) / np.sqrt(n))
    half = float(student.ppf(1 - (1 - level) / (2 * judges), n - 1)) * error
    needed = max(LEAST_LABELS, ceil(n * (half / gain) ** 2)) if gain != 0 else None
    return DropEvidence(n, gain, gain - half, gain + half, needed)


def _signs(values: Array) -> Array:
    """The sign of every pair's difference, (n, n)."""
    return np.sign(values[:, None] - values[None, :])
