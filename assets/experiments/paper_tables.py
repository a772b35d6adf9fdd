"""Experiment that computes the paper's aggregation tables from the available data, by the paper's protocol."""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Experiment, ExperimentFindings, Table, for_each
from assets.experiments.panels import ExperimentPanel, panels
from assets.workspace import Workspace
from care_ops.config import LABEL_FREE, PAPER_PROFILE
from care_ops.fit import fit_panel
from care_ops.minimum_sizes import MIN_GOLD, MIN_JUDGES
from care_ops.moments.sharded import Spread
from care_ops.records import Aggregate
from care_ops.scores import Array, ScoreMatrix, varies
from care_ops.selection import Penalised, fit_grid
from warehouse.catalog import names
from warehouse.matrix import read_scores

_TUNED: dict[Penalised, str] = {"care_svd": "care_svd as written", "care_tensor_paper": "care_tensor_paper"}
"""Aggregators whose penalties are chosen by labels (Algorithms 1 and 2), with their names in the tables."""

_LABEL_FREE = tuple(n for n in LABEL_FREE if n in (*PAPER_PROFILE["aggregators"], "care", "care_tensor"))

_SHARE = 0.15

_MOST_MISSING = 0.10

_ALL, _COMPLETE = "all items", "items that all judges scored"

NO_SETS = (
    "Nothing was run: no test set with scores and gold is from the paper. To add the authors' published scores, clone "
    "their repository into a folder CLONE and run `care testsets add --released CLONE`."
)


def run(workspace: Workspace, *, splits: int) -> ExperimentFindings:
    """Measure the accuracy or the error of the aggregators on each available test set of the paper."""
    found = (p for p in panels(workspace) if any(name in p.testset.lower() for name in names()))
    return for_each(found, partial(_of_panel, workspace, splits), NO_SETS)


def _of_panel(workspace: Workspace, splits: int, panel: ExperimentPanel) -> ExperimentFindings:
    scores, dropped = recorded(workspace, panel)
    gold_of = dict(zip(panel.scores.item_ids, panel.gold, strict=True))
    measures, columns = dict[str, float](), dict[str, dict[str, str]]()
    complete = scores.select_items(np.asarray(~np.isnan(scores.values).any(axis=1)))
    for which, kept in ((_ALL, scores), (_COMPLETE, complete)):
        gold = np.array([gold_of.get(item, np.nan) for item in kept.item_ids])
        if (~np.isnan(gold)).sum() < MIN_GOLD or len(kept.judges) < MIN_JUDGES:
            continue
        errors: dict[str, tuple[float, ...]] = {name: (e,) for name, e in label_free(panel, kept, gold).items()}
        if which == _COMPLETE:
            for aggregator, name in _TUNED.items():
                if aggregator == "care_tensor_paper" and not panel.binary:
                    continue
                if held_out := tuned(panel, kept, gold, aggregator, splits, workspace.workers.map):
                    errors[name] = float(np.mean(held_out)), float(np.std(held_out))
        columns[which] = {name: " ± ".join(f"{number:.3f}" for number in found) for name, found in errors.items()}
        for name, found in errors.items():
            for part, number in zip(("", ", sd"), found, strict=False):
                measures[f"{panel.testset}/{name}/{which}{part}"] = number
    rows = [
        {"aggregator": name, **{which: found[name] for which, found in columns.items() if name in found}}
        for name in dict.fromkeys(name for found in columns.values() for name in found)
    ]
    metric = "accuracy" if panel.binary else "MAE"
    conclusion = f"{panel.testset}: {metric} over the items that all judges scored: " + (
        (", ".join(f"{name} {value}" for name, value in columns.get(_COMPLETE, {}).items()) or "too few to measure")
        + (f". Judges with over {_MOST_MISSING:.0%} missing, left out: {', '.join(dropped)}." if dropped else ".")
    )
    table = Table(f"{panel.testset}: {metric}, {len(scores.judges)} recorded judges", rows)
    return ExperimentFindings([conclusion], [table], measures=measures)


def recorded(workspace: Workspace, panel: ExperimentPanel) -> tuple[ScoreMatrix, list[str]]:
    """Return the scores of judges that scored at least 90 % of the items, and the names of the other judges.

    The paper applies only this rule, so judges that CARE rejects for other reasons stay.
    """
    with workspace.warehouse.reader() as connection:
        scores = read_scores(connection, panel.testset)
    missing = dict(zip(scores.judges, np.isnan(scores.values).mean(axis=0), strict=True))
    kept = [judge for judge in scores.judges if missing[judge] <= _MOST_MISSING]
    return scores.select_judges(kept), sorted(set(scores.judges) - set(kept))


def label_free(panel: ExperimentPanel, scores: ScoreMatrix, gold: Array) -> dict[str, float]:
    """Fit the aggregators without labels; return each aggregator's accuracy if gold is binary, otherwise its MAE."""
    aggregates = fit_panel(scores, replace(panel.config, aggregators=_LABEL_FREE)).aggregates
    decided = {n: a for n, a in aggregates.items() if not panel.binary or a.threshold is not None}
    everything = np.ones(len(gold), dtype=bool)
    return {name: error_of(panel.binary, aggregate, gold, everything) for name, aggregate in decided.items()}


def tuned(
    panel: ExperimentPanel, scores: ScoreMatrix, gold: Array, aggregator: Penalised, splits: int, spread: Spread = map
) -> list[float]:
    """Return an algorithm's accuracy if gold is binary, otherwise its MAE, on the held-out items of each random split.

    Penalties from the paper's grid are chosen on 15 % of the items; the other items are held out. The result is empty
    if no penalties give an estimate. A judge with constant scores has no correlation and is left out.
    """
    written = replace(panel.config, placement="weights")
    scores = scores.select_judges(
        [j for j, column in zip(scores.judges, scores.values.T, strict=True) if varies(column)]
    )
    answers = [c.aggregate for c in fit_grid(scores, written, aggregator, spread=spread) if c.aggregate is not None]
    best, held_out = max if panel.binary else min, list[float]()
    for seed in range(splits if answers else 0):
        order = np.random.default_rng([seed, 51]).permutation(len(gold))
        may_choose = np.isin(np.arange(len(gold)), order[: int(_SHARE * len(gold))])
        choice = best(answers, key=lambda answer: error_of(panel.binary, answer, gold, may_choose))
        held_out.append(error_of(panel.binary, choice, gold, ~may_choose))
    return held_out


def error_of(binary: bool, aggregate: Aggregate, gold: Array, rows: NDArray[np.bool_]) -> float:
    """Return the accuracy for binary gold, otherwise the mean absolute error, over the items that ``rows`` selects."""
    known = rows & ~np.isnan(aggregate.estimate) & ~np.isnan(gold)
    if binary:
        assert aggregate.threshold is not None
        return float(np.mean(((aggregate.estimate > aggregate.threshold) == (gold > 0.5))[known]))
    return float(np.mean(np.abs(aggregate.estimate - gold)[known]))


EXPERIMENT = Experiment(
    key="paper_tables",
    title="The paper's tables of MAE and accuracy, computed by the paper's protocol",
    paper="One table shows MAE on six sets of scores; another shows accuracy on six sets of classes or preferences.",
    protocol=(
        "Judges with more than 10 % missing scores are dropped; all others stay. `as written` means Algorithm 1 with "
        "weights on raw scores, and Algorithm 2 (`care_tensor_paper`), on the items that every judge scored. Labels "
        "of a random 15 % of the items select penalties from the paper's grid; errors are measured on the rest. We "
        "depart from the paper as follows. Scores are joined by item id; the released code joins three judges by row "
        "number. Correlations replace covariances. CARE-SVD's tau, which the paper does not specify, is sqrt(p) / 2 "
        "for p judges. Signs follow the panel's mean. L has no negative eigenvalue. Items with P(Q = 1) > .5 are "
        "positive; the released code calls as many items positive as the labels do. Other rows use no labels."
    ),
    run=run,
    small={"splits": 5},
    full={"splits": 5},
)
EXPERIMENTS = (EXPERIMENT,)
