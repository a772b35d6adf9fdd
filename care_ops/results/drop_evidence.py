"""The records of what labels say of an answer without one of its judges, and of what a judge could do to it."""

from dataclasses import dataclass, field
from typing import Literal

from care_ops.least import LABELS_TO_ADVISE

NO_REFITS = "fits without each judge belong to the resamples, and care.yaml or --intervals asks for none"
"""Why nothing is said of judges where ``FitConfig.resamples`` is 0, as the rest of a sentence."""

Advice = Literal["drop", "keep", "unclear"]


@dataclass(frozen=True)
class DropEvidence:
    """How much better an answer orders the labelled items with a judge than without it.

    Attributes
    ----------
    labels, units : int
        Labelled items that were compared, and the split units that they are of.
    gain, lo, hi : float
        Share of the pairs of different labels that the answer orders rightly, less the share without the judge; ties
        count one half. With two classes of labels that is the difference of two AUCs.
    needed : int or None
        Labels by which a difference of this size would be told from none; None where there is no difference.
    """

    labels: int
    units: int
    gain: float
    lo: float
    hi: float
    needed: int | None

    @property
    def advice(self) -> Advice:
        """``drop`` where the whole interval says that the answer is better without the judge."""
        if self.units < LABELS_TO_ADVISE or self.lo <= 0 <= self.hi:
            return "unclear"
        return "drop" if self.hi < 0 else "keep"


@dataclass(frozen=True)
class Influence:
    """How many of the best ``top`` items, of ``items`` that were fitted, judges could change (``influence``).

    Attributes
    ----------
    moved, silent : dict judge -> int
        By the worst attack of a judge alone, and where it says the same of every item; of judges that were tried.
    together : tuple of judges
        The fewest that were found to change half of them, which change ``most``; empty where a few do not.
    """

    moved: dict[str, int] = field(default_factory=dict[str, int])
    silent: dict[str, int] = field(default_factory=dict[str, int])
    top: int = 0
    together: tuple[str, ...] = ()
    most: int = 0
    items: int = 0


@dataclass(frozen=True)
class Dropping:
    """What labels say of each judge of a panel.

    Attributes
    ----------
    evidence : dict judge -> DropEvidence
    refused : str
        Why there is none, as the rest of a sentence; empty where there is some.
    refits, items : int
        How many fits were made for it, and the most items that one of them was made of.
    influence : Influence
    """

    evidence: dict[str, DropEvidence] = field(default_factory=dict[str, DropEvidence])
    refused: str = ""
    refits: int = 0
    items: int = 0
    influence: Influence = field(default_factory=Influence)
