"""Label-free estimate for a sparse panel, where most judges scored few items."""

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.alternatives import LabelFree, score_correlation, unit_score
from care_ops.aggregators.base import Problem, row_mean, unit_weights
from care_ops.concerns import MIN_AGREEMENT, Concern
from care_ops.minimum_sizes import MIN_DISTINCT_JUDGES, MIN_ITEMS_TO_COMPARE
from care_ops.models.duplicates import Duplicates

SPARSE_SHARE = 0.5
"""Share of the common factor in the estimate of a sparse panel; the rest is the mean of the judges."""


def estimate_sparse_panel(problem: Problem) -> LabelFree:
    """Estimate quality on a sparse panel by averaging the common factor and the mean of the judges.

    A sparse panel determines only one factor, which may be quality or a bias that many judges share. Therefore the
    factor and the mean get equal weights.
    """
    model = problem.sparse_factor
    scored: NDArray[np.bool_] = ~np.all(np.isnan(problem.standardised), axis=1)
    mean = unit_score(row_mean(problem.standardised), scored)
    factor, of_factor = unit_score(model.quality, scored), unit_weights(model.loading / model.variance)
    latent = unit_score(SPARSE_SHARE * factor + (1.0 - SPARSE_SHARE) * mean, scored)
    p = len(problem.scores.judges)
    concerns: list[Concern] = ["few judges"] if p < MIN_DISTINCT_JUDGES else []
    if int(scored.sum()) < MIN_ITEMS_TO_COMPARE:
        concerns.append("few items")
    if score_correlation(mean, factor, scored) < MIN_AGREEMENT:
        concerns.append("alternatives")
    return LabelFree(
        mean,
        mean,
        factor,
        latent,
        SPARSE_SHARE,
        scored,
        model.sd,
        SPARSE_SHARE * of_factor + (1.0 - SPARSE_SHARE) / p,
        Duplicates(np.arange(p)),
        concerns=tuple(concerns),
        alternatives={"one common factor": factor, "the mean of the judges": mean},
    )
