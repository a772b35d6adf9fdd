"""Scores of the same judges on answers and on versions of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assets.experiments.panels import ExperimentPanel, every_panel
from assets.workspace import Workspace
from care_ops.config import FitConfig
from care_ops.fit import fit_panel
from care_ops.records import Aggregate
from care_ops.scores import Array, ScoreMatrix
from warehouse.testsets import VersionColumns
from warehouse.versions import ORIGINAL, TRIGGERS

NO_VERSIONS = (
    "No test set of this workspace has scored versions of its answers. `source: {kind: versions, of: NAME}` makes a "
    "test set of them, and the next run asks its judges."
)


@dataclass(frozen=True)
class Versions:
    """Scores of the same judges on answers, (n, p), and on changed versions of them.

    ``changed`` maps a change to the row of each version's original, (m,), and the versions' scores, (m, p).
    """

    testset: str
    judges: tuple[str, ...]
    families: Mapping[str, str]
    originals: Array
    changed: Mapping[str, tuple[NDArray[np.intp], Array]]
    config: FitConfig

    def fitted(self, change: str, aggregators: Sequence[str]) -> dict[str, Aggregate]:
        """Fit the originals and their versions in one panel, without constant judges, to put them on one scale."""
        values = np.vstack([self.originals, self.changed[change][1]])
        kept = [k for k, column in enumerate(values.T) if len(np.unique(column[~np.isnan(column)])) > 1]
        names = tuple(self.judges[k] for k in kept)
        families = {judge: self.families[judge] for judge in names if judge in self.families}
        scores = ScoreMatrix(values[:, kept], tuple(f"i{k:06}" for k in range(len(values))), names, families)
        return fit_panel(scores, replace(self.config, aggregators=tuple(aggregators))).aggregates


def restyled(workspace: Workspace) -> list[Versions]:
    """Return the test sets that hold answers with the same content in another style."""
    return _versions(workspace, lambda change: change not in TRIGGERS)


def triggered(workspace: Workspace) -> list[Versions]:
    """Return the test sets that hold openings without an answer."""
    return _versions(workspace, lambda change: change in TRIGGERS)


def _versions(workspace: Workspace, wanted: Callable[[str], bool]) -> list[Versions]:
    read: list[Versions] = []
    for panel in every_panel(workspace):
        columns = workspace.testset(panel.testset).version_columns
        if columns is not None:
            versions = _of_panel(workspace, panel, columns, wanted)
            read += [versions] if versions.changed else []
    return read


def _of_panel(
    workspace: Workspace, panel: ExperimentPanel, columns: VersionColumns, wanted: Callable[[str], bool]
) -> Versions:
    """Sort a panel's scores into originals and versions."""
    scores_of = dict(zip(panel.scores.item_ids, panel.scores.values, strict=True))
    originals: dict[str, Array] = {}
    versions: list[tuple[str, str, Array]] = []
    for record in workspace.parts.read_items(panel.testset):
        pair, change = columns.version_of(record.metadata) or ("", "")
        if record.item_id not in scores_of:
            continue
        if change == ORIGINAL:
            originals[pair] = scores_of[record.item_id]
        elif change and wanted(change):
            versions.append((pair, change, scores_of[record.item_id]))
    row_of = {pair: k for k, pair in enumerate(originals)}
    by_change: dict[str, list[tuple[int, Array]]] = {}
    for pair, change, scores in versions:
        if pair in row_of:
            by_change.setdefault(change, []).append((row_of[pair], scores))
    return Versions(
        panel.testset,
        panel.scores.judges,
        dict(panel.scores.families),
        np.array([*originals.values()]).reshape(-1, len(panel.scores.judges)),
        {c: (np.array([k for k, _ in of]), np.array([v for _, v in of])) for c, of in by_change.items()},
        panel.config,
    )
