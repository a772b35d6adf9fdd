"""Concerns about an estimate without labels, and the thresholds at which CARE reports them.

A threshold is an effect size: how much the ranking could change. The thresholds were chosen on
recorded panels (``make bench-real``) and checked on simulated panels (``make bench-panels``).
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
"""Names of the concerns, the most severe first; ``docs/verdict.md`` explains each of them."""

MAX_SECOND_FACTOR = 0.2
"""Maximum strength of a second shared factor in a panel that is not two groups. Recorded panels have .14 or less if the
average is as good as any combination, and .36 and .65 if the average is at chance level."""

MIN_SIGNAL = 0.2
"""Minimum median correlation of the judges with the common factor; below it, the judges share too little to combine."""

OPPOSED_LOADING, MAX_OPPOSED = -0.1, 0.25
"""Minimum loading of a judge that does not oppose the others, and share of opposing judges that raises the concern."""

MIN_AGREEMENT = 0.9
"""Minimum rank correlation between the estimate and a plausible alternative; below it, the rankings differ clearly."""

FOLLOWS_FEATURE = 0.25
"""Minimum correlation with a text feature that the estimate may measure instead of quality."""


@dataclass(frozen=True)
class Changed:
    """Comparison of two rankings: correlation, and numbers of items that enter the other half or the top tenth."""

    correlation: float
    halves_changed: int
    top_changed: int
    top: int


@dataclass(frozen=True, kw_only=True)
class CareSummary:
    """Summary of a ``care`` estimate: the adjustments to the plain average, and the concerns.

    Attributes
    ----------
    concerns : tuple of Concern
        Concerns, the most severe first.
    second_factor : float
        Strength of the second shared factor: the largest eigenvalue of the residual correlation after one common
        factor, divided by the sum of squared loadings.
    misfit : float
        Root mean square of the residual correlations after one common factor, corrected for sampling error.
    signal : float
        Median correlation of the judges with the common factor.
    factor_share : float
        Share of the common factor in the estimate; the rest is the plain average.
    alternative, agreement : str and float
        Plausible alternative estimate that has the lowest rank correlation with ``care``, and this correlation.
    duplicates : tuple of tuples of judges
        Groups of judges that count as one judge.
    perhaps_duplicates : tuple of judges
        Judges with nearly identical scores; they are copies of one judge, or better judges than the others.
    groups : tuple of two tuples of judges
        The two groups of judges if a second factor is strong.
    weak : tuple of judges
        Judges that agree with no other judge and are left out of the average.
    near_average : tuple of judges
        Judges whose scores are nearly the mean of the other judges' scores.
    effective_judges : float or None
        Number of independent judges whose mean would be as valid as the estimate.
    differing_feature : str or None
        Text feature that correlates most with the difference of two plausible estimates; None if none correlates.
    kept, without, plain_average : Changed or None
        Comparisons of two rankings. ``kept``: before and after the removal of feature effects. ``without``: with and
        without the feature that correlates most with the estimate. ``plain_average``: by ``care`` and by plain average.
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
