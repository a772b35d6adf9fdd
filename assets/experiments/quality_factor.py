"""Each factor of L in turn taken for quality."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Experiment, ExperimentFindings, Table
from assets.experiments.panels import NO_PANEL, ExperimentPanel, factored, panels
from assets.workspace import Workspace
from care_ops.aggregators.base import row_mean
from care_ops.aggregators.care_svd import weighted
from care_ops.calibration import to_panel_scale
from care_ops.errors import FitError
from care_ops.structure.factors import Factors


def factors_in_turn(workspace: Workspace) -> ExperimentFindings:
    """Measure the order that each factor gives, signed towards the panel's mean."""
    tables, conclusions = list[Table](), list[str]()
    leading_is_best = testsets = 0
    measures: dict[str, float] = {}
    for panel in panels(workspace):
        try:
            latent, factors = factored(panel.scores, panel.config.structure)
        except FitError as error:
            conclusions.append(f"{panel.testset}: {error}")
            continue
        rows: list[dict[str, Any]] = [
            {
                "factor": k + 1,
                "share of tr L": float(strength / factors.strengths.sum()),
                "correlation with the mean": float(factors.agreements[k]),
                "AUC" if panel.binary else "Kendall tau": panel.order(latent[:, k]),
            }
            for k, strength in enumerate(factors.strengths)
        ]
        if not panel.binary:
            measures |= _errors(panel, latent) | _as_written(panel, factors)
        orders = [float(list(row.values())[-1]) for row in rows]
        best = int(np.nanargmax(orders))
        testsets += 1
        leading_is_best += best == 0
        tables.append(Table(panel.testset, rows))
        conclusions.append(
            f"{panel.testset}: the leading of {len(rows)} factors orders at {orders[0]:.3f}"
            + (", the best of them." if best == 0 else f"; factor {best + 1} at {orders[best]:.3f} is better.")
        )
    if not tables:
        return ExperimentFindings(conclusions or [NO_PANEL])
    conclusions.append(
        f"The leading factor is the best one on {leading_is_best} of {testsets} test sets; the paper has it on all six "
        "of its own."
    )
    return ExperimentFindings(conclusions, tables, measures=measures)


def _errors(panel: ExperimentPanel, latent: NDArray[np.float64]) -> dict[str, float]:
    """Return the MAE of each factor at the panel's location and spread, as ``care_svd`` places its own."""
    mean = row_mean(panel.scores.values)
    return {
        f"{panel.testset}/factor {k + 1}": panel.error(to_panel_scale(column, mean)[0])
        for k, column in enumerate(latent.T)
    }


def _as_written(panel: ExperimentPanel, factors: Factors) -> dict[str, float]:
    """Return the MAE of each factor's literal weights on the raw scores (``placement: weights``)."""
    filled, measures = panel.filled(), dict[str, float]()
    for k, direction in enumerate(factors.directions.T):
        try:
            measures[f"{panel.testset}/factor {k + 1} as written"] = panel.error(weighted(filled, direction))
        except FitError:
            continue
    return measures


EXPERIMENT = Experiment(
    key="quality_factor",
    title="Each factor taken for quality in turn",
    asks="Is the leading factor the one that orders the items as gold does?",
    paper="The leading factor has the lowest MAE on all six scoring sets (table, quality-factor selection).",
    protocol=(
        "Every factor of L, signed towards the panel's mean, as E[factor | J]. By order, since a MAE would judge "
        "location and spread, which no factor has of its own. The best factor is named with gold at hand: a diagnosis, "
        "no method."
    ),
    run=factors_in_turn,
)
