"""The names of what can be doubted of an answer without labels, and how another answer differs from it.

Records that are read without any mathematics at hand, such as those of pages, know these.
"""

from dataclasses import dataclass
from typing import Literal

Doubt = Literal[
    "few judges", "few items", "no common signal", "copies", "opposed", "several answers", "families", "feature"
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
