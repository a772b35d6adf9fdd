"""The label-free estimate: the plain average of the judges, with adjustments that the scores support.

First, feature effects are removed from single judges' scores (``models.feature_effects``). Second, duplicates count as
one judge (``models.duplicates``). Third, judges that agree with no other judge are left out. Fourth, if the common
factor explains the judges' correlations, the estimate is a weighted mean of the factor and the judges' average. The
last two steps are skipped if there are too few judges or items, or if the judges do not share one signal. On recorded
panels, no combination without labels is much better than the plain average, and many are worse (``make bench-real``).

Declared families do not change the judges' weights. Families help to distinguish feature effects from quality, and
to distinguish repeated runs of the same model from good judges.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.alternatives import (
    LabelFree,
    conditional_concerns,
    group_means,
    in_two_groups,
    plausible_alternatives,
    score_correlation,
    unit_score,
    unsafe_concerns,
)
from care_ops.aggregators.base import Problem, check_size, row_mean, unit_weights
from care_ops.aggregators.latent import family_of
from care_ops.aggregators.sparse_panel import estimate_sparse_panel
from care_ops.blocks import by_rows
from care_ops.config import POSITION
from care_ops.errors import FitError, listed
from care_ops.models import factor_analysis, one_factor
from care_ops.models.duplicates import Duplicates, find_duplicates
from care_ops.models.feature_effects import controlled, remove_feature_effects, surely_follow, unit_feature
from care_ops.models.one_factor import OneFactor
from care_ops.moments.state import accumulate
from care_ops.scales import share_scale
from care_ops.scores import Array, varies


@dataclass(frozen=True)
class Rules:
    """Limits on how far the label-free estimate departs from the plain average.

    The defaults were chosen on recorded panels. ``make bench-real`` repeats this, leaving out each data set in turn.

    Attributes
    ----------
    weak : float
        A judge is weak if its mean correlation with other judges is clearly below ``weak`` times the panel's median.
    factor_share : float
        Share of the common factor in the estimate. The mean of two good estimates is better than either (Clemen,
        International Journal of Forecasting 1989).
    most_misfit : float
        Maximum misfit of one common factor; if the misfit is larger, the estimate does not use the factor.
    least_gain : float
        Minimum gain of the factor's weights over equal weights, in correlation with the common factor. With a smaller
        gain, the factor is not used, because its weights would mostly add the judges' shared errors.
    most_weight : float
        Largest weight of a judge in the common factor, in multiples of an equal weight.
    near_average : float
        Maximum correlation of a judge with the mean of the other judges. A judge that exceeds it gets at most an equal
        weight, because it may copy the other judges. On recorded panels, no judge exceeds .91.
    """

    weak: float = 0.25
    factor_share: float = 0.4
    most_misfit: float = 0.03
    least_gain: float = 0.005
    most_weight: float = 1.5
    near_average: float = 0.95


RULES = Rules()

QUALITY_SHARE = 0.45
"""Share of the common factor's variance that is quality, not shared error, for ``effective_judges``. On 9 of 13
recorded panels, the result is within a factor of 1.5 of the number from gold labels (``make bench-real``)."""

_CANCELLED = (
    "care: all items have the same estimate, because the judges' scores cancel each other out; "
    "add judges that score independently, or remove a judge whose scale is reversed"
)


@dataclass(frozen=True)
class _Panel:
    """Scores to average, with a column for each judge or group of duplicates.

    ``normal`` are normal scores; ``units`` are standardised scores, or scores in a common unit if judges share a scale.
    """

    units: Array
    normal: Array
    correlation: Array
    items: float


def label_free(problem: Problem, rules: Rules = RULES) -> LabelFree:
    """Estimate the quality of each item without labels.

    Raises
    ------
    FitError
        There are fewer than three judges or ten items, a judge's scores are all equal, or all judges are duplicates.
    """
    if problem.sparse:
        return estimate_sparse_panel(problem)
    check_size(problem.scores)
    problem.moments.correlation(problem.scores.judges)  # refuses a judge that does not vary
    features = {name: w for name, f in problem.scores.features.items() if (w := unit_feature(f)) is not None}
    judged = {name: w for name, w in features.items() if name not in problem.config.not_quality}
    declared = _without_declared(problem, features)
    cleaned, removed = remove_feature_effects(declared, judged, _families(problem))
    duplicates, panel, model = _merged(problem, cleaned)
    plain, scored = _plain(problem)
    unsafe = unsafe_concerns(model, len(panel.correlation), int(scored.sum()))
    weak = np.zeros(len(panel.correlation), dtype=np.bool_) if unsafe else _weak(panel, rules)
    average = unit_score(additive_mean(panel.units[:, ~weak]), scored)
    near = _near_average(panel.correlation, rules) & ~weak
    of_factor = _bounded(model.weights * ~weak, rules.most_weight, near)
    factor_scores = panel.units if _in_own_units(problem) else panel.normal  # ranks if judges share no scale
    factor = unit_score(_weighted_mean(factor_scores, of_factor), scored)
    depart = not unsafe and _has_common_factor(model, panel, ~weak, of_factor, rules)
    share = rules.factor_share if depart else 0.0
    latent = unit_score(share * factor + (1.0 - share) * average, scored)
    if not varies(latent[scored]):
        raise FitError(_CANCELLED)
    in_groups = share * of_factor + (1.0 - share) * unit_weights((~weak).astype(np.float64))
    found = LabelFree(
        plain,
        average,
        factor,
        latent,
        share,
        scored,
        np.full(len(latent), np.nan) if problem.weights_only else _sd(model, panel, latent, scored),
        (in_groups / np.bincount(duplicates.group))[duplicates.group],  # duplicates share the weight of their group
        duplicates,
        model=model,
        weak=tuple(np.flatnonzero(weak[duplicates.group]).tolist()),
        near_average=tuple(np.flatnonzero(near[duplicates.group]).tolist()),
        removed=removed,
        features=features,
    )
    if problem.weights_only:
        return found
    found = replace(
        found,
        follows={name: score_correlation(latent, w, scored) for name, w in judged.items()},
        alternatives=plausible_alternatives(problem, found),
        sides=group_means(model, panel.normal, scored),
        kept=None if cleaned is declared else unit_score(_average_of(problem, declared, duplicates.group), scored),
        effective_judges=_effective_judges(model, panel, in_groups),
    )
    found = replace(found, without=_without_nearest(problem, found))
    return replace(found, concerns=(*unsafe, *conditional_concerns(problem, found, bool(unsafe))))


def additive_mean(values: Array) -> Array:
    """Average each item's scores, corrected for the severity of judges with missing scores; shape (n,).

    The model score = item + judge is fitted by least squares (the unbalanced two-way layout; Yates, 1934), so an item
    does not gain if a severe judge did not score it. Without missing scores the result is the plain mean. An item
    without scores gets NaN.
    """
    absent = np.isnan(values)
    if not absent.any():
        return values.mean(axis=1)
    seen, filled = (~absent).astype(np.float64), np.where(absent, 0.0, values)
    count, total = seen.sum(axis=1), filled.sum(axis=1)
    share = seen / np.maximum(count, 1.0)[:, None]
    normal = np.diag(seen.sum(axis=0)) - seen.T @ share
    judge = np.linalg.lstsq(normal, filled.sum(axis=0) - total @ share, rcond=1e-10)[0]
    return np.where(count > 0, total / np.maximum(count, 1.0) - share @ judge + judge.mean(), np.nan)


def effective_judges(validity: Array, correlation: Array, weights: Array) -> float:
    """Compute the number, between 1 and p, of independent judges whose mean is as valid as the estimate.

    Validity is the correlation with quality. The Spearman-Brown formula (1910) relates the validity of one judge to the
    validity of a mean. Here, the squared validity of one judge is the mean of ``validity**2``, weighted by
    ``weights * validity**2``.

    Parameters
    ----------
    validity : (p,) array
        Correlation of each judge with quality.
    correlation : (p, p) array
        Correlations of the judges.
    weights : (p,) array
        Weights of the judges' standardised scores in the estimate.

    Examples
    --------
    Four judges of validity .6 with independent errors:

    >>> import numpy as np
    >>> correlation = np.full((4, 4), 0.36) + 0.64 * np.eye(4)
    >>> round(effective_judges(np.full(4, 0.6), correlation, np.ones(4)), 2)
    4.0
    """
    of_estimate = max(float(weights @ validity), 0.0) ** 2 / max(float(weights @ correlation @ weights), 1e-12)
    of_judge = float(weights @ validity**4) / max(float(weights @ validity**2), 1e-12)
    squares = np.clip([of_estimate, of_judge], 1e-9, 1.0 - 1e-9)
    mean, single = squares / (1.0 - squares)
    return float(np.clip(mean / single, 1.0, len(weights)))


def _effective_judges(model: OneFactor, panel: _Panel, weights: Array) -> float:
    validity = np.sqrt(QUALITY_SHARE) * model.raw_loadings
    return effective_judges(validity, panel.correlation, weights * np.nanstd(panel.units, axis=0))


def _plain(problem: Problem) -> tuple[Array, NDArray[np.bool_]]:
    values = problem.scores.values / problem.scale.mean() if _in_own_units(problem) else problem.standardised
    mean = row_mean(values)
    scored: NDArray[np.bool_] = ~np.isnan(mean)
    return unit_score(mean, scored), scored


def _in_own_units(problem: Problem) -> bool:
    return problem.config.scale is not None or share_scale(problem.scores.values)


def _average_of(problem: Problem, standardised: Array, group: NDArray[np.intp]) -> Array:
    return additive_mean(_joined(_in_units(problem, standardised), group))


def _in_units(problem: Problem, standardised: Array) -> Array:
    return standardised * (problem.scale / problem.scale.mean()) if _in_own_units(problem) else standardised


def _merged(problem: Problem, cleaned: Array) -> tuple[Duplicates, _Panel, OneFactor]:
    """Find the duplicates of a panel, merge their scores, and fit the common factor.

    If the judges form two groups, nothing is merged, because no common factor explains the judges' agreement.
    """
    panel = _panel(_in_units(problem, cleaned), cleaned)
    duplicates, p = find_duplicates(panel.correlation, panel.items, _families(problem)), len(panel.correlation)
    groups = int(duplicates.group.max()) + 1
    if groups == 1:
        raise FitError(
            f"care: all {p} judges give the same scores and count as one judge "
            f"({listed(problem.scores.judges, 5)} are duplicates); add judges that score independently"
        )
    if groups < p:
        merged = _panel(_joined(panel.units, duplicates.group), _joined(cleaned, duplicates.group))
        model = one_factor.fit(merged.correlation, merged.items)
        if not in_two_groups(model, groups):
            return duplicates, merged, model
        largest = np.flatnonzero(duplicates.group == np.argmax(np.bincount(duplicates.group)))
        duplicates = Duplicates(np.arange(p), tuple(largest.tolist()))
    return duplicates, panel, one_factor.fit(panel.correlation, panel.items)


def _panel(units: Array, standardised: Array) -> _Panel:
    normal = factor_analysis.normal_scores(standardised)
    return _Panel(units, normal, accumulate(normal, third=False).correlation(), _items_behind(standardised))


def _weak(panel: _Panel, rules: Rules) -> NDArray[np.bool_]:
    agreement = (panel.correlation.sum(axis=1) - 1.0) / (len(panel.correlation) - 1)
    return agreement + 2.0 / np.sqrt(panel.items) < rules.weak * float(np.median(agreement))


def _has_common_factor(model: OneFactor, panel: _Panel, kept: NDArray[np.bool_], weights: Array, rules: Rules) -> bool:
    spread = np.nanstd(panel.units, axis=0)
    gain = model.validity(spread * weights) - model.validity(spread * kept)
    return model.misfit <= rules.most_misfit and gain >= rules.least_gain


def _near_average(correlation: Array, rules: Rules) -> NDArray[np.bool_]:
    total = correlation.sum(axis=1)
    rest = correlation.sum() - 2.0 * total + 1.0
    return (total - 1.0) / np.sqrt(np.maximum(rest, 1e-12)) > rules.near_average


def _bounded(weights: Array, most: float, equal: NDArray[np.bool_]) -> Array:
    """Scale weights to sum to 1; cap each of the k positive ones at 1 / k where ``equal``, else at ``most`` / k."""
    weights = weights / max(float(weights.sum()), 1e-12)
    share = 1.0 / max(int((weights > 0).sum()), 1)
    limit = np.where(equal, share, most * share)
    for _ in range(len(weights)):
        if not (weights > limit * (1 + 1e-12)).any():
            break
        capped = weights >= limit * (1 - 1e-12)
        rest = np.where(capped, 0.0, weights)
        left = 1.0 - float(limit[capped].sum())
        weights = np.where(capped, limit, rest * (left / max(float(rest.sum()), 1e-12)))
    return weights


def _without_nearest(problem: Problem, found: LabelFree) -> Array | None:
    name = found.nearest_feature
    if name is None:
        return None
    cleaned = controlled(problem.standardised, found.features[name])
    return unit_score(_average_of(problem, cleaned, found.duplicates.group), found.scored)


def _without_declared(problem: Problem, features: Mapping[str, Array]) -> Array:
    standardised = problem.standardised
    for name, w in features.items():
        if name == POSITION:
            drifting = surely_follow(standardised, w)
            if drifting.any():
                standardised = standardised.copy()
                standardised[:, drifting] = controlled(standardised[:, drifting], w)
        elif name in problem.config.not_quality:
            standardised = controlled(standardised, w)
    return standardised


def _families(problem: Problem) -> NDArray[np.intp]:
    names = [family_of(judge, problem.scores.families) for judge in problem.scores.judges]
    return np.unique(np.array(names), return_inverse=True)[1].astype(np.intp)


def _items_behind(values: Array) -> float:
    seen = ~np.isnan(values)
    if seen.all():
        return len(values)
    present = seen.astype(np.float32)
    shared = present.T @ present
    return float(np.median(shared[~np.eye(len(shared), dtype=np.bool_)]))


def _joined(values: Array, group: NDArray[np.intp]) -> Array:
    count = int(group.max()) + 1
    if count == values.shape[1]:
        return values
    return np.column_stack([row_mean(values[:, group == k]) for k in range(count)])


def _weighted_mean(values: Array, weights: Array) -> Array:
    def mean(rows: Array) -> Array:
        seen = ~np.isnan(rows)
        total = seen @ weights
        return np.where(total > 0, np.where(seen, rows, 0.0) @ weights / np.maximum(total, 1e-12), np.nan)

    return by_rows(mean, values)


def _sd(model: OneFactor, panel: _Panel, latent: Array, scored: NDArray[np.bool_]) -> Array:
    best = unit_score(_weighted_mean(panel.normal, model.weights), scored)
    one = factor_analysis.FactorModel(model.loadings[:, None], 1.0 - model.loadings**2, np.eye(1))
    sd = factor_analysis.posterior_sd(one, panel.normal)
    return np.sqrt(1.0 - score_correlation(latent, best, scored) ** 2 * (1.0 - sd**2))
