"""Observation models on data of their own, and what a wrong one costs. ``make bench-tensor``.

Parameters planted: their error against the number of items (the slope of its logarithm should be -1/2), held-out log
likelihood against the Gaussian mixture's (of a rounded Gaussian where scores are grades), who is told apart, and the
edges of S that come back.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import chi2
from threadpoolctl import threadpool_limits

from care_ops import mixture, observation
from care_ops.answers import Answers
from care_ops.dependence import conditional_mutual_information, dependent, pseudo_likelihood, tailed_scatter
from care_ops.observation import Family, Gaussian, Graded, Observed, Ordinal, ScaleMixture, StudentT
from care_ops.regimes import Kind, ObservedDraw, dependent_judges, grouped_mixture, observed_mixture
from care_ops.views import fisher_z

Array = NDArray[np.float64]

KINDS: tuple[Kind, ...] = ("binary", "categorical", "ordinal", "student", "scale mixture", "mixed")
SIZES = (1_000, 3_162, 10_000, 31_623)
SEEDS = 10


def families(draw: ObservedDraw, kind: Kind) -> list[Family]:
    """The right families for a draw."""
    p = len(draw.levels)
    every = tuple(range(p))
    if kind in ("binary", "categorical"):
        return [Graded(every, draw.levels)]
    if kind == "ordinal":
        return [Ordinal(every, draw.levels)]
    if kind == "student":
        return [StudentT(every)]
    if kind == "scale mixture":
        return [ScaleMixture(every)]
    real = tuple(j for j in every if draw.levels[j] == 0)
    two = tuple(j for j in every if draw.levels[j] == 2)
    more = tuple(j for j in every if draw.levels[j] > 2)
    return [Gaussian(real), Graded(two, (2,) * len(two)), Ordinal(more, tuple(draw.levels[j] for j in more))]


def found_parameters(model: Observed, draw: ObservedDraw) -> dict[int, Array]:
    """As ``ObservedDraw.parameters``."""
    out: dict[int, Array] = {}
    for family in model.families:
        first = 0
        for number, j in enumerate(family.columns):
            if isinstance(family, Graded):
                out[j] = family.table[first : first + family.levels[number]].T
                first += family.levels[number]
            elif isinstance(family, Ordinal):
                below = 1 / (1 + np.exp(family.locations[:, number][:, None] - family.cuts[number][None, :]))
                out[j] = np.diff(below, axis=1, prepend=0.0, append=1.0)
            else:
                means = family.means if isinstance(family, Gaussian) else family.locations
                out[j] = means[:, [number]]
    return out


def error(found: dict[int, Array], wanted: dict[int, Array]) -> float:
    """Root mean square over judges and states, under the best permutation of states."""
    a = np.concatenate([found[j] for j in sorted(found)], axis=1)
    b = np.concatenate([wanted[j] for j in sorted(wanted)], axis=1)
    orders = itertools.permutations(range(len(b)))
    return min(float(np.sqrt(np.mean((a[list(o)] - b) ** 2))) for o in orders)


def told_apart(posterior: Array, states: NDArray[np.intp]) -> float:
    """Share of items in their state, under the best permutation."""
    label, k = posterior.argmax(axis=1), posterior.shape[1]
    return max(float(np.mean(np.array(o)[label] == states)) for o in itertools.permutations(range(k)))


def gaussian(values: Array, k: int, rng: np.random.Generator) -> mixture.Mixture:
    """The Gaussian mixture, as ``care_tensor`` would have it."""
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


def study(kind: Kind, sizes: tuple[int, ...] = SIZES, seeds: int = SEEDS) -> dict[str, float]:
    """One row."""
    errors = np.empty((len(sizes), seeds))
    gain, right, wrong = [], [], []
    for seed in range(seeds):
        for number, n in enumerate(sizes):
            rng = np.random.default_rng([seed, n])
            draw = observed_mixture(rng, kind, truth=1, n=n)
            model = observation.fit(draw.scores, families(draw, kind), 3, rng)
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


def f1(found: NDArray[np.bool_], wanted: NDArray[np.bool_]) -> float:
    """Of edges, the upper triangle."""
    upper = np.triu_indices(len(wanted), 1)
    hit = float((found & wanted)[upper].sum())
    return 2 * hit / max(float(found[upper].sum() + wanted[upper].sum()), 1.0)


def edges(kind: Kind, n: int, seeds: Iterable[int] = range(SEEDS)) -> dict[str, float]:
    """F1 of the edges within states, and who is told apart, before and after the posterior knows the edges."""
    before, after, least, apart, known, mutual = [], [], 1.0, [], [], []
    for seed in seeds:
        rng = np.random.default_rng([seed, 3])
        draw = dependent_judges(rng, kind, n=n)
        every = tuple(range(len(draw.levels)))
        real = tuple(j for j in every if draw.levels[j] == 0)
        graded = tuple(j for j in every if draw.levels[j] > 0)
        tailed = {"student": StudentT(every), "scale mixture": ScaleMixture(every)}.get(kind)
        parts: list[Family] = [tailed] if tailed else [Gaussian(real)] * bool(real)
        parts += [Graded(graded, tuple(draw.levels[j] for j in graded))] * bool(graded)
        model = observation.fit(draw.scores, parts, 4, rng)
        posterior = model.posterior(draw.scores)
        apart.append(told_apart(posterior, draw.states))
        if tailed:
            first = tailed_scatter(draw.scores, model.families[0], posterior, rounds=1)  # type: ignore[arg-type]
            last = tailed_scatter(draw.scores, model.families[0], posterior)  # type: ignore[arg-type]
            before.append(f1(np.abs(fisher_z(first.correlation, n)) > 5, draw.edges))
            after.append(f1(np.abs(fisher_z(last.correlation, n)) > 5, draw.edges))
            posterior = last.posterior(draw.scores)
        else:
            before.append(f1(pseudo_likelihood(draw.scores, draw.levels, posterior).edges, draw.edges))
            coupled = dependent(draw.scores, draw.levels, posterior)
            after.append(f1(coupled.edges, draw.edges))
            posterior = coupled.posterior(draw.scores)
        if not real:
            answers = Answers(draw.scores.astype(int), draw.levels)
            freedom = np.outer(np.array(draw.levels) - 1, np.array(draw.levels) - 1) * 4
            found = chi2.sf(2 * n * conditional_mutual_information(answers, posterior), freedom) < 5.7e-7
            mutual.append(f1(found & ~np.eye(len(every), dtype=bool), draw.edges))
        known.append(told_apart(posterior, draw.states))
        least = min(least, after[-1])
    return {
        "F1, judges as independent": float(np.median(before)),
        "F1, edges in the posterior": float(np.median(after)),
        "least of ten": least,
        "F1, mutual information": float(np.median(mutual)) if mutual else float("nan"),
        "in their state, judges as independent": float(np.median(apart)),
        "in their state, with edges": float(np.median(known)),
    }


def gaussian_edges(n: int = 20_000, seeds: int = SEEDS) -> float:
    """Median F1 of Gaussian judges' edges, by partial correlation within the states of a mixture."""
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 3])
        draw, planted = grouped_mixture(rng, n=n, p=12, noise=0.5)
        z = (draw.scores - draw.scores.mean(axis=0)) / draw.scores.std(axis=0)
        starts = [(str(s), mixture.k_means_plus_plus(z, 4, rng)) for s in range(8)]
        within, _ = mixture.best_of(z, starts, shape="full")
        found.append(f1(np.abs(fisher_z(within.covariance, n)) > 5, planted))
    return float(np.median(found))


def main() -> None:
    """Print the tables."""
    with threadpool_limits(limits=1, user_api="blas"):
        for number, kind in enumerate(KINDS):
            row = study(kind)
            if number == 0:
                print("| model | " + " | ".join(row) + " |\n" + "|---" * (len(row) + 1) + "|")
            print(f"| {kind} | " + " | ".join(f"{v:.3f}" for v in row.values()) + " |", flush=True)
        print(f"\nGaussian judges' edges by partial correlation: F1 {gaussian_edges():.2f}")
        for number, kind in enumerate(KINDS):
            row = edges(kind, 20_000 if kind == "binary" else 10_000)
            if number == 0:
                print("| model | " + " | ".join(row) + " |\n" + "|---" * (len(row) + 1) + "|")
            print(f"| {kind} | " + " | ".join(f"{v:.2f}" for v in row.values()) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
