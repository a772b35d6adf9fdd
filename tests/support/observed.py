"""Judges that are not Gaussian given the state: draws of known truth, and how far a fitted model is from it."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

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

Kind = Literal["binary", "categorical", "ordinal", "student", "scale mixture", "mixed"]

KINDS: tuple[Kind, ...] = ("binary", "categorical", "ordinal", "student", "scale mixture", "mixed")


@dataclass(frozen=True)
class ObservedDraw:
    """Scores of judges that are not Gaussian given the state.

    Attributes
    ----------
    scores : (n, p) array
        Grades as 0, 1, ...
    states : (n,) array of int
    weights : (k,) array
    parameters : dict judge column -> (k, m) array
        Probabilities of its grades by state, or its location by state (m = 1).
    levels : tuple of p int
        Grades of each judge, 0 for real scores.
    """

    scores: Array
    states: NDArray[np.intp]
    weights: Array
    parameters: dict[int, Array]
    levels: tuple[int, ...]


def observed_mixture(rng: np.random.Generator, kind: Kind, *, truth: int, n: int) -> ObservedDraw:
    """Draw from three states with nine judges of one kind (paper, appendix "General CARE Setup").

    Parameters
    ----------
    rng : numpy.random.Generator
        Generator of the scores.
    truth : int
        Seed of the parameters, so that samples of different size share them.
    kind : str
        ``mixed`` has thirds of Gaussian, binary and ordinal judges.
    """
    fixed = np.random.default_rng([truth, len(kind)])
    weights, p, k = np.array([0.5, 0.3, 0.2]), 9, 3
    states = rng.choice(k, size=n, p=weights / weights.sum())
    scores, parameters, levels = np.empty((n, p)), dict[int, Array](), list[int]()
    shared = np.sqrt(4.0 / rng.chisquare(4.0, n)) if kind == "scale mixture" else np.ones(n)
    for j in range(p):
        which = kind if kind != "mixed" else ("gaussian", "binary", "ordinal")[3 * j // p]
        location = fixed.permutation(np.linspace(-1.6, 1.6, k)) + fixed.normal(scale=0.2, size=k)
        if which in ("student", "scale mixture", "gaussian"):
            noise = rng.standard_t(3.0, n) if which == "student" else shared * rng.standard_normal(n)
            scores[:, j] = location[states] + 0.7 * noise
            parameters[j], grades = location[:, None], 0
        else:
            if which == "binary":
                chance = np.column_stack([1 - _sigmoid(location), _sigmoid(location)])
            elif which == "ordinal":
                cuts = np.array([-1.5, -0.5, 0.5, 1.5]) + fixed.normal(scale=0.1)
                chance = np.diff(_sigmoid(cuts[None, :] - location[:, None]), axis=1, prepend=0.0, append=1.0)
            else:
                chance = fixed.dirichlet(np.full(4, 0.6), size=k)
            running = np.cumsum(chance, axis=1)[states]
            scores[:, j] = np.minimum((rng.random(n)[:, None] > running).sum(axis=1), chance.shape[1] - 1)
            parameters[j], grades = chance, chance.shape[1]
        levels.append(grades)
    return ObservedDraw(scores, states.astype(np.intp), weights, parameters, tuple(levels))


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


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
