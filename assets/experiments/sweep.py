"""A synthetic confounder that grows, all aggregators side by side: what both regimes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Chart, Table
from assets.experiments.planted import named
from assets.report.charts import Series
from care_ops.aggregators.care_tensor import quality_by_anchors
from care_ops.anchors import Anchors
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.models import cp, mixture
from care_ops.moments.state import accumulate
from care_ops.scores import Array
from care_ops.structure.views import Views

if TYPE_CHECKING:
    from care_ops.simulate import ConfoundedDraw


BASELINES = ("mv", "avg", "ws", "uws")
"""The aggregators of the paper's figure of the two regimes."""

AGGREGATORS = (*BASELINES, "care", "care_svd")

WRITTEN = "care_svd as written"
"""``care_svd`` with ``placement: weights``, the paper's literal w'J."""

COMPARED = (*AGGREGATORS, WRITTEN, "care_tensor", "care_tensor_paper", "bare tensor")

LABELS = 150

HIGH, COLLAPSED = 0.95, 0.85
"""Accuracy of an aggregate that "remains robust", and of one that "collapses": the paper's figure has no numbers. A sum
of scores in which C outweighs Q is right, at its best cut, on .7 of the items of the second-order-sufficient regime, or
on .8, by the sign of C."""


def accuracies(draw: ConfoundedDraw, seed: int) -> dict[str, float]:
    """Accuracy at recovering Q on the items outside a validation split of 150 labelled ones.

    Every aggregate is cut where the validation split would have it; only the tensors see its labels otherwise
    (states to Q).
    """
    scores, n, cut = named(draw.scores), len(draw.scores), float(draw.scores.mean())
    validation = np.zeros(n, dtype=bool)
    validation[np.random.default_rng([seed, 3]).choice(n, LABELS, replace=False)] = True
    labels = Anchors({scores.item_ids[k]: float(draw.quality[k]) for k in np.flatnonzero(validation)})
    aggregates = dict(fit_panel(scores, FitConfig(AGGREGATORS, cut)).aggregates)
    aggregates |= fit_panel(scores, FitConfig(("avg", "care_tensor", "care_tensor_paper"), cut), labels).aggregates
    literal = fit_panel(scores, FitConfig(("avg", "care_svd"), cut, placement="weights")).aggregates  # may cancel
    if "care_svd" in literal:
        aggregates[WRITTEN] = literal["care_svd"]
    estimates = {name: aggregate.estimate for name, aggregate in aggregates.items()}
    bare = bare_tensor(draw, validation, seed)
    if bare is not None:
        estimates["bare tensor"] = bare
    return {name: accuracy_cut_on(estimate, draw.quality, validation) for name, estimate in estimates.items()}


def bare_tensor(draw: ConfoundedDraw, labelled: NDArray[np.bool_], seed: int) -> Array | None:
    """P(Q = 1 | J) by the third moment's components alone, on the planted views; None where it has none.

    Components are Gaussian with one diagonal covariance, from what is left after each item's nearest; labels map them.
    """
    z = (draw.scores - draw.scores.mean(axis=0)) / draw.scores.std(axis=0)
    views = Views(draw.views, 0.0, 0.0)
    try:
        bare = cp.decompose(cp.augmented_moment(accumulate(z), views), views, 4, np.random.default_rng(seed))
    except FitError:
        return None
    weights, means, variance = mixture.start_near(z, bare.means)
    posterior = mixture.Mixture(weights, means, np.diag(variance), 0.0, 0, False, "bare").posterior(z)
    quality = quality_by_anchors(posterior[labelled], draw.quality[labelled].astype(float))
    return posterior @ quality


def accuracy_cut_on(estimate: Array, quality: NDArray[np.intp], validation: NDArray[np.bool_]) -> float:
    """Accuracy on the other items at the threshold that decides the validation items best."""
    known = estimate[validation]
    order = np.sort(known)
    cuts = np.concatenate([[-np.inf], 0.5 * (order[1:] + order[:-1])])
    right = [float(np.mean((known > cut) == quality[validation])) for cut in cuts]
    return float(np.mean((estimate[~validation] > cuts[int(np.argmax(right))]) == quality[~validation]))


def swept(draws: dict[float, list[dict[str, float]]], axis: str, title: str) -> tuple[Table, Chart]:
    """A table with a row for each strength, of means and standard deviations over seeds, and the same as curves."""
    names = list(dict.fromkeys(name for found in draws.values() for one in found for name in one))
    rows, curves = [], []
    for strength, found in draws.items():
        row: dict[str, float | str] = {axis: strength}
        for name in names:
            values = [one[name] for one in found if name in one]
            row[name] = f"{np.mean(values):.3f} ± {np.std(values):.3f}" if values else "no answer"
        rows.append(row)
    for name in names:
        answered = {s: values for s, found in draws.items() if (values := [one[name] for one in found if name in one])}
        means, least, most = ([float(f(v)) for v in answered.values()] for f in (np.mean, np.min, np.max))
        curves.append(Series(name, list(answered), means, least, most))
    return Table(title, rows), Chart(title, axis, "accuracy at recovering Q", curves)


def worst_or_chance(draws: dict[float, list[dict[str, float]]], name: str) -> float:
    """The lowest mean accuracy over the strengths, a draw without an answer counted as one half: as good as chance."""
    return min(float(np.mean([one.get(name, 0.5) for one in found])) for found in draws.values())


def said_worst(draws: dict[float, list[dict[str, float]]], name: str) -> str:
    """A sentence: the lowest mean accuracy over the sweep, the strength of it, and how often there was no answer."""
    answered = {s: [one[name] for one in found if name in one] for s, found in draws.items()}
    means = {s: float(np.mean(values)) for s, values in answered.items() if values}
    where = min(means, key=lambda s: means[s], default=float("nan"))
    answers = [name in one for accuracies in draws.values() for one in accuracies]
    without = "" if all(answers) else f" (no answer on {answers.count(False)} of {len(answers)} draws)"
    return f"{name} {means.get(where, float('nan')):.3f} at {where:g}{without}"
