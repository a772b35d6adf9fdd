"""Methods compared over several data sets by their ranks.

Belongs here: mean ranks and the difference that is more than chance. Belongs elsewhere: the measurements that are
ranked.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import rankdata, studentized_range


def mean_ranks(orders: Mapping[str, Mapping[str, float]], level: float = 0.95) -> tuple[dict[str, float], float]:
    """Mean rank of the methods that answered everywhere, 1 is best, and Nemenyi's critical difference.

    Demsar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006.

    Parameters
    ----------
    orders : mapping data set -> mapping method -> value
        Larger is better; NaN where a method has no answer.
    level : float
        Two methods whose mean ranks differ by more than the difference differ at this level.
    """
    names = [n for n in next(iter(orders.values())) if all(o.get(n, np.nan) == o.get(n) for o in orders.values())]
    ranks = np.array([rankdata([-order[name] for name in names]) for order in orders.values()])
    k, sets = len(names), len(orders)
    quantile = float(studentized_range.ppf(level, k, np.inf)) / np.sqrt(2)
    return dict(zip(names, map(float, ranks.mean(axis=0)), strict=True)), quantile * np.sqrt(k * (k + 1) / (6 * sets))
