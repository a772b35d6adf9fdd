"""Observation models on data of their own, and what a wrong one costs. ``make bench-tensor``.

Parameters planted: their error against the number of items (the slope of its logarithm should be -1/2), held-out log
likelihood against the Gaussian mixture's (of a rounded Gaussian where scores are grades), who is told apart, and the
edges of S that come back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2
from threadpoolctl import threadpool_limits

from assets.experiments.observation import KINDS, study, told_apart
from care_ops import mixture, observation
from care_ops.answers import Answers
from care_ops.dependence import conditional_mutual_information, dependent, pseudo_likelihood, tailed_scatter
from care_ops.observation import Family, Gaussian, Graded, ScaleMixture, StudentT
from care_ops.regimes import Kind, dependent_judges, grouped_mixture
from care_ops.views import fisher_z

Array = NDArray[np.float64]

SIZES = (1_000, 3_162, 10_000, 31_623)
SEEDS = 10


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
            row = study(kind, SIZES, SEEDS)
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
