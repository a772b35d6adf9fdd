"""Comparison of systems by the estimates of their items: differences with intervals.

Variances are cluster-robust by split unit (a prompt that every system answered); intervals use the t distribution.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from care_ops.errors import FitError, InputError
from care_ops.records import Comparison
from care_ops.scores import Array


def mean_differences(
    estimate: Array, systems: Sequence[str | None], units: Sequence[str], *, level: float = 0.9
) -> list[Comparison]:
    """Compare each pair of systems by their mean estimates, with the better system first.

    Parameters
    ----------
    estimate : (n,) array
        Estimates of the items; items with NaN are left out.
    systems : sequence of n str or None
        System of each item; None if the item belongs to no system.
    units : sequence of n str
        Split unit of each item.
    level : float
        Coverage of the intervals.

    Raises
    ------
    InputError
        The arguments have different lengths.
    FitError
        There are fewer than two systems with items of at least two split units.
    """
    unit, count = _codes(units)
    scored = ~np.isnan(estimate)
    _same_length(estimate, systems, units)
    rows = {
        name: np.array([i for i, s in enumerate(systems) if s == name and scored[i]], dtype=np.intp)
        for name in sorted({s for s in systems if s is not None})
    }
    rows = {name: r for name, r in rows.items() if len(np.unique(unit[r])) >= 2}
    if len(rows) < 2:
        raise FitError("systems: two systems must each have scored items of at least two split units; add scored items")
    comparisons: list[Comparison] = []
    for first, second in itertools.combinations(rows, 2):
        difference, influence = 0.0, np.zeros(count)
        for name, sign in ((first, 1.0), (second, -1.0)):
            values = estimate[rows[name]]
            difference += sign * float(values.mean())
            np.add.at(influence, unit[rows[name]], sign * (values - float(values.mean())) / len(values))
        touched = np.unique(unit[np.concatenate([rows[first], rows[second]])])
        lo, hi = _interval(difference, influence[touched], len(touched) - 1, level)
        better = (first, second, difference, lo, hi) if difference >= 0 else (second, first, -difference, -hi, -lo)
        comparisons.append(Comparison(*better, len(touched), 0, 1.0))
    return comparisons


def bradley_terry(
    estimate: Array,
    pairs: Sequence[tuple[str, str] | None],
    units: Sequence[str],
    *,
    sides: bool = True,
    level: float = 0.9,
) -> tuple[dict[str, float], list[Comparison]]:
    """Estimate the strengths of systems, and all differences between them, by the Bradley-Terry model.

    The model is P(left wins) = expit(s_left - s_right). Position bias is a further parameter if the pairs identify it
    (Davidson and Beaver, Biometrics 1977). An estimate between 0 and 1 is a fractional win (quasi-likelihood; Bradley
    and Terry, 1952; Papke and Wooldridge, 1996). A pseudo-comparison that is half won, with the weight of one split
    unit, keeps every share between 0 and 1 (Haldane, 1956; Anscombe, 1956).

    Parameters
    ----------
    estimate : (n,) array
        P(left wins) or a share of votes, in [0, 1]; pairs with NaN are left out.
    pairs : sequence of n (left, right), or None for an item that is not a pair
    sides : bool
        Whether to estimate the judges' position bias, if the pairs identify it.
    units, level : as in ``mean_differences``

    Returns
    -------
    strengths : dict system -> float
        Log odds that sum to zero over the systems, with the strongest system first.
    comparisons : list of Comparison

    Raises
    ------
    InputError
        The arguments have different lengths, or estimates lie outside [0, 1].
    FitError
        The comparisons do not link all systems, or there are fewer than two split units.
    """
    _same_length(estimate, pairs, units)
    usable = [i for i, pair in enumerate(pairs) if pair is not None and not np.isnan(estimate[i])]
    played, shares = [pair for i in usable if (pair := pairs[i]) is not None], estimate[usable]
    if len(shares) and (shares.min() < 0 or shares.max() > 1):
        raise InputError(
            f"systems: estimates of pairwise items must lie in [0, 1], got {shares.min():g} to {shares.max():g}; "
            "declare the test set's scale"
        )
    unit, count = _codes([units[i] for i in usable])
    design, names = _design(played, count, sides=sides)
    strength, inverse = _solve(design, shares, len(names), 1 / count)
    p = expit(design @ strength)
    by_unit = np.zeros((count, design.shape[1]))
    np.add.at(by_unit, unit, (shares - p)[:, None] * design / len(shares))
    size = np.sqrt((p**2 + (1 - p) ** 2) / 2 / len(p)) * (1 / count)  # of the comparison that is half won
    influence = np.vstack([by_unit, np.linalg.qr(design * size[:, None]).R]) @ inverse
    strongest_first = sorted(range(len(names)), key=lambda k: -strength[k])
    comparisons: list[Comparison] = []
    for a, b in itertools.combinations(strongest_first, 2):
        difference = float(strength[a] - strength[b])
        lo, hi = _interval(difference, influence[:, a] - influence[:, b], count - 1, level)
        comparisons.append(Comparison(names[a], names[b], difference, lo, hi, count, 0, 1.0))
    return {names[k]: float(strength[k]) for k in strongest_first}, comparisons


def _design(pairs: Sequence[tuple[str, str]], units: int, *, sides: bool) -> tuple[Array, list[str]]:
    """Return a design matrix with 1 for the left and -1 for the right system of each pair, and the systems' names.

    With ``sides``, a column of ones is added for position bias, provided that the pairs identify it.
    """
    names = sorted({name for pair in pairs for name in pair})
    column, design = {name: k for k, name in enumerate(names)}, np.zeros((len(pairs), len(names)))
    for row, (left, right) in enumerate(pairs):
        design[row, column[left]] += 1.0
        design[row, column[right]] -= 1.0
    if min(units, len(names)) < 2 or connected_components(design.T @ design, directed=False)[0] > 1:
        raise FitError("systems: pairs must link all systems and belong to at least two split units; add such pairs")
    ones = np.ones((len(design), 1))
    fitted = design @ np.linalg.lstsq(design, ones, rcond=None)[0]
    return (np.hstack([design, ones]) if sides and np.abs(fitted - 1.0).max() > 1e-6 else design), names


def _solve(x: Array, e: Array, systems: int, half_won: float) -> tuple[Array, Array]:
    """Estimate zero-sum strengths, and any position bias, by Newton's method; also return the inverse Hessian."""
    n, k = x.shape
    among = np.eye(k)
    among[:systems, :systems] -= 1 / systems
    strength, inverse = np.zeros(k), np.eye(k)
    for _ in range(100):
        p = expit(x @ strength)
        gradient = x.T @ (e - p + half_won * (0.5 - p)) / n
        slope = (1.0 + half_won) * (x * (p * (1 - p))[:, None]).T @ x / n
        inverse = np.linalg.pinv(among @ slope @ among, hermitian=True)
        step = inverse @ gradient
        size = float(np.abs(step).max())
        strength = among @ (strength + step * min(1.0, 5.0 / max(size, 1e-12)))
        if size < 1e-10:
            break
    return strength, inverse


def _interval(difference: float, influence: Array, freedom: int, level: float) -> tuple[float, float]:
    from scipy.stats import t as student

    active = influence[influence != 0.0]
    scale = len(active) / max(len(active) - 1, 1)
    half = float(student.ppf((1 + level) / 2, max(freedom, 1)) * np.sqrt(scale * np.sum(active**2)))
    return difference - half, difference + half


def _codes(units: Sequence[str]) -> tuple[NDArray[np.intp], int]:
    distinct, code = np.unique(np.array(units, dtype=str), return_inverse=True)
    return code.astype(np.intp), len(distinct)


def _same_length(estimate: Array, *others: Sequence[object]) -> None:
    for other in others:
        if len(other) != len(estimate):
            raise InputError(
                f"systems: there are {len(estimate)} estimates, but a list of systems or split units has {len(other)} "
                "entries; give one entry for each item"
            )
