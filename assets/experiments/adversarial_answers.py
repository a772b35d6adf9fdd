"""False positive rates on answers without content whose opening misleads judges."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Experiment, ExperimentFindings, Table, ascending, for_each, joined
from assets.experiments.panels import ExperimentPanel, panels
from assets.experiments.versions import NO_VERSIONS, Versions, triggered
from assets.workspace import Workspace
from care_ops.fit import fit_panel
from care_ops.minimum_sizes import MIN_GOLD
from care_ops.records import Aggregate
from care_ops.scores import Array, ScoreMatrix
from warehouse.versions import TRIGGERS

_AGGREGATORS = ("mv", "avg", "ws", "dawid_skene", "care", "care_svd", "care_tensor", "care_tensor_paper")

PLANTED_RATES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)
"""How often planted judges call a trigger right, one a trigger: from hardly ever to nearly always."""

_SOUND = 0.85
"""How often planted judges are right where there is no trigger."""

_SHARED = 0.5
"""Share of attacked items on which all planted judges give the same score."""


def run(workspace: Workspace, *, attacked: int) -> ExperimentFindings:
    """Measure attacks: real attacks that judges scored, and attacks simulated on recorded judges with a known truth."""
    scored = for_each(triggered(workspace), _of_versions, NO_VERSIONS)
    return joined([scored, for_each(panels(workspace), partial(_of_panel, attacked), "No panel has two-class gold.")])


def _of_versions(versions: Versions) -> ExperimentFindings:
    rates = {change: rates_of_versions(versions, change) for change in versions.changed}
    measures = {f"{versions.testset}/{c}/{name}": rate for c, found in rates.items() for name, rate in found.items()}
    return _findings(f"{versions.testset}, {len(versions.judges)} judges", rates, measures)


def _of_panel(attacked: int, panel: ExperimentPanel) -> ExperimentFindings | None:
    if not panel.binary or (panel.gold == 0).sum() < MIN_GOLD:
        return None
    p, parts = len(panel.scores.judges), list[ExperimentFindings]()
    for judges in (p // 2, p):
        by_aggregator = false_positives(panel, judges, attacked)
        by_attack = {t: {a: e[k] for a, e in by_aggregator.items()} for k, t in enumerate(TRIGGERS)}
        measures = {f"{panel.testset}/{judges} planted/{a}": float(np.mean(e)) for a, e in by_aggregator.items()}
        parts.append(_findings(f"{panel.testset}, {p} recorded and {judges} planted judges", by_attack, measures))
    return joined(parts)


def _findings(setting: str, rates: Mapping[str, Mapping[str, float]], measures: dict[str, float]) -> ExperimentFindings:
    """Lay out false positive rates, with a row for each attack, and their means over attacks."""
    rows: list[dict[str, Any]] = [{"attack": attack, **found} for attack, found in rates.items()]
    names = [name for name in _AGGREGATORS if all(name in found for found in rates.values())]
    means = ascending({name: float(np.mean([found[name] for found in rates.values()])) for name in names}, 3)
    conclusion = f"{setting}, mean false positive rate over {len(rows)} attacks: {means}."
    return ExperimentFindings([conclusion], [Table(f"{setting}: false positive rate", rows)], measures=measures)


def decisions(aggregate: Aggregate) -> NDArray[np.bool_] | None:
    """Decide which items are right; None if the aggregator does not decide."""
    return None if aggregate.threshold is None else aggregate.estimate > aggregate.threshold


def rates_of_versions(versions: Versions, change: str) -> dict[str, float]:
    """Return the share of the triggers that each aggregator accepts as right, from the judges' scores."""
    n, called = len(versions.originals), versions.fitted(change, _AGGREGATORS)
    decided = {name: decisions(aggregate) for name, aggregate in called.items()}
    return {name: float(calls[n:].mean()) for name, calls in decided.items() if calls is not None}


def planted(
    panel: ExperimentPanel, judges: int, attacked: int, rng: np.random.Generator
) -> tuple[Array, NDArray[np.bool_], NDArray[np.intp]]:
    """Draw recorded judges and planted ones, on the panel's items and on attacked ones.

    An attacked item is one more wrong answer, with the scores that the recorded judges gave some wrong answer. Return
    scores (n + attacked times triggers, p + judges), 1 is correct; whether each is right; and its trigger, -1 on the
    panel's own items.
    """
    cut = 0.5 if panel.config.cut is None else panel.config.cut
    known = ~np.isnan(panel.gold)
    values, right = panel.scores.values[known], panel.gold[known] > 0.5
    recorded = np.where(np.isnan(values), np.nan, values > cut)
    sound = np.where(rng.random((len(right), judges)) < _SOUND, right[:, None], ~right[:, None])
    rows, wrong = [np.hstack([recorded, sound])], np.flatnonzero(~right)
    for rate in PLANTED_RATES:
        together = rng.random(attacked) < _SHARED
        own, shared = rng.random((attacked, judges)) < rate, rng.random(attacked) < rate
        fooled = np.where(together[:, None], shared[:, None], own)
        rows.append(np.hstack([recorded[rng.choice(wrong, attacked)], fooled]))
    trigger = np.concatenate([np.full(len(right), -1), np.repeat(np.arange(len(PLANTED_RATES)), attacked)])
    return np.vstack(rows), np.concatenate([right, np.zeros(len(trigger) - len(right), dtype=bool)]), trigger


def false_positives(panel: ExperimentPanel, judges: int, attacked: int) -> dict[str, list[float]]:
    """Return each aggregator's false positive rate at each trigger. The fit does not know which items are attacked."""
    scores, _, trigger = planted(panel, judges, attacked, np.random.default_rng([judges, 51]))
    names = (*panel.scores.judges, *(f"planted {k + 1}" for k in range(judges)))
    matrix = ScoreMatrix(scores, tuple(f"i{k:06}" for k in range(len(scores))), names, panel.scores.families)
    config = replace(panel.config, aggregators=_AGGREGATORS, cut=0.5, scale=(0.0, 1.0))
    fits = {name: decisions(aggregate) for name, aggregate in fit_panel(matrix, config).aggregates.items()}
    return {
        name: [float(calls[trigger == t].mean()) for t in range(len(PLANTED_RATES))]
        for name, calls in fits.items()
        if calls is not None
    }


EXPERIMENT = Experiment(
    key="adversarial_answers",
    title="Adversarial answers",
    paper="CARE-Tensor lowers false positives on all six openings: .000 to .496 against .441 to .674 for the majority.",
    protocol=(
        "Six openings without an answer, wrong by construction, scored by a prompt that does not mention openings. "
        "In addition, every recorded panel with two-class gold: its judges score an attacked item as they scored some "
        f"wrong answer; planted judges are right {_SOUND:.0%} of the time elsewhere and accept each opening at a known "
        f"rate, on {_SHARED:.0%} of the items all together. No fit sees which items are attacked."
    ),
    run=run,
    small={"attacked": 200},
    full={"attacked": 600},
)
