"""Was it the system or a judge? Sequential tests, each of its own cause, that hold at all nights together.

Every night each judge is asked again about reference answers that it scored when it was anchored, and about what a
system says tonight to the same prompts. No reference answer is used on two nights.

- The judge's evidence is its score of a reference answer tonight less its score then. Where the judge is as it was, the
  two may be exchanged, so that their difference is symmetric about 0, whatever the systems do.
- The system's evidence is the score of its answer of tonight less that of the reference answer to the same prompt, both
  by tonight's judges. Where the system is as it was, the two answers may be exchanged, whatever the judges have become.

So neither can be taken for the other. For differences d that are symmetric given those before, exp(l sum d - l^2 sum
d^2 / 2) is expected to stay at or below 1 for every l (de la Pena, Annals of Probability 1999): it is the capital of
somebody who bets on a shift, and by a fair start of 1 it ever reaches 1 / a with a probability of at most a (Ville
1939). The bets are mixed over l, normal about 0, and over the night on which the change came: the capital is shared
out over all nights beforehand, and each share waits for its night. The share
that has won the most for what it was given names the night.

Nothing is assumed of the scores but that they are bounded by the scale. What a test cannot see: a change that leaves
every difference symmetric, such as more noise alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from care_ops.errors import InputError
from care_ops.scores import Array

Cause = Literal["no evidence", "judge", "system", "both"]

FALSE_ALARMS = 0.05
"""Largest probability that anything is said of judges and systems that do not change, over all nights."""

_BOLDNESS = 10.0
"""Standard deviation of the bets, in 1 / scale: boldest for shifts of about a tenth of the scale."""


@dataclass(frozen=True)
class Changed:
    """A judge or a system of which there is evidence that it has changed.

    Attributes
    ----------
    night : int
        The night on which the change most likely came, from 0.
    told : int
        The night on which the evidence was enough.
    shift : float
        Mean difference from ``night`` on, in shares of the scale.
    """

    night: int
    told: int
    shift: float


@dataclass(frozen=True)
class Attribution:
    """What the nights say.

    Attributes
    ----------
    judges, systems : dict name -> Changed
        Those of which there is evidence.
    false_alarms : float
        The probability that was allowed for all of them and all nights together.
    """

    judges: Mapping[str, Changed]
    systems: Mapping[str, Changed]
    false_alarms: float

    @property
    def cause(self) -> Cause:
        """Which of the two it was."""
        if self.judges and self.systems:
            return "both"
        return "judge" if self.judges else "system" if self.systems else "no evidence"


def log_capitals(nights: Sequence[Array]) -> Array:
    """Logarithm of the capital that each night's share has won by each night.

    Parameters
    ----------
    nights : sequence of (m,) array
        Differences of each night, in shares of the scale; none where nothing was asked.

    Returns
    -------
    (T, T) array
        Row t, column k: after night t, of the share that waits for night k; what it was given is counted. Shares that
        still wait are in the columns after t.
    """
    count = len(nights)
    sums = np.cumsum([float(np.sum(night)) for night in nights])
    squares = np.cumsum([float(np.sum(np.square(night))) for night in nights])
    before_sums, before_squares = np.r_[0.0, sums[:-1]], np.r_[0.0, squares[:-1]]
    won_sums = sums[:, None] - before_sums[None, :]
    won_squares = np.maximum(squares[:, None] - before_squares[None, :], 0.0)
    spread = 1.0 + _BOLDNESS**2 * won_squares
    won = 0.5 * (_BOLDNESS * won_sums) ** 2 / spread - 0.5 * np.log(spread)
    k = np.arange(1, count + 1)
    return np.where(k[None, :] <= k[:, None], won, 0.0) - np.log(k * (k + 1.0))[None, :]


def change(nights: Sequence[Array], false_alarms: float) -> Changed | None:
    """The first night by which there is evidence of a change, and what is then most likely of it; None without any.

    Parameters
    ----------
    nights : sequence of (m,) array
        As in ``log_capitals``.
    false_alarms : float
        Largest probability, over all nights, that this says so where nothing changed.
    """
    if not nights:
        return None
    shares = log_capitals(nights)
    waiting = 1.0 / (len(nights) + 1.0)  # of nights that have not come yet
    capital = np.logaddexp(np.logaddexp.reduce(shares, axis=1), np.log(waiting))
    reached = np.flatnonzero(capital >= -np.log(false_alarms))
    if not len(reached):
        return None
    told = int(reached[0])
    k = np.arange(1, told + 2)
    night = int(np.argmax(shares[told, : told + 1] + np.log(k * (k + 1.0))))
    since = np.concatenate([np.asarray(each, dtype=np.float64) for each in nights[night : told + 1]])
    return Changed(night, told, float(since.mean()))


def attribute(
    judges: Mapping[str, Sequence[Array]],
    systems: Mapping[str, Sequence[Array]],
    *,
    false_alarms: float = FALSE_ALARMS,
) -> Attribution:
    """Which judges and which systems have changed.

    Parameters
    ----------
    judges : mapping judge -> nights
        Its differences on reference answers, tonight less then, in shares of the scale.
    systems : mapping system -> nights
        Tonight's answer less the reference answer to the same prompt, both by tonight's judges, in shares of the scale;
        of several judges the mean.
    false_alarms : float
        Allowed for all of them together, and shared out equally.

    Raises
    ------
    InputError
        A difference is larger than the scale, or not a number.
    """
    every = [*judges.items(), *systems.items()]
    for name, nights in every:
        for night in nights:
            if not np.all(np.abs(night) <= 1.0):
                raise InputError(f"{name}: a difference is more than the scale, or no number; give shares of the scale")
    each = false_alarms / max(len(every), 1)
    found = [{name: change(nights, each) for name, nights in group.items()} for group in (judges, systems)]
    changed = [{name: one for name, one in group.items() if one is not None} for group in found]
    return Attribution(changed[0], changed[1], false_alarms)
