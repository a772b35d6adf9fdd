"""How far judges agree: Krippendorff's alpha of a panel, Cohen's weighted kappa of every two judges."""

import numpy as np

from care_ops.blocks import few_values
from care_ops.scores import Array

MOST_GRADES = 101
"""Number of different scores up to which scores count as grades: a scale of whole points from 0 to 100 has so many."""


def krippendorff_alpha(values: Array) -> float | None:
    """One minus observed over expected disagreement of interval scores (Krippendorff, "Content Analysis", 2004).

    Disagreement is the squared difference of two scores of one item. Missing scores are left out.

    Parameters
    ----------
    values : (n, p) array
        Scores; NaN is missing.

    Returns
    -------
    float or None
        1 is perfect agreement, and 0 is agreement by chance. None if no item has two scores, or all scores are alike.
    """
    present = ~np.isnan(values)
    paired = present.sum(axis=1) >= 2
    values, present = values[paired], present[paired]
    if not len(values):
        return None
    filled = np.where(present, values - values[present].mean(), 0.0)
    count = present.sum(axis=1)
    total = int(count.sum())
    observed = float(np.sum((count * (filled**2).sum(axis=1) - filled.sum(axis=1) ** 2) / (count - 1)))
    expected = total * float(np.sum(filled**2)) - float(filled.sum()) ** 2
    return None if expected <= 0 else 1.0 - (total - 1) * observed / expected


def weighted_kappas(values: Array) -> Array:
    """Cohen's kappa with quadratic weights of every two judges, over the items that both scored (Cohen, 1968).

    Disagreement is the squared number of grades between two scores; the grades are all the scores that the panel uses.

    Parameters
    ----------
    values : (n, p) array
        Grades; NaN is missing.

    Returns
    -------
    (p, p) array
        NaN on the diagonal, if two judges share no item, and if both always give the same grade. All entries are NaN if
        the panel uses more than ``MOST_GRADES`` different scores.
    """
    p = values.shape[1]
    kappas = np.full((p, p), np.nan)
    present = ~np.isnan(values)
    distinct = few_values(values, MOST_GRADES)
    if distinct is None:
        return kappas
    grade = np.zeros(values.shape)
    grade[present] = np.searchsorted(distinct, values[present])
    for a in range(p):
        for b in range(a + 1, p):
            both = present[:, a] & present[:, b]
            kappas[a, b] = kappas[b, a] = _weighted_kappa(grade[both, a], grade[both, b])
    return kappas


def _weighted_kappa(first: Array, second: Array) -> float:
    """Quadratic weighted kappa of two judges' grades: both disagreements are moments of the grades."""
    if not len(first):
        return float("nan")
    observed = float(np.mean((first - second) ** 2))
    expected = float(np.var(first) + np.var(second) + (first.mean() - second.mean()) ** 2)
    return 1.0 - observed / expected if expected > 0 else float("nan")
