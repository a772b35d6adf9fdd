"""Methods compared over several data sets by their ranks."""

from collections.abc import Mapping

import numpy as np
from scipy.stats import rankdata, studentized_range


def mean_ranks(orders: Mapping[str, Mapping[str, float]]) -> tuple[dict[str, float], float]:
    """Mean rank of the methods that answered everywhere, 1 is best, and Nemenyi's critical difference at 95 %.

    Demsar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006.

    Parameters
    ----------
    orders : mapping data set -> mapping method -> value
        Larger is better; NaN where a method has no answer.
    """
    names = [n for n in next(iter(orders.values())) if all(o.get(n, np.nan) == o.get(n) for o in orders.values())]
    ranks = np.array([rankdata([-order[name] for name in names]) for order in orders.values()])
    k, sets = len(names), len(orders)
    quantile = float(studentized_range.ppf(0.95, k, np.inf)) / np.sqrt(2)
    return dict(zip(names, map(float, ranks.mean(axis=0)), strict=True)), quantile * np.sqrt(k * (k + 1) / (6 * sets))
