"""Experiments that compare the judges' scores of original and changed answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Experiment, ExperimentFindings, Table, ascending, for_each
from assets.experiments.panels import ExperimentPanel, every_panel
from assets.workspace import Workspace
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.metrics import rank_correlation
from care_ops.records import Aggregate
from care_ops.scores import Array, ScoreMatrix, varies
from warehouse.testsets import VersionColumns
from warehouse.versions import ORIGINAL, TRIGGERS

_STYLED = ("mv", "avg", "uws", "ws", "care", "care_svd", "care_tensor")
_ATTACKED = ("mv", "avg", "ws", "dawid_skene", "care", "care_svd", "care_tensor", "care_tensor_paper")

NO_VERSIONS = (
    "Nothing was run: no test set of this workspace has scored versions of its answers; declare a test set with "
    "`source: {kind: versions, of: NAME}`, then run `care run`."
)


@dataclass(frozen=True)
class Versions:
    """Scores of original answers, and of changed versions of these answers, by the same judges.

    ``changed`` maps a change to two arrays: rows of ``originals`` (m,), and scores of their changed answers (m, p).
    """

    testset: str
    judges: tuple[str, ...]
    families: Mapping[str, str]
    originals: Array
    changed: Mapping[str, tuple[NDArray[np.intp], Array]]
    config: FitConfig

    def fitted(self, change: str, aggregators: Sequence[str]) -> dict[str, Aggregate]:
        """Fit original and changed answers together, without constant judges, to get estimates on one scale."""
        values = np.vstack([self.originals, self.changed[change][1]])
        item_ids = tuple(f"i{k:06}" for k in range(len(values)))
        scores = ScoreMatrix(values, item_ids, self.judges, self.families)
        varying = [judge for judge, is_varying in zip(self.judges, varies(values), strict=True) if is_varying]
        config = replace(self.config, aggregators=tuple(aggregators))
        return fit_panel(scores.select_judges(varying), config).aggregates


def read_versions(workspace: Workspace, wanted: Callable[[str], bool]) -> list[Versions]:
    """Read each test set's scores of original and changed answers, for changes whose names ``wanted`` accepts."""
    read: list[Versions] = []
    for panel in every_panel(workspace):
        if (columns := workspace.testset(panel.testset).version_columns) is not None:
            found = _of_panel(workspace, panel, columns, wanted)
            read += [found] if found.changed else []
    return read


def _of_panel(
    workspace: Workspace, panel: ExperimentPanel, columns: VersionColumns, wanted: Callable[[str], bool]
) -> Versions:
    scores_of = dict(zip(panel.scores.item_ids, panel.scores.values, strict=True))
    versions = [
        (*version, scores_of[record.item_id])
        for record in workspace.parts.read_items(panel.testset)
        if record.item_id in scores_of and (version := columns.version_of(record.metadata)) is not None
    ]
    originals = {pair: scores for pair, change, scores in versions if change == ORIGINAL}
    row_of = {pair: k for k, pair in enumerate(originals)}
    by_change: dict[str, list[tuple[int, Array]]] = {}
    for pair, change, scores in versions:
        if pair in row_of and change not in ("", ORIGINAL) and wanted(change):
            by_change.setdefault(change, []).append((row_of[pair], scores))
    return Versions(
        panel.testset,
        panel.scores.judges,
        dict(panel.scores.families),
        np.array([*originals.values()]).reshape(-1, len(panel.scores.judges)),
        {c: (np.array([k for k, _ in of]), np.array([v for _, v in of])) for c, of in by_change.items()},
        panel.config,
    )


def run_styled(workspace: Workspace) -> ExperimentFindings:
    """Measure how far each aggregator's estimates move under each change of style."""
    return for_each(read_versions(workspace, lambda change: change not in TRIGGERS), _of_styles, NO_VERSIONS)


def _of_styles(versions: Versions) -> ExperimentFindings:
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
        conclusions.append(f"{versions.testset}, {change}, change in sd: {distances or 'no aggregate varies'}.")
    title = f"{versions.testset}: mean absolute change in sd, rank correlation with the original, MAE in points"
    tables = [Table(f"{title}; {len(versions.judges)} judges", list(rows.values()))] if rows else []
    return ExperimentFindings(conclusions, tables, measures=measures)


def changes(versions: Versions, change: str) -> dict[str, tuple[float, float, float]]:
    """Measure how far a change of the answers moves the estimates of each aggregator.

    Returns the mean absolute change divided by the estimates' standard deviation, the rank correlation with the
    original estimates, and the mean absolute change in units of the scale. ``care_svd as written`` applies the paper's
    weights to raw scores.
    """
    literal = replace(versions, config=replace(versions.config, placement="weights"))
    fitted = versions.fitted(change, _STYLED)
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


def run_attacked(workspace: Workspace) -> ExperimentFindings:
    """Measure how often each aggregator accepts as correct a response that contains no answer (such as only ``:``)."""
    return for_each(read_versions(workspace, lambda change: change in TRIGGERS), _of_openings, NO_VERSIONS)


def _of_openings(versions: Versions) -> ExperimentFindings:
    rates = {change: accepted(versions, change) for change in versions.changed}
    setting, rows = f"{versions.testset}, {len(versions.judges)} judges", list[dict[str, Any]]()
    rows += ({"attack": attack, **found} for attack, found in rates.items())
    names = [name for name in _ATTACKED if all(name in found for found in rates.values())]
    means = ascending({name: float(np.mean([found[name] for found in rates.values()])) for name in names}, 3)
    return ExperimentFindings(
        [f"{setting}, mean false positive rate over {len(rows)} attacks: {means}."],
        [Table(f"{setting}: false positive rate", rows)],
        measures={f"{versions.testset}/{c}/{name}": rate for c, found in rates.items() for name, rate in found.items()},
    )


def accepted(versions: Versions, change: str) -> dict[str, float]:
    """Return, for each aggregator with a threshold, the false positive rate on responses that contain no answer."""
    n, fitted = len(versions.originals), versions.fitted(change, _ATTACKED)
    decided = {name: a.estimate[n:] > a.threshold for name, a in fitted.items() if a.threshold is not None}
    return {name: float(calls.mean()) for name, calls in decided.items()}


BIAS = Experiment(
    key="injected_bias",
    title="Robustness to injected bias",
    paper="CARE-SVD scores (1 to 10) change least: .375 by beauty bias (AVG .506), .233 by authority bias (AVG .325).",
    protocol=(
        "Test sets contain restyled versions of answers; the judges' prompt does not mention style. One fit covers "
        "both versions. The change is measured in standard deviations of the aggregate, because scales differ, and in "
        "points of the scale, as in the paper. A constant score would not change at all; consider the rank correlation "
        "as well."
    ),
    run=run_styled,
)

ATTACKS = Experiment(
    key="adversarial_answers",
    title="Adversarial answers",
    paper="False positive rates for six response openings: .000 to .496 (CARE-Tensor), .441 to .674 (majority vote).",
    protocol=(
        "Some answers are replaced by one of six openings without content, such as `Solution`, and count as wrong. The "
        "judges' prompt does not mention openings. One fit covers all answers; it does not use which are openings."
    ),
    run=run_attacked,
)
EXPERIMENTS = (BIAS, ATTACKS)
