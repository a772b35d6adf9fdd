"""Observation models on data of their own, and what a wrong one costs. ``make bench-tensor``.

Parameters planted: their error against the number of items (the slope of its logarithm should be -1/2), held-out log
likelihood against the Gaussian mixture's (of a rounded Gaussian where scores are grades), who is told apart, and the
edges of S between Gaussian judges that come back.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.models import mixture
from care_ops.simulate import grouped_mixture
from care_ops.structure.views import CLEAR_EDGE, fisher_z
from tests.support.observed import KINDS, study

Array = NDArray[np.float64]

SEEDS = 10

SIZES = (1_000, 3_162, 10_000, 31_623)


def gaussian_edges(n: int = 20_000, seeds: int = SEEDS) -> float:
    """Median F1 of Gaussian judges' edges, by partial correlation within the states of a mixture."""
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 3])
        draw, planted = grouped_mixture(rng, n=n, p=12, noise=0.5)
        z = (draw.scores - draw.scores.mean(axis=0)) / draw.scores.std(axis=0)
        starts = [(str(s), mixture.k_means_plus_plus(z, 4, rng)) for s in range(8)]
        within, _ = mixture.best_of(z, starts, shape="full")
        claimed = np.abs(fisher_z(within.covariance, n)) > CLEAR_EDGE
        found.append(2 * float((claimed & planted).sum()) / max(float(claimed.sum() + planted.sum()), 1.0))
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


if __name__ == "__main__":
    sys.exit(main())
