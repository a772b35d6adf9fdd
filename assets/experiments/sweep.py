"""Accuracy at recovering Q as a simulated confounder grows, for both regimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from assets.experiments.base import Chart, Table
from assets.experiments.panels import problem_of
from assets.experiments.planted import named
from assets.report.charts import Series
from care_ops.aggregators.care_tensor_paper import four_states
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.fit import run_aggregators
from care_ops.fit_labels import FitLabels
from care_ops.simulate import ConfoundedDraw
from care_ops.structure.views import Views

BASELINES = ("mv", "avg", "ws", "uws")
WRITTEN = "care_svd as written"
"""``care_svd`` with ``placement: weights``, the paper's literal w'J."""

ORACLE = "Algorithm 2, oracle views"
FOUND = "Algorithm 2, found views"
COMPARED = (*BASELINES, "care", "care_svd", WRITTEN, "care_tensor", FOUND, ORACLE)

_NAMES = {"care_tensor_paper": FOUND, "care_svd": WRITTEN}

LABELS = 150

Draws = Mapping[float, Sequence[Mapping[str, float]]]
"""Accuracies by aggregator, for each draw at each strength of the confounder; an aggregator that refused is absent."""


def accuracies(draw: ConfoundedDraw, seed: int) -> dict[str, float]:
    """Return each aggregator's accuracy outside a validation split, whose labels map states to Q as in the paper.

    An aggregator that refuses has no accuracy. Baselines and CARE-SVD decide at the mean of all scores; mixtures decide
    at even odds.
    """
    scores, cut = named(draw.scores), float(draw.scores.mean())
    rest = np.ones(len(draw.scores), dtype=bool)
    rest[np.random.default_rng([seed, 3]).choice(len(rest), LABELS, replace=False)] = False
    labels = FitLabels({scores.item_ids[k]: float(draw.quality[k]) for k in np.flatnonzero(~rest)})
    problem = problem_of(scores, FitConfig())
    fitted = partial(run_aggregators, scores, problem.moments, problem.structure)
    found = dict(fitted(FitConfig((*BASELINES, "care", "care_svd"), cut))[0])
    mixtures, _ = fitted(FitConfig(("care_tensor", "care_tensor_paper"), cut), labels)
    literal, _ = fitted(FitConfig(("care_svd",), cut, placement="weights"))
    for name, fits in (("care_tensor", mixtures), ("care_tensor_paper", mixtures), ("care_svd", literal)):
        if name in fits:
            found[_NAMES.get(name, name)] = fits[name]
    called = {n: a.estimate > a.threshold for n, a in found.items() if a.threshold is not None}
    with suppress(FitError):
        called[ORACLE] = four_states(replace(problem, labels=labels), Views(draw.views, 0.0, 0.0)).log_odds > 0
    return {name: float(np.mean(calls[rest] == draw.quality[rest])) for name, calls in called.items()}


def measures_of(draws: Draws) -> dict[str, float]:
    """Return each aggregator's lowest mean and refusal rate above zero strength, and its mean at zero."""
    confounded = [found for c, found in draws.items() if c > 0]
    measures: dict[str, float] = {}
    for name in COMPARED:
        means = [np.mean(values) for found in confounded if (values := _available(found, name))]
        at_zero = _available(draws.get(0.0, ()), name)
        measures |= {f"{name}, lowest mean": float(min(means))} if means else {}
        measures[f"{name}, refused"] = float(np.mean([name not in one for found in confounded for one in found]))
        measures |= {f"{name}, without confounder": float(np.mean(at_zero))} if at_zero else {}
    return measures


def _available(found: Sequence[Mapping[str, float]], name: str) -> list[float]:
    """Return the accuracies of the draws on which the aggregator gave an estimate."""
    return [one[name] for one in found if name in one]


def sentence(measures: Mapping[str, float]) -> str:
    """Format the lowest mean of each aggregator above zero strength, with how often it refused."""
    parts = list[str]()
    for name in COMPARED:
        lowest, refused = measures.get(f"{name}, lowest mean"), measures[f"{name}, refused"]
        shown = "no estimate" if lowest is None else f"{lowest:.3f}"
        parts.append(f"{name} {shown}" + (f" (refused {refused:.0%} of the draws)" if refused else ""))
    return ", ".join(parts)


def swept(draws: Draws, axis: str, title: str) -> tuple[Table, Chart]:
    """Return a table of means, deviations and refusals by strength, and the means as curves."""
    rows, curves = list[dict[str, float | str]](), list[Series]()
    for strength, found in draws.items():
        row: dict[str, float | str] = {axis: strength}
        for name in COMPARED:
            values = _available(found, name)
            shown = f"{np.mean(values):.3f} ± {np.std(values):.3f}" if values else "–"
            refused = len(found) - len(values)
            row[name] = shown + (f"; {refused} of {len(found)} refused" if refused else "")
        rows.append(row)
    for name in COMPARED:
        values = {c: of for c, found in draws.items() if (of := _available(found, name))}
        bands = ([float(f(v)) for v in values.values()] for f in (np.mean, np.min, np.max))
        curves.append(Series(name, list(values), *bands))
    return Table(title, rows), Chart(title, axis, "accuracy at recovering Q", curves)
