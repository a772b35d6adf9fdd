"""What a fit says of itself, as the records from which its verdict is made."""

from dataclasses import dataclass, field

from care_ops.doubt import RIVAL, OfCare
from care_ops.least import LABELS_TO_SETTLE
from care_ops.records import Influence, JudgeCheck
from care_ops.results.coverage import Coverage
from care_ops.results.sides import Sides

_SETTLED_FROM = 0.9
"""Probability from which on labels have settled what quality is."""

MOVED = 0.9996
"""Rank correlation with the answer without what was taken off below which it matters whether that was right: from there
on the two may part by .01 of Kendall's tau where the truth correlates with that by .6, (2 (1 - r))^½ · .6 · 2 / pi."""


@dataclass(frozen=True)
class JudgeFacts(JudgeCheck):
    """What admission found about a judge, and what is known of it since.

    Attributes
    ----------
    weight, weight_hi : float or None
        In the recommended answer, and the upper end of its interval.
    looks_like : str or None
        What the column looks like where it does not look like a judge.
    outside : str or None
        That most of its scores lie outside the scale, where they do.
    """

    weight: float | None = None
    weight_hi: float | None = None
    looks_like: str | None = None
    outside: str | None = None

    @property
    def dead(self) -> str | None:
        """In which way the judge says nothing about any item; None where it says something."""
        if self.admitted:  # on a sparse panel one score is enough
            return None
        if self.entropy > 0.0:
            return None
        same = "it gave no score at all" if self.missing_rate >= 1.0 else "it gave the same score to every item"
        return self.outside or same

    @property
    def counts_against(self) -> bool:
        """Whether its weight is negative, with its whole interval where there is one."""
        upper = self.weight if self.weight_hi is None else self.weight_hi
        return upper is not None and upper < 0.0


@dataclass(frozen=True)
class FollowedFeature:
    """A feature of the texts that a factor of the judges follows, with the rank correlation (Spearman)."""

    factor: int
    feature: str
    correlation: float


@dataclass(frozen=True)
class LabelEvidence:
    """What labels of people say.

    Attributes
    ----------
    probability : float
        Of the answers that agree with the one that is given (``settled.probability_settled``).
    hypothesis : str
        The most probable single thing that quality may follow, in words.
    at_random : float
        Probability that the labels follow nothing that the judges say.
    turned : float
        Correlation of the answer with what it is without these labels.
    """

    labels: int
    probability: float
    hypothesis: str
    hypothesis_probability: float
    at_random: float = 0.0
    turned: float = 1.0

    @property
    def settles(self) -> bool:
        """Whether these labels are enough, and agree enough, to say what quality is."""
        return self.labels >= LABELS_TO_SETTLE and self.probability >= _SETTLED_FROM


@dataclass(frozen=True)
class ProbeEvidence:
    """What probes say: the probability of the answer that they chose, and the kinds that were declared of them."""

    probability: float
    kinds: tuple[str, ...]

    @property
    def settles(self) -> bool:
        """Whether one answer is left, if what was declared of the probes is true."""
        return self.probability >= _SETTLED_FROM


@dataclass(frozen=True)
class FitFacts(OfCare):
    """What a fit says of itself; nothing here changes until it is made again.

    Attributes
    ----------
    judges : tuple of JudgeFacts
        Also those that are not on the panel.
    failure : str or None
        Why ``care`` gave no answer; what follows then means nothing.
    feature, follows : str and float, optional
        The feature of the texts that the answer follows most, and how closely.
    taken_off : tuple of features
        Features of which what single judges like was taken off their scores.
    blind : bool
        Nothing of the items is known that could show what judges follow beside quality, such as their texts.
    labels, probes : evidence, optional
    followed : tuple of FollowedFeature
        By how closely they are followed.
    cautions : tuple of str
        What else must be known before the numbers are trusted, such as a structure short of its certificate.
    influence : Influence
        What judges could do to the answer, as far as that was tried.
    coverage : Coverage or None
        Who scored what; None where the fit does not say.
    sides : Sides or None
        Which judges of pairs choose by the side; None where none plainly does, or nobody looked.
    """

    edition: str
    made_at: str
    items: int
    judges: tuple[JudgeFacts, ...]
    failure: str | None = None
    feature: str | None = None
    follows: float = 0.0
    taken_off: tuple[str, ...] = ()
    blind: bool = False
    labels: LabelEvidence | None = None
    probes: ProbeEvidence | None = None
    followed: tuple[FollowedFeature, ...] = ()
    cautions: tuple[str, ...] = ()
    influence: Influence = field(default_factory=Influence)
    coverage: Coverage | None = None
    sides: Sides | None = None
    always_left: str | None = None

    @property
    def rests_on_taste(self) -> bool:
        """Whether what was taken off moves the answer, which is then right if it is no part of quality."""
        return self.kept is not None and self.kept.correlation < MOVED

    @property
    def labels_contradict(self) -> bool:
        """Whether the labels say what no answer of the judges says.

        Where judges allow one, that is another answer; where they allow several, labels may choose any, but none turned
        round.
        """
        least = 0.0 if self.doubts else RIVAL
        return self.labels is not None and self.labels.turned < least and "opposed" not in self.doubts

    @property
    def admitted(self) -> list[str]:
        """The judges on the panel."""
        return [judge.judge for judge in self.judges if judge.admitted]
