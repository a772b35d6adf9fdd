"""Experiment that adds program judges to a panel one by one, in an order chosen with a few labels."""

from dataclasses import replace
from functools import partial
from operator import call
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Chart, Experiment, ExperimentFindings, Table, find_or_report, joined
from assets.experiments.panels import DUMMIES, ExperimentPanel, items_of, panels, scored_by, with_columns
from assets.report.charts import Series
from assets.workspace import Workspace
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.scores import Array, ScoreMatrix, varies
from care_ops.selection import forward, validation_items
from judges.programs import find, names
from judges.spec import ProgramEngine

_AGGREGATORS = ("mv", "avg", "uws", "care", "care_svd", "care_tensor")
_GUIDE = "care_svd"
_SHARE = 0.10
_PATIENCE = 4


def run(workspace: Workspace) -> ExperimentFindings:
    """Add programs one by one to each panel with graded gold, and measure the errors of the aggregators."""
    nothing = "Nothing was run: no test set has graded gold and a new program whose scores vary; add both."
    calls = list[partial[ExperimentFindings | None]]()
    for panel in panels(workspace):
        if not panel.binary and any(panel.responses) and (programs := candidates(workspace, panel)).judges:
            literal = replace(panel, config=replace(panel.config, placement="weights"))
            for way, guided in (("", panel), (" as written", literal)):
                calls.append(partial(find_or_report, partial(_path, programs, way), guided))
    return joined(filter(None, workspace.workers.map(call, calls)), nothing)


def candidates(workspace: Workspace, panel: ExperimentPanel) -> ScoreMatrix:
    """Return the scores of the built-in programs that could be added to a panel, on the panel's scale."""
    engines = [workspace.judges[judge].engine for judge in panel.scores.judges if judge in workspace.judges]
    already_judging = {engine.program for engine in engines if isinstance(engine, ProgramEngine)}
    items, columns = items_of(workspace, panel), dict[str, Array]()
    for name in names():
        if name in already_judging or name in DUMMIES or name in panel.scores.judges:
            continue
        column = scored_by(name, items)
        if np.isnan(column).mean() > workspace.admission.max_missing or not varies(column):
            continue
        (low, high), (a, b) = find(name).scale, panel.config.scale or find(name).scale
        columns[name] = a + (column - low) / (high - low) * (b - a)
    return with_columns(panel.scores.select_judges([]), columns, {name: find(name).family for name in columns})


def greedy(
    panel: ExperimentPanel, programs: ScoreMatrix, validation: NDArray[np.bool_]
) -> tuple[list[str], list[float]]:
    """Choose programs by greedy forward selection; return the names, and the error of ``care_svd`` at each step.

    ``validation`` marks the rows whose gold may be used for the choice, shape (n,).
    """

    def error(added: list[str]) -> float:
        try:
            config = replace(panel.config, aggregators=(_GUIDE,))
            fitted = fit_panel(_with(panel, programs, added), config, solve="roughly")
        except FitError:  # these judges have no shared factor
            return float("inf")
        return panel.error(fitted.aggregates[_GUIDE].estimate, validation)

    return forward(sorted(programs.judges), error, _PATIENCE)


def _with(panel: ExperimentPanel, programs: ScoreMatrix, added: list[str]) -> ScoreMatrix:
    chosen = programs.select_judges(added)
    return with_columns(panel.scores, dict(zip(added, chosen.values.T, strict=True)), chosen.families)


def _path(programs: ScoreMatrix, way: str, panel: ExperimentPanel) -> ExperimentFindings:
    validation = validation_items(panel.units, _SHARE, np.random.default_rng([0, 61])) & ~np.isnan(panel.gold)
    path, errors = greedy(panel, programs, validation)
    rest, kept = ~validation & ~np.isnan(panel.gold), int(np.argmin(errors))
    config = replace(panel.config, aggregators=_AGGREGATORS)
    rows: list[dict[str, Any]] = []
    for k in range(len(path) + 1):
        fits = fit_panel(_with(panel, programs, path[:k]), config).aggregates
        row: dict[str, Any] = {"programs": k, "added": path[k - 1] if k else "none", "validation error": errors[k]}
        rows.append(row | {name: panel.error(aggregate.estimate, rest) for name, aggregate in fits.items()})
    last = {name: rows[kept][name] for name in _AGGREGATORS if name in rows[kept]}
    measures = {f"{panel.testset}/programs kept{way}": float(kept)}
    if _GUIDE in last:
        below = {name: 100 * (1 - last[_GUIDE] / error) for name, error in last.items() if error > 0}
        measures |= {f"{panel.testset}/MAE below {name} in percent{way}": value for name, value in below.items()}
    moved = ", ".join(f"{name} {rows[0][name]:.3f} to {error:.3f}" for name, error in last.items() if name in rows[0])
    names, title = ", ".join(path[:kept]) or "none", f"{panel.testset}{way}: MAE on items not used for the choice"
    by_name = {name: [row for row in rows if name in row] for name in _AGGREGATORS}
    curves = [Series(n, [float(r["programs"]) for r in of], [r[n] for r in of]) for n, of in by_name.items() if of]
    return ExperimentFindings(
        [f"{panel.testset}{way}: {kept} of {len(programs.judges)} programs kept ({names}); change of MAE: {moved}."],
        [Table(title, rows)],
        [Chart(title, "programs added", "MAE", curves)],
        measures,
    )


EXPERIMENT = Experiment(
    key="program_integration",
    title="Adding programs with a few labels",
    paper="With eight programs added to ten models on FeedbackQA, CARE's MAE is 15.2 % below MV's, 11.1 % below UWS's.",
    protocol=(
        "Ten percent of the items, drawn by split unit, are used to choose programs. Each step adds the program that "
        "gives care_svd the smallest MAE on these items. The search stops after four steps without improvement and "
        "keeps the set with the smallest MAE. All aggregators are evaluated on the other items. Programs are rescaled "
        "to the test set's scale; dummy judges are left out. `care_svd as written` applies its weights to raw scores."
    ),
    run=run,
)
EXPERIMENTS = (EXPERIMENT,)
