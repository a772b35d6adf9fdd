"""Observation models that suit the judges beside ones that do not: what each of them finds."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from assets.experiments.base import Chart, Experiment, ExperimentFindings, Table
from assets.report.charts import Series
from assets.workspace import Workspace
from care_ops.models import mixture, observation
from care_ops.models.observation import (
    Gaussian,
    Graded,
    ObservationMixture,
    ObservationModel,
    Ordinal,
    ScaleMixture,
    StudentT,
)
from care_ops.scores import Array
from care_ops.simulate import Kind, ObservedDraw, observed_mixture

KINDS: tuple[Kind, ...] = ("binary", "categorical", "ordinal", "student", "scale mixture", "mixed")


def run(_workspace: Workspace, *, seeds: int, items: Sequence[int]) -> ExperimentFindings:
    """Make a table with a row for each kind of judge."""
    rows: list[dict[str, Any]] = [{"judges": kind, **study(kind, items, seeds)} for kind in KINDS]
    slopes, gains = [row["slope"] for row in rows], [row["held-out gain, nats"] for row in rows]
    lost = {row["judges"]: row["in their state"] - row["Gaussian"] for row in rows}
    most = max(lost, key=lambda kind: lost[kind])
    matters = [kind for kind, difference in lost.items() if difference > 0.01]
    curves = [Series(str(row["judges"]), items, [row[f"error, n = {n:,}"] for n in items]) for row in rows]
    return ExperimentFindings(
        [
            f"Fitted as they are, errors fall with slopes from {min(slopes):.2f} to {max(slopes):.2f} "
            "(-.5 is the rate of a parametric model).",
            f"Held out, it gains {min(gains):.2f} to {max(gains):.2f} nats an item over a Gaussian mixture, in "
            f"{sum(gain > 0 for gain in gains)} of {len(gains)} kinds.",
            f"Telling items apart, the wrong model costs most with {most} judges: {lost[most]:+.3f} of the items; by "
            f"more than .01 it costs with {', '.join(matters) or 'none'}.",
        ],
        [Table(f"Medians over {seeds} seeds; errors of planted parameters under the best permutation", rows)],
        [Chart("Error of the planted parameters", "items", "root mean square error", curves, logarithmic=True)],
    )


def models_of(levels: Sequence[int], kind: Kind, *, ordinal: bool) -> list[ObservationModel]:
    """The observation models of a draw's judges, by the number of grades of each, 0 for real scores.

    Grades have an order, as far as the kind gives them one, where ``ordinal`` is set.
    """
    every = tuple(range(len(levels)))
    if kind in ("student", "scale mixture"):
        return [StudentT(every) if kind == "student" else ScaleMixture(every)]
    ordered = ordinal and kind in ("ordinal", "mixed")
    real = tuple(j for j in every if levels[j] == 0)
    more = tuple(j for j in every if levels[j] > 2 and ordered)
    graded = tuple(j for j in every if levels[j] > 0 and j not in more)
    models: list[ObservationModel] = [Gaussian(real)] if real else []
    models += [Graded(graded, tuple(levels[j] for j in graded))] if graded else []
    return [*models, Ordinal(more, tuple(levels[j] for j in more))] if more else models


def found_parameters(model: ObservationMixture, draw: ObservedDraw) -> dict[int, Array]:
    """The fitted parameters, in the form of ``ObservedDraw.parameters``."""
    out: dict[int, Array] = {}
    for part in model.models:
        first = 0
        for number, j in enumerate(part.columns):
            if isinstance(part, Graded):
                out[j] = fitted(part.table)[first : first + part.levels[number]].T
                first += part.levels[number]
            elif isinstance(part, Ordinal):
                reach = fitted(part.locations)[:, number][:, None] - fitted(part.cuts[number])[None, :]
                out[j] = np.diff(1 / (1 + np.exp(reach)), axis=1, prepend=0.0, append=1.0)
            elif isinstance(part, Gaussian):
                out[j] = fitted(part.means)[:, [number]]
            else:
                out[j] = fitted(part.locations)[:, [number]]
    return out


def fitted(parameter: Array | None) -> Array:
    """A parameter of an observation model that has been fitted."""
    assert parameter is not None, "the observation model has not been fitted"
    return parameter


def error(found: dict[int, Array], wanted: dict[int, Array]) -> float:
    """Root mean square over judges and states, under the best permutation of states."""
    a = np.concatenate([found[j] for j in sorted(found)], axis=1)
    b = np.concatenate([wanted[j] for j in sorted(wanted)], axis=1)
    orders = itertools.permutations(range(len(b)))
    return min(float(np.sqrt(np.mean((a[list(o)] - b) ** 2))) for o in orders)


def told_apart(posterior: Array, states: NDArray[np.intp]) -> float:
    """Share of items whose most probable state is the true one, under the best permutation of states."""
    label, k = posterior.argmax(axis=1), posterior.shape[1]
    return max(float(np.mean(np.array(o)[label] == states)) for o in itertools.permutations(range(k)))


def gaussian(values: Array, k: int, rng: np.random.Generator) -> mixture.Mixture:
    """The Gaussian mixture that ``care_tensor`` would fit."""
    centres = [(str(s), mixture.k_means_plus_plus(values, k, rng)) for s in range(5)]
    return mixture.best_of(values, centres)[0]


def gaussian_score(model: mixture.Mixture, values: Array, levels: tuple[int, ...]) -> float:
    """Held-out log likelihood of an item; of grades as a Gaussian rounded to them, the outer ones to infinity."""
    joint = np.tile(np.log(model.weights), (len(values), 1))
    sd = np.sqrt(np.diag(model.covariance))
    for j, most in enumerate(levels):
        x = values[:, [j]]
        if most == 0:
            joint += -0.5 * ((x - model.means[:, j]) / sd[j]) ** 2 - np.log(sd[j] * np.sqrt(2 * np.pi))
            continue
        high = np.where(x >= most - 1, np.inf, x + 0.5)
        low = np.where(x <= 0, -np.inf, x - 0.5)
        chance = ndtr((high - model.means[:, j]) / sd[j]) - ndtr((low - model.means[:, j]) / sd[j])
        joint += np.log(np.maximum(chance, 1e-12))
    return float(mixture.log_sum(joint).mean())


def study(kind: Kind, sizes: Sequence[int], seeds: int) -> dict[str, float]:
    """One row: error by number of items, its slope, held-out gain over a Gaussian mixture, who is told apart."""
    errors = np.empty((len(sizes), seeds))
    gain, right, wrong = [], [], []
    for seed in range(seeds):
        for number, n in enumerate(sizes):
            rng = np.random.default_rng([seed, n])
            draw = observed_mixture(rng, kind, truth=1, n=n)
            model = observation.fit(draw.scores, models_of(draw.levels, kind, ordinal=True), 3, rng)
            errors[number, seed] = error(found_parameters(model, draw), draw.parameters)
            if n == sizes[-1]:
                fresh = observed_mixture(np.random.default_rng([seed, n, 1]), kind, truth=1, n=10_000)
                plain = gaussian(draw.scores, 3, rng)
                gain.append(model.score(fresh.scores) - gaussian_score(plain, fresh.scores, draw.levels))
                right.append(told_apart(model.posterior(fresh.scores), fresh.states))
                wrong.append(told_apart(plain.posterior(fresh.scores), fresh.states))
    middle = np.median(errors, axis=1)
    slope = float(np.polyfit(np.log(sizes), np.log(middle), 1)[0])
    return {
        **{f"error, n = {n:,}": float(e) for n, e in zip(sizes, middle, strict=True)},
        "slope": slope,
        "held-out gain, nats": float(np.median(gain)),
        "least gain": min(gain),
        "in their state": float(np.median(right)),
        "Gaussian": float(np.median(wrong)),
    }


EXPERIMENT = Experiment(
    key="observation_models",
    title="Observation models, right and wrong",
    asks="What does it cost to take graded or heavy-tailed judges for Gaussian ones?",
    paper="CARE-Tensor is stated for any exponential family; experiments use Gaussian judges.",
    protocol=(
        "Three states, judges of one kind with planted parameters (mixed: some Gaussian, some binary, some ordinal), "
        "independent within states. The right model knows the kind, not the parameters; the wrong one is a Gaussian "
        "mixture, of a rounded Gaussian where held-out grades are scored."
    ),
    run=run,
    small={"seeds": 3, "items": (1_000, 3_162, 10_000)},
    full={"seeds": 10, "items": (1_000, 3_162, 10_000, 31_623)},
)
