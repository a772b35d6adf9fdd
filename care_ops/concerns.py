"""Concerns about an estimate without labels, and their limits.

A limit is an effect size: how far the ranking could change. Recorded panels set the limits (``make bench-real``,
leaving out the reported data set); simulated panels check them (``make bench-panels``).
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
"""Median correlation of the judges with their common factor below which they share too little to be combined."""

OPPOSED_LOADING, MAX_OPPOSED = -0.1, 0.25
"""Loading below which a judge opposes the others, and the share of such judges from which no side is sure."""

MIN_AGREEMENT = 0.9
"""Rank correlation of the estimate with a plausible alternative below which the alternative is another answer."""

FOLLOWS_FEATURE = 0.25
"""Correlation with a feature of the texts from which the estimate may be that feature."""


@dataclass(frozen=True)
class Changed:
    """Differences of two rankings: rank correlation, items in the other half, and items new in the ``top`` tenth."""

    correlation: float
    halves_changed: int
    top_changed: int
    top: int


@dataclass(frozen=True, kw_only=True)
class CareSummary:
    """The steps of ``care`` to its estimate, and concerns about it.

    Attributes
    ----------
    concerns : tuple of Concern
        The gravest first.
    second_factor : float
        Strength of the second shared factor: the largest eigenvalue of the residual correlation after one common
        factor, over the sum of squared loadings.
    misfit : float
        Root mean square of the correlations that one common factor leaves unexplained, sampling error removed.
    signal : float
        Median correlation of the judges with the common factor.
    factor_share : float
        Share of the common factor in the estimate; the rest is the plain average.
    alternative, agreement : str and float
        The plausible alternative that agrees least with the estimate, and their rank correlation.
    duplicates : tuple of tuples of judges
        Judges that count as one, a tuple for each group.
    perhaps_duplicates : tuple of judges
        Judges with nearly identical scores: duplicates, or better judges than the others.
    groups : tuple of two tuples of judges
        The two groups of judges if a second factor is strong.
    weak : tuple of judges
        Judges that agree with no other and are not averaged.
    near_average : tuple of judges
        Judges whose scores are nearly the mean of the others'.
    effective_judges : float or None
        The number of judges with independent errors that the panel is worth.
    differing_feature : str or None
        The text feature by which the alternative differs most from the estimate.
    kept, without, plain_average : Changed or None
        The estimate compared with: itself before effects were removed, itself without the feature that it follows
        most, and the plain average.
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
