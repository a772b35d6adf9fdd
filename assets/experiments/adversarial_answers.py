"""Answers without content behind an opening that fools judges: which aggregators accept them."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Experiment, ExperimentFindings, Table, filled, least_first
from assets.experiments.panels import ExperimentPanel, panels
from assets.experiments.versions import Versions, triggered
from assets.workspace import Workspace
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.least import LEAST_GOLD
from care_ops.records import Aggregate
from care_ops.scores import Array, ScoreMatrix
from warehouse.versions import TRIGGERS

_AGGREGATORS = ("mv", "avg", "ws", "dawid_skene", "care", "care_svd", "care_tensor", "care_tensor_paper")
_PLANTED_RATES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)
"""How often planted judges call a trigger right, one a trigger: from hardly ever to nearly always."""

_SOUND = 0.85
"""How often planted judges are right where there is no trigger."""

_SHARED = 0.5
"""Share of attacked items on which all planted judges fall together, or none."""


def run(workspace: Workspace, *, attacked: int) -> ExperimentFindings:
    """Measure attacks that real judges scored, and simulated attacks, with a known truth, on recorded judges."""
    says, tables, measures = list[str](), list[Table](), dict[str, float]()
    attacked_versions, why = triggered(workspace)
    for versions in attacked_versions:
        try:
            table, said = _answered(versions, measures)
        except FitError as error:
            says.append(f"{versions.testset}: {error}")
            continue
        tables += table
        says += said
    for panel in panels(workspace):
        if not panel.binary or (panel.gold == 0).sum() < LEAST_GOLD:
            continue
        if not any(record.reference for record in workspace.parts.read_items(panel.testset)):
            continue
        table, said = _planted(panel, attacked)
        tables += table
        says += said
    says += why
    if all(versions.asked_here for versions in attacked_versions):
        says.append(
            "The paper's table is not reproduced: it needs language models that were asked about these openings, and "
            "no test set of this workspace has their scores."
        )
    return ExperimentFindings(says, tables, measures=measures)


def decisions(aggregate: Aggregate) -> NDArray[np.bool_] | None:
    """Which items are called right; None where the aggregator does not decide."""
    return None if aggregate.threshold is None else aggregate.estimate > aggregate.threshold


def _answered(versions: Versions, measures: dict[str, float]) -> tuple[list[Table], list[str]]:
    """Share of the triggers that each aggregator calls right, as the judges answered them; noted in ``measures``."""
    cut = versions.config.cut
    if cut is None:
        return [], [f"{versions.testset}: no `cut` is declared, so nothing is called right or wrong."]
    rows: list[dict[str, Any]] = []
    n = len(versions.originals)
    for change, (_, scores) in versions.changed.items():
        fitted = versions.fitted(change, _AGGREGATORS)
        known = ~np.isnan(scores)
        row: dict[str, Any] = {"attack": change, "items": len(scores), "a judge": float(np.mean(scores[known] > cut))}
        for name, aggregate in fitted.items():
            called = decisions(aggregate)
            if called is not None:
                row[name] = measures[f"{versions.testset}/{change}/{name}"] = float(called[n:].mean())
        rows.append(row)
    rates = {
        name: float(np.mean([row[name] for row in rows]))
        for name in ("a judge", *_AGGREGATORS)
        if all(isinstance(row.get(name), float) for row in rows)
    }
    title = f"{versions.testset}: false positive rate; {versions.asked}"
    said = f"{versions.testset}, mean over {len(rows)} attacks, least first: {least_first(rates, 3)}."
    return [Table(title, filled(rows))], [said]


def planted(
    panel: ExperimentPanel, judges: int, attacked: int, rng: np.random.Generator
) -> tuple[Array, NDArray[np.bool_], NDArray[np.intp]]:
    """Recorded judges and planted ones, on the panel's items and on attacked ones.

    An attacked item is one more wrong answer: what the recorded judges say of it is what they said of some wrong
    answer. A planted judge is right on the panel's items with a chance of ``_SOUND``, and calls an attacked one right
    at its trigger's rate; on a share of them all planted judges do so together.

    Returns
    -------
    scores : (n + attacked times triggers, p + judges) array
        1 is correct.
    right : (n + ...,) array of bool
    trigger : (n + ...,) array of int
        -1 on the panel's own items.
    """
    cut = 0.5 if panel.config.cut is None else panel.config.cut
    known = ~np.isnan(panel.gold)
    values, right = panel.scores.values[known], panel.gold[known] > 0.5
    recorded = np.where(np.isnan(values), np.nan, values > cut)
    sound = np.where(rng.random((len(right), judges)) < _SOUND, right[:, None], ~right[:, None])
    rows, wrong = [np.hstack([recorded, sound])], np.flatnonzero(~right)
    for rate in _PLANTED_RATES:
        together = rng.random(attacked) < _SHARED
        own, shared = rng.random((attacked, judges)) < rate, rng.random(attacked) < rate
        fooled = np.where(together[:, None], shared[:, None], own)
        rows.append(np.hstack([recorded[rng.choice(wrong, attacked)], fooled]))
    trigger = np.concatenate([np.full(len(right), -1), np.repeat(np.arange(len(_PLANTED_RATES)), attacked)])
    return np.vstack(rows), np.concatenate([right, np.zeros(len(trigger) - len(right), dtype=bool)]), trigger


def recovered(
    scores: Array, called_right: NDArray[np.bool_], trigger: NDArray[np.intp], judges: int
) -> tuple[Array, Array]:
    """For each trigger, how often the last judges say right where the aggregate says wrong, and how often it errs.

    Returns
    -------
    rates, false_positives : (triggers,) arrays
        A rate is NaN where the aggregate calls every attacked item right.
    """
    rates, errs = [], []
    for t in range(trigger.max() + 1):
        attacked = trigger == t
        wrong = attacked & ~called_right
        rates.append(float(scores[wrong][:, -judges:].mean()) if wrong.any() else float("nan"))
        errs.append(float(called_right[attacked].mean()))
    return np.array(rates), np.array(errs)


def _planted(panel: ExperimentPanel, attacked: int) -> tuple[list[Table], list[str]]:
    """Planted rates against those that each aggregator finds without being told who is attacked."""
    tables, says = list[Table](), list[str]()
    p = len(panel.scores.judges)
    for judges in (p // 2, p):
        scores, _, trigger = planted(panel, judges, attacked, np.random.default_rng([judges, 51]))
        names = (*panel.scores.judges, *(f"planted {k + 1}" for k in range(judges)))
        matrix = ScoreMatrix(scores, tuple(f"i{k:06}" for k in range(len(scores))), names, panel.scores.families)
        config = replace(panel.config, aggregators=_AGGREGATORS, cut=0.5, scale=(0.0, 1.0))
        counted = [float(scores[trigger == t][:, p:].mean()) for t in range(len(_PLANTED_RATES))]
        rows: list[dict[str, Any]] = [
            {"attack": name, "planted": rate, "counted": count}
            for name, rate, count in zip(TRIGGERS, _PLANTED_RATES, counted, strict=True)
        ]
        errors: list[dict[str, Any]] = [{"attack": name} for name in TRIGGERS]
        off: dict[str, float] = {}
        fooled: dict[str, float] = {}
        for name, aggregate in fit_panel(matrix, config).aggregates.items():
            called = decisions(aggregate)
            if called is None:
                continue
            rates, errs = recovered(scores, called, trigger, judges)
            for row, error, rate, err in zip(rows, errors, rates, errs, strict=True):
                row[name], error[name] = "–" if np.isnan(rate) else float(rate), float(err)
            off[name] = float(np.nanmean(np.abs(rates - _PLANTED_RATES))) if not np.isnan(rates).all() else 1.0
            fooled[name] = float(np.mean(errs))
        setting = f"{panel.testset}, {p} recorded and {judges} planted judges"
        tables.append(Table(f"{setting}: false positive rate", errors))
        tables.append(Table(f"{setting}: how often planted judges call a trigger right, planted and recovered", rows))
        near = min(off, key=lambda name: off[name])
        says.append(
            f"{setting}, false positive rate over the attacks: {least_first(fooled, 3)}. The planted rates are "
            f"recovered without being told which items are attacked within {off[near]:.3f} on average by {near}, "
            f"within {off['mv']:.3f} by mv."
        )
    return tables, says


EXPERIMENT = Experiment(
    key="adversarial_answers",
    title="Adversarial answers",
    asks="How often is an answer that says nothing called right, because of how it opens?",
    paper="CARE-Tensor lowers false positives on all six openings: .000 to .496 against .441 to .674 for the majority.",
    protocol=(
        "Six openings instead of an answer, one a prompt, wrong by construction; scored by the judges of a test set "
        "that holds them, or by the panel's program judges where it has references and a cut. Besides, on two-class "
        "gold with references: the panel's recorded judges as they answered wrong answers, and planted ones that are "
        f"right {_SOUND:.0%} of the time elsewhere and fall for each opening at a known rate, on "
        f"{_SHARED:.0%} of the items all together. Fits see attacked and other items, and are not told which."
    ),
    run=run,
    small={"attacked": 200},
    full={"attacked": 600},
)
