"""Records of results that are stored as JSON documents: factors and comparisons of systems."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from care_ops.concerns import FOLLOWS_FEATURE
from care_ops.records import Comparison


@dataclass(frozen=True)
class FactorRecord:
    """Measures of one factor of the structure.

    Attributes
    ----------
    mass : float
        Share of trace(L), where L is the low-rank part of the structure.
    agreement : float
        Correlation with the panel's mean.
    breadth : float
        Effective number of judges on the factor: exp(entropy of the squared loadings).
    gap : float
        Distance to the next eigenvalue, as a share of the factor's eigenvalue.
    """

    mass: float
    agreement: float
    breadth: float
    gap: float


@dataclass(frozen=True)
class FactorsDocument:
    """Strongest factors of a fit; empty if the fit has no structure.

    Attributes
    ----------
    features : tuple of str
        Names of the text features.
    correlations : tuple of tuples of float or None
        Spearman correlation of each factor with each feature; None if undefined.
    rules : dict rule -> factor
        Index (from 0) of the factor that each selection rule takes as the quality factor.
    judges : dict judge -> tuple of float or None
        Spearman correlation of the judge's scores with each feature; None if undefined.
    """

    features: tuple[str, ...] = ()
    correlations: tuple[tuple[float | None, ...], ...] = ()
    factors: tuple[FactorRecord, ...] = ()
    rules: dict[str, int] = field(default_factory=dict[str, int])
    judges: dict[str, tuple[float | None, ...]] = field(default_factory=dict[str, tuple[float | None, ...]])

    def nearest_feature(self, factor: int) -> tuple[str, float] | None:
        """Return the text feature with the largest absolute Spearman correlation with a factor, and the correlation."""
        return None if factor >= len(self.correlations) else self._nearest(self.correlations[factor])

    def followed_by(self, judge: str) -> tuple[str, float] | None:
        """Return the feature that correlates most with a judge's scores if the correlation is large; otherwise None."""
        # ``care`` removes effects of words, so a length is called by its words.
        row = zip(self.features, self.judges.get(judge, ()), strict=False)
        nearest = self._nearest([None if name == "characters" else c for name, c in row])
        return nearest if nearest is not None and abs(nearest[1]) >= FOLLOWS_FEATURE else None

    def _nearest(self, row: Sequence[float | None]) -> tuple[str, float] | None:
        known = [(abs(c), feature == "words", feature, c) for c, feature in zip(row, self.features, strict=False) if c]
        return (max(known)[2].replace("_", " "), max(known)[3]) if known else None


@dataclass(frozen=True)
class SystemRecord:
    """Number of items and value of one system, with an interval if labels give one."""

    system: str
    items: int
    value: float
    lo: float | None = None
    hi: float | None = None


LOG_ODDS = "log odds of winning"
"""Name of the quantity that values of systems measure if items are pairs."""


@dataclass(frozen=True)
class SystemsDocument:
    """Comparison of systems; empty if the test set declares no systems.

    Attributes
    ----------
    aggregator : str
        Aggregator whose estimates are compared.
    kind : str
        Name of the quantity that the systems' values measure.
    systems : tuple of SystemRecord
        Records of the systems, best first.
    refused : str
        Reason why declared systems cannot be compared; empty if they can.
    """

    aggregator: str = ""
    kind: str = ""
    systems: tuple[SystemRecord, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    refused: str = ""

    @property
    def as_seen(self) -> str:
        """Warning that the systems' differences may be biased; empty if labels correct the differences."""
        if any(comparison.labels_used for comparison in self.comparisons) or not self.comparisons:
            return ""
        caution = "Labels do not correct these differences, which include the judges' shared bias towards a system."
        if self.kind != LOG_ODDS:
            return caution
        return (
            f"{caution} For pairs, they are too small, often by a third or more: random errors of the judges shrink "
            "each difference toward 0, and the interval does not correct this. The order of the systems stays right."
        )
