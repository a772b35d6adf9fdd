"""Robustness to injected bias: the same answers dressed up, scored by the same judges."""

from dataclasses import replace
from typing import Any

import numpy as np

from assets.experiments.base import Experiment, ExperimentFindings, Table, filled, least_first
from assets.experiments.versions import Versions, dressed
from assets.workspace import Workspace
from care_ops.errors import FitError
from care_ops.metrics import rank_correlation

_AGGREGATORS = ("mv", "avg", "median", "uws", "ws", "care", "care_svd", "care_tensor")


def run(workspace: Workspace) -> ExperimentFindings:
    """Mean absolute change of every aggregate, in its own standard deviations and in points, by what was done."""
    tables, says, measures = list[Table](), list[str](), dict[str, float]()
    dressed_versions, why = dressed(workspace)
    for versions in dressed_versions:
        rows: dict[str, dict[str, Any]] = {}
        for change in versions.changed:
            try:
                moved = changes(versions, change)
            except FitError as error:
                says.append(f"{versions.testset}, {change}: {error}")
                continue
            for aggregator, (distance, kept, error) in moved.items():
                row = rows.setdefault(aggregator, {"aggregator": aggregator})
                row[change], row[f"order kept, {change}"], row[f"MAE, {change}"] = distance, kept, error
                measures[f"{versions.testset}/{change}/{aggregator}"] = error
            if not moved:
                says.append(f"{versions.testset}, {change}: no aggregate tells these items apart.")
                continue
            distances = least_first({aggregator: distance for aggregator, (distance, *_) in moved.items()}, 2)
            says.append(f"{versions.testset}, {change}, in sd, least first: {distances}.")
            says.append(f"{versions.testset}, {change}: {measured_with(versions, change)}.")
        if not rows:
            continue
        title = f"{versions.testset}: mean absolute change in sd, rank correlation with before, MAE in points of the "
        tables.append(Table(f"{title}scale; {versions.asked}", filled(list(rows.values()))))
    return ExperimentFindings([*says, *why] or ["This workspace has no test set."], tables, measures=measures)


def measured_with(versions: Versions, change: str) -> str:
    """How many judges the measurement rests on, and which others it leaves out and why."""
    judges = versions.judges_sorted(change)
    parts = [f"measured with {len(judges.used)} of {len(versions.judges)} judges"]
    by_reference = [judge for judge in judges.unscored if versions.families.get(judge) == "reference"]
    other = [judge for judge in judges.unscored if judge not in by_reference]
    for names, why in (
        (by_reference, "gave no score: they compare with a reference"),
        (other, f"left more than {versions.max_missing:.0%} of the answers unscored"),
        (judges.constant, "scored all answers alike"),
    ):
        if names:
            parts.append(f"{len(names)} {why} ({', '.join(names)})")
    return "; ".join(parts)


def changes(versions: Versions, change: str) -> dict[str, tuple[float, float, float]]:
    """Mean absolute change by aggregator in standard deviations of all, Spearman's correlation with before, and MAE.

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
    asks="How far does an aggregate move when answers are dressed up and nothing else changes?",
    paper="CARE-SVD moves least: .375 against .506 for the mean (beauty), .233 against .325 (authority), of 1 to 10.",
    protocol=(
        "Every response with emoji and formatting (beauty), a false citation (authority) or padding (verbosity), "
        "scored anew by the panel's program judges; a test set that brings versions of its own, or is made of them, "
        "as its judges scored it. One fit over both versions; the change is in standard deviations of the "
        "aggregate over all of them, since scales differ, and in points, as the paper has it. A constant would win: "
        "read it beside the order that is kept."
    ),
    run=run,
)
