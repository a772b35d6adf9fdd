"""What a page shows, as typed values.

Belongs here: the record that figures, templates and the command line read, and the rows of its tables. Does not: where
the values come from (``assemble``), HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.fit.details import CareDetails, CareSvdDetails, StructuredDetails, read_details
from assets.results.documents import ComparisonRecord, FactorRecord, FactorsDocument, SystemsDocument
from care_ops.admission import JudgeCheck
from care_ops.aggregators.base import Aggregate
from care_ops.metrics import Evaluation
from care_ops.probes import NO_PROBES, ProbeResponses
from care_ops.results.agreement import krippendorff_alpha, weighted_kappas
from care_ops.scores import ScoreMatrix

Array = NDArray[np.float64]


@dataclass(frozen=True)
class EditionShown:
    """Which edition a page of a workspace is of, and which one is published; None where none is."""

    edition: str
    published: str | None


@dataclass(frozen=True)
class WeightCell:
    """A judge's weight in one aggregate with the ends of its interval; None where there is none."""

    weight: float | None = None
    lo: float | None = None
    hi: float | None = None


@dataclass(frozen=True)
class JudgeRow:
    """One judge: what admission found, its family, its mean kappa with the others, and its weights by aggregate."""

    check: JudgeCheck
    family: str | None
    kappa: float | None
    weights: Mapping[str, WeightCell]


@dataclass(frozen=True)
class SystemRow:
    """One system: its items, its value with an interval, whether it is the best, and its distance from the best one."""

    system: str
    items: int
    value: float
    lo: float | None
    hi: float | None
    best: bool
    behind: ComparisonRecord | None


@dataclass(frozen=True)
class FactorRow:
    """One factor.

    Attributes
    ----------
    number : int
        Counted from 1.
    strength : FactorRecord
    taken : bool
        Whether care_svd takes it for quality.
    named_by : list of str
        Rules that would call it quality.
    feature, correlation : str and float, or None
        The text feature that its score follows most closely, and how closely (Spearman).
    """

    number: int
    strength: FactorRecord
    taken: bool
    named_by: Sequence[str]
    feature: str | None
    correlation: float | None


@dataclass(frozen=True)
class DisagreementRow:
    """An item that two defensible answers rank differently; gold is None where it is not known."""

    item_id: str
    avg: float
    care: float
    gold: float | None
    response: str | None


@dataclass(frozen=True)
class ReportData:
    """One test set's page.

    Attributes
    ----------
    title, description : str
    scores : ScoreMatrix
        The panel.
    correlation : (p, p) array or None
        In the order of ``scores.judges``.
    aggregates : dict name -> Aggregate
        In the order of ``scores``.
    failures : dict name -> message
    checks : list of JudgeCheck
    evaluations : dict name -> Evaluation
        Empty where there is no gold.
    gold : (n,) array
        NaN where unknown or held out.
    responses : list of str or None
    factors : FactorsDocument
    systems : SystemsDocument
    missing_share : float
        Share of the panel's scores that are missing.
    labels_seen : int
        Labels that the fit was given.
    provenance : dict
        Inputs, settings and code, to be printed; nothing is read from it.
    intervals : dict name -> (lo, hi)
        Of the weights, each (p,); NaN where there is none.
    edition : EditionShown or None
        None where the page is of no workspace.
    probes : ProbeResponses
    """

    title: str
    description: str
    scores: ScoreMatrix
    correlation: Array | None
    aggregates: Mapping[str, Aggregate]
    failures: Mapping[str, str]
    checks: Sequence[JudgeCheck]
    evaluations: Mapping[str, Evaluation]
    gold: Array
    responses: Sequence[str | None]
    factors: FactorsDocument
    systems: SystemsDocument
    missing_share: float
    labels_seen: int
    provenance: Mapping[str, Any]
    intervals: Mapping[str, tuple[Array, Array]] = field(default_factory=dict[str, tuple[Array, Array]])
    edition: EditionShown | None = None
    probes: ProbeResponses = NO_PROBES

    @cached_property
    def alpha(self) -> float | None:
        """Krippendorff's alpha of the panel, for interval scores."""
        return krippendorff_alpha(self.scores.values)

    @cached_property
    def care(self) -> CareDetails | None:
        """What ``care`` says of its answer; None where it gave none."""
        aggregate = self.aggregates.get("care")
        return None if aggregate is None else read_details("care", aggregate.details, CareDetails)

    @cached_property
    def care_svd(self) -> CareSvdDetails | None:
        """What ``care_svd`` says of the factor that it takes for quality; None where it gave no answer."""
        aggregate = self.aggregates.get("care_svd")
        return None if aggregate is None else read_details("care_svd", aggregate.details, CareSvdDetails)

    @cached_property
    def mean_kappas(self) -> dict[str, float]:
        """Mean of each judge's weighted kappas with the other judges; judges without any are left out."""
        kappas = weighted_kappas(self.scores.values)
        defined = ~np.isnan(kappas)
        means = np.where(defined, kappas, 0.0).sum(axis=1) / np.maximum(defined.sum(axis=1), 1)
        return {judge: float(means[j]) for j, judge in enumerate(self.scores.judges) if defined[j].any()}

    def system_rows(self) -> list[SystemRow]:
        """One row a system, best first, with its distance from the best one."""
        systems = self.systems.systems
        if not systems:
            return []
        by_pair = {(comparison.first, comparison.second): comparison for comparison in self.systems.comparisons}
        # with labels the best by the estimates need not be the best: the one that loses no comparison is
        losers = {comparison.second for comparison in self.systems.comparisons}
        best = next((record.system for record in systems if record.system not in losers), systems[0].system)
        rows = [
            SystemRow(r.system, r.items, r.value, r.lo, r.hi, r.system == best, by_pair.get((best, r.system)))
            for r in systems
        ]
        return sorted(rows, key=lambda row: 0.0 if row.behind is None else row.behind.difference)

    @property
    def judge_rows(self) -> list[JudgeRow]:
        """One row a judge: admission, agreement with the others, and weights."""
        index = {judge: j for j, judge in enumerate(self.scores.judges)}
        weighted = {n: a.weights for n, a in self.aggregates.items() if a.weights is not None and n != "avg"}
        return [
            JudgeRow(
                check,
                self.scores.families.get(check.judge),
                self.mean_kappas.get(check.judge),
                {name: self._weight(name, weights, index.get(check.judge)) for name, weights in weighted.items()},
            )
            for check in self.checks
        ]

    def _weight(self, name: str, weights: Array, j: int | None) -> WeightCell:
        if j is None:
            return WeightCell()
        lo, hi = self.intervals.get(name, (None, None))
        return WeightCell(
            float(weights[j]),
            None if lo is None or np.isnan(lo[j]) else float(lo[j]),
            None if hi is None or np.isnan(hi[j]) else float(hi[j]),
        )

    def factor_rows(self) -> list[FactorRow]:
        """One row a factor: its strength, what it resembles, and who would call it quality."""
        chosen = self.care_svd.quality_factor if self.care_svd is not None else -1
        rows: list[FactorRow] = []
        for k, strength in enumerate(self.factors.factors):
            named_by = [rule for rule, factor in self.factors.rules.items() if factor == k]
            if self.care_svd is not None and k == chosen and self.care_svd.rule == "anchors":
                named_by.append("anchors")
            feature, correlation = self.factors.nearest_feature(k) or (None, None)
            rows.append(FactorRow(k + 1, strength, k == chosen, named_by, feature, correlation))
        return rows

    @property
    def effective_judges(self) -> float | None:
        """How many judges of independent errors the mean is worth; None where quality is not what the mean follows."""
        if self.care_svd is None or self.care_svd.orientation < 0.5:
            return None
        return self.care_svd.effective_judges

    def warnings(self) -> list[str]:
        """What a reader must know before trusting the page: evidence, not proof."""
        sentences = [self._unpublished(), self._ambiguity(), self._not_converged()]
        return [sentence for sentence in sentences if sentence is not None]

    def _unpublished(self) -> str | None:
        if self.edition is None or self.edition.published == self.edition.edition:
            return None
        return (
            f"These numbers are of fit {self.edition.edition}, which is not published: a person pinned "
            f"{self.edition.published or 'none'}."
        )

    def _not_converged(self) -> str | None:
        """The first aggregate that rests on a structure short of its certificate."""
        for name, aggregate in self.aggregates.items():
            certificate = read_details(name, aggregate.details, StructuredDetails).certificate
            if certificate is not None and not certificate.converged:
                return (
                    f"{name} rests on a structure that did not converge (gap {certificate.gap:.1e}); "
                    "see its certificate below."
                )
        return None

    def _ambiguity(self) -> str | None:
        """Whether the panel allows more than one answer, the evidence, and what to do."""
        care = self.care
        if care is None or not care.ambiguous:
            return None
        text = (
            "Quality is ambiguous on this panel. Two defensible answers, the mean of the declared families and one "
            f"common factor of all judges, correlate at {care.agreement:+.2f}"
        )
        if care.rival is not None:
            text += (
                f"; the judges follow {care.factors} factors, and one that at least three of them follow "
                f"correlates at {care.rival:+.2f} with the answer"
            )
        text += ". "
        if care.hypotheses is not None:
            best, weight = max(care.hypotheses.items(), key=lambda pair: pair[1])
            return text + (
                f"care has settled it by {self.aggregates['care'].labels_used} labels: quality follows '{best}' with "
                f"probability {weight:.2f}. The other aggregates do not know that."
            )
        nearest = self.factors.nearest_feature(self.care_svd.quality_factor) if self.care_svd is not None else None
        if nearest is not None and abs(nearest[1]) >= 0.5:
            feature, correlation = nearest
            text += f"The factor that care_svd takes for quality follows {feature} (Spearman {correlation:+.2f}). "
        return text + (
            "Label ten to twenty items, at random and those listed below, and give them to the fit as anchors: care "
            "weighs the answers by them."
        )

    def disagreements(self, most: int = 8) -> list[DisagreementRow]:
        """The items that are most worth a label: where two defensible answers differ most in rank."""
        estimates, mean = self.aggregates.get("care"), self.aggregates.get("avg")
        if self.care is None or estimates is None or mean is None:
            return []
        index = {item: k for k, item in enumerate(self.scores.item_ids)}
        return [
            DisagreementRow(
                item,
                float(mean.estimate[index[item]]),
                float(estimates.estimate[index[item]]),
                None if np.isnan(self.gold[index[item]]) else float(self.gold[index[item]]),
                self.responses[index[item]],
            )
            for item in self.care.label_first[:most]
        ]
