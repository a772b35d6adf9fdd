"""The paper's grids of penalties with labels, on recorded panels: CPU seconds of the search. Needs CARE_DATA_DIR."""

from __future__ import annotations

import os
import time

import numpy as np
from threadpoolctl import threadpool_limits

from care_ops.admission import check_panel
from care_ops.config import AdmissionRule, FitConfig
from care_ops.selection import GRIDS, select_with_labels, validation_items
from tests.support.panels import views


def run() -> list[dict[str, object]]:
    """One row per panel and aggregator."""
    if "CARE_DATA_DIR" not in os.environ:
        return [{"panel": "CARE_DATA_DIR is not set", "aggregator": "", "points": 0, "cpu_s": 0.0, "chosen": ""}]
    rows: list[dict[str, object]] = []
    for view in views():
        if view.name not in ("care_asset", "care_civilcomments"):
            continue
        admitted = [c.judge for c in check_panel(view.scores, AdmissionRule()) if c.admitted]
        scores = view.scores.select_judges(admitted)
        chosen_by = validation_items(list(view.units), 0.15, np.random.default_rng(0))
        labels = np.where(chosen_by, view.gold, np.nan)
        for name in ("care_svd", "care_tensor"):
            with threadpool_limits(limits=1, user_api="blas"):
                started = time.process_time()
                selection = select_with_labels(
                    scores, FitConfig(), labels, aggregator="care_svd" if name == "care_svd" else "care_tensor"
                )
                cpu = time.process_time() - started
            tau = "default" if selection.best.tau is None else selection.best.tau
            best = f"gamma {selection.best.gamma:g}, tau {tau}"
            rows.append(
                {"panel": view.name, "aggregator": name, "points": len(GRIDS[name]), "cpu_s": cpu, "chosen": best}
            )
    return rows
