"""Experiments on the paper's two synthetic regimes, at increasing strength of a confounder of quality Q."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from assets.experiments.base import Chart, Experiment, ExperimentFindings, Table, by_seed, joined
from assets.experiments.panels import named, problem_of
from assets.report.charts import Series
from assets.workspace import Workspace
from care_ops.aggregators.care_tensor_paper import four_states
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.fit import run_aggregators
from care_ops.fit_labels import FitLabels
from care_ops.simulate import (
    SUFFICIENT_TABLES,
    ConfoundedDraw,
    TableOfMeans,
    second_order_insufficient,
    second_order_sufficient,
)

BASELINES = ("mv", "avg", "ws", "uws")
WRITTEN = "care_svd as written"
"""Name of ``care_svd`` with ``placement: weights``: the paper's weighted sum w'J of raw scores."""

ORACLE = "Algorithm 2, oracle views"
FOUND = "Algorithm 2, found views"
_NAMES = {"care_tensor_paper": FOUND}
COMPARED = (*BASELINES, "care", "care_svd", WRITTEN, "care_tensor", FOUND, ORACLE)

LABELS = 150

Draws = Mapping[float, Sequence[Mapping[str, float]]]
"""Accuracy by aggregator for each draw, by strength of the confounder; an aggregator without an estimate is absent."""


def accuracies(draw: ConfoundedDraw, seed: int) -> dict[str, float]:
    """Measure how accurately each aggregator recovers Q on the items outside a validation split.

    Mixture models use the labels of the validation split to decide which states mean Q = 1. Their threshold is
    P(Q = 1) > .5; the threshold of other aggregators is the mean score. Aggregators without estimates are left out.
    """
    scores, cut = named(draw.scores), float(draw.scores.mean())
    rest = np.ones(len(draw.scores), dtype=bool)
    rest[np.random.default_rng([seed, 3]).choice(len(rest), LABELS, replace=False)] = False
    labels = FitLabels({scores.item_ids[k]: float(draw.quality[k]) for k in np.flatnonzero(~rest)})
    problem = problem_of(scores, FitConfig())
    fitted = partial(run_aggregators, scores, problem.moments, problem.structure)
    found = dict(fitted(FitConfig((*BASELINES, "care", "care_svd"), cut))[0])
    found |= fitted(FitConfig(("care_tensor", "care_tensor_paper"), cut), labels)[0]
    literal = fitted(FitConfig(("care_svd",), cut, placement="weights"))[0]
    found |= {WRITTEN: literal["care_svd"]} if literal else {}
    called = {_NAMES.get(n, n): a.estimate > a.threshold for n, a in found.items() if a.threshold is not None}
    with suppress(FitError):
        called[ORACLE] = four_states(replace(problem, labels=labels), draw.views).log_odds > 0
    return {name: float(np.mean(calls[rest] == draw.quality[rest])) for name, calls in called.items()}


def measures_of(draws: Draws) -> dict[str, float]:
    """Compute each aggregator's share of missing estimates and lowest mean accuracy at confounder strengths above 0."""
    confounded = [found for c, found in draws.items() if c > 0]
    measures: dict[str, float] = {}
    for name in COMPARED:
        means = [np.mean(values) for found in confounded if (values := _available(found, name))]
        measures |= {f"{name}, lowest mean": float(min(means))} if means else {}
        measures[f"{name}, refused"] = float(np.mean([name not in one for found in confounded for one in found]))
    return measures


def _available(found: Sequence[Mapping[str, float]], name: str) -> list[float]:
    return [one[name] for one in found if name in one]


def sentence(measures: Mapping[str, float]) -> str:
    """Format each aggregator's lowest mean accuracy and its share of missing estimates as text."""
    parts = list[str]()
    for name in COMPARED:
        lowest, refused = measures.get(f"{name}, lowest mean"), measures[f"{name}, refused"]
        shown = "no estimate" if lowest is None else f"{lowest:.3f}"
        parts.append(f"{name} {shown}" + (f" (no estimate on {refused:.0%} of the draws)" if refused else ""))
    return ", ".join(parts)


def swept(draws: Draws, axis: str, title: str) -> tuple[Table, Chart]:
    """Tabulate and chart each aggregator's accuracy by strength of the confounder."""
    rows, curves = [dict[str, float | str]({axis: strength}) for strength in draws], list[Series]()
    for name in COMPARED:
        curve: dict[float, list[float]] = {}
        for row, (strength, found) in zip(rows, draws.items(), strict=True):
            values = _available(found, name)
            shown, refused = "–", len(found) - len(values)
            if values:
                curve[strength] = [float(f(values)) for f in (np.mean, np.min, np.max)]
                shown = f"{np.mean(values):.3f} ± {np.std(values):.3f}"
            row[name] = shown + (f"; no estimate on {refused} of {len(found)}" if refused else "")
        curves.append(Series(name, list(curve), *np.reshape([*curve.values()], (-1, 3)).T.tolist()))
    return Table(title, rows), Chart(title, axis, "accuracy at recovering Q", curves)


def _sufficient(k: int, g: float, means: TableOfMeans, items: int, seed: int) -> dict[str, float]:
    return accuracies(second_order_sufficient(np.random.default_rng([seed, k]), g, means, truth=seed, n=items), seed)


def run_sufficient(workspace: Workspace, *, seeds: int, items: int, strengths: Sequence[float]) -> ExperimentFindings:
    """Measure accuracy by confounder strength in the regime where quality determines the pairwise structure."""
    parts, worst, described = list[ExperimentFindings](), dict[str, float](), 0
    drawn = {
        (name, g): partial(_sufficient, k, g, means, items)
        for name, means in SUFFICIENT_TABLES.items()
        for k, g in enumerate(strengths)
    }
    found = by_seed(workspace, seeds, drawn)
    for name in SUFFICIENT_TABLES:
        draws = {g: found[name, g] for g in strengths}
        table, chart = swept(draws, "g", f"Table of means '{name}': mean and sd of the accuracy over {seeds} seeds")
        measures = measures_of(draws)
        conclusion = f"Table of means '{name}', lowest mean accuracies at strengths g > 0: {sentence(measures)}."
        by_table = {f"{measure}, {name}": value for measure, value in measures.items()}
        parts.append(ExperimentFindings([conclusion], [table], [chart], by_table))
        for measure, value in measures.items():
            pick = max if measure.endswith("refused") else min
            worst[f"{measure}, worst table"] = pick(worst.get(f"{measure}, worst table", value), value)
        ours = [measures.get(f"{a}, lowest mean", 0.0) for a in (WRITTEN, ORACLE)]
        described += min(ours) >= 0.95 and all(measures[f"{a}, lowest mean"] <= 0.85 for a in BASELINES)
    worst["tables on which both CAREs stay above .95 and every baseline falls below .85"] = float(described)
    conclusion = (
        f"On {described} of {len(SUFFICIENT_TABLES)} tables of means, accuracy is as in the paper's figure: at least "
        ".95 for CARE methods, at most .85 for baselines. If the confounder has opposite signs in two views, its "
        "effects partly cancel in the average. If quality varies most in the first view, it also drives the average."
    )
    return joined([*parts, ExperimentFindings([conclusion], measures=worst)])


def _insufficient(k: int, c: float, seed: int) -> dict[str, float]:
    return accuracies(second_order_insufficient(np.random.default_rng([seed, k]), c, truth=seed), seed)


def run_insufficient(workspace: Workspace, *, seeds: int, strengths: Sequence[float]) -> ExperimentFindings:
    """Measure accuracy by confounder strength in the regime where the confounder determines the pairwise structure."""
    draws = by_seed(workspace, seeds, {c: partial(_insufficient, k, c) for k, c in enumerate(strengths)})
    table, chart = swept(draws, "c", f"Mean and sd of the accuracy over {seeds} seeds")
    measures = measures_of(draws)
    conclusions = [
        f"Lowest mean accuracies at confounder strengths c > 0: {sentence(measures)}.",
        "In the paper, CARE-Tensor stays accurate; the accuracy of the other aggregators falls to chance.",
        "At c = 0, there are two states instead of four, so the minima exclude this row of the table.",
    ]
    return ExperimentFindings(conclusions, [table], [chart], measures)


SUFFICIENT = Experiment(
    key="regime_sufficient",
    title="Synthetic: pairwise structure follows quality",
    paper="CARE-SVD and CARE-Tensor stay accurate as g grows; AVG, MV, WS and UWS lose accuracy (figure, regime a).",
    protocol=(
        "There are three views of five judges, P(C, Q) = (.2, .3, .3, .2), and noise .1. The paper prints no table of "
        "means, so care_ops.simulate.SUFFICIENT_TABLES declares three tables, which were not chosen by their results. "
        "Views, thresholds, labels and missing estimates are treated as in `regime_insufficient`."
    ),
    run=run_sufficient,
    small={"seeds": 1, "items": 5_000, "strengths": (0.0, 0.5, 1.0)},
    full={"seeds": 10, "items": 50_000, "strengths": tuple(round(0.05 * k, 2) for k in range(21))},
)

INSUFFICIENT = Experiment(
    key="regime_insufficient",
    title="Synthetic: pairwise structure follows the confounder",
    paper="As c grows, baselines and CARE-SVD fall to chance accuracy; CARE-Tensor stays accurate (second figure).",
    protocol=(
        "There are three views of twelve features: three depend on Q, eight on C, and one on both with an "
        "interaction. Shifts are uniform on (.4, .8), noise is .1, and there are 3,000 items. Algorithm 2 runs with "
        "oracle views, as in the paper, and with views estimated from S. 150 labels map states to Q; other "
        "aggregators use the mean of all scores as threshold. Runs without an estimate are left out; they do not "
        "count as accuracy .5. Bands show the range over seeds."
    ),
    run=run_insufficient,
    small={"seeds": 2, "strengths": (0.0, 0.3, 0.6, 1.0)},
    full={"seeds": 25, "strengths": tuple(round(0.1 * k, 1) for k in range(11))},
)
EXPERIMENTS = (SUFFICIENT, INSUFFICIENT)
