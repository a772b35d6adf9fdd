"""Data of a test set's page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np

from assets.fit.details import CareDetails, StructuredDetails, read_details
from assets.fit.stages import recommended
from assets.publication.differences import Moved
from assets.results.documents import FactorsDocument, SystemRecord, SystemsDocument
from care_ops import samples
from care_ops.records import Aggregate, Comparison, Evaluation, Intervals, JudgeCheck
from care_ops.results.agreement import krippendorff_alpha
from care_ops.results.judge_gate import GateAdvice, GateNeeds, PeopleAgreement, gate_advice
from care_ops.scores import Array, ScoreMatrix, content_seed


@dataclass(frozen=True)
class FitVersionShown:
    """Id and time of the fit version that a page shows, and the id of the published fit version."""

    id: str
    published: str | None
    made_at: str = ""


@dataclass(frozen=True)
class Changes:
    """Differences between a page's fit and the previously published fit, which was built at ``made_at``.

    ``why`` lists changed inputs; ``moves`` describes in sentences how much the estimates changed. ``moved`` measures
    these changes; None if the estimates of the previous fit are missing.
    """

    fit_version: str
    made_at: str
    why: Sequence[str]
    moved: Moved | None = None
    moves: Sequence[str] = ()


@dataclass(frozen=True)
class Retest:
    """Result of a judge's retest: number of items, time, model, and mean absolute score change as a share of the scale.

    ``moved`` is None if the judge scored no item. ``passed`` is False if a different model seems to have answered.
    """

    items: int
    moved: float | None
    asked_at: str
    answered_by: str = ""
    passed: bool = True
    message: str = ""


@dataclass(frozen=True)
class WeightCell:
    """Weight of a judge in one aggregate, with an interval; a missing value is None."""

    weight: float | None = None
    lo: float | None = None
    hi: float | None = None


@dataclass(frozen=True)
class SystemRow(SystemRecord):
    """Value of a system, and its difference from the best system."""

    best: bool = False
    behind: Comparison | None = None


@dataclass(frozen=True)
class ReportData:
    """Data of one test set's page; arrays are in the order of ``scores``.

    Attributes
    ----------
    aggregates : dict name -> Aggregate
        Aggregates by name; all except the recommended one may lack their estimates.
    gold : (n,) array
        Gold of each item; NaN if there is none, or if the fit has used a label in the item's split unit.
    labels_seen : int
        Number of labels that the fit has used.
    fit_version, changes : FitVersionShown and Changes, or None
        Both are None for a page without a workspace; ``changes`` is also None for the first published version.
    correlation : (p, p) array or None
        Correlation of the judges' scores; None if it is undefined.
    rivals : dict name -> (m,) array
        Two plausible but different estimates in the order of ``drawn.scores``; empty if ``care`` gave no estimate.
        Labels can decide between the two estimates.
    retests : dict judge -> Retest
        The last retest of each judge that was retested.
    flips : dict judge -> str
        Sentence on how often repeated scores of the same item differ, for each judge with ``repeats``.
    not_asked : bool
        Whether missing scores were never requested; False if requests for them failed.
    cut : float or None
        Score above which an item passes.
    """

    title: str
    description: str
    scores: ScoreMatrix
    aggregates: Mapping[str, Aggregate]
    failures: Mapping[str, str]
    checks: Sequence[JudgeCheck]
    evaluations: Mapping[str, Evaluation]
    gold: Array
    responses: Sequence[str | None]
    factors: FactorsDocument
    systems: SystemsDocument
    labels_seen: int
    intervals: Mapping[str, Intervals] = field(default_factory=dict[str, Intervals])
    fit_version: FitVersionShown | None = None
    made_at: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d %H:%M}")
    changes: Changes | None = None
    retests: Mapping[str, Retest] = field(default_factory=dict[str, Retest])
    flips: Mapping[str, str] = field(default_factory=dict[str, str])
    not_asked: bool = False
    correlation: Array | None = None
    missing_share: float = 0.0
    provenance: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rivals: Mapping[str, Array] = field(default_factory=dict[str, Array])
    cut: float | None = None

    @property
    def lead(self) -> str:
        """Name of the recommended aggregator; empty if no aggregator gave an estimate."""
        return recommended(self.aggregates)

    @cached_property
    def judge_order(self) -> list[int]:
        """Positions of the judges in ``scores``, by decreasing weight in the recommended aggregate."""
        weights = self.aggregates[self.lead].weights if self.lead else None
        if weights is None:
            return list(range(len(self.scores.judges)))
        return [int(j) for j in np.argsort(-weights, kind="stable")]

    @property
    def judges(self) -> list[str]:
        """Names of the judges on the panel, by decreasing weight in the recommended aggregate."""
        return [self.scores.judges[j] for j in self.judge_order]

    @cached_property
    def alpha(self) -> float | None:
        """Krippendorff's alpha of the panel with the interval metric."""
        return krippendorff_alpha(self.scores.values)

    @cached_property
    def gates(self) -> tuple[dict[str, tuple[GateAdvice, PeopleAgreement]], GateNeeds]:
        """Advice on using the panel or a judge as a release gate, and the missing inputs if there is no advice."""
        estimate = self.aggregates[self.lead].estimate if self.lead else np.full(len(self.gold), np.nan)
        return gate_advice(self.scores, estimate, self.gold, self.cut)

    @cached_property
    def care(self) -> CareDetails | None:
        """Details of the aggregator ``care``; None if ``care`` gave no estimate."""
        aggregate = self.aggregates.get("care")
        return None if aggregate is None else read_details(aggregate, CareDetails)

    @property
    def items_to_label(self) -> Sequence[str]:
        """Items whose ranks differ most between two plausible estimates (``rivals``)."""
        return () if self.care is None else self.care.items_to_label

    @cached_property
    def drawn(self) -> "ReportData":
        """Data of the page for a sample of the items, or for all items if there are few.

        The sample includes the items to label, and all items with gold unless there are too many. Counts, weights,
        intervals, evaluations and systems still cover all items.
        """
        n, first = len(self.scores.item_ids), {*self.items_to_label}
        if not samples.is_sampled(n):
            return self
        sample = samples.sampled_rows(n, np.random.default_rng(content_seed(self.scores)))
        labelled = np.flatnonzero(~np.isnan(self.gold))
        named = np.array([row for row, item in enumerate(self.scores.item_ids) if item in first], dtype=np.intp)
        kept = labelled if not samples.is_sampled(len(labelled)) else labelled[:0]
        rows = np.unique(np.concatenate([sample, named, kept]))
        lead = {name: self.aggregates[name].mapped(lambda values: values[rows]) for name in filter(None, [self.lead])}
        return replace(
            self,
            scores=self.scores.select_items(rows),
            aggregates={**self.aggregates, **lead},
            gold=self.gold[rows],
            responses=[self.responses[row] for row in rows.tolist()],
        )

    def system_rows(self) -> list[SystemRow]:
        """Return a row for each system, best first, with a comparison to the best system."""
        systems = self.systems.systems
        if not systems:
            return []
        by_pair = {(comparison.first, comparison.second): comparison for comparison in self.systems.comparisons}
        # with labels, the best system is the one that loses no comparison
        losers = {comparison.second for comparison in self.systems.comparisons}
        best = next((record.system for record in systems if record.system not in losers), systems[0].system)
        rows = [SystemRow(**vars(r), best=r.system == best, behind=by_pair.get((best, r.system))) for r in systems]
        return sorted(rows, key=lambda row: 0.0 if row.behind is None else row.behind.difference)

    @property
    def ordered_checks(self) -> list[JudgeCheck]:
        """Admission checks of the judges by decreasing weight; judges that were not admitted are last."""
        place = {judge: k for k, judge in enumerate(self.judges)}
        return sorted(self.checks, key=lambda check: place.get(check.judge, len(place)))

    def weight_cell(self, name: str, judge: str) -> WeightCell:
        """Return a judge's weight in the aggregate ``name``; the cell is empty if the judge has no weight there."""
        j = self.scores.judges.index(judge) if judge in self.scores.judges else None
        weights = self.aggregates[name].weights if name in self.aggregates else None
        if j is None or weights is None:
            return WeightCell()
        ends = self.intervals.get(name)
        lo, hi = (np.nan, np.nan) if ends is None else (ends.lo[j], ends.hi[j])
        return WeightCell(float(weights[j]), *(None if np.isnan(end) else float(end) for end in (lo, hi)))

    def unconverged(self) -> str | None:
        """Return a warning about the first aggregate whose structure did not converge; None if all converged."""
        for name, aggregate in self.aggregates.items():
            certificate = read_details(aggregate, StructuredDetails).certificate
            if certificate is not None and not certificate.converged:
                return f"The structure of {name} has not converged (relative gap {certificate.gap:.1e}); raise `gamma`."
        return None
