"""What a page shows, as plain values.

Belongs here: the record that figures and templates read, and its assembly from a fit. Does not: HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators import Aggregate
from care_ops.metrics import Evaluation
from care_ops.quality import JudgeCheck
from care_ops.scores import ScoreMatrix

Array = NDArray[np.float64]

AMBIGUOUS_BELOW = 0.5
"""Spearman correlation of avg and care_svd below which the page warns. On twelve real panels it is .80
and more, two that mislead every label-free rule among them; on a thirteenth (.19) it is right to warn. It catches
the gross case only."""


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

    @property
    def judge_rows(self) -> list[dict[str, Any]]:
        """One row a judge: admission and weights."""
        index = {judge: j for j, judge in enumerate(self.scores.judges)}
        weighted = {n: a.weights for n, a in self.aggregates.items() if a.weights is not None and n != "avg"}
        return [
            {
                "check": check,
                "family": self.scores.families.get(check.judge),
                "weights": {
                    name: float(w[index[check.judge]]) if check.judge in index else None for name, w in weighted.items()
                },
            }
            for check in self.checks
        ]

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
        """Whether the plain mean and care_svd are two different answers, and what care_svd's looks like."""
        lead, mean = self.aggregates.get("care_svd"), self.aggregates.get("avg")
        if lead is None or mean is None:
            return None
        known = ~np.isnan(lead.estimate) & ~np.isnan(mean.estimate)
        agreement = float(np.corrcoef(_percentile(lead.estimate[known]), _percentile(mean.estimate[known]))[0, 1])
        if not agreement < AMBIGUOUS_BELOW:
            return None
        text = (
            f"Quality is ambiguous on this panel: avg and care_svd order the items differently (Spearman "
            f"{agreement:+.2f}). The factor that care_svd takes for quality is named by the rule "
            f"'{lead.details['rule']}', and may be a confounder that many judges share."
        )
        feature, correlation = self._nearest_feature(int(lead.details["quality_factor"]))
        if feature is not None:
            text += f" It follows {feature} (Spearman {correlation:+.2f})."
        return text + (
            " Label ten to twenty items, those listed below first, to learn which is right; given to the fit as "
            "anchors, they choose its factor."
        )

    def disagreements(self, most: int = 8) -> list[dict[str, Any]]:
        """Items on which the plain mean and care_svd (else care_tensor) differ most in rank."""
        other = next((n for n in ("care_svd", "care_tensor", "uws") if n in self.aggregates), None)
        if other is None or "avg" not in self.aggregates:
            return []
        a, b = self.aggregates["avg"].estimate, self.aggregates[other].estimate
        known = np.flatnonzero(~np.isnan(a) & ~np.isnan(b))
        if not len(known):
            return []
        rank_a, rank_b = _percentile(a[known]), _percentile(b[known])
        largest = np.argsort(-np.abs(rank_a - rank_b), kind="stable")[:most]
        return [
            {
                "item_id": self.scores.item_ids[int(known[k])],
                "avg": float(a[known[k]]),
                "other": float(b[known[k]]),
                "other_name": other,
                "gold": None if np.isnan(self.gold[known[k]]) else float(self.gold[known[k]]),
                "response": self.responses[int(known[k])],
            }
            for k in largest
        ]


def _percentile(values: Array) -> Array:
    from scipy.stats import rankdata

    return np.asarray(rankdata(values), dtype=np.float64) / len(values)
