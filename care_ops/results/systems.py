"""Which of two systems is better, and how sure that is: paired differences, prediction-powered with anchors.

Items belong to systems (models, versions, prompts of a product). Items of one split unit (a prompt that every system
answered) are compared with one another, so that hard prompts count for nobody. Variances are cluster-robust by split
unit, intervals Student's t.

Belongs here: means, differences and Bradley-Terry strengths of systems. Does not: the estimates of single items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import t as student

from care_ops.anchors import NO_ANCHORS, Anchors
from care_ops.errors import FitError, InputError

Array = NDArray[np.float64]

LEAST_LABELS = 5
"""Labelled items that each of two systems needs, from different split units, before labels correct a difference."""

_RIDGE = 1e-6
"""Keeps Bradley-Terry strengths finite where a system wins every comparison."""


@dataclass(frozen=True)
class Comparison:
    """System ``first`` less system ``second``.

    Attributes
    ----------
    first, second : str
    difference, lo, hi : float
        In points of the estimate; of the labels where ``labels_used`` > 0; in log odds of winning for pairwise items.
    units : int
        Split units behind it.
    labels_used : int
        Labels that corrected it; 0 means that it is what the judges see, with whatever they all get wrong.
    trust : float
        Weight of the estimates beside the labels (the lambda of PPI++), between 0 and 1; 1 without labels.
    """

    first: str
    second: str
    difference: float
    lo: float
    hi: float
    units: int
    labels_used: int
    trust: float


def mean_differences(
    estimate: Array,
    systems: Sequence[str | None],
    units: Sequence[str],
    labels: Array | None = None,
    *,
    level: float = 0.9,
) -> list[Comparison]:
    """Every pair of systems by the mean of their items, the better one first.

    With labels the difference is that of the labels, by prediction-powered inference (Angelopoulos et al., Science
    2023; tuned as in "PPI++", 2023): estimates bring precision, and the labelled items correct what the judges get
    wrong about a system. The labelled items must be drawn at random.

    Parameters
    ----------
    estimate : (n,) array
        NaN items are left out.
    systems : sequence of n str or None
        None belongs to no system.
    units : sequence of n str
    labels : (n,) array, optional
        NaN where there is none.
    level : float

    Raises
    ------
    InputError
        Lengths differ.
    FitError
        Fewer than two systems with items of at least two split units.
    """
    unit, _ = _codes(units)
    known = ~np.isnan(estimate)
    _same_length(estimate, systems, units)
    rows = {
        name: np.array([i for i, s in enumerate(systems) if s == name and known[i]], dtype=np.intp)
        for name in sorted({s for s in systems if s is not None})
    }
    rows = {name: r for name, r in rows.items() if len(np.unique(unit[r])) >= 2}
    if len(rows) < 2:
        raise FitError("systems: at least two systems with scored items of two split units each are needed")
    y = np.full(len(estimate), np.nan) if labels is None else labels
    names = list(rows)
    return [
        _difference(first, second, estimate, y, unit, rows, level)
        for k, first in enumerate(names)
        for second in names[k + 1 :]
    ]


def bradley_terry(
    estimate: Array,
    pairs: Sequence[tuple[str, str] | None],
    units: Sequence[str],
    labels: Array | None = None,
    *,
    level: float = 0.9,
) -> tuple[dict[str, float], list[Comparison]]:
    """Strengths of systems compared in pairs, and every difference: P(left wins) = expit(s_left - s_right).

    An estimate between 0 and 1 counts as a fractional win, as a tie does with .5 (quasi-likelihood; Bradley and Terry,
    1952; Papke and Wooldridge, 1996). With labels the estimating equation is prediction-powered.

    Parameters
    ----------
    estimate : (n,) array
        P(left wins) or the share of votes for it, in [0, 1]; NaN items are left out.
    pairs : sequence of n (left, right) or None
    units : sequence of n str
    labels : (n,) array, optional
        In [0, 1]; NaN where there is none.

    Returns
    -------
    strengths : dict system -> float
        Adding to zero.
    comparisons : list of Comparison

    Raises
    ------
    InputError
        Lengths differ, or estimates or labels lie outside [0, 1].
    FitError
        The comparisons do not link all systems, or there are fewer than two split units.
    """
    _same_length(estimate, pairs, units)
    usable = [i for i, pair in enumerate(pairs) if pair is not None and not np.isnan(estimate[i])]
    games = [pair for i in usable if (pair := pairs[i]) is not None]
    e = estimate[usable]
    y = np.full(len(usable), np.nan) if labels is None else labels[usable]
    for what, values in (("estimates", e), ("labels", y[~np.isnan(y)])):
        if len(values) and (values.min() < 0 or values.max() > 1):
            raise InputError(
                f"systems: {what} of pairwise items must lie in [0, 1], found {values.min():g} to "
                f"{values.max():g}; declare the test set's scale"
            )
    names = sorted({name for pair in games for name in pair})
    unit, count = _codes([units[i] for i in usable])
    if count < 2 or not _linked(games, names):
        raise FitError("systems: the comparisons must link all systems, over at least two split units")
    place = {name: k for k, name in enumerate(names)}
    x = np.zeros((len(games), len(names)))
    for row, (left, right) in enumerate(games):
        x[row, place[left]] += 1.0
        x[row, place[right]] -= 1.0
    seen = ~np.isnan(y)
    trust, used = 1.0, 0
    strength, inverse = _solve(x, e, y, seen, 1.0, corrected=False)
    if len(np.unique(unit[seen])) >= max(LEAST_LABELS, len(names)):
        used = int(seen.sum())
        strength, inverse = _solve(x, e, y, seen, 1.0, corrected=True)
        label_part, estimate_part = _scores(x, e, y, seen, unit, count, strength)
        trust = _trust(label_part @ inverse, estimate_part @ inverse)
        strength, inverse = _solve(x, e, y, seen, trust, corrected=True)
        label_part, estimate_part = _scores(x, e, y, seen, unit, count, strength)
        influence = (label_part + trust * estimate_part) @ inverse
        freedom = len(np.unique(unit[seen])) - 1
    else:
        residual = (e - expit(x @ strength))[:, None] * x / len(e)
        influence = _by_unit(residual, unit, count) @ inverse
        freedom = count - 1
    comparisons: list[Comparison] = []
    order = sorted(range(len(names)), key=lambda k: -strength[k])
    for k, a in enumerate(order):
        for b in order[k + 1 :]:
            lo, hi = _interval(strength[a] - strength[b], influence[:, a] - influence[:, b], freedom, level)
            comparisons.append(
                Comparison(names[a], names[b], float(strength[a] - strength[b]), lo, hi, count, used, trust)
            )
    return {names[k]: float(strength[k]) for k in order}, comparisons


def anchors_as_labels(item_ids: Sequence[str], anchors: Anchors = NO_ANCHORS) -> Array:
    """Labels in the order of the items, NaN where there is none."""
    return np.array([anchors.labels.get(item_id, np.nan) for item_id in item_ids], dtype=np.float64)


def _difference(
    first: str,
    second: str,
    estimate: Array,
    labels: Array,
    unit: NDArray[np.intp],
    rows: dict[str, NDArray[np.intp]],
    level: float,
) -> Comparison:
    count = int(unit.max()) + 1
    from_estimates, from_labels = np.zeros(count), np.zeros(count)
    mean, correction_label, correction_estimate = 0.0, 0.0, 0.0
    seen = {name: rows[name][~np.isnan(labels[rows[name]])] for name in (first, second)}
    labelled = min(len(np.unique(unit[r])) for r in seen.values()) >= LEAST_LABELS
    for name, sign in ((first, 1.0), (second, -1.0)):
        all_of, some = rows[name], seen[name]
        level_all = float(estimate[all_of].mean())
        mean += sign * level_all
        np.add.at(from_estimates, unit[all_of], sign * (estimate[all_of] - level_all) / len(all_of))
        if labelled:
            of_labels, of_estimates = float(labels[some].mean()), float(estimate[some].mean())
            correction_label += sign * of_labels
            correction_estimate += sign * of_estimates
            np.add.at(from_labels, unit[some], sign * (labels[some] - of_labels) / len(some))
            np.add.at(from_estimates, unit[some], -sign * (estimate[some] - of_estimates) / len(some))
    touched = np.unique(unit[np.concatenate([rows[first], rows[second]])])
    trust, used, freedom, difference = 1.0, 0, len(touched) - 1, mean
    if labelled:
        trust = _trust(from_labels[:, None], from_estimates[:, None])
        used = sum(len(r) for r in seen.values())
        freedom = len(np.unique(unit[np.concatenate(list(seen.values()))])) - 1
        difference = correction_label + trust * (mean - correction_estimate)
    lo, hi = _interval(difference, (from_labels + trust * from_estimates)[touched], freedom, level)
    if difference < 0:
        return Comparison(second, first, -difference, -hi, -lo, len(touched), used, trust)
    return Comparison(first, second, difference, lo, hi, len(touched), used, trust)


def _interval(difference: float, influence: Array, freedom: int, level: float) -> tuple[float, float]:
    active = influence[influence != 0.0]
    scale = len(active) / max(len(active) - 1, 1)
    half = float(student.ppf((1 + level) / 2, max(freedom, 1)) * np.sqrt(scale * np.sum(active**2)))
    return float(difference) - half, float(difference) + half


def _trust(label_part: Array, estimate_part: Array) -> float:
    """The weight of the estimates at which the variance of label_part + weight * estimate_part is least."""
    size = float(np.sum(estimate_part**2))
    return 1.0 if size == 0.0 else float(np.clip(-np.sum(label_part * estimate_part) / size, 0.0, 1.0))


def _solve(
    x: Array, e: Array, y: Array, seen: NDArray[np.bool_], trust: float, *, corrected: bool
) -> tuple[Array, Array]:
    """Strengths, adding to zero, and the inverse of the equation's slope on that space, by Newton's method."""
    n, k = x.shape
    strength = np.zeros(k)
    some, m = x[seen], max(int(seen.sum()), 1)
    inverse = np.eye(k)
    for _ in range(100):
        p = expit(x @ strength)
        gradient = trust * x.T @ (e - p) / n - _RIDGE * strength
        w = p * (1 - p)
        slope = trust * (x * w[:, None]).T @ x / n + _RIDGE * np.eye(k)
        if corrected:
            q = expit(some @ strength)
            gradient = gradient + some.T @ ((y[seen] - q) - trust * (e[seen] - q)) / m
            slope = slope + (1 - trust) * (some * (q * (1 - q))[:, None]).T @ some / m
        inverse = np.linalg.pinv(
            slope - slope.mean(axis=0) - slope.mean(axis=1)[:, None] + slope.mean(), hermitian=True
        )
        step = inverse @ gradient
        size = float(np.abs(step).max())
        strength = strength + step * min(1.0, 5.0 / max(size, 1e-12))
        strength = strength - strength.mean()
        if size < 1e-10:
            break
    return strength, inverse


def _scores(
    x: Array, e: Array, y: Array, seen: NDArray[np.bool_], unit: NDArray[np.intp], count: int, strength: Array
) -> tuple[Array, Array]:
    """By split unit: the labels' part of the estimating equation, and the estimates', around their means."""
    n, m = len(e), max(int(seen.sum()), 1)
    p = expit(x @ strength)
    of_labels = np.where(seen, np.nan_to_num(y) - p, 0.0)[:, None] * x / m
    of_estimates = (e - p)[:, None] * x / n - np.where(seen, e - p, 0.0)[:, None] * x / m
    share = (seen / m)[:, None]
    all_mean, seen_mean = ((e - p)[:, None] * x).mean(axis=0), ((e - p)[:, None] * x)[seen].sum(axis=0) / m
    label_mean = of_labels.sum(axis=0)
    of_estimates = of_estimates - all_mean / n + share * seen_mean
    return _by_unit(of_labels - share * label_mean, unit, count), _by_unit(of_estimates, unit, count)


def _by_unit(rows: Array, unit: NDArray[np.intp], count: int) -> Array:
    out = np.zeros((count, rows.shape[1]))
    np.add.at(out, unit, rows)
    return out


def _codes(units: Sequence[str]) -> tuple[NDArray[np.intp], int]:
    distinct, code = np.unique(np.array(units, dtype=str), return_inverse=True)
    return code.astype(np.intp), len(distinct)


def _linked(games: Sequence[tuple[str, str]], names: Sequence[str]) -> bool:
    reached, grown = {names[0]} if names else set[str](), True
    while grown:
        more = {b for a, b in games if a in reached} | {a for a, b in games if b in reached}
        grown = not more <= reached
        reached |= more
    return len(names) >= 2 and reached == set(names)


def _same_length(estimate: Array, *others: Sequence[object]) -> None:
    for other in others:
        if len(other) != len(estimate):
            raise InputError(f"systems: {len(estimate)} estimates, but {len(other)} entries beside them")
