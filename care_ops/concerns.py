"""What may be wrong with a label-free estimate, and the limits from which it is a concern.

Each limit is an effect size: how far the ranking could change, not how surely something differs from zero. The limits
were set on recorded panels (``make bench-real``), leaving out the data set that is reported, and are checked on
simulated panels (``make bench-panels``).
"""

from dataclasses import dataclass
from typing import Literal

Concern = Literal[
    "few judges",
    "few items",
    "no common signal",
    "opposed",
    "two groups",
    "alternatives",
    "duplicates",
    "feature",
    "one family",
]
"""In the order of their gravity; ``docs/verdict.md`` explains each."""

MAX_SECOND_FACTOR = 0.2
"""Strength of a second shared factor from which the judges form two groups. Recorded panels on which the average is as
good as any combination have .14 or less; those on which it is at chance have .36 and .65."""

MIN_SIGNAL = 0.2
"""Mean correlation of the judges with their common factor below which they share too little to be combined."""

OPPOSED_LOADING, MAX_OPPOSED = -0.1, 0.25
"""Loading below which a judge opposes the others, and the share of such judges from which no side is sure."""

MIN_AGREEMENT = 0.9
"""Rank correlation of the estimate with a plausible alternative below which the alternative is another answer."""

FOLLOWS_FEATURE = 0.25
"""Correlation with a feature of the texts from which the estimate may be that feature."""


@dataclass(frozen=True)
class Changed:
    """How one ranking differs from another.

    Attributes
    ----------
    correlation : float
        Of the ranks (Spearman).
    halves_changed : int
        Items that lie in the other half of the ranking.
    top_changed, top : int
        How many of the best tenth of the items are others, and how many items that tenth has.
    """

    correlation: float
    halves_changed: int
    top_changed: int
    top: int


@dataclass(frozen=True, kw_only=True)
class CareSummary:
    """How ``care`` came to its estimate, and what may be wrong with it.

    Attributes
    ----------
    concerns : tuple of Concern
        The gravest first; none where the panel is clear.
    second_factor : float
        Strength of the second shared factor: the largest eigenvalue of the residual correlation after one common
        factor, over the sum of squared loadings.
    misfit : float
        Root mean square of the correlations that one common factor leaves unexplained, sampling error removed.
    signal : float
        Mean correlation of the judges with the common factor, or the median where that is lower.
    factor_share : float
        Share of the common factor in the estimate; the rest is the plain average.
    alternative, agreement : str and float
        The plausible alternative that agrees least with the estimate, and their rank correlation.
    duplicates : tuple of tuples of judges
        Judges that count as one, a tuple for each group.
    perhaps_duplicates : tuple of judges
        Judges whose scores are nearly identical, and who may be duplicates or better judges than the others.
    groups : tuple of two tuples of judges
        The two groups of judges, where a second factor is strong; else empty.
    weak : tuple of judges
        Judges that agree with nobody and are not averaged.
    near_average : tuple of judges
        Judges whose scores are nearly the mean of the others'.
    families : int or None
        How many families the judges are of; None where the fit does not say.
    effective_judges : float or None
        How many judges of independent errors the panel is worth.
    differing_feature : str or None
        The feature of the texts by which the alternative differs most from the estimate, where it plainly does.
    kept : Changed or None
        The estimate if the effects of features had been left in the scores; None where none was removed.
    without : Changed or None
        The estimate without all that the feature explains that it follows most.
    plain_average : Changed or None
        The plain average of the judges.
    """

    concerns: tuple[Concern, ...] = ()
    second_factor: float = 0.0
    misfit: float = 0.0
    signal: float = 1.0
    factor_share: float = 0.0
    alternative: str | None = None
    agreement: float = 1.0
    duplicates: tuple[tuple[str, ...], ...] = ()
    perhaps_duplicates: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    weak: tuple[str, ...] = ()
    near_average: tuple[str, ...] = ()
    families: int | None = None
    effective_judges: float | None = None
    differing_feature: str | None = None
    kept: Changed | None = None
    without: Changed | None = None
    plain_average: Changed | None = None
