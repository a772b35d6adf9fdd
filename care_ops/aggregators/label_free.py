"""The label-free estimate: the plain average of the judges, and each departure from it that the scores support.

In this order: effects of features are removed from single judges' scores (``models.feature_effects``), duplicates count
as one judge (``models.duplicates``), judges that agree with nobody are left out, and the common factor gets a share
where it explains the judges' correlations (``models.one_factor``). Where there is a concern that makes the panel
ambiguous, or too little data, the last two are not done: the estimate is the plain average. On recorded panels no
combination without labels beats the plain average by much, and many lose (``make bench-real``).

Declared families weigh no judge. They separate feature effects from quality, and runs of one model from good judges.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.base import Problem, check_size, row_mean, unit_weights
from care_ops.aggregators.latent import family_mean, family_of
from care_ops.blocks import by_rows
from care_ops.concerns import (
    FOLLOWS_FEATURE,
    MAX_OPPOSED,
    MAX_SECOND_FACTOR,
    MIN_AGREEMENT,
    MIN_SIGNAL,
    OPPOSED_LOADING,
    Concern,
)
from care_ops.config import POSITION
from care_ops.errors import FitError, listed
from care_ops.least import LEAST_VOICES, TELLING_ITEMS
from care_ops.metrics import rank_correlation
from care_ops.models import factor_analysis, one_factor
from care_ops.models.duplicates import Duplicates, find_duplicates
from care_ops.models.feature_effects import (
    FeatureEffect,
    controlled,
    remove_feature_effects,
    surely_follow,
    unit_feature,
)
from care_ops.models.one_factor import OneFactor
from care_ops.moments.state import for_correlation
from care_ops.scales import share_scale
from care_ops.scores import Array, varies


@dataclass(frozen=True)
class Rules:
    """When the estimate departs from the plain average, and by how much.

    The values were chosen on recorded panels, leaving out the data set that is reported (``make bench-real``).

    Attributes
    ----------
    weak : float
        A judge is weak if its mean correlation with the others is surely below this share of the median judge's.
    company : float
        Correlation with another weak judge from which a judge is not weak: the two may see what the others do not.
    factor_share : float
        Largest share of the common factor, whose mean with the average is better than either of two good estimates
        (Clemen, International Journal of Forecasting 1989).
    full_share, no_share : float
        Misfit of one common factor up to which the share is the largest, and from which there is none.
    feature_lead : float
        By how much the common factor may follow a feature more than the average does, before its share is none.
    most_weight : float
        Largest weight of a judge in the common factor, in multiples of an equal weight.
    rank_lead : (float, float)
        How many times as much the judges agree by ranks as by scores, from which ranks join the common factor and from
        which they are all of it: heavy tails hide what judges share, and elsewhere distances tell.
    near_average : float
        Correlation with the mean of the others from which a judge gets no more than an equal weight: one that copies
        the others gains weight by it. On recorded panels no judge exceeds .91.
    """

    weak: float = 0.25
    company: float = 0.3
    factor_share: float = 0.4
    full_share: float = 0.03
    no_share: float = 0.05
    feature_lead: float = 0.05
    most_weight: float = 1.5
    rank_lead: tuple[float, float] = (1.05, 1.15)
    near_average: float = 0.95


RULES = Rules()

SPARSE_SHARE = 0.5
"""Share of the factor on a sparse panel, where nothing weighs it against the mean."""

QUALITY_SHARE = 0.45
"""Share of the common factor's variance that is quality and not a shared error, for the number of effective judges. It
gives the number by gold within a factor of 1.5 on four of five recorded panels (``make bench-real``)."""

_ROUNDING = 1e-9
"""Spread of an average of scores of variance 1 that is rounding error."""

_CANCELLED = (
    "care: the judges' scores cancel one another, as those of two opposite judges do, and no item stands above "
    "another; add judges that score independently, or take out one whose scale is reversed"
)


@dataclass(frozen=True)
class LabelFree:
    """The label-free estimate of a panel, with what supports it and what may be wrong with it.

    Every score has mean 0 and variance 1 over the items that a judge scored, and is 0 on the others.

    Attributes
    ----------
    plain : (n,) array
        The plain average of all judges, in their own units where they share a scale.
    average : (n,) array
        The average after feature effects were removed, duplicates merged and weak judges left out.
    factor : (n,) array
        The common factor of the same judges.
    latent : (n,) array
        The estimate, between ``average`` and ``factor``.
    share : float
        Share of ``factor`` in ``latent``.
    scored : (n,) array of bool
        Whether an item has a score.
    sd : (n,) array
        Standard deviation of the estimate given the noise of the judges.
    weights : (p,) array
        Weights of the judges in the estimate, before effects of features are removed; they add to one.
    duplicates : Duplicates
    concerns : tuple of Concern
        The gravest first.
    model : OneFactor or None
        The common factor of the groups; None on a sparse panel.
    weak : tuple of int
        Judges that are left out.
    near_average : tuple of int
        Judges that are nearly the mean of the others.
    effects : mapping feature -> FeatureEffect
        What was removed.
    features : mapping feature -> (n,) array
        Of mean 0 and variance 1.
    follows : mapping feature -> float
        Correlation of ``latent`` with each feature that was not declared to be no part of quality.
    alternatives : mapping name -> (n,) array
        Plausible other estimates: the common factor, and the mean of the families.
    sides : two (n,) arrays or None
        The means of the two groups of judges that a second factor divides.
    without : (n,) array or None
        The average without all that the feature explains which the estimate follows most.
    kept : (n,) array or None
        The average with all feature effects left in; None where none was removed.
    effective_judges : float or None
        How many judges of independent errors the panel is worth.
    """

    plain: Array
    average: Array
    factor: Array
    latent: Array
    share: float
    scored: NDArray[np.bool_]
    sd: Array
    weights: Array
    duplicates: Duplicates
    concerns: tuple[Concern, ...] = ()
    model: OneFactor | None = None
    weak: tuple[int, ...] = ()
    near_average: tuple[int, ...] = ()
    effects: Mapping[str, FeatureEffect] = field(default_factory=dict[str, FeatureEffect])
    features: Mapping[str, Array] = field(default_factory=dict[str, Array])
    follows: Mapping[str, float] = field(default_factory=dict[str, float])
    alternatives: Mapping[str, Array] = field(default_factory=dict[str, Array])
    sides: tuple[Array, Array] | None = None
    without: Array | None = None
    kept: Array | None = None
    effective_judges: float | None = None

    @property
    def nearest_feature(self) -> str | None:
        """The feature that the estimate follows most."""
        return max(self.follows, key=lambda name: abs(self.follows[name]), default=None)

    @property
    def followed_feature(self) -> str | None:
        """The feature that the estimate may be, where it follows one that closely."""
        name = self.nearest_feature
        return name if name is not None and abs(self.follows[name]) >= FOLLOWS_FEATURE else None

    @property
    def rivals(self) -> dict[str, Array]:
        """Two estimates between which labels would decide, by what they are."""
        if self.sides is not None:
            return dict(zip(("first group of judges", "second group of judges"), self.sides, strict=True))
        if self.followed_feature is not None and self.without is not None:
            return {"care without labels": self.latent, f"without {self.nearest_feature}": self.without}
        name, _ = self.least_alike
        if name is None or np.array_equal(self.alternatives[name], self.latent):
            return {"plain average": self.plain, "common factor": self.factor}
        return {"care without labels": self.latent, name.removeprefix("the "): self.alternatives[name]}

    @property
    def least_alike(self) -> tuple[str | None, float]:
        """The alternative that agrees least with the estimate, and their rank correlation."""
        alike = {name: rank_correlation(self.latent, other) for name, other in self.alternatives.items()}
        name = min(alike, key=lambda name: alike[name], default=None)
        return (None, 1.0) if name is None else (name, alike[name])


@dataclass(frozen=True)
class _Panel:
    """The scores that are averaged: a column for each judge, or group of duplicates.

    ``units`` are in the judges' own units where they share a scale; ``normal`` are normal scores.
    """

    units: Array
    standardised: Array
    normal: Array
    correlation: Array
    items: float


def label_free(problem: Problem, rules: Rules = RULES) -> LabelFree:
    """Estimate quality without labels.

    Raises
    ------
    FitError
        Fewer than three judges or ten items, a judge that does not vary, or duplicates of one judge alone.
    """
    if problem.sparse:
        return _of_sparse_panel(problem)
    check_size(problem.scores)
    problem.moments.correlation(problem.scores.judges)  # refuses a judge that does not vary
    features = {name: w for name, f in problem.scores.features.items() if (w := unit_feature(f)) is not None}
    judged = {name: w for name, w in features.items() if name not in problem.config.not_quality}
    declared = _without_declared(problem, features)
    cleaned, effects = remove_feature_effects(declared, judged, _families(problem))
    duplicates, panel = _merged(problem, cleaned)
    model = one_factor.fit(panel.correlation, panel.items)
    plain, scored = _plain(problem)
    unsafe = _unsafe(model, len(panel.correlation), int(scored.sum()))
    weak = np.zeros(len(panel.correlation), dtype=np.bool_) if unsafe else _weak(panel, rules)
    average = _unit(additive_mean(panel.units[:, ~weak]), scored)
    near = _near_average(panel.correlation, rules) & ~weak
    of_factor = _bounded(model.weights * ~weak, rules.most_weight, near)
    factor = _unit(_weighted_mean(_by_rank_or_score(panel, rules), of_factor), scored)
    share = 0.0 if unsafe else rules.factor_share * _fits(model, rules) * _leans(factor, average, judged, scored, rules)
    latent = _unit(share * factor + (1.0 - share) * average, scored)
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
        _sd(model, panel, latent, scored),
        _by_judge(in_groups, duplicates.group),
        duplicates,
        model=model,
        weak=tuple(np.flatnonzero(weak[duplicates.group]).tolist()),
        near_average=tuple(np.flatnonzero(near[duplicates.group]).tolist()),
        effects=effects,
        features=features,
        follows={name: _correlation(latent, w, scored) for name, w in judged.items()},
        sides=_sides(model, panel, scored),
        kept=None if cleaned is declared else _unit(_average_of(problem, declared, duplicates.group), scored),
        effective_judges=effective_judges(model, panel.correlation),
    )
    found = replace(found, alternatives=_alternatives(problem, found), without=_without_nearest(problem, found))
    return replace(found, concerns=(*unsafe, *_conditions(problem, found, bool(unsafe))))


def additive_mean(values: Array, steps: int = 20) -> Array:
    """Mean of each item over its judges, (n,), where a judge that is missing costs the item nothing.

    Least squares for score = item + judge (the unbalanced two-way layout; Yates, 1934): an item that a severe judge
    did not score is not lifted for it. Without missing scores it is the plain mean; NaN where an item has no score.
    """
    seen = ~np.isnan(values)
    if seen.all():
        return values.mean(axis=1)
    filled, count, given = np.where(seen, values, 0.0), seen.sum(axis=1), np.maximum(seen.sum(axis=0), 1)
    judge = filled.sum(axis=0) / given
    for _ in range(steps):
        item = (filled.sum(axis=1) - seen @ judge) / np.maximum(count, 1)
        before, judge = judge, (filled.sum(axis=0) - item @ seen) / given
        if float(np.abs(judge - before).max()) < 1e-9:
            break
    item = (filled.sum(axis=1) - seen @ judge) / np.maximum(count, 1)
    return np.where(count > 0, item + judge.mean(), np.nan)


def effective_judges(model: OneFactor, correlation: Array, quality: float = QUALITY_SHARE) -> float:
    """How many judges of independent errors the panel is worth: p^2 over the sum of the correlations of their errors.

    Errors are what is left of each judge's scores without quality, which is the share ``quality`` of the variance of
    the common factor. It is never taken from the judges' own correlation, by which accurate judges would be worth one.

    Parameters
    ----------
    correlation : (p, p) array
        Of the judges.
    quality : float
        From 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> correlation = np.full((4, 4), 0.36) + 0.64 * np.eye(4)
    >>> round(effective_judges(one_factor.fit(correlation, 1e6), correlation, quality=1.0), 2)
    4.0
    """
    p = len(correlation)
    loadings = np.sqrt(quality) * np.clip(model.raw_loadings, -0.97, 0.97)
    own = np.sqrt(1.0 - loadings**2)
    errors = (correlation - np.outer(loadings, loadings)) / np.outer(own, own)
    np.fill_diagonal(errors, 1.0)
    return float(np.clip(p**2 / max(float(errors.sum()), 1e-9), 1.0, p))


def _plain(problem: Problem) -> tuple[Array, NDArray[np.bool_]]:
    """The plain average, and which items have a score."""
    values = problem.scores.values / problem.scale.mean() if _in_own_units(problem) else problem.standardised
    mean = row_mean(values)
    scored: NDArray[np.bool_] = ~np.isnan(mean)
    return _unit(mean, scored), scored


def _in_own_units(problem: Problem) -> bool:
    """Whether the judges share a scale, so that their scores are averaged as they are."""
    return problem.config.scale is not None or share_scale(problem.scores.values)


def _average_of(problem: Problem, standardised: Array, group: NDArray[np.intp]) -> Array:
    return additive_mean(_joined(_in_units(problem, standardised), group))


def _in_units(problem: Problem, standardised: Array) -> Array:
    """Standardised scores in the judges' own units, over the mean unit, where they share a scale."""
    return standardised * (problem.scale / problem.scale.mean()) if _in_own_units(problem) else standardised


def _merged(problem: Problem, cleaned: Array) -> tuple[Duplicates, _Panel]:
    """The duplicates of a panel, and its scores with these merged."""
    panel = _panel(_in_units(problem, cleaned), cleaned)
    distinct = np.array([len(np.unique(column[~np.isnan(column)])) for column in problem.scores.values.T])
    duplicates = find_duplicates(panel.correlation, panel.items, distinct, _families(problem))
    groups = int(duplicates.group.max()) + 1
    if groups == 1:
        raise FitError(
            f"care: all {len(distinct)} judges give the same scores ({listed(problem.scores.judges, 5)} are duplicates "
            "of one another), and one judge is no panel; add judges that score independently"
        )
    if groups == len(distinct):
        return duplicates, panel
    return duplicates, _panel(_joined(panel.units, duplicates.group), _joined(cleaned, duplicates.group))


def _panel(units: Array, standardised: Array) -> _Panel:
    normal = factor_analysis.normal_scores(standardised)
    return _Panel(units, standardised, normal, for_correlation(normal).correlation(), _items_behind(standardised))


def _unsafe(model: OneFactor, judges: int, items: int) -> tuple[Concern, ...]:
    """Concerns for which the estimate is the plain average."""
    found: list[Concern] = []
    if judges < LEAST_VOICES:
        found.append("few judges")
    if items < TELLING_ITEMS:
        found.append("few items")
    if model.signal < MIN_SIGNAL:
        found.append("no common signal")
    if float(np.mean(model.raw_loadings < OPPOSED_LOADING)) >= MAX_OPPOSED:
        found.append("opposed")
    if model.second > MAX_SECOND_FACTOR and judges > LEAST_VOICES - 1:
        found.append("two groups")
    return tuple(found)


def _conditions(problem: Problem, found: LabelFree, unsafe: bool) -> tuple[Concern, ...]:
    """Concerns beside those: what somebody who knows the items or the judges can decide."""
    more: list[Concern] = []
    if not unsafe and found.least_alike[1] < MIN_AGREEMENT:
        more.append("alternatives")
    if found.duplicates.uncertain:
        more.append("duplicates")
    if found.followed_feature is not None:
        more.append("feature")
    if len({family_of(judge, problem.scores.families) for judge in problem.scores.judges}) == 1:
        more.append("one family")
    return tuple(more)


def _weak(panel: _Panel, rules: Rules) -> NDArray[np.bool_]:
    """Judges that surely agree with nobody; none where fewer than three would be left."""
    p = len(panel.correlation)
    agreement = (panel.correlation.sum(axis=1) - 1.0) / (p - 1)
    weak = agreement + 2.0 / np.sqrt(panel.items) < rules.weak * float(np.median(agreement))
    among = np.where(np.eye(p, dtype=np.bool_), 0.0, panel.correlation)[:, weak].max(axis=1, initial=0.0)
    weak &= among <= rules.company
    return weak if int((~weak).sum()) >= LEAST_VOICES - 1 else np.zeros(p, dtype=np.bool_)


def _by_rank_or_score(panel: _Panel, rules: Rules) -> Array:
    """Normal scores as far as the judges agree more by these, and else standardised scores."""
    p = len(panel.correlation)
    by_score = float(np.abs(for_correlation(panel.standardised).correlation()).sum()) - p
    lead = (float(np.abs(panel.correlation).sum()) - p) / max(by_score, 1e-9)
    share = float(np.clip((lead - rules.rank_lead[0]) / (rules.rank_lead[1] - rules.rank_lead[0]), 0.0, 1.0))
    if share in (0.0, 1.0):
        return panel.normal if share else panel.standardised
    return share * panel.normal + (1.0 - share) * panel.standardised


def _fits(model: OneFactor, rules: Rules) -> float:
    """How far one factor explains the judges' correlations: 1 where it does, 0 where it does not."""
    return float(np.clip((rules.no_share - model.misfit) / (rules.no_share - rules.full_share), 0.0, 1.0))


def _leans(
    factor: Array, average: Array, features: Mapping[str, Array], scored: NDArray[np.bool_], rules: Rules
) -> float:
    """1 where the factor surely follows no feature of the texts more than the average does, 0 where it does."""
    error = np.sqrt(2.0 * max(1.0 - _correlation(factor, average, scored), 0.0) / int(scored.sum()))
    more = (abs(_correlation(factor, w, scored)) - abs(_correlation(average, w, scored)) for w in features.values())
    return float(np.clip(1.0 - (max(more, default=0.0) - 2.0 * error) / rules.feature_lead, 0.0, 1.0))


def _near_average(correlation: Array, rules: Rules) -> NDArray[np.bool_]:
    """Judges that are nearly the mean of the others, (p,)."""
    total = correlation.sum(axis=1)
    rest = correlation.sum() - 2.0 * total + 1.0
    return (total - 1.0) / np.sqrt(np.maximum(rest, 1e-12)) > rules.near_average


def _bounded(weights: Array, most: float, equal: NDArray[np.bool_]) -> Array:
    """Weights that add to one, none larger than ``most`` times an equal weight; of some, than an equal weight."""
    weights = weights / max(float(weights.sum()), 1e-12)
    share = 1.0 / max(int((weights > 0).sum()), 1)
    limit = np.where(equal, share, most * share)
    for _ in range(len(weights)):
        over = weights > limit * (1 + 1e-12)
        if not over.any():
            break
        rest = np.where(weights >= limit * (1 - 1e-12), 0.0, weights)
        capped = weights >= limit * (1 - 1e-12)
        left = 1.0 - float(limit[capped].sum())
        weights = np.where(capped, limit, rest * (left / max(float(rest.sum()), 1e-12)))
    return weights


def _alternatives(problem: Problem, found: LabelFree) -> dict[str, Array]:
    """Plausible other estimates."""
    scored = found.scored
    out = {"one common factor": found.factor}
    families = problem.scores.families
    if 1 < len({family_of(judge, families) for judge in problem.scores.judges}) < len(problem.scores.judges):
        out["the mean of the families"] = _unit(
            family_mean(problem.standardised, problem.scores.judges, families), scored
        )
    return out


def _without_nearest(problem: Problem, found: LabelFree) -> Array | None:
    """The average without all that the feature explains which the estimate follows most."""
    name = found.nearest_feature
    if name is None:
        return None
    cleaned = controlled(problem.standardised, found.features[name])
    return _unit(_average_of(problem, cleaned, found.duplicates.group), found.scored)


def _sides(model: OneFactor, panel: _Panel, scored: NDArray[np.bool_]) -> tuple[Array, Array] | None:
    """The means of two groups of judges, where a second factor divides them."""
    first = model.first_group
    if model.second <= MAX_SECOND_FACTOR or first.all() or not first.any():
        return None
    return _unit(row_mean(panel.normal[:, first]), scored), _unit(row_mean(panel.normal[:, ~first]), scored)


def _by_judge(weights: Array, group: NDArray[np.intp]) -> Array:
    """Weights of judges by those of their groups, in which duplicates share alike."""
    return (weights / np.bincount(group))[group]


def _without_declared(problem: Problem, features: Mapping[str, Array]) -> Array:
    """Standardised scores without what features explain that were declared to be no part of quality."""
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
    """The family of each judge, (p,)."""
    names = [family_of(judge, problem.scores.families) for judge in problem.scores.judges]
    return np.unique(np.array(names), return_inverse=True)[1].astype(np.intp)


def _items_behind(values: Array) -> float:
    """The median number of items that two judges share."""
    seen = ~np.isnan(values)
    if seen.all():
        return len(values)
    present = seen.astype(np.float32)
    shared = present.T @ present
    return float(np.median(shared[~np.eye(len(shared), dtype=np.bool_)]))


def _joined(values: Array, group: NDArray[np.intp]) -> Array:
    """The mean of each group's judges over the scores present, (n, groups)."""
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
    """Standard deviation of the estimate by its judges' noise: the less it is the best factor score, the larger."""
    best = _unit(_weighted_mean(panel.normal, model.weights), scored)
    one = factor_analysis.FactorModel(model.loadings[:, None], 1.0 - model.loadings**2, np.eye(1), True)
    sd = factor_analysis.posterior_sd(one, one, panel.normal)
    return np.sqrt(1.0 - _correlation(latent, best, scored) ** 2 * (1.0 - sd**2))


def _of_sparse_panel(problem: Problem) -> LabelFree:
    """The estimate of a panel of which most judges scored few items.

    One factor is all that can be estimated there, and nothing tells whether it is quality or a bias that many judges
    share. It is averaged with the mean in equal parts.
    """
    model = problem.sparse_factor
    scored: NDArray[np.bool_] = ~np.all(np.isnan(problem.standardised), axis=1)
    mean = _unit(row_mean(problem.standardised), scored)
    factor, of_factor = _unit(model.quality, scored), unit_weights(model.loading / model.variance)
    latent = _unit(SPARSE_SHARE * factor + (1.0 - SPARSE_SHARE) * mean, scored)
    p = len(problem.scores.judges)
    concerns: list[Concern] = ["few judges"] if p < LEAST_VOICES else []
    if int(scored.sum()) < TELLING_ITEMS:
        concerns.append("few items")
    if _correlation(mean, factor, scored) < MIN_AGREEMENT:
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


def _unit(score: Array, scored: NDArray[np.bool_]) -> Array:
    """``score`` with mean 0 and variance 1 over the items that are scored, and 0 on the others."""
    centred = np.where(scored, score - score[scored].mean(), 0.0)
    spread = float(centred[scored].std())
    return centred / spread if spread > _ROUNDING else np.zeros(len(score))


def _correlation(one: Array, other: Array, scored: NDArray[np.bool_]) -> float:
    """Correlation over the items that are scored of two scores of variance 1."""
    return float(one[scored] @ other[scored]) / int(scored.sum())
