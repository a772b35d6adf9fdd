"""Robustness to injected bias: the same answers in another style, scored by the same judges."""

from dataclasses import replace
from typing import Any

import numpy as np

from assets.experiments.base import Experiment, ExperimentFindings, Table, ascending, for_each
from assets.experiments.versions import NO_VERSIONS, Versions, restyled
from assets.workspace import Workspace
from care_ops.errors import FitError
from care_ops.metrics import rank_correlation

_AGGREGATORS = ("mv", "avg", "uws", "ws", "care", "care_svd", "care_tensor")


def run(workspace: Workspace) -> ExperimentFindings:
    """Measure how far each aggregate moves under each change of style."""
    return for_each(restyled(workspace), _of_versions, NO_VERSIONS)


def _of_versions(versions: Versions) -> ExperimentFindings:
    rows: dict[str, dict[str, Any]] = {}
    conclusions, measures = list[str](), dict[str, float]()
    for change in versions.changed:
        try:
            moved = changes(versions, change)
        except FitError as error:
            conclusions.append(f"{versions.testset}, {change}: {error}")
            continue
        for name, (distance, kept, error) in moved.items():
            row = rows.setdefault(name, {"aggregator": name})
            row |= {change: distance, f"order kept, {change}": kept, f"MAE, {change}": error}
            measures[f"{versions.testset}/{change}/{name}"] = error
        distances = ascending({name: distance for name, (distance, *_) in moved.items()}, 2)
        conclusions.append(f"{versions.testset}, {change}, in sd: {distances or 'no aggregate varies'}.")
    title = f"{versions.testset}: mean absolute change in sd, rank correlation with before, MAE in points"
    tables = [Table(f"{title}; {len(versions.judges)} judges", list(rows.values()))] if rows else []
    return ExperimentFindings(conclusions, tables, measures=measures)


def changes(versions: Versions, change: str) -> dict[str, tuple[float, float, float]]:
    """Return each aggregate's change in standard deviations, its rank correlation, and its MAE in points.

    The rank correlation is between the estimates before and after the change. ``care_svd as written`` uses the paper's
    literal weights.
    """
    literal = replace(versions, config=replace(versions.config, placement="weights"))
    fitted = versions.fitted(change, _AGGREGATORS)
    if written := literal.fitted(change, ("care_svd", "avg")).get("care_svd"):
        fitted["care_svd as written"] = written
    n, original_rows = len(versions.originals), versions.changed[change][0]
    moved: dict[str, tuple[float, float, float]] = {}
    for name, aggregate in fitted.items():
        before, after = aggregate.estimate[:n][original_rows], aggregate.estimate[n:]
        known = ~np.isnan(before) & ~np.isnan(after)
        spread = np.nanstd(aggregate.estimate)
        if known.sum() < 2 or 0 in (spread, np.ptp(before[known]), np.ptp(after[known])):
            continue
        error = float(np.mean(np.abs(after - before)[known]))
        moved[name] = error / float(spread), rank_correlation(before, after), error
    return moved


EXPERIMENT = Experiment(
    key="injected_bias",
    title="Robustness to injected bias",
    paper="CARE-SVD moves least: .375 against .506 for the mean (beauty), .233 against .325 (authority), of 1 to 10.",
    protocol=(
        "Test sets with versions of their answers (`source: {kind: versions}`), scored by a prompt that does not "
        "mention style. One fit over both versions; the change is in standard deviations of the aggregate, because "
        "scales differ, and in points, as in the paper. A constant would win: read it with the order that is kept."
    ),
    run=run,
)
