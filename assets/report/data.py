"""What a page shows, as plain values.

Belongs here: the record that figures and templates read, and its assembly from a fit. Does not: HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from care_ops.admission import JudgeCheck
from care_ops.aggregators.base import Aggregate
from care_ops.metrics import Evaluation
from care_ops.results.agreement import krippendorff_alpha, weighted_kappas
from care_ops.scores import ScoreMatrix

Array = NDArray[np.float64]


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
    factor_features : dict
        From ``assets.factors.describe``; empty where there is no structure.
    intervals : dict name -> (lo, hi)
        Of the weights, each (p,); NaN where there is none.
    systems : dict
        From ``assets.systems.compare``; empty where no systems are declared.
    provenance : dict
        n, seeds, labels used, fingerprints, code version, settings.
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
    factor_features: Mapping[str, Any]
    provenance: Mapping[str, Any]
    intervals: Mapping[str, tuple[Array, Array]] = field(default_factory=dict[str, tuple[Array, Array]])
    systems: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @cached_property
    def alpha(self) -> float | None:
        """Krippendorff's alpha of the panel, for interval scores."""
        return krippendorff_alpha(self.scores.values)

    @cached_property
    def mean_kappas(self) -> dict[str, float]:
        """Mean of each judge's weighted kappas with the other judges; judges without any are left out."""
        kappas = weighted_kappas(self.scores.values)
        defined = ~np.isnan(kappas)
        means = np.where(defined, kappas, 0.0).sum(axis=1) / np.maximum(defined.sum(axis=1), 1)
        return {judge: float(means[j]) for j, judge in enumerate(self.scores.judges) if defined[j].any()}

    def system_rows(self) -> list[dict[str, Any]]:
        """One row a system, best first, with its distance from the best one."""
        listed: list[dict[str, Any]] = list(self.systems.get("systems", []))
        if not listed:
            return []
        between = {(c["first"], c["second"]): c for c in self.systems["comparisons"]}
        # with labels the best by the estimates need not be the best: the one that loses no comparison is
        lost = {c["second"] for c in self.systems["comparisons"]}
        best = next((row["system"] for row in listed if row["system"] not in lost), listed[0]["system"])
        behind = {row["system"]: between.get((best, row["system"])) for row in listed}
        ordered = sorted(listed, key=lambda row: (behind[row["system"]] or {"difference": 0.0})["difference"])
        return [{**row, "best": row["system"] == best, "behind": behind[row["system"]]} for row in ordered]

    @property
    def judge_rows(self) -> list[dict[str, Any]]:
        """One row a judge: admission, agreement with the others, and weights."""
        index = {judge: j for j, judge in enumerate(self.scores.judges)}
        weighted = {n: a.weights for n, a in self.aggregates.items() if a.weights is not None and n != "avg"}
        return [
            {
                "check": check,
                "family": self.scores.families.get(check.judge),
                "kappa": self.mean_kappas.get(check.judge),
                "weights": {name: self._weight(name, w, index.get(check.judge)) for name, w in weighted.items()},
            }
            for check in self.checks
        ]

    def _weight(self, name: str, weights: Array, j: int | None) -> dict[str, float | None]:
        if j is None:
            return {"weight": None, "lo": None, "hi": None}
        lo, hi = self.intervals.get(name, (None, None))
        return {
            "weight": float(weights[j]),
            "lo": None if lo is None or np.isnan(lo[j]) else float(lo[j]),
            "hi": None if hi is None or np.isnan(hi[j]) else float(hi[j]),
        }

    def factor_rows(self) -> list[dict[str, Any]]:
        """One row a factor: its strength, what it resembles, and who would call it quality."""
        lead = self.aggregates.get("care_svd")
        chosen = int(lead.details["quality_factor"]) if lead is not None else -1
        rules: Mapping[str, int] = self.factor_features.get("rules", {})
        rows: list[dict[str, Any]] = []
        for k, factor in enumerate(self.factor_features.get("factors", [])):
            feature, correlation = self._nearest_feature(k)
            named = [rule for rule, which in rules.items() if which == k]
            if k == chosen and lead is not None and lead.details["rule"] == "anchors":
                named.append("anchors")
            rows.append(
                {**factor, "k": k, "taken": k == chosen, "named": named, "feature": feature, "follows": correlation}
            )
        return rows

    @property
    def effective_judges(self) -> float | None:
        """How many judges of independent errors the mean is worth; None where quality is not what the mean follows."""
        lead = self.aggregates.get("care_svd")
        if lead is None or lead.details["orientation"] < 0.5:
            return None
        return float(lead.details["effective_judges"])

    def _nearest_feature(self, factor: int) -> tuple[str | None, float | None]:
        """The text feature that a factor's score follows most closely, and how closely (Spearman)."""
        rows = self.factor_features.get("correlations") or []
        if factor >= len(rows):
            return None, None
        pairs = [(abs(c), c, f) for c, f in zip(rows[factor], self.factor_features["features"], strict=True) if c]
        if not pairs:
            return None, None
        _, correlation, feature = max(pairs)
        return feature.replace("_", " "), correlation

    def warnings(self) -> list[str]:
        """What a reader must know before trusting the page: evidence, not proof."""
        found: list[str] = []
        published, edition = self.provenance.get("published"), self.provenance.get("edition")
        if published != edition:
            found.append(
                f"These numbers are of fit {edition}, which is not published: a person pinned {published or 'none'}."
            )
        ambiguous = self._ambiguity()
        if ambiguous is not None:
            found.append(ambiguous)
        for name, aggregate in self.aggregates.items():
            certificate = aggregate.details.get("certificate")
            if certificate is not None and not certificate["converged"]:
                found.append(
                    f"{name} rests on a structure that did not converge (gap {certificate['gap']:.1e}); "
                    "see its certificate below."
                )
                break
        return found

    def _ambiguity(self) -> str | None:
        """Whether the panel allows more than one answer, the evidence, and what to do."""
        care = self.aggregates.get("care")
        if care is None or not care.details["ambiguous"]:
            return None
        details = care.details
        text = (
            "Quality is ambiguous on this panel. Two defensible answers, the mean of the declared families and one "
            f"common factor of all judges, correlate at {details['agreement']:+.2f}"
        )
        if details["rival"] is not None:
            text += (
                f"; the judges follow {details['factors']} factors, and one that at least three of them follow "
                f"correlates at {details['rival']:+.2f} with the answer"
            )
        text += ". "
        if "hypotheses" in details:
            best, weight = max(details["hypotheses"].items(), key=lambda pair: pair[1])
            return text + (
                f"care has settled it by {care.labels_used} labels: quality follows '{best}' with probability "
                f"{weight:.2f}. The other aggregates do not know that."
            )
        lead = self.aggregates.get("care_svd")
        feature, correlation = (None, None)
        if lead is not None:
            feature, correlation = self._nearest_feature(int(lead.details["quality_factor"]))
        if feature is not None and abs(correlation or 0.0) >= 0.5:
            text += f"The factor that care_svd takes for quality follows {feature} (Spearman {correlation:+.2f}). "
        return text + (
            "Label ten to twenty items, at random and those listed below, and give them to the fit as anchors: care "
            "weighs the answers by them."
        )

    def disagreements(self, most: int = 8) -> list[dict[str, Any]]:
        """The items that are most worth a label: where two defensible answers differ most in rank."""
        care, mean = self.aggregates.get("care"), self.aggregates.get("avg")
        if care is None or mean is None:
            return []
        index = {item: k for k, item in enumerate(self.scores.item_ids)}
        rows = [index[item] for item in care.details["label_first"][:most]]
        return [
            {
                "item_id": self.scores.item_ids[k],
                "avg": float(mean.estimate[k]),
                "care": float(care.estimate[k]),
                "gold": None if np.isnan(self.gold[k]) else float(self.gold[k]),
                "response": self.responses[k],
            }
            for k in rows
        ]
