"""Panels of a workspace, with gold and responses, as inputs of the experiments."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.judge_keys import judge_item
from assets.results.gold import panel_items
from assets.workspace import Workspace
from care_ops.aggregators.base import Problem
from care_ops.aggregators.care_svd import fit_structure
from care_ops.config import FitConfig, StructureConfig
from care_ops.fit import problem_of as panel_problem
from care_ops.fit import try_structure
from care_ops.fit_labels import NO_LABELS
from care_ops.metrics import auc, is_binary, tau
from care_ops.minimum_sizes import MIN_GOLD
from care_ops.moments.state import accumulate, shrink
from care_ops.scores import Array, ScoreMatrix
from care_ops.structure.factors import Factors, extract, posterior
from judges.engines.program import ProgramJudgeEngine
from judges.items import Item
from warehouse.items import numbers_in

DUMMIES = ("length", "keyword")
"""Programs that judge a response only by its length or its keywords."""

NO_PANEL = "Nothing was run: no test set has a panel and gold for at least fifty items; add gold, then run `care run`."


@dataclass(frozen=True)
class ExperimentPanel:
    """Scores of a panel's admitted judges, with the items' responses, split units and gold; unknown gold is NaN."""

    testset: str
    scores: ScoreMatrix
    gold: Array
    units: list[str]
    responses: list[str | None]
    config: FitConfig

    @property
    def binary(self) -> bool:
        """Whether gold is known and has exactly two classes."""
        known = self.gold[~np.isnan(self.gold)]
        return len(known) > 0 and is_binary(known)

    def order(self, estimate: Array) -> float:
        """Return the AUC of an estimate for binary gold, otherwise Kendall's tau; NaN if undefined."""
        known = ~np.isnan(estimate) & ~np.isnan(self.gold)
        statistic = (auc if self.binary else tau)(estimate[known], self.gold[known])
        return float("nan") if statistic is None else statistic

    def filled(self) -> Array:
        """Return raw scores, with judges sorted by name and missing scores set to the judge's mean; shape (n, p)."""
        ordered = self.scores.select_judges(sorted(self.scores.judges)).values
        return np.where(np.isnan(ordered), np.nanmean(ordered, axis=0), ordered)

    def error(self, estimate: Array, rows: NDArray[Any] | slice = slice(None)) -> float:
        """Return the mean absolute error over items with an estimate and gold."""
        return float(np.nanmean(np.abs(estimate - self.gold)[rows]))


def panels(workspace: Workspace) -> list[ExperimentPanel]:
    """Return the panels with gold for at least fifty items; leave out test sets of deliberately changed answers."""
    declared = workspace.testsets
    return [
        panel
        for panel in every_panel(workspace)
        if declared[panel.testset].version_columns is None and (~np.isnan(panel.gold)).sum() >= MIN_GOLD
    ]


def every_panel(workspace: Workspace) -> list[ExperimentPanel]:
    """Return all panels of the workspace that have stored items."""
    panels_read: list[ExperimentPanel] = []
    for testset in sorted(workspace.testsets):
        folder, stored = workspace.fit_folder(testset), workspace.parts.items_file(testset)
        if not folder.panel_file.exists() or not stored.exists():
            continue
        scores, items = folder.read_panel(), workspace.parts.read_gold(testset)
        if {*scores.item_ids} <= {*items.item_ids}:
            known, config = panel_items(scores, items, NO_LABELS), workspace.fit_config(testset)
            panels_read.append(ExperimentPanel(testset, scores, known.gold, known.units(), known.responses, config))
    return panels_read


def items_of(workspace: Workspace, panel: ExperimentPanel) -> list[Item]:
    """Return the items of a panel as judges see them, in the panel's order."""
    items = {record.item_id: judge_item(record) for record in workspace.parts.read_items(panel.testset)}
    return [items[item] for item in panel.scores.item_ids]


def named(values: Array) -> ScoreMatrix:
    """Build a score matrix from simulated scores, with generated names of items and judges."""
    n, p = values.shape
    return ScoreMatrix(values, tuple(f"i{k:06}" for k in range(n)), tuple(f"j{k:02}" for k in range(p)))


def with_columns(
    scores: ScoreMatrix, columns: Mapping[str, Array], families: Mapping[str, str] = MappingProxyType({})
) -> ScoreMatrix:
    """Add the scores of further judges to a panel."""
    values = np.column_stack([scores.values, *columns.values()])
    return ScoreMatrix(values, scores.item_ids, (*scores.judges, *columns), {**scores.families, **families})


def declared_numbers(workspace: Workspace, panel: ExperimentPanel, names: Sequence[str]) -> dict[str, Array]:
    """Return the columns ``names`` of the items' metadata; raise ``InputError`` if a value is not a number."""
    metadata = {record.item_id: record.metadata for record in workspace.parts.read_items(panel.testset)}
    rows = [metadata[item] for item in panel.scores.item_ids] if names else []
    return {name: numbers_in(rows, name, f"test set {panel.testset!r}") for name in names}


def scored_by(program: str, items: Sequence[Item]) -> Array:
    """Score items with a built-in program; a missing score is NaN."""
    scored = ProgramJudgeEngine(program, None).score(items)
    return np.array([np.nan if s.score is None else s.score for s in scored], dtype=np.float64)


def factored(scores: ScoreMatrix, config: StructureConfig, most: int | None = None) -> tuple[Array, Factors]:
    """Estimate the items' scores on the strongest factors (at most ``most``); return the scores and all factors."""
    ordered = scores.select_judges(sorted(scores.judges))
    moments = accumulate(ordered.values)
    structure, _ = fit_structure(moments, config, ordered.judges)
    correlation = shrink(moments.correlation(), moments.n)[0]
    factors = extract(structure.low_rank, correlation)
    z = moments.standardise(ordered.values)
    pairs = list(zip(factors.directions.T, factors.strengths, strict=True))[:most]
    return np.column_stack([posterior(z, u, float(strength), correlation)[0] for u, strength in pairs]), factors


def problem_of(scores: ScoreMatrix, config: FitConfig) -> Problem:
    """Build the aggregators' input, with moments and structure, from a score matrix."""
    problem = panel_problem(scores, config)
    return replace(problem, structure=try_structure(problem.moments, config.structure, problem.scores.judges)[0])


def panel_versions(workspace: Workspace) -> dict[str, str]:
    """Hash the items, test set file, scores and settings of each panel; return the hashes by test set."""
    versions: dict[str, str] = {}
    for panel in every_panel(workspace):
        digest = hashlib.sha256(workspace.parts.items_file(panel.testset).read_bytes())
        digest.update(repr(workspace.testset(panel.testset)).encode())
        items, scores = digest.hexdigest(), panel.scores.fingerprint()
        versions[panel.testset] = f"{items[:16]} {scores[:16]} {panel.config.fingerprint()}"
    return versions
