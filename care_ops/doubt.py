"""The names of what can be doubted of an answer without labels, and how another answer differs from it.

Records that are read without any mathematics at hand, such as those of pages, know these.
"""

from dataclasses import dataclass
from typing import Literal

Doubt = Literal[
    "few judges",
    "few items",
    "no common signal",
    "copies",
    "opposed",
    "several answers",
    "families",
    "feature",
    "counted once",
    "kin",
]

LEAST_AGREEMENT = 0.95
"""Least correlation of the two answers without labels."""

RIVAL = 0.7
"""Correlation with the answer below which a factor that several voices follow is another answer."""

MAY_BE_A_FEATURE = 0.25
"""Correlation with a feature of the texts from which on the answer may be that feature."""


@dataclass(frozen=True)
class Changed:
    """How another answer differs from the one that is given.

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
class OfCare:
    """What ``care`` says of its answer, and a verdict after it.

    Attributes
    ----------
    doubts : tuple of Doubt
        Why the answer may be wrong without labels, the gravest first.
    agreement : float
        Correlation of the two answers that are defensible without labels.
    rival : float or None
        Correlation with the answer of the factor that is least like it among those that several judges follow.
    parted_by : str or None
        The feature of the texts in which the defensible answers differ most, where they plainly differ in one.
    misfit : float
        Root mean square of the correlations of judges that one common factor leaves unexplained.
    signal : float
        How closely judges follow what all share (``care_ops.aggregators.doubts.signal_of``).
    families : int or None
        How many families the judges are of; None where the fit does not say.
    copies : tuple of tuples of judges
        Judges that say the same thing, a tuple for each voice.
    kept : Changed or None
        The answer if nothing had been taken off.
    without : Changed or None
        The answer if the feature that it follows most is no part of quality.
    beside_mean : Changed or None
        The plain mean of the judges.
    """

    doubts: tuple[Doubt, ...] = ()
    agreement: float = 1.0
    rival: float | None = None
    parted_by: str | None = None
    misfit: float = 0.0
    signal: float = 1.0
    families: int | None = None
    copies: tuple[tuple[str, ...], ...] = ()
    kept: Changed | None = None
    without: Changed | None = None
    beside_mean: Changed | None = None
