"""Simulated data of report pages, without a fit.

Quality and length determine the scores. The other numbers are invented, and every section of a page has content.
"""

from __future__ import annotations

import numpy as np

from assets.publication.differences import ItemMove, Moved, WeightMove
from assets.report.data import Changes, FitVersionShown, ReportData
from assets.results.documents import FactorRecord, FactorsDocument, SystemRecord, SystemsDocument
from care_ops.metrics import evaluate
from care_ops.records import Aggregate, Comparison, Intervals, JudgeCheck
from care_ops.results.verdict import Reason, Step, Verdict
from care_ops.scores import ScoreMatrix

FEATURES = ("characters", "words", "list_items")

VERDICT = Verdict(
    "ambiguous",
    "Two sensible ways to combine your judges rank the answers differently, and scores cannot say which is right.",
    (Reason("followed", "Something that several judges share follows words.", detail="It is factor 1, by +.93."),),
    (
        Step(
            "Fill in the column `label` of /srv/evaluations/workspaces/answers_of_the_second_quarter/to_label.csv, "
            "then fit again.",
            "care fit scores.csv --out out --labels out/to_label.csv",
        ),
    ),
    "9f2c1e",
    "2026-11-22T03:00:00+00:00",
)
"""Verdict with all parts that a page shows, including a path that is wider than a phone."""


MODES = {
    "light": {"color_scheme": "light", "viewport": {"width": 1120, "height": 1000}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1120, "height": 1000}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
"""Settings of a browser in which pages are tested."""


def report_data(items: int = 60, judges: int = 6, *, workspace: bool = True, seed: int = 20261122) -> ReportData:
    """Return simulated data of a page; the last judge is not admitted."""
    rng = np.random.default_rng(seed)
    quality, length = rng.normal(size=(2, items))
    loads = rng.uniform(0.2, 1.0, size=judges)
    values = 5 + np.outer(quality, loads) + np.outer(length, 1 - loads) + 0.5 * rng.normal(size=(items, judges))
    values[rng.random(values.shape) < 0.02] = np.nan
    names = tuple(f"judge with a rather long name {j:03}" for j in range(judges))
    families = {name: f"family {j % 4}" for j, name in enumerate(names)}
    scores = ScoreMatrix(values, tuple(f"item-{k:05}" for k in range(items)), names, families)
    aggregates = _aggregates(rng, scores, quality, length, loads)
    gold = (quality + 0.3 * rng.normal(size=items) > 0).astype(float)
    correlation = np.corrcoef(np.nan_to_num(values, nan=5.0), rowvar=False)
    weights = aggregates["care"].weights
    assert weights is not None
    return ReportData(
        title="a test set",
        description="Made for tests.",
        scores=scores,
        correlation=correlation,
        aggregates=aggregates,
        failures={"care_tensor": "it could not answer"},
        checks=_checks(names),
        evaluations={
            name: evaluate(a.estimate, gold, threshold=a.threshold, scale=None, sd=a.sd, p_quality=a.p_quality)
            for name, a in aggregates.items()
        },
        gold=gold,
        responses=[f"Answer {k}: " + "word " * (5 + k % 40) for k in range(items)],
        factors=_factors(names),
        systems=_systems(items),
        missing_share=float(np.isnan(values).mean()),
        labels_seen=20,
        provenance={"source": "made up"},
        intervals={"care": Intervals(names, weights - 0.01, weights + 0.01)},
        fit_version=FitVersionShown("fit-2", "fit-2") if workspace else None,
        made_at="2026-11-22 03:00",
        changes=_changes(scores, estimate=aggregates["care"].estimate, weights=weights) if workspace else None,
        rivals={"mean of the families": quality, "one common factor": length},
    )


def _aggregates(
    rng: np.random.Generator, scores: ScoreMatrix, quality: np.ndarray, length: np.ndarray, loads: np.ndarray
) -> dict[str, Aggregate]:
    estimate = quality + 0.2 * length
    sd = rng.uniform(0.2, 0.5, size=len(quality))
    first = [scores.item_ids[k] for k in np.argsort(-np.abs(quality - length))[:10]]
    care = {"agreement": 0.7, "factors": 2, "rival": 0.2, "ambiguous": True, "items_to_label": first}
    svd = {"rule": "leading", "quality_factor": 1, "orientation": 0.8}
    loadings = np.column_stack([loads, 1 - loads]) / len(loads) ** 0.5
    weights = loads / loads.sum()
    return {
        "care": Aggregate(
            "care", estimate, 0.0, sd=sd, p_quality=1 / (1 + np.exp(-3 * estimate)), weights=weights, details=care
        ),
        "avg": Aggregate("avg", np.nanmean(scores.values, axis=1), 5.0, weights=np.full(len(loads), 1 / len(loads))),
        "care_svd": Aggregate("care_svd", length, 0.0, weights=loads / loads.sum(), loadings=loadings, details=svd),
    }


def _changes(scores: ScoreMatrix, estimate: np.ndarray, weights: np.ndarray) -> Changes:
    before = 1 / len(scores.judges)
    judges = [WeightMove(judge, before, float(weight)) for judge, weight in zip(scores.judges, weights, strict=True)]
    items = [ItemMove(scores.item_ids[3], float(estimate[3]) - 1.5, float(estimate[3]), 1.5)]
    why = ["scores changed: " + scores.judges[0]]
    moved = Moved(why, judges, items, 0.97, 0, 0)
    return Changes("fit-1", "2026-11-21 03:00", why, moved, moved.moves())


def _checks(names: tuple[str, ...]) -> list[JudgeCheck]:
    admitted = [JudgeCheck(name, True, None, None, 0.02, 0.1, 3.0, 0.5, 0) for name in names]
    return [*admitted, JudgeCheck("constant", False, "all its scores are alike", None, 0.0, 1.0, 0.0, None, 0)]


def _factors(names: tuple[str, ...]) -> FactorsDocument:
    return FactorsDocument(
        features=FEATURES,
        correlations=((0.9, 0.95, 0.1), (0.1, None, -0.2)),
        factors=(FactorRecord(0.8, 0.5, 5.0, 0.7), FactorRecord(0.2, 0.9, 4.0, 0.9)),
        rules={"leading": 0, "balance": 1},
        judges={names[0]: (0.4, 0.6, None), names[1]: (0.1, -0.05, 0.2), names[2]: (0.2, -0.4, None)},
    )


def _systems(items: int) -> SystemsDocument:
    names = ("one", "two", "three")
    values = (6.0, 5.5, 5.0)
    comparisons = tuple(
        Comparison("one", name, 6.0 - value, 5.9 - value, 6.1 - value, items, 0)
        for name, value in zip(names[1:], values[1:], strict=True)
    )
    systems = tuple(SystemRecord(name, items // 3, value) for name, value in zip(names, values, strict=True))
    return SystemsDocument("care", "mean estimate", systems, comparisons)
