"""The JSON documents of what is computed from a fit, as records: factors, comparison of systems, judges left out."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from care_ops.concerns import FOLLOWS_FEATURE
from care_ops.least import FOLLOWS
from care_ops.records import ChangePoint, Comparison, Dropping


@dataclass(frozen=True)
class FactorRecord:
    """One factor of the structure.

    Attributes
    ----------
    mass : float
        Share of the trace of L.
    agreement : float
        Correlation with the panel's mean.
    breadth : float
        Judges that it rests on: exp of the entropy of its squared loadings.
    gap : float
        Distance to the next eigenvalue, as a share of its own.
    """

    mass: float
    agreement: float
    breadth: float
    gap: float


@dataclass(frozen=True)
class FactorsDocument:
    """What the strongest factors look like; empty where there is no structure.

    Attributes
    ----------
    features : tuple of str
        Features of the texts.
    correlations : a tuple a factor, of float or None
        Spearman correlation with each feature; None where undefined.
    rules : dict rule -> factor
        Which factor, counted from 0, each rule would call quality.
    judges : dict judge -> tuple of float or None
        Spearman correlation of its own scores with each feature; None where undefined.
    """

    features: tuple[str, ...] = ()
    correlations: tuple[tuple[float | None, ...], ...] = ()
    factors: tuple[FactorRecord, ...] = ()
    rules: dict[str, int] = field(default_factory=dict[str, int])
    judges: dict[str, tuple[float | None, ...]] = field(default_factory=dict[str, tuple[float | None, ...]])

    def nearest_feature(self, factor: int) -> tuple[str, float] | None:
        """The text feature that a factor's score follows most closely, and how closely (Spearman)."""
        return None if factor >= len(self.correlations) else self._nearest(self.correlations[factor])

    def followed_feature(self, factor: int) -> tuple[str, float] | None:
        """That feature, where the factor's score follows it closely enough to be told of."""
        nearest = self.nearest_feature(factor)
        return nearest if nearest is not None and abs(nearest[1]) >= FOLLOWS else None

    def followed_by(self, judge: str) -> tuple[str, float] | None:
        """The feature that a judge's own scores follow most closely, where they may follow one."""
        nearest = self._nearest(self.judges.get(judge, ()))
        return nearest if nearest is not None and abs(nearest[1]) >= FOLLOWS_FEATURE else None

    def _nearest(self, row: Sequence[float | None]) -> tuple[str, float] | None:
        known = [(abs(c), feature == "words", feature, c) for c, feature in zip(row, self.features, strict=False) if c]
        return (max(known)[2].replace("_", " "), max(known)[3]) if known else None


@dataclass(frozen=True)
class SystemRecord:
    """One system: its items, and its value with an interval, where labels give one."""

    system: str
    items: int
    value: float
    lo: float | None = None
    hi: float | None = None


LOG_ODDS = "log odds of winning"
"""What the values of systems are that are compared in pairs."""


@dataclass(frozen=True)
class SystemsDocument:
    """Systems compared; all of it empty where there is nothing to compare, or the test set declares no systems.

    Attributes
    ----------
    aggregator : str
        By whose estimates.
    kind : str
        What the values of the systems are.
    systems : tuple of SystemRecord
        Best first.
    changed : dict system -> ChangePoint
        Those that answer in another way than before.
    refused : str
        Why systems that are declared cannot be compared; empty where they are.
    """

    aggregator: str = ""
    kind: str = ""
    systems: tuple[SystemRecord, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    changed: dict[str, ChangePoint] = field(default_factory=dict[str, ChangePoint])
    refused: str = ""

    @property
    def as_seen(self) -> str:
        """What differences without labels are worth, in words; empty where labels correct them."""
        if any(comparison.labels_used for comparison in self.comparisons) or not self.comparisons:
            return ""
        said = "Without labels they say what the judges see, with whatever they all get wrong about a system."
        if self.kind != LOG_ODDS:
            return said
        return (
            f"{said} Of pairs they are too small, often by a third or more: judges that err by chance alone draw every "
            "difference toward 0, and the interval does not allow for it. Who is ahead does not suffer."
        )


@dataclass(frozen=True)
class DroppingDocument:
    """What labels say of the fit without each of its judges."""

    dropping: Dropping
