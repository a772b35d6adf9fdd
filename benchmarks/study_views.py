"""Views that are valid, and what others cost: the paper's graph-aware experiment. ``make bench-tensor``."""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.bench_tensor import matched, thirds
from care_ops import cp, mixture
from care_ops.errors import FitError
from care_ops.moments import accumulate
from care_ops.regimes import grouped_mixture
from care_ops.views import Views, partition_within

Array = NDArray[np.float64]


def partition_experiment(noise: float, seeds: int = 20, n: int = 10_000, p: int = 12) -> dict[str, float]:
    """Validity of the views found within states, and what random views cost the bare tensor, and EM after it."""
    valid, true_error, random_error, own_error, em_true, em_random = [], [], [], [], [], []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 7])
        draw, edges = grouped_mixture(rng, n=n, p=p, noise=noise)
        x = draw.scores - draw.scores.mean(axis=0)
        scale = x.std(axis=0)
        z, truth = x / scale, (draw.means - draw.scores.mean(axis=0)) / scale
        starts = [(f"k-means {s}", mixture.k_means_plus_plus(z, 4, rng)) for s in range(8)]
        within, _ = mixture.best_of(z, starts, shape="full")
        views = partition_within(within.covariance, n)
        home = np.empty(p, dtype=int)
        for number, group in enumerate(views.groups):
            home[group] = number
        valid.append(not edges[home[:, None] != home[None, :]].any())
        mixed = np.array_split(rng.permutation(p), 3)
        random = Views((np.sort(mixed[0]), np.sort(mixed[1]), np.sort(mixed[2])), 0.0, 0.0)
        tensors = {v: cp.augmented_moment(accumulate(z), w) for v, w in enumerate((thirds(p), random, views))}
        for number, (w, listed) in enumerate(((thirds(p), true_error), (random, random_error), (views, own_error))):
            try:
                bare = cp.decompose(tensors[number], w, 4, rng)
            except FitError:
                listed.append(float("inf"))
                continue
            listed.append(matched(bare.means, truth))
            if number == 2:
                continue
            after = mixture.expectation_maximisation(
                z, *mixture.start_near(z, bare.means), shape="full", max_iterations=1_000
            )
            (em_true if number == 0 else em_random).append(matched(after.means, truth))
    return {
        "noise": noise,
        "valid": float(np.mean(valid)),
        "bare, planted views": float(np.median(true_error)),
        "bare, own views": float(np.median(own_error)),
        "bare, random views": float(np.median(random_error)),
        "random over own": float(np.median(random_error) / np.median(own_error)),
        "EM after planted": float(np.median(em_true)),
        "EM after random": float(np.median(em_random)),
    }


def main() -> None:
    """Print a row a noise level and number of items."""
    with threadpool_limits(limits=1, user_api="blas"):
        for n in (10_000, 100_000):
            for noise in (0.1, 0.5, 1.0):
                row = {"n": n, **partition_experiment(noise, n=n)}
                if (n, noise) == (10_000, 0.1):
                    print("| " + " | ".join(row) + " |\n" + "|---" * len(row) + "|")
                print("| " + " | ".join(f"{v:.4g}" for v in row.values()) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
