"""What a fit says of itself, as the records from which its verdict is made.

Belongs here: the records, and when labels or probes have settled what quality is. Belongs elsewhere: the verdict that
follows (``verdict``), finding these facts in a fit (``assets.report.verdict_facts``).
"""

from __future__ import annotations

from dataclasses import dataclass

from care_ops.results.coverage import Coverage

LEAST_JUDGES = 3
"""Fewest judges on a panel. Where two disagree, nothing says which of them is wrong."""

LABELS_ASKED_FOR = 10
"""Fewest labels that settle a panel; by fewer the model behind the probability is too sure of itself."""

_SETTLED_FROM = 0.9
"""Probability from which on labels have settled what quality is."""


@dataclass(frozen=True)
class JudgeFacts:
    """What is known of one judge.

    Attributes
    ----------
    judge : str
    admitted : bool
    reason, notes : str or None
        Why it is not on the panel; what admission noticed without consequence.
    missing_rate, entropy : float
        Share of its scores that are missing; bits that its scores carry.
    weight, weight_hi : float or None
        In the recommended answer, and the upper end of its interval.
    looks_like : str or None
        What the column looks like where it does not look like a judge.
    """

    judge: str
    admitted: bool
    reason: str | None = None
    notes: str | None = None
    missing_rate: float = 0.0
    entropy: float = 1.0
    weight: float | None = None
    weight_hi: float | None = None
    looks_like: str | None = None

    @property
    def dead(self) -> str | None:
        """In which way the judge says nothing about any item; None where it says something."""
        if self.admitted:  # on a sparse panel one score is enough
            return None
        if self.missing_rate >= 1.0:
            return "it gave no score at all"
        return "it gave the same score to every item" if self.entropy == 0.0 else None

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
class MovingTogether:
    """Judges whose residuals move together, and how the answer would move if they were one family.

    Attributes
    ----------
    judges : tuple of str
    correlation : float
        Least correlation between two of their residuals.
    answer_correlation : float
        Correlation of the answer that takes them for one family with the present one.
    items_changed : int
        Items that would come to lie in the other half of the items.
    """

    judges: tuple[str, ...]
    correlation: float
    answer_correlation: float
    items_changed: int


@dataclass(frozen=True)
class LabelEvidence:
    """What labels of people say.

    Attributes
    ----------
    labels : int
    probability : float
        Of the answers that agree with the one that is given (``settled.probability_settled``).
    hypothesis : str
        The most probable single thing that quality may follow, in words.
    hypothesis_probability : float
    """

    labels: int
    probability: float
    hypothesis: str
    hypothesis_probability: float

    @property
    def settles(self) -> bool:
        """Whether these labels are enough, and agree enough, to say what quality is."""
        return self.labels >= LABELS_ASKED_FOR and self.probability >= _SETTLED_FROM


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
class FitFacts:
    """What a fit says of itself; nothing here changes until it is made again.

    Attributes
    ----------
    edition, made_at : str
    items : int
    judges : tuple of JudgeFacts
        Also those that are not on the panel.
    failure : str or None
        Why ``care`` gave no answer; the next five attributes then mean nothing.
    ambiguous : bool
    agreement : float
        Correlation of the two answers that are defensible without labels.
    rival : float or None
        Correlation with the answer of the factor that is least like it among those that several judges follow.
    labels, probes : evidence, optional
    followed : tuple of FollowedFeature
        By how closely they are followed.
    together : tuple of MovingTogether
    cautions : tuple of str
        What else must be known before the numbers are trusted, such as a structure short of its certificate.
    publication : str or None
        What to know where the fit is not the one that people read.
    coverage : Coverage or None
        Who scored what; None where the fit does not say.
    """

    edition: str
    made_at: str
    items: int
    judges: tuple[JudgeFacts, ...]
    failure: str | None = None
    ambiguous: bool = False
    agreement: float = 1.0
    rival: float | None = None
    labels: LabelEvidence | None = None
    probes: ProbeEvidence | None = None
    followed: tuple[FollowedFeature, ...] = ()
    together: tuple[MovingTogether, ...] = ()
    cautions: tuple[str, ...] = ()
    publication: str | None = None
    coverage: Coverage | None = None

    @property
    def admitted(self) -> list[str]:
        """The judges on the panel."""
        return [judge.judge for judge in self.judges if judge.admitted]
