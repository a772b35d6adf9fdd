"""Estimates of one latent quality: the common factor of the judges, and the mean of declared families."""

from collections.abc import Mapping, Sequence

import numpy as np

from care_ops.aggregators.base import Problem, check_size, row_mean, unit_weights
from care_ops.blocks import by_rows
from care_ops.calibration import to_panel_scale
from care_ops.models import factor_analysis
from care_ops.moments.state import accumulate, shrink
from care_ops.records import Aggregate
from care_ops.scores import Array, rows_of


def common_factor(problem: Problem) -> Aggregate:
    """Estimate the common factor of the normal scores, E[f | observed scores] (aggregator ``factor_analysis``).

    The factor correlates positively with the mean of the standardised scores. Raises ``FitError`` if there are fewer
    than three judges or ten items or, unless the panel is sparse, if all scores of a judge are equal.
    """
    if problem.sparse:
        sparse = problem.sparse_factor
        score, weights, sign = sparse.quality, sparse.loading / sparse.variance, 1.0
        scored = ~np.isnan(problem.standardised).all(axis=1)
    else:
        check_size(problem.scores)
        problem.moments.correlation(problem.scores.judges)
        normal = factor_analysis.normal_scores(problem.scores.values)
        correlation = shrink(accumulate(normal, third=False).correlation(problem.scores.judges), len(normal))[0]
        model = factor_analysis.fit(correlation, 1)
        score = factor_analysis.factor_scores(model, normal)[:, 0]
        weights = model.loadings[:, 0] / model.uniqueness
        mean = row_mean(problem.standardised)
        scored = ~np.isnan(mean)
        sign = 1.0 if float(score[scored] @ mean[scored]) >= 0 else -1.0
    latent = np.where(scored, sign * score, np.nan)
    return _placed(problem, "factor_analysis", latent, weights=unit_weights(sign * weights))


def mean_of_families(problem: Problem) -> Aggregate:
    """Average the standardised scores within each family of judges, then over families (aggregator ``families``).

    Raises ``FitError`` if all scores of a judge are equal, unless the panel is sparse.
    """
    if not problem.sparse:
        problem.moments.correlation(problem.scores.judges)
    latent = family_mean(problem.standardised, problem.scores.judges, problem.scores.families)
    return _placed(problem, "families", latent)


def family_mean(standardised: Array, judges: Sequence[str], families: Mapping[str, str]) -> Array:
    """Average the family means of each item, shape (n,); NaN for an item without scores.

    Parameters
    ----------
    standardised : (n, p) array
        Standardised scores; NaN marks a missing score.
    judges : sequence of p str
    families : mapping judge -> family
        A judge without an entry forms its own family.
    """
    members = rows_of(family_of(judge, families) for judge in judges).values()
    return by_rows(lambda rows: row_mean(np.column_stack([row_mean(rows[:, m]) for m in members])), standardised)


def family_of(judge: str, families: Mapping[str, str]) -> str:
    """Return the declared family of a judge, or a unique name for a judge without a declared family."""
    return families.get(judge) or f"\0{judge}"


def _placed(problem: Problem, name: str, latent: Array, *, weights: Array | None = None) -> Aggregate:
    return Aggregate(
        name,
        to_panel_scale(latent, problem.panel_mean, problem.ends)[0],
        threshold=problem.cut,
        weights=weights,
        latent=latent,
        details={"scale": "location and spread of the panel mean"},
    )
