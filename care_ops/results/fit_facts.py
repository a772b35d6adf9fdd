"""Facts of a fit that determine its verdict."""

from dataclasses import dataclass

import numpy as np

from care_ops.concerns import FOLLOWS_FEATURE, CareSummary
from care_ops.metrics import rank_correlation
from care_ops.minimum_sizes import LABELS_TO_SETTLE, MIN_ITEMS_TO_COMPARE
from care_ops.records import JudgeCheck
from care_ops.results.coverage import Coverage
from care_ops.results.judge_gate import GateAdvice, GateNeeds
from care_ops.results.sides import Sides
from care_ops.scores import Array

SETTLED = 0.7
"""Minimum probability at which labels establish that the estimate is at least as good as the plain average. On planted
and recorded panels, the estimate was as good in at least 95 % of such fits (docs/method.md)."""

UNRELATED = 0.2
"""Maximum probability that labels are unrelated to the scores (prior .05); above it, they do not confirm the judges."""

MOVED = 0.9996
"""Minimum rank correlation between the estimates with and without an effect; below it, the removal matters. Kendall's
tau may then differ by .01, (2 (1 - r))^1/2 * .6 * 2 / pi, if the truth correlates by .6 with one of the estimates."""

REVERSED = -0.2
"""Maximum agreement with the other judges at which a judge is reported as perhaps reversed."""

CONTRADICTED = 0.7
"""Minimum correlation between the estimates with and without labels; below it, labels contradict a clear panel."""


@dataclass(frozen=True)
class JudgeFacts(JudgeCheck):
    """Admission of a judge, with the weight in the estimate and the upper end of the weight's interval.

    ``looks_like`` describes a column that is probably not scores; ``outside`` reports many scores outside the scale.
    """

    weight: float | None = None
    weight_hi: float | None = None
    looks_like: str | None = None
    outside: str | None = None

    @property
    def dead(self) -> str | None:
        """Reason why the judge's scores contain no information; None if they contain information."""
        if self.admitted or self.entropy > 0.0:  # on a sparse panel one score is enough
            return None
        same = f"the judge gave {'no score' if self.missing_rate >= 1.0 else 'the same score to every item'}"
        return self.outside or same

    @property
    def counts_against(self) -> bool:
        """Whether the judge's weight is negative; if there is an interval, the whole interval must be negative."""
        upper = self.weight if self.weight_hi is None else self.weight_hi
        return upper is not None and upper < 0.0


@dataclass(frozen=True)
class FollowedFeature:
    """Text feature and its Spearman correlation with a factor of the judges' scores.

    ``of_estimate`` is the feature's Spearman correlation with the estimate; None if unknown.
    """

    factor: int
    feature: str
    correlation: float
    of_estimate: float | None = None


@dataclass(frozen=True)
class LabelEvidence:
    """Evidence from labels about the quality of the estimate.

    Attributes
    ----------
    labels : int
        Number of labels.
    better : float
        Probability that the estimate's Kendall's tau is at least that of the plain average minus .01.
    gain : float
        Expected gain over the plain average, in Kendall's tau.
    at_random : float
        Probability that the labels are unrelated to the scores.
    turned : float
        Correlation between the estimates with and without these labels.
    """

    labels: int
    better: float = 0.0
    gain: float = 0.0
    at_random: float = 0.0
    turned: float = 1.0

    @property
    def settles(self) -> bool:
        """Whether the labels justify the use of the estimate."""
        return self.labels >= LABELS_TO_SETTLE and self.better >= SETTLED and self.at_random <= UNRELATED


def trend(estimate: Array) -> float:
    """Compute the Spearman correlation of an estimate (n,) with the positions of the items in the file.

    The result is 0 if it is within three standard errors of 0, or there are fewer than ``MIN_ITEMS_TO_COMPARE`` items.
    """
    position = np.arange(len(estimate), dtype=np.float64)
    value = rank_correlation(estimate, position, at_least=MIN_ITEMS_TO_COMPARE)
    return value if abs(value) > 3.0 / np.sqrt(len(estimate)) else 0.0


@dataclass(frozen=True)
class FitFacts(CareSummary):
    """Facts of a fit; they change only when the fit is built again.

    Attributes
    ----------
    judges : tuple of JudgeFacts
        All judges, including those that are not on the panel.
    failure : str or None
        Reason why ``care`` has no estimate; fields about the estimate are then undefined.
    feature, follows : str and float, optional
        The text feature that correlates most with the estimate, and this correlation.
    removed : tuple of features
        Features whose effects on the judges' scores were removed.
    not_quality : tuple of features
        Features that were declared not to be part of quality.
    blind : bool
        Whether the items have no text features.
    followed : tuple of FollowedFeature
        Text features that correlate with factors of the judges, the largest correlation first.
    cautions : tuple of str
        Other warnings, for example that an optimisation did not converge.
    sides : Sides or None
        Position bias of judges that score pairs; None if none was detected.
    always_left : str or None
        System that is on the left in every pair, if there is one.
    trend : float
        Rank correlation of the estimate with the position in the file.
    former_concerns : tuple of str
        Concerns of a fit that an older release stored.
    gates, gate_needs : tuple of GateAdvice, and str
        Advice on whether the panel and each judge may gate a release and, without advice, the missing input.
    """

    fit_version: str
    made_at: str
    items: int
    judges: tuple[JudgeFacts, ...]
    failure: str | None = None
    feature: str | None = None
    follows: float = 0.0
    removed: tuple[str, ...] = ()
    not_quality: tuple[str, ...] = ()
    blind: bool = False
    labels: LabelEvidence | None = None
    followed: tuple[FollowedFeature, ...] = ()
    cautions: tuple[str, ...] = ()
    coverage: Coverage | None = None
    sides: Sides | None = None
    always_left: str | None = None
    trend: float = 0.0
    former_concerns: tuple[str, ...] = ()
    gates: tuple[GateAdvice, ...] = ()
    gate_needs: GateNeeds = ""

    @property
    def asks_for_order(self) -> bool:
        """Whether the estimate correlates with the row number; if rows are in random order, judges have drifted."""
        return abs(self.trend) >= FOLLOWS_FEATURE

    @property
    def rests_on_removal(self) -> bool:
        """Whether the removal of feature effects changes the estimate noticeably."""
        return self.kept is not None and self.kept.correlation < MOVED

    @property
    def labels_contradict(self) -> bool:
        """Whether labels reverse the estimate, or change it much on a panel without concerns."""
        lowest = 0.0 if self.concerns else CONTRADICTED
        return self.labels is not None and self.labels.turned < lowest and "opposed" not in self.concerns

    @property
    def perhaps_reversed(self) -> tuple[str, ...]:
        """Judges on the panel that rank the items in the reverse order of the other judges."""
        return tuple(x.judge for x in self.judges if x.admitted and (x.agreement or 0.0) <= REVERSED)

    @property
    def admitted(self) -> list[str]:
        """Names of the judges on the panel."""
        return [judge.judge for judge in self.judges if judge.admitted]
