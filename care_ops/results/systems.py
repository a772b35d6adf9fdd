"""Comparison of systems: paired differences with intervals, prediction-powered with labels.

Variances are cluster-robust by split unit (a prompt that every system answered); intervals are Student's t.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import expit
from scipy.stats import t as student

from care_ops.errors import FitError, InputError
from care_ops.fit_labels import NO_LABELS, FitLabels
from care_ops.minimum_sizes import MIN_LABELS
from care_ops.records import Comparison
from care_ops.scores import Array


def mean_differences(
    estimate: Array,
    systems: Sequence[str | None],
    units: Sequence[str],
    labels: Array | None = None,
    *,
    level: float = 0.9,
) -> list[Comparison]:
    """Compare every two systems by the means of their items, the better one first.

    Labels of items drawn at random correct the difference by prediction-powered inference (Angelopoulos et al., Science
    2023; tuned as in "PPI++", 2023).

    Parameters
    ----------
    estimate : (n,) array
        NaN is excluded.
    systems : sequence of n str or None
        None if the item belongs to no system.
    units : sequence of n str
        Split units.
    labels : (n,) array, optional
        NaN is missing.
    level : float
        Coverage of the intervals.

    Raises
    ------
    InputError
        Lengths differ.
    FitError
        There are fewer than two systems with items of at least two split units.
    """
    unit, _ = _codes(units)
    scored = ~np.isnan(estimate)
    _same_length(estimate, systems, units)
    rows = {
        name: np.array([i for i, s in enumerate(systems) if s == name and scored[i]], dtype=np.intp)
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
    sides: bool = True,
    level: float = 0.9,
) -> tuple[dict[str, float], list[Comparison]]:
    """Estimate strengths of systems from pairs, and all their differences, by the Bradley-Terry model.

    The model is P(left wins) = expit(s_left - s_right). An effect of the left side is added if the pairs identify it
    (Davidson and Beaver, Biometrics 1977). An estimate between 0 and 1 is a fractional win (quasi-likelihood; Bradley
    and Terry, 1952; Papke and Wooldridge, 1996). With labels the estimating equation is prediction-powered. A
    pseudo-comparison that is half won, with the weight of one split unit, keeps every share between 0 and 1 (Haldane,
    1956; Anscombe, 1956).

    Parameters
    ----------
    estimate : (n,) array
        P(left wins) or a share of votes, in [0, 1]; NaN is left out.
    pairs : sequence of n (left, right) or None
    labels : (n,) array, optional
        In [0, 1]; NaN is missing.
    sides : bool
        Whether judges may prefer a side.
    units, level : as in ``mean_differences``

    Returns
    -------
    strengths : dict system -> float
        Log odds, which add to zero over the systems, strongest first.
    comparisons : list of Comparison

    Raises
    ------
    InputError
        Lengths differ, or estimates or labels lie outside [0, 1].
    FitError
        The comparisons do not link all systems, or there are fewer than two split units.
    """
    games, names = _games(estimate, pairs, units, labels)
    if sides and _distinguishes_sides(games.design):
        games = replace(games, design=np.column_stack([games.design, np.ones(len(games.design))]))
    labelled_units = len(np.unique(games.unit[games.labelled]))
    corrected = labelled_units >= max(MIN_LABELS, games.design.shape[1])
    used, freedom = (int(games.labelled.sum()), labelled_units - 1) if corrected else (0, games.units - 1)
    strength, influence, trust = _by_labels(games) if corrected else _by_estimates(games)
    strongest_first = sorted(range(len(names)), key=lambda k: -strength[k])
    comparisons: list[Comparison] = []
    for a, b in itertools.combinations(strongest_first, 2):
        difference = float(strength[a] - strength[b])
        lo, hi = _interval(difference, influence[:, a] - influence[:, b], freedom, level)
        comparisons.append(Comparison(names[a], names[b], difference, lo, hi, games.units, used, trust))
    return {names[k]: float(strength[k]) for k in strongest_first}, comparisons


def _by_estimates(games: "_Games") -> tuple[Array, Array, float]:
    """Return strengths without labels, the influence of each split unit, and the weight of the estimates."""
    strength, inverse, _ = _solve(games, 1.0, 1 / games.units, corrected=False)
    residual = (games.estimate - expit(games.design @ strength))[:, None] * games.design / len(games.estimate)
    rows = np.vstack([_by_unit(residual, games.unit, games.units), _half_won(games, strength, 1 / games.units)])
    return strength, rows @ inverse, 1.0


def _by_labels(games: "_Games") -> tuple[Array, Array, float]:
    """Return the result of ``_by_estimates`` corrected by labels; without estimates if this leaves [0, 1]."""
    half_won = 1 / len(np.unique(games.unit[games.labelled]))
    strength, inverse, _ = _solve(games, 0.0, half_won, corrected=True)
    label_part, estimate_part = _scores(games, strength)
    trust = _trust(label_part @ inverse, estimate_part @ inverse)
    if not _solve(games, trust, 0.0, corrected=True)[2]:
        trust = 0.0
    strength, inverse, _ = _solve(games, trust, half_won, corrected=True)
    label_part, estimate_part = _scores(games, strength)
    rows = np.vstack([label_part + trust * estimate_part, _half_won(games, strength, half_won)])
    return strength, rows @ inverse, trust


@dataclass(frozen=True)
class _Games:
    """Comparisons as a regression.

    ``design`` (m, k) has 1 for the left and -1 for the right system, and ones for an effect of the side; ``unit`` (m,)
    numbers the split units from 0.
    """

    design: Array
    estimate: Array
    label: Array
    labelled: NDArray[np.bool_]
    unit: NDArray[np.intp]
    units: int
    systems: int


def _games(
    estimate: Array, pairs: Sequence[tuple[str, str] | None], units: Sequence[str], labels: Array | None
) -> tuple[_Games, list[str]]:
    """Return the checked comparisons that have an estimate, and the names of the systems."""
    _same_length(estimate, pairs, units)
    usable = [i for i, pair in enumerate(pairs) if pair is not None and not np.isnan(estimate[i])]
    played = [pair for i in usable if (pair := pairs[i]) is not None]
    shares = estimate[usable]
    label = np.full(len(usable), np.nan) if labels is None else labels[usable]
    for kind, values in (("estimates", shares), ("labels", label[~np.isnan(label)])):
        if len(values) and (values.min() < 0 or values.max() > 1):
            raise InputError(
                f"systems: {kind} of pairwise items must lie in [0, 1], found {values.min():g} to "
                f"{values.max():g}; declare the test set's scale"
            )
    names = sorted({name for pair in played for name in pair})
    unit, count = _codes([units[i] for i in usable])
    column = {name: k for k, name in enumerate(names)}
    design = np.zeros((len(played), len(names)))
    for row, (left, right) in enumerate(played):
        design[row, column[left]] += 1.0
        design[row, column[right]] -= 1.0
    if min(count, len(names)) < 2 or connected_components(design.T @ design, directed=False)[0] > 1:
        raise FitError("systems: the comparisons must link all systems, over at least two split units")
    return _Games(design, shares, label, ~np.isnan(label), unit, count, len(names)), names


def _distinguishes_sides(design: Array) -> bool:
    """Return whether an effect of the left side can be estimated apart from the strengths of the systems."""
    fitted = design @ np.linalg.lstsq(design, np.ones(len(design)), rcond=None)[0]
    return bool(np.abs(fitted - 1.0).max() > 1e-6)


def usable_labels(item_ids: Sequence[str], labels: FitLabels = NO_LABELS) -> Array:
    """Return the labels (n,) of known probability; NaN is missing."""
    usable = {item: label for item, label in labels.labels.items() if labels.chance_of(item) is not None}
    return np.array([usable.get(item_id, np.nan) for item_id in item_ids], dtype=np.float64)


def _difference(
    first: str,
    second: str,
    estimate: Array,
    labels: Array,
    unit: NDArray[np.intp],
    rows: dict[str, NDArray[np.intp]],
    level: float,
) -> Comparison:
    """Compare two systems by their means, corrected if each has ``MIN_LABELS`` labelled units."""
    count = int(unit.max()) + 1
    from_estimates, from_labels = np.zeros(count), np.zeros(count)
    mean, correction_label, correction_estimate = 0.0, 0.0, 0.0
    seen = {name: rows[name][~np.isnan(labels[rows[name]])] for name in (first, second)}
    labelled = min(len(np.unique(unit[r])) for r in seen.values()) >= MIN_LABELS
    for name, sign in ((first, 1.0), (second, -1.0)):
        every, some = rows[name], seen[name]
        mean_estimate = float(estimate[every].mean())
        mean += sign * mean_estimate
        np.add.at(from_estimates, unit[every], sign * (estimate[every] - mean_estimate) / len(every))
        if labelled:
            mean_label, mean_labelled = float(labels[some].mean()), float(estimate[some].mean())
            correction_label += sign * mean_label
            correction_estimate += sign * mean_labelled
            np.add.at(from_labels, unit[some], sign * (labels[some] - mean_label) / len(some))
            np.add.at(from_estimates, unit[some], -sign * (estimate[some] - mean_labelled) / len(some))
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
    """Return Student's t interval from the influence of each split unit."""
    active = influence[influence != 0.0]
    scale = len(active) / max(len(active) - 1, 1)
    half = float(student.ppf((1 + level) / 2, max(freedom, 1)) * np.sqrt(scale * np.sum(active**2)))
    return float(difference) - half, float(difference) + half


def _trust(label_part: Array, estimate_part: Array) -> float:
    """Return the weight that minimises the variance of label_part + weight * estimate_part."""
    size = float(np.sum(estimate_part**2))
    return 1.0 if size == 0.0 else float(np.clip(-np.sum(label_part * estimate_part) / size, 0.0, 1.0))


def _solve(games: _Games, trust: float, half_won: float, *, corrected: bool) -> tuple[Array, Array, bool]:
    """Return strengths that add to zero (then an effect of the side), the inverse of the slope, and convergence."""
    x, e, y, seen = games.design, games.estimate, games.label, games.labelled
    n, k = x.shape
    among = np.eye(k)
    among[: games.systems, : games.systems] -= 1 / games.systems
    strength = np.zeros(k)
    some, m = x[seen], max(int(seen.sum()), 1)
    inverse, left = np.eye(k), np.inf
    for _ in range(100):
        p = expit(x @ strength)
        gradient = x.T @ (trust * (e - p) + half_won * (0.5 - p)) / n
        w = p * (1 - p)
        slope = (trust + half_won) * (x * w[:, None]).T @ x / n
        if corrected:
            q = expit(some @ strength)
            gradient = gradient + some.T @ ((y[seen] - q) - trust * (e[seen] - q)) / m
            slope = slope + (1 - trust) * (some * (q * (1 - q))[:, None]).T @ some / m
        inverse = np.linalg.pinv(among @ slope @ among, hermitian=True)
        step = inverse @ gradient
        size, left = float(np.abs(step).max()), float(np.abs(among @ gradient).max())
        strength = among @ (strength + step * min(1.0, 5.0 / max(size, 1e-12)))
        if size < 1e-10:
            break
    return strength, inverse, left < 1e-8


def _half_won(games: _Games, strength: Array, half_won: float) -> Array:
    """Return the contribution of the comparison that is half won to the variance, as (k, k) rows."""
    p = expit(games.design @ strength)
    size = np.sqrt((p**2 + (1 - p) ** 2) / 2 / len(p)) * half_won
    return np.linalg.qr(games.design * size[:, None]).R


def _scores(games: _Games, strength: Array) -> tuple[Array, Array]:
    """Return the centred parts of labels and estimates in the estimating equation, each (units, k)."""
    x, e, y, seen = games.design, games.estimate, games.label, games.labelled
    n, m = len(e), max(int(seen.sum()), 1)
    p = expit(x @ strength)
    label_part = np.where(seen, np.nan_to_num(y) - p, 0.0)[:, None] * x / m
    estimate_part = (e - p)[:, None] * x / n - np.where(seen, e - p, 0.0)[:, None] * x / m
    share = (seen / m)[:, None]
    all_mean, seen_mean = ((e - p)[:, None] * x).mean(axis=0), ((e - p)[:, None] * x)[seen].sum(axis=0) / m
    label_part = label_part - share * label_part.sum(axis=0)
    estimate_part = estimate_part - all_mean / n + share * seen_mean
    return _by_unit(label_part, games.unit, games.units), _by_unit(estimate_part, games.unit, games.units)


def _by_unit(rows: Array, unit: NDArray[np.intp], count: int) -> Array:
    """Sum the rows of each split unit, shape (count, k)."""
    out = np.zeros((count, rows.shape[1]))
    np.add.at(out, unit, rows)
    return out


def _codes(units: Sequence[str]) -> tuple[NDArray[np.intp], int]:
    """Split units as numbers from 0, shape (n,), and how many there are."""
    distinct, code = np.unique(np.array(units, dtype=str), return_inverse=True)
    return code.astype(np.intp), len(distinct)


def _same_length(estimate: Array, *others: Sequence[object]) -> None:
    for other in others:
        if len(other) != len(estimate):
            raise InputError(f"systems: {len(estimate)} estimates, but {len(other)} entries beside them")
