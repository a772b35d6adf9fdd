"""Label-free estimate of a panel, with plausible alternatives and concerns about the estimate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.base import Problem, row_mean
from care_ops.aggregators.latent import family_mean, family_of
from care_ops.concerns import (
    FOLLOWS_FEATURE,
    MAX_OPPOSED,
    MAX_SECOND_FACTOR,
    MIN_AGREEMENT,
    MIN_SIGNAL,
    OPPOSED_LOADING,
    Concern,
)
from care_ops.metrics import rank_correlation
from care_ops.minimum_sizes import MIN_DISTINCT_JUDGES, MIN_ITEMS_TO_COMPARE
from care_ops.models.duplicates import Duplicates
from care_ops.models.one_factor import OneFactor
from care_ops.scores import Array

_ROUNDING = 1e-9
"""Maximum standard deviation that counts as a rounding error in an average of unit-variance scores."""


@dataclass(frozen=True)
class LabelFree:
    """The label-free estimate of a panel, with its alternatives and concerns.

    Every estimate has mean 0 and variance 1 over the scored items, and is 0 on the other items.

    Attributes
    ----------
    plain : (n,) array
        The plain average of all judges: of raw scores if all judges share a scale, otherwise of standardised scores.
    average : (n,) array
        The average after the removal of feature effects, the merging of duplicates and the exclusion of weak judges.
    factor : (n,) array
        The common factor of the judges in ``average``.
    latent : (n,) array
        The estimate: a weighted mean of ``average`` and ``factor``.
    share : float
        Share of ``factor`` in ``latent``.
    scored : (n,) array of bool
        Whether an item has a score.
    sd : (n,) array
        Posterior standard deviation of each item's estimate, due to judge noise.
    weights : (p,) array
        Weights of the judges in the estimate; they sum to one.
    duplicates : Duplicates
        Groups of judges with nearly identical scores.
    concerns : tuple of Concern, the most severe first
    model : OneFactor or None
        The factor model after duplicates are merged; None on a sparse panel.
    weak : tuple of int
        Column indices of judges that are left out because they agree with no other judge.
    near_average : tuple of int
        Column indices of judges whose correlation with the mean of the other judges is close to one.
    removed : tuple of str
        Features whose effects on single judges were removed.
    features : mapping feature -> (n,) array
        Features of mean 0 and variance 1.
    follows : mapping feature -> float
        Correlation of ``latent`` with each feature, except those declared not to be part of quality.
    alternatives : mapping name -> (n,) array
        Other plausible estimates, such as the common factor and the mean of the family means.
    sides : two (n,) arrays or None
        The mean scores of the two groups of judges that a second factor separates; None if there are no such groups.
    without : (n,) array or None
        The average of the judges' residuals after regression on the feature in ``follows`` that correlates most with
        the estimate; None if there are no features.
    kept : (n,) array or None
        The average before the removal of feature effects from single judges; None if no effect was removed.
    effective_judges : float or None
        Number of independent judges whose mean would be as valid as the estimate; None on a sparse panel.
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
    removed: tuple[str, ...] = ()
    features: Mapping[str, Array] = field(default_factory=dict[str, Array])
    follows: Mapping[str, float] = field(default_factory=dict[str, float])
    alternatives: Mapping[str, Array] = field(default_factory=dict[str, Array])
    sides: tuple[Array, Array] | None = None
    without: Array | None = None
    kept: Array | None = None
    effective_judges: float | None = None

    @property
    def nearest_feature(self) -> str | None:
        """Name of the feature with the largest absolute correlation with the estimate."""
        return max(self.follows, key=lambda name: abs(self.follows[name]), default=None)

    @property
    def followed_feature(self) -> str | None:
        """Feature that correlates most with the estimate; None if no |correlation| reaches ``FOLLOWS_FEATURE``."""
        name = self.nearest_feature
        return name if name is not None and abs(self.follows[name]) >= FOLLOWS_FEATURE else None

    @cached_property
    def rivals(self) -> dict[str, Array]:
        """Dict of two plausible but different estimates; labels can decide between them."""
        if self.sides is not None:
            return dict(zip(("first group of judges", "second group of judges"), self.sides, strict=True))
        if self.followed_feature is not None and self.without is not None:
            return {"care without labels": self.latent, f"without {self.nearest_feature}": self.without}
        name, _ = self.least_alike
        if name is None or np.array_equal(self.alternatives[name], self.latent):
            return {"plain average": self.plain, "common factor": self.factor}
        return {"care without labels": self.latent, name.removeprefix("the "): self.alternatives[name]}

    @cached_property
    def least_alike(self) -> tuple[str | None, float]:
        """Name of the alternative that agrees least with the estimate, and its rank correlation with the estimate."""
        alike = {name: rank_correlation(self.latent, other) for name, other in self.alternatives.items()}
        name = min(alike, key=lambda name: alike[name], default=None)
        return (None, 1.0) if name is None else (name, alike[name])


def unsafe_concerns(model: OneFactor, judges: int, items: int) -> tuple[Concern, ...]:
    """List the concerns that prevent CARE from using the common factor and from leaving out weak judges."""
    is_raised: dict[Concern, bool] = {
        "few judges": judges < MIN_DISTINCT_JUDGES,
        "few items": items < MIN_ITEMS_TO_COMPARE,
        "no common signal": model.signal < MIN_SIGNAL,
        "opposed": float(np.mean(model.raw_loadings < OPPOSED_LOADING)) >= MAX_OPPOSED,
        "two groups": in_two_groups(model, judges),
    }
    return tuple(concern for concern, raised in is_raised.items() if raised)


def in_two_groups(model: OneFactor, judges: int) -> bool:
    """Return whether a second factor separates the judges into two groups."""
    return model.second > MAX_SECOND_FACTOR and judges >= MIN_DISTINCT_JUDGES


def conditional_concerns(problem: Problem, found: LabelFree, unsafe: bool) -> tuple[Concern, ...]:
    """List the concerns that a person who knows the items or the judges can resolve."""
    is_raised: dict[Concern, bool] = {
        "alternatives": not unsafe and found.least_alike[1] < MIN_AGREEMENT,
        "duplicates": bool(found.duplicates.uncertain),
        "feature": found.followed_feature is not None,
        "one family": len({family_of(judge, problem.scores.families) for judge in problem.scores.judges}) == 1,
    }
    return tuple(concern for concern, raised in is_raised.items() if raised)


def plausible_alternatives(problem: Problem, found: LabelFree) -> dict[str, Array]:
    """Return a dict of plausible estimates: the common factor and, with declared families, the mean of the families."""
    scored = found.scored
    out = {"one common factor": found.factor}
    families = problem.scores.families
    if 1 < len({family_of(judge, families) for judge in problem.scores.judges}) < len(problem.scores.judges):
        out["the mean of the families"] = unit_score(
            family_mean(problem.standardised, problem.scores.judges, families), scored
        )
    return out


def group_means(model: OneFactor, normal: Array, scored: NDArray[np.bool_]) -> tuple[Array, Array] | None:
    """Return the mean scores of both groups if a second factor separates the judges into two groups, else None."""
    first = model.first_group
    if model.second <= MAX_SECOND_FACTOR or first.all() or not first.any():
        return None
    return unit_score(row_mean(normal[:, first]), scored), unit_score(row_mean(normal[:, ~first]), scored)


def unit_score(score: Array, scored: NDArray[np.bool_]) -> Array:
    """Standardise scores over the scored items, and set them to 0 for the other items; shape (n,)."""
    centred = np.where(scored, score - score[scored].mean(), 0.0)
    spread = float(centred[scored].std())
    return centred / spread if spread > _ROUNDING else np.zeros(len(score))


def score_correlation(score: Array, other: Array, scored: NDArray[np.bool_]) -> float:
    """Return the correlation of two estimates of mean 0 and variance 1 over the scored items."""
    return float(score[scored] @ other[scored]) / int(scored.sum())
