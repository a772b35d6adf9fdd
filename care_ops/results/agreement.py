"""Krippendorff's alpha, a measure of agreement between judges."""

import numpy as np

from care_ops.scores import Array


def krippendorff_alpha(values: Array) -> float | None:
    """Compute Krippendorff's alpha of interval scores (Krippendorff, "Content Analysis", 2004).

    Alpha is 1 - D_o / D_e. D_o is the mean squared difference of two scores of an item; D_e is that of any two scores.

    Parameters
    ----------
    values : (n, p) array
        Scores; NaN marks a missing score.

    Returns
    -------
    float or None
        1 is perfect agreement, and 0 is agreement by chance. None if no item has two scores, or all scores are equal.
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
