"""The workspace's own panels, as the experiments read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from care_ops.config import FitConfig, StructureConfig
    from care_ops.factors import Factors
    from care_ops.scores import ScoreMatrix
    from judges.items import Item

Array = NDArray[np.float64]

NO_PANEL = "No test set of this workspace has a panel and gold for fifty items: nothing was run."


@dataclass(frozen=True)
class Panel:
    """An admitted panel with gold.

    Attributes
    ----------
    testset : str
    scores : ScoreMatrix
    gold : (n,) array
        NaN where unknown.
    units : list of n str
        Split units; an item without one is its own.
    responses : list of n str or None
    config : FitConfig
    """

    testset: str
    scores: ScoreMatrix
    gold: Array
    units: list[str]
    responses: list[str | None]
    config: FitConfig

    @property
    def binary(self) -> bool:
        """Whether gold is two classes."""
        from care_ops.metrics import is_binary

        return is_binary(self.gold[~np.isnan(self.gold)])

    def order(self, estimate: Array, rows: NDArray[Any] | None = None) -> float:
        """AUC or Kendall's tau where both are known; NaN where it is not defined."""
        from care_ops.metrics import auc, tau

        e, g = (estimate, self.gold) if rows is None else (estimate[rows], self.gold[rows])
        known = ~np.isnan(e) & ~np.isnan(g)
        found = auc(e[known], g[known]) if self.binary else tau(e[known], g[known])
        return float("nan") if found is None else found


def panels(workspace: Workspace) -> list[Panel]:
    """Every test set whose panel is made and that has gold for at least fifty items."""
    from warehouse.matrix import read_item_columns

    made = [t for t in sorted(workspace.testsets) if workspace.fit_folder(t).panel_file.exists()]
    if not made or not workspace.warehouse.usable():
        return []
    with workspace.warehouse.reader() as connection:
        read = {testset: read_item_columns(connection, testset) for testset in made}
    found: list[Panel] = []
    for testset, columns in read.items():
        scores = workspace.fit_folder(testset).read_panel()
        at = {item: k for k, item in enumerate(columns.item_ids)}
        rows = [at[item] for item in scores.item_ids if item in at]
        if len(rows) < len(scores.item_ids) or (~np.isnan(columns.gold[rows])).sum() < 50:
            continue
        units = [columns.split_units[k] or columns.item_ids[k] for k in rows]
        responses = [columns.responses[k] for k in rows]
        config = workspace.fit_config(testset)
        found.append(Panel(testset, scores, columns.gold[rows], units, responses, config))
    return found


def items_of(workspace: Workspace, panel: Panel) -> list[Item]:
    """What judges see of a panel's items, in its order."""
    from assets.workspace import judge_item

    items = {record.item_id: judge_item(record) for record in workspace.parts.read_items(panel.testset)}
    return [items[item] for item in panel.scores.item_ids]


def scored_by(program: str, items: Sequence[Item]) -> Array:
    """Scores of a built-in program, NaN where it gives none."""
    from judges.engines.program import ProgramJudgeEngine

    scored = ProgramJudgeEngine(program, None).score(items)
    return np.array([np.nan if s.score is None else s.score for s in scored], dtype=np.float64)


def factored(scores: ScoreMatrix, config: StructureConfig, most: int | None = None) -> tuple[Array, Factors]:
    """E[factor | J] of the strongest factors (all by default), (items, factors), and all factors, judges sorted.

    Raises
    ------
    FitError
        The panel has no factor.
    """
    from care_ops.aggregators.care_svd import fit_structure
    from care_ops.factors import extract, posterior
    from care_ops.moments import accumulate, shrink

    ordered = scores.select_judges(sorted(scores.judges))
    moments = accumulate(ordered.values)
    structure, _ = fit_structure(moments, config, ordered.judges)
    correlation = shrink(moments.correlation(), moments.n)[0]
    factors = extract(structure.low_rank, correlation)
    z = moments.standardise(ordered.values)
    pairs = list(zip(factors.directions.T, factors.strengths, strict=True))[:most]
    return np.column_stack([posterior(z, u, float(strength), correlation)[0] for u, strength in pairs]), factors


def panel_versions(workspace: Workspace) -> dict[str, str]:
    """What the panels are made of: scores, gold, units and settings."""
    return {p.testset: f"{p.scores.fingerprint()[:16]} {_digest(p)}" for p in panels(workspace)}


def _digest(panel: Panel) -> str:
    import hashlib

    content = repr((panel.gold.tolist(), panel.units, panel.config.fingerprint()))
    return hashlib.sha256(content.encode()).hexdigest()[:16]
