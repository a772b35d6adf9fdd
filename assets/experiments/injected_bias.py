"""Robustness to injected bias: the same answers in another style, scored by the same judges."""

from dataclasses import replace
from typing import Any

import numpy as np

from assets.experiments.base import Experiment, ExperimentFindings, Table, ascending, filled
from assets.experiments.versions import NO_VERSIONS, Versions, restyled
from assets.workspace import Workspace
from care_ops.errors import FitError
from care_ops.metrics import rank_correlation

_AGGREGATORS = ("mv", "avg", "uws", "ws", "care", "care_svd", "care_tensor")


def run(workspace: Workspace) -> ExperimentFindings:
    """Measure how far each aggregate moves under each change of style."""
    tables, conclusions, measures = list[Table](), list[str](), dict[str, float]()
    for versions in restyled(workspace):
        rows: dict[str, dict[str, Any]] = {}
        for change in versions.changed:
            try:
                moved = changes(versions, change)
            except FitError as error:
                conclusions.append(f"{versions.testset}, {change}: {error}")
                continue
            for aggregator, (distance, kept, error) in moved.items():
                row = rows.setdefault(aggregator, {"aggregator": aggregator})
                row[change], row[f"order kept, {change}"], row[f"MAE, {change}"] = distance, kept, error
                measures[f"{versions.testset}/{change}/{aggregator}"] = error
            distances = ascending({aggregator: distance for aggregator, (distance, *_) in moved.items()}, 2)
            conclusions.append(
                f"{versions.testset}, {change}, in sd, least first: {distances or 'no aggregate varies'}."
            )
        if rows:
            title = f"{versions.testset}: mean absolute change in sd, rank correlation with before, MAE in points"
            tables.append(Table(f"{title}; {len(versions.judges)} judges", filled(list(rows.values()))))
    return ExperimentFindings(conclusions or [NO_VERSIONS], tables, measures=measures)


def changes(versions: Versions, change: str) -> dict[str, tuple[float, float, float]]:
    """Return each aggregate's change in standard deviations, its rank correlation with before, and its MAE.

    The last one is in points of the scale, as the paper has it; ``care_svd as written`` has literal weights.
    """
    literal = replace(versions, config=replace(versions.config, placement="weights"))
    fitted = versions.fitted(change, _AGGREGATORS)
    if written := literal.fitted(change, ("care_svd", "avg")).get("care_svd"):
        fitted["care_svd as written"] = written
    n, original_rows = len(versions.originals), versions.changed[change][0]
    moved: dict[str, tuple[float, float, float]] = {}
    for name, aggregate in fitted.items():
        before, after = aggregate.estimate[:n], aggregate.estimate[n:]
        known = ~np.isnan(before[original_rows]) & ~np.isnan(after)
        spread = np.nanstd(aggregate.estimate)
        if known.sum() < 2 or spread == 0 or 0 in (np.ptp(before[original_rows][known]), np.ptp(after[known])):
            continue
        error = float(np.mean(np.abs(after - before[original_rows])[known]))
        moved[name] = error / float(spread), rank_correlation(before[original_rows], after), error
    return moved


EXPERIMENT = Experiment(
    key="injected_bias",
    title="Robustness to injected bias",
    asks="How far does an aggregate move when only the style of answers changes?",
    paper="CARE-SVD moves least: .375 against .506 for the mean (beauty), .233 against .325 (authority), of 1 to 10.",
    protocol=(
        "Test sets that bring versions of their answers, or are made of them (`source: {kind: versions}`), as their "
        "judges scored them by a prompt that says nothing about style. One fit over both versions; the change is in "
        "standard deviations of the aggregate over all of them, since scales differ, and in points, as the paper has "
        "it. A constant would win: read it next to the order that is kept."
    ),
    run=run,
)
