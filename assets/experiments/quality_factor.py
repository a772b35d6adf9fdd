"""Order of the items if each factor of L in turn is taken for quality."""

from contextlib import suppress

import numpy as np

from assets.experiments.base import Experiment, ExperimentFindings, Table, for_each, joined
from assets.experiments.panels import NO_PANEL, ExperimentPanel, factored, panels
from assets.workspace import Workspace
from care_ops.aggregators.base import row_mean
from care_ops.aggregators.care_svd import weighted
from care_ops.calibration import to_panel_scale
from care_ops.errors import FitError


def run(workspace: Workspace) -> ExperimentFindings:
    """Measure the order that each factor gives, with its sign set by the panel's mean."""
    found = for_each(panels(workspace), _of_panel, NO_PANEL)
    best = [value for name, value in found.measures.items() if name.endswith("/best factor")]
    if not best:
        return found
    total = ExperimentFindings(
        [
            f"The leading factor is the best one on {best.count(1)} of {len(best)} test sets; the paper has it on all "
            "six of its own."
        ]
    )
    return joined([found, total])


def _of_panel(panel: ExperimentPanel) -> ExperimentFindings:
    latent, factors = factored(panel.scores, panel.config.structure)
    orders = [panel.order(column) for column in latent.T]
    rows = [
        {
            "factor": k + 1,
            "share of tr L": float(strength / factors.strengths.sum()),
            "correlation with the mean": float(factors.agreements[k]),
            "AUC" if panel.binary else "Kendall tau": orders[k],
        }
        for k, strength in enumerate(factors.strengths)
    ]
    best = int(np.nanargmax(orders))
    conclusion = f"{panel.testset}: the leading of {len(rows)} factors orders at {orders[0]:.3f}" + (
        ", the best of them." if best == 0 else f"; factor {best + 1} at {orders[best]:.3f} is better."
    )
    measures = {f"{panel.testset}/best factor": float(best + 1)}
    if not panel.binary:
        mean = row_mean(panel.scores.values)
        for k, (column, direction) in enumerate(zip(latent.T, factors.directions.T, strict=True)):
            # at the panel's location and spread, as `care_svd` places its own; as written, the literal weights
            measures[f"{panel.testset}/factor {k + 1}"] = panel.error(to_panel_scale(column, mean)[0])
            with suppress(FitError):
                literal = weighted(panel.filled(), direction)
                measures[f"{panel.testset}/factor {k + 1} as written"] = panel.error(literal)
    return ExperimentFindings([conclusion], [Table(panel.testset, rows)], measures=measures)


EXPERIMENT = Experiment(
    key="quality_factor",
    title="Each factor taken for quality in turn",
    paper="The leading factor has the lowest MAE on all six scoring sets (table, quality-factor selection).",
    protocol=(
        "Every factor of L, signed towards the panel's mean, as E[factor | J]. The table compares order, because a "
        "factor has no location or spread of its own. The best factor is chosen with gold: a diagnosis, not a method."
    ),
    run=run,
)
EXPERIMENTS = (EXPERIMENT,)
