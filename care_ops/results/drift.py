"""Drift between two fits of a test set: changes in score distribution, ranking, and weights or loadings."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from care_ops.metrics import rank_correlation
from care_ops.minimum_sizes import MIN_ITEMS
from care_ops.scores import Array, correlation, varies

_BINS = 10


@dataclass(frozen=True)
class Drift:
    """Changes of an aggregator's estimates between two runs.

    Attributes
    ----------
    common : int
        Number of items with an estimate in both runs.
    psi, psi_by_chance : float
        Population stability index of all estimates, and its 99 % quantile if the estimates of both runs had the
        same distribution; NaN with fewer than ten items.
    mean_shift : float
        Difference of the means divided by the earlier standard deviation; NaN with fewer than ten items.
    rank_correlation : float
        Spearman correlation over the common items; NaN with fewer than ten items or if a run's estimates are all equal.
    """

    common: int
    psi: float
    psi_by_chance: float
    mean_shift: float
    rank_correlation: float


def drift(before: Array, after: Array, again: Array) -> Drift:
    """Measure how the estimates of the items changed between two runs.

    Parameters
    ----------
    before : (n,) array
        Estimates of the earlier run; NaN marks a missing estimate.
    after : (m,) array
        Estimates of the later run.
    again : (n,) array
        Estimates of the later run for the items of ``before``.
    """
    a, b = (values[~np.isnan(values)] for values in (before, after))
    common = int((~np.isnan(before) & ~np.isnan(again)).sum())
    few = min(len(a), len(b)) < MIN_ITEMS
    psi, chance = (float("nan"), float("nan")) if few else population_stability(a, b)
    spread = float(a.std()) if varies(a) else 0.0
    shift = float("nan") if few or spread == 0 else float((b.mean() - a.mean()) / spread)
    return Drift(common, psi, chance, shift, rank_correlation(before, again, at_least=MIN_ITEMS))


def population_stability(before: Array, after: Array) -> tuple[float, float]:
    """Compute the population stability index over the deciles of ``before``.

    PSI = sum_b (q_b - p_b) log(q_b / p_b), where p_b and q_b are the shares of bin b before and after; half an
    item is added to each bin. For equal distributions, PSI is about (1/n + 1/m) times a chi-square variable, with as
    many degrees of freedom as bins minus one. ``by_chance`` is the 99 % quantile of this distribution.

    Parameters
    ----------
    before : (n,) array
    after : (m,) array

    Returns
    -------
    psi, by_chance : float
    """
    edges = np.unique(np.quantile(before, np.linspace(0, 1, _BINS + 1)[1:-1], method="inverted_cdf"))
    edges = edges[edges > before.min()]
    if not len(edges):
        return 0.0, 0.0
    p, q = (
        np.bincount(np.searchsorted(edges, v, side="right"), minlength=len(edges) + 1) + 0.5 for v in (before, after)
    )
    p, q = p / p.sum(), q / q.sum()
    psi = float(np.sum((q - p) * np.log(q / p)))
    return psi, float(2 * gammaincinv(len(edges) / 2, 0.99) * (1 / len(before) + 1 / len(after)))


def same_direction(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """Compute the cosine similarity of two sets of loadings or weights over their common judges; NaN if undefined."""
    common = sorted(before.keys() & after.keys())
    if len(common) < 2:
        return float("nan")
    x, y = (np.array([values[j] for j in common], dtype=np.float64) for values in (before, after))
    norm = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / norm if norm > 0 else float("nan")


def copies_of_gold(values: Array, gold: Array, judges: tuple[str, ...]) -> list[str]:
    """Return the judges whose scores equal the gold label up to a linear transformation.

    Parameters
    ----------
    values : (n, p) array
        Scores; NaN marks a missing score.
    gold : (n,) array
        Gold labels; NaN marks a missing label.

    Returns
    -------
    list of str
        Judges whose absolute correlation with gold is .999 or more over at least thirty items. If gold has two
        values, a hundred items are required, because a good judge may decide all of thirty items correctly.
    """
    copies: list[str] = []
    for judge, column in zip(judges, values.T, strict=True):
        kinds = len(np.unique(gold[~np.isnan(column) & ~np.isnan(gold)]))
        if abs(correlation(column, gold, at_least=100 if kinds == 2 else 30)) >= 0.999:
            copies.append(judge)
    return copies
