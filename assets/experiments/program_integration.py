"""Programs added to a panel one by one, chosen by a few labels, and the gain on rows that had no part in the choice."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Chart, Experiment, ExperimentFindings, Table, filled
from assets.experiments.panels import (
    DUMMIES,
    NO_PANEL,
    ExperimentPanel,
    gains_in_order,
    items_of,
    panels,
    program_of,
    scored_by,
)
from assets.report.charts import Series
from assets.workspace import Workspace
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.records import Aggregate
from care_ops.scores import Array, ScoreMatrix, varies
from care_ops.selection import forward, validation_items
from judges.programs import find, names

_AGGREGATORS = ("mv", "avg", "uws", "care", "care_svd", "care_tensor")
_GUIDE = "care_svd"
_SHARE = 0.10
_PATIENCE = 4


@dataclass(frozen=True)
class Candidate:
    """A program's scores on a panel's items, (n,), on its scale; and its declared family."""

    scores: Array
    family: str


def run(workspace: Workspace, *, resamples: int) -> ExperimentFindings:
    """Make a path for each test set that has texts."""
    says, tables, figures, measures = list[str](), list[Table](), list[Chart](), dict[str, float]()
    for panel in panels(workspace):
        if all(not text for text in panel.responses):
            says.append(f"{panel.testset}: its items carry no responses for a program to read.")
            continue
        programs = candidates(workspace, panel)
        if not programs:
            says.append(f"{panel.testset}: no program that is not there already tells its items apart.")
            continue
        table, charts, sentence, found = _path(panel, programs, resamples)
        tables.append(table)
        figures += charts
        says.append(sentence)
        measures |= found
        if not panel.binary:  # CARE-SVD as the paper writes it guides once more
            literal = replace(panel, config=replace(panel.config, placement="weights"))
            *_, sentence, found = _path(literal, programs, resamples)
            says.append(sentence.replace(panel.testset, f"{panel.testset}, as written", 1))
            measures |= {f"{name} as written": value for name, value in found.items()}
    return ExperimentFindings(says or [NO_PANEL], tables, figures, measures)


def candidates(workspace: Workspace, panel: ExperimentPanel) -> dict[str, Candidate]:
    """Scores by program that the panel lacks, on its scale; dummies, and those that score all alike, stay out."""
    already_judging = {program_of(workspace, judge) for judge in panel.scores.judges}
    items, by_name = items_of(workspace, panel), dict[str, Candidate]()
    for name in names():
        if name in already_judging or name in DUMMIES or name in panel.scores.judges:
            continue
        column = scored_by(name, items)
        if np.isnan(column).mean() > workspace.admission.max_missing or not varies(column):
            continue
        (low, high), (a, b) = find(name).scale, panel.config.scale or find(name).scale
        by_name[name] = Candidate(a + (column - low) / (high - low) * (b - a), find(name).family)
    return by_name


def greedy(
    panel: ExperimentPanel, programs: dict[str, Candidate], validation: NDArray[np.bool_]
) -> tuple[list[str], list[float]]:
    """Programs in the order in which they were added (``care_ops.selection.forward``), and the guide's errors.

    ``validation``, (n,), marks the rows whose gold the choice may use.
    """
    return forward(sorted(programs), lambda added: _error(panel, programs, added, validation), _PATIENCE)


def _error(panel: ExperimentPanel, programs: dict[str, Candidate], added: list[str], rows: NDArray[np.bool_]) -> float:
    """Mean absolute error of the guide on these rows; one less its AUC where gold is two classes."""
    try:
        config = replace(panel.config, aggregators=(_GUIDE,))
        estimate = fit_panel(_with(panel, programs, added), config, solve="roughly").aggregates[_GUIDE].estimate
    except FitError:  # these judges have no shared factor: no answer is the worst answer
        return float("inf")
    if panel.binary:
        order = panel.order(estimate, np.flatnonzero(rows))
        return float("inf") if np.isnan(order) else 1 - order
    return panel.error(estimate, rows)


def _with(panel: ExperimentPanel, programs: dict[str, Candidate], added: list[str]) -> ScoreMatrix:
    scores = panel.scores
    values = np.column_stack([scores.values, *(programs[name].scores for name in added)])
    families = {**scores.families, **{name: programs[name].family for name in added}}
    return ScoreMatrix(values, scores.item_ids, (*scores.judges, *added), families)


def _path(
    panel: ExperimentPanel, programs: dict[str, Candidate], resamples: int
) -> tuple[Table, list[Chart], str, dict[str, float]]:
    """Every aggregator along the path, on the rows that had no part in the choice; measures for the ledger."""
    validation = validation_items(panel.units, _SHARE, np.random.default_rng([0, 61])) & ~np.isnan(panel.gold)
    path, errors = greedy(panel, programs, validation)
    rest = ~validation & ~np.isnan(panel.gold)
    kept = int(np.argmin(errors))
    config = replace(panel.config, aggregators=_AGGREGATORS)
    fits = [fit_panel(_with(panel, programs, path[:k]), config).aggregates for k in range(len(path) + 1)]
    order = "AUC" if panel.binary else "Kendall tau"
    rows: list[dict[str, Any]] = []
    for k, found in enumerate(fits):
        row: dict[str, Any] = {
            "programs": k,
            "added": path[k - 1] if k else "none",
            "validation error": errors[k],
            "kept": "yes" if 0 < k <= kept else "",
        }
        rows.append(row | {name: panel.order(a.estimate, np.flatnonzero(rest)) for name, a in found.items()})
    charts = [_chart(f"{panel.testset}: {order} on the other rows", order, rows)]
    gain = "no program was kept"
    if kept and all(_GUIDE in fits[k] for k in (0, kept)):
        guide = (fits[0][_GUIDE], fits[kept][_GUIDE])
        gain = "with them {}'s {} there changes by {:+.3f} ({:+.3f} to {:+.3f})".format(
            _GUIDE, order, *_gain(panel, guide, rest, resamples)
        )
        others = ", ".join(
            f"{name} {rows[kept][name] - rows[0][name]:+.3f}"
            for name in _AGGREGATORS
            if name != _GUIDE and name in rows[0] and name in rows[kept]
        )
        gain += f", the others' by {others}"
        if not panel.binary:
            before, after = (panel.error(a.estimate, rest) for a in guide)
            gain += f"; {_GUIDE}'s MAE from {before:.3f} to {after:.3f}"
    sentence = (
        f"{panel.testset}: of {len(programs)} programs {kept} are kept ({', '.join(path[:kept]) or 'none'}); {gain}. "
        f"On the validation rows its error fell from {errors[0]:.3f} to {min(errors):.3f}."
    )
    measures = {f"{panel.testset}/programs kept": float(kept)}
    if not panel.binary:
        errors_of = {name: panel.error(a.estimate, rest) for name, a in fits[kept].items()}
        measures |= {
            f"{panel.testset}/MAE below {name} in percent": 100 * (1 - errors_of[_GUIDE] / error)
            for name, error in errors_of.items()
            if _GUIDE in errors_of and error > 0
        }
    table = Table(f"{panel.testset}: {order} on the other rows, along the path", filled(rows))
    return table, charts, sentence, measures


def _gain(
    panel: ExperimentPanel, aggregates: tuple[Aggregate, Aggregate], rest: NDArray[np.bool_], resamples: int
) -> tuple[float, float, float]:
    """The second order less the first one, with its interval over resampled split units."""
    before, after = (aggregate.estimate for aggregate in aggregates)
    rows = np.flatnonzero(rest)
    low, high = gains_in_order(panel, before, {_GUIDE: after}, rows, resamples, 62).get(_GUIDE, (np.nan, np.nan))
    return panel.order(after, rows) - panel.order(before, rows), low, high


def _chart(title: str, order: str, rows: list[dict[str, Any]]) -> Chart:
    curves: list[Series] = []
    for name in _AGGREGATORS:
        points = [(row["programs"], row[name]) for row in rows if isinstance(row.get(name), float)]
        if points:
            curves.append(Series(name, [float(k) for k, _ in points], [value for _, value in points]))
    return Chart(title, "programs added", order, curves)


EXPERIMENT = Experiment(
    key="program_integration",
    title="Integrating programs by a few labels",
    asks="Does a panel gain by program judges that are added greedily, as a few labels like them?",
    paper="Eight programs are added to FeedbackQA's ten models; MAE falls by 15.2 % against MV, 11.1 % against UWS.",
    protocol=(
        "Ten percent of the items, by split unit, choose: each step adds the program with which care_svd errs least on "
        "them (MAE; one less AUC where gold is two classes), until four steps brought no gain; what is kept ends at "
        "the least error. Every aggregator is then measured along the same path on the other rows. Programs are put "
        "on the test set's scale; the dummies are no candidates. Intervals resample split units."
    ),
    run=run,
    small={"resamples": 200},
    full={"resamples": 1_000},
)
