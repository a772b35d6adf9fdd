"""Universal weak supervision: a mean with weights from distances between judges, without a model of confounders."""

import numpy as np

from care_ops.aggregators.base import TOO_SPARSE, Problem, unit_weights
from care_ops.errors import FitError
from care_ops.minimum_sizes import MIN_JUDGES
from care_ops.records import Aggregate


def universal_weak_supervision(problem: Problem) -> Aggregate:
    """Average continuous scores, weighted by the inverse of each judge's estimated error (aggregator ``uws``).

    The error of judge i is the mean over pairs {j, k} of (D_ij + D_ik - D_jk) / 2, where D_ab is the mean squared
    difference of the scores of judges a and b (Shin et al., "Universalizing weak supervision", ICLR 2022). Raises
    ``FitError`` if there are fewer than three judges, or if the panel is sparse.
    """
    values = problem.scores.values
    p = values.shape[1]
    if p < MIN_JUDGES:
        raise FitError(f"uws: the triplet estimate needs at least three judges, but the panel has {p}; add judges")
    m = problem.moments
    if problem.sparse:
        raise FitError(f"uws: {TOO_SPARSE}")
    # E[(x_a - x_b)^2] over the items where both scored, from the pairwise sums of x - shift
    gap = m.shift[:, None] - m.shift[None, :]
    count = np.maximum(m.count2, 1)
    first = (m.partial2 - m.partial2.T) / count
    distance = (m.square2 + m.square2.T - 2 * m.sum2) / count + 2 * gap * first + gap**2
    np.fill_diagonal(distance, 0.0)
    row, total = distance.sum(axis=1), distance.sum() / 2
    error = ((p - 2) * row - (total - row)) / ((p - 1) * (p - 2))
    floor = 1e-3 * float(np.abs(error).mean()) or 1.0  # judges that always agree get equal weights
    weights = unit_weights(1.0 / np.maximum(error, floor))
    present = ~np.isnan(values)
    mass = present @ weights
    total_score = np.where(present, values, 0.0) @ weights
    estimate = np.where(mass > 0, total_score / np.where(mass > 0, mass, 1.0), np.nan)
    return Aggregate(
        "uws", estimate, threshold=problem.cut, weights=weights, details={"error_variance": error.tolist()}
    )
