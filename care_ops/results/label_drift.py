"""Whether judges agree with newer labels of people less than with older ones.

A model behind an endpoint changes, a prompt meets answers of a new kind, people change their minds: each shows as items
that a judge places further from where people place them than it did before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from care_ops.least import LABELS_TO_CONFIRM
from care_ops.scores import Array

FALSE_ALARM = 0.01
"""Greatest probability of an alarm about any judge on a night on which none has changed."""

_PERMUTATIONS = 2_000
_AT_ONCE = 200


@dataclass(frozen=True)
class AgreementDrift:
    """A judge that places newer items further from where people place them.

    Attributes
    ----------
    before, after : float
        Mean distance of the item's rank by the judge from its rank by people, both from 0 to 1 over all items compared;
        1/3 for a judge of noise where labels are graded.
    """

    judge: str
    before: float
    after: float


def agreement_drift(
    scores: Array, labels: Array, newer: NDArray[np.bool_], weights: Array, judges: Sequence[str], seed: int = 0
) -> list[AgreementDrift]:
    """Judges whose distance from people has surely grown, those that it grew for most first.

    Each judge's mean distance over newer items is compared with that over older ones by Welch's statistic, and the
    largest over the judges with what it is where items change groups at random (Westfall and Young, Resampling-Based
    Multiple Testing, 1993). Where all weights are equal and no judge has changed, items are exchangeable, and the
    probability of any alarm is at most ``FALSE_ALARM``; with unequal weights it approaches that as labels grow, because
    the statistic is studentised (Chung and Romano, Annals of Statistics 2013).

    Parameters
    ----------
    scores : (n, p) array
        Of the labelled items alone; NaN where there is none.
    labels : (n,) array
    newer : (n,) array of bool
        Fewer than ``LABELS_TO_CONFIRM`` of either kind say nothing.
    weights : (n,) array
        How much each item counts: the inverse of the probability with which it was drawn.
    judges : sequence of p str
    seed : int
        Of the permutations.
    """
    if min(int(newer.sum()), int((~newer).sum())) < LABELS_TO_CONFIRM:
        return []
    known = ~np.isnan(scores)
    people = _ranks(labels[:, None])
    distance = np.where(known, np.abs(_ranks(scores) - people), 0.0)
    weight = np.where(known, weights[:, None], 0.0)
    observed = _welch(newer[None, :], distance, weight)[0]
    rng = np.random.default_rng(seed)
    largest: list[Array] = []
    for _ in range(_PERMUTATIONS // _AT_ONCE):
        shuffled = rng.permuted(np.tile(newer, (_AT_ONCE, 1)), axis=1)
        largest.append(_welch(shuffled, distance, weight).max(axis=1))
    by_chance = np.concatenate(largest)
    chance = (1 + (by_chance[:, None] >= observed[None, :]).sum(axis=0)) / (1 + _PERMUTATIONS)
    drifted = [
        AgreementDrift(judge, _mean(distance[:, j], weight[:, j], ~newer), _mean(distance[:, j], weight[:, j], newer))
        for j, judge in enumerate(judges)
        if chance[j] <= FALSE_ALARM
    ]
    return sorted(drifted, key=lambda moved: moved.before - moved.after)


def _ranks(values: Array) -> Array:
    """Mid-ranks of each column between 0 and 1, NaN where there is no value."""
    count = (~np.isnan(values)).sum(axis=0)
    return (rankdata(values, axis=0, nan_policy="omit") - 0.5) / np.maximum(count, 1)


def _welch(newer: NDArray[np.bool_], distance: Array, weight: Array) -> Array:
    """Difference of the groups' weighted means over its standard error, (groupings, p); 0 where it is undefined."""
    mean, variance = zip(*(_moments(group, distance, weight) for group in (~newer, newer)), strict=True)
    error = np.sqrt(variance[0] + variance[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error > 0, (mean[1] - mean[0]) / error, 0.0)


def _moments(group: NDArray[np.bool_], distance: Array, weight: Array) -> tuple[Array, Array]:
    """Weighted mean of each group (rows of ``group``) and the variance of that mean."""
    chosen = group.astype(np.float64)
    total = np.maximum(chosen @ weight, 1e-300)
    mean = chosen @ (weight * distance) / total
    squares, crossed = chosen @ (weight * distance) ** 2, chosen @ (weight**2 * distance)
    spread = squares - 2 * mean * crossed + mean**2 * (chosen @ weight**2)
    return mean, np.maximum(spread, 0.0) / total**2


def _mean(distance: Array, weight: Array, group: NDArray[np.bool_]) -> float:
    return float(weight[group] @ distance[group] / weight[group].sum()) if weight[group].any() else float("nan")
