"""The workspace's own panels, as the experiments read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from care_ops.config import FitConfig
    from care_ops.scores import ScoreMatrix

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

    found: list[Panel] = []
    for testset in sorted(workspace.testsets):
        folder = workspace.fit_folder(testset)
        if not folder.panel_file.exists() or not workspace.warehouse.usable():
            continue
        scores = folder.read_panel()
        with workspace.warehouse.reader() as connection:
            columns = read_item_columns(connection, testset)
        at = {item: k for k, item in enumerate(columns.item_ids)}
        rows = [at[item] for item in scores.item_ids if item in at]
        if len(rows) < len(scores.item_ids) or (~np.isnan(columns.gold[rows])).sum() < 50:
            continue
        units = [columns.split_units[k] or columns.item_ids[k] for k in rows]
        responses = [columns.responses[k] for k in rows]
        config = workspace.fit_config(testset)
        found.append(Panel(testset, scores, columns.gold[rows], units, responses, config))
    return found


def panel_versions(workspace: Workspace) -> dict[str, str]:
    """What the panels are made of: scores, gold, units and settings."""
    return {p.testset: f"{p.scores.fingerprint()[:16]} {_digest(p)}" for p in panels(workspace)}


def _digest(panel: Panel) -> str:
    import hashlib

    content = repr((panel.gold.tolist(), panel.units, panel.config.fingerprint()))
    return hashlib.sha256(content.encode()).hexdigest()[:16]
