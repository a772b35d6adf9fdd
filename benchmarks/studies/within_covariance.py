"""The within-state covariance of ``care_tensor``'s posterior, full against diagonal, where the truth is known.

``python -m benchmarks.studies.within_covariance`` prints a table of
``benchmarks/results/study-tensor-choices.md``. Five regimes (judges, items,
noise), each with judges that are independent within states and with edges of .3 at 40 % of the pairs within each third,
ten seeds. Both mixtures start from the same k-means centres, so that they differ in their covariance alone.

The rule, fixed before the result: the full one becomes the default if it puts more items in their state, by more than
.01 in the median over seeds, in more of the ten rows than it puts fewer, and loses no more than .01 of order on any of
the four real panels of ``benchmarks.studies.tensor_choices``. Otherwise the diagonal one stays.
"""

from __future__ import annotations

import itertools
import time

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from assets.experiments.planted import matched
from care_ops.aggregators.care_tensor import free_starts
from care_ops.models import mixture
from care_ops.models.mixture import Shape
from care_ops.simulate import MixtureDraw, four_state_mixture, grouped_mixture

Array = NDArray[np.float64]

REGIMES = ((12, 5_000, 1.0), (36, 5_000, 1.0), (12, 2_000, 2.0), (12, 1_000, 1.0), (36, 1_000, 2.0))
SEEDS = 10
SHAPES: tuple[Shape, ...] = ("diagonal", "full")


def drawn(rng: np.random.Generator, regime: tuple[int, int, float], with_edges: bool) -> MixtureDraw:
    """A draw of a regime."""
    p, n, noise = regime
    if with_edges:
        return grouped_mixture(rng, n=n, p=p, noise=noise)[0]
    return four_state_mixture(rng, n=n, p=p, noise=noise)


def in_their_state(posterior: Array, states: NDArray[np.intp]) -> float:
    """Share of items in their state, under the best permutation of the states."""
    found = posterior.argmax(axis=1)
    counts = np.array([[np.sum((found == a) & (states == b)) for b in range(4)] for a in range(4)])
    return max(float(counts[range(4), order].sum()) for order in itertools.permutations(range(4))) / len(states)


def measured(draw: MixtureDraw, shape: Shape, seed: int) -> tuple[float, float, float]:
    """Relative error of the means, share of items in their state, CPU seconds."""
    started = time.process_time()
    starts = free_starts(draw.scores, 4, np.random.default_rng(seed))
    fitted, _ = mixture.best_of(draw.scores, starts, shape=shape, finalists=1)
    seconds = time.process_time() - started
    posterior = fitted.posterior(draw.scores)
    return matched(fitted.means, draw.means), in_their_state(posterior, draw.states), seconds


def main() -> None:
    """Print a row a regime."""
    print(
        "| p | n | noise | edges | error, diagonal | full | in their state, diagonal | full | CPU s, diagonal | full |"
    )
    print(f"|{'---|' * 10}")
    with threadpool_limits(limits=1, user_api="blas"):
        for with_edges, regime in itertools.product((False, True), REGIMES):
            rows = np.zeros((SEEDS, len(SHAPES), 3))
            for seed in range(SEEDS):
                draw = drawn(np.random.default_rng(seed), regime, with_edges)
                for column, shape in enumerate(SHAPES):
                    rows[seed, column] = measured(draw, shape, seed)
            median = np.median(rows, axis=0)
            cells = [f"{value:.3g}" for value in median.T.ravel()]
            print(
                f"| {' | '.join(f'{value:g}' for value in regime)} | {with_edges} | {' | '.join(cells)} |", flush=True
            )


if __name__ == "__main__":
    main()
