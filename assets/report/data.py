"""What a page shows, as plain values.

Belongs here: the record that figures and templates read, and its assembly from a fit. Does not: HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators import Aggregate
from care_ops.metrics import Evaluation
from care_ops.quality import JudgeCheck
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
        From ``assets.factors.describe``; empty where there are no texts.
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
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

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
