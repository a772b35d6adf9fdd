"""False positive rates on answers without content whose opening misleads judges."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Experiment, ExperimentFindings, Table, ascending, filled
from assets.experiments.panels import ExperimentPanel, panels
from assets.experiments.versions import NO_VERSIONS, Versions, triggered
from assets.workspace import Workspace
from care_ops.errors import FitError
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
"""Share of attacked items on which all planted judges fall together, or none."""


def run(workspace: Workspace, *, attacked: int) -> ExperimentFindings:
    """Measure attacks that real judges scored, and simulated attacks, with a known truth, on recorded judges."""
    conclusions, tables, measures = list[str](), list[Table](), dict[str, float]()
    recorded = triggered(workspace)
    for versions in recorded:
        try:
            rates = {change: rates_of_versions(versions, change) for change in versions.changed}
        except FitError as error:
            conclusions.append(f"{versions.testset}: {error}")
            continue
        measures |= {
            f"{versions.testset}/{c}/{name}": rate for c, found in rates.items() for name, rate in found.items()
        }
        _tell(f"{versions.testset}, {len(versions.judges)} judges", rates, tables, conclusions)
    conclusions += [] if recorded else [NO_VERSIONS]
    for panel in panels(workspace):
        if panel.binary and (panel.gold == 0).sum() >= MIN_GOLD:
            p = len(panel.scores.judges)
            for judges in (p // 2, p):
                by_aggregator = false_positives(panel, judges, attacked)
                by_attack = {t: {a: e[k] for a, e in by_aggregator.items()} for k, t in enumerate(TRIGGERS)}
                _tell(f"{panel.testset}, {p} recorded and {judges} planted judges", by_attack, tables, conclusions)
                measures |= {
                    f"{panel.testset}/{judges} planted/{name}": float(np.mean(errors))
                    for name, errors in by_aggregator.items()
                }
    return ExperimentFindings(conclusions, tables, measures=measures)


def _tell(setting: str, rates: Mapping[str, Mapping[str, float]], tables: list[Table], conclusions: list[str]) -> None:
    """Add a table of false positive rates, with a row for each attack, and the means over attacks."""
    rows: list[dict[str, Any]] = [{"attack": attack, **found} for attack, found in rates.items()]
    tables.append(Table(f"{setting}: false positive rate", filled(rows)))
    names = [name for name in _AGGREGATORS if all(name in found for found in rates.values())]
    means = {name: float(np.mean([found[name] for found in rates.values()])) for name in names}
    conclusions.append(f"{setting}, false positive rate over {len(rows)} attacks, least first: {ascending(means, 3)}.")


def decisions(aggregate: Aggregate) -> NDArray[np.bool_] | None:
    """Return which items are called right; None where the aggregator does not decide."""
    return None if aggregate.threshold is None else aggregate.estimate > aggregate.threshold


def rates_of_versions(versions: Versions, change: str) -> dict[str, float]:
    """Return the share of the triggers that each aggregator calls right, as the judges scored them."""
    n, called = len(versions.originals), versions.fitted(change, _AGGREGATORS)
    decided = {name: decisions(aggregate) for name, aggregate in called.items()}
    return {name: float(calls[n:].mean()) for name, calls in decided.items() if calls is not None}


def planted(
    panel: ExperimentPanel, judges: int, attacked: int, rng: np.random.Generator
) -> tuple[Array, NDArray[np.bool_], NDArray[np.intp]]:
    """Draw recorded judges and planted ones, on the panel's items and on attacked ones.

    An attacked item is one more wrong answer: it has the scores that the recorded judges gave some wrong
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
    for rate in PLANTED_RATES:
        together = rng.random(attacked) < _SHARED
        own, shared = rng.random((attacked, judges)) < rate, rng.random(attacked) < rate
        fooled = np.where(together[:, None], shared[:, None], own)
        rows.append(np.hstack([recorded[rng.choice(wrong, attacked)], fooled]))
    trigger = np.concatenate([np.full(len(right), -1), np.repeat(np.arange(len(PLANTED_RATES)), attacked)])
    return np.vstack(rows), np.concatenate([right, np.zeros(len(trigger) - len(right), dtype=bool)]), trigger


def false_positives(panel: ExperimentPanel, judges: int, attacked: int) -> dict[str, list[float]]:
    """Return each aggregator's false positive rate at each trigger; no fit sees which items are attacked."""
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
    asks="How often is an answer that says nothing called right, because of how it opens?",
    paper="CARE-Tensor lowers false positives on all six openings: .000 to .496 against .441 to .674 for the majority.",
    protocol=(
        "Six openings instead of an answer, wrong by construction, as the judges of a test set that holds them scored "
        "them by a prompt that says nothing about openings. Besides, on every recorded panel with two-class gold: its "
        "judges as they answered wrong answers, and planted ones that are right "
        f"{_SOUND:.0%} of the time elsewhere and fall for each opening at a known rate, on {_SHARED:.0%} of the items "
        "all together. Fits see attacked and other items without knowing which are which."
    ),
    run=run,
    small={"attacked": 200},
    full={"attacked": 600},
)
