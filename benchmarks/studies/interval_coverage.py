"""Measure the coverage of 90 % intervals of weights over 200 simulations: ``make bench-coverage``.

What an interval of a weight has to cover is the weight that the same method finds on 300,000 items of the same kind.
Systems' intervals are in tests/care_ops/test_systems.py.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.config import FitConfig
from care_ops.fit import fit_panel
from care_ops.results.uncertainty import weight_intervals
from care_ops.scores import ScoreMatrix
from care_ops.simulate import joint_gaussian

Array = NDArray[np.float64]

NAMES = ("care", "uws", "factor_analysis", "care_svd")
SIMULATIONS = 200
ENDLESS = 300_000


def panel(values: Array) -> ScoreMatrix:
    """Return scores with made-up names."""
    n, p = values.shape
    return ScoreMatrix(values, tuple(f"{k:06d}" for k in range(n)), tuple(f"j{k:02d}" for k in range(p)))


def main() -> None:
    """Print coverage by aggregator and number of items."""
    config = FitConfig(aggregators=NAMES)
    print("| items | " + " | ".join(f"`{n}`" for n in NAMES) + " | `care_svd`, of its own mean |")
    print("|---" * (len(NAMES) + 2) + "|")
    with threadpool_limits(limits=1, user_api="blas"):
        for n in (500, 2_000):
            scores = joint_gaussian(np.random.default_rng(0), n=ENDLESS, p=8, confounders=1).scores
            endless = fit_panel(panel(scores), config).aggregates
            bounds: dict[str, list[tuple[Array, Array]]] = {name: [] for name in NAMES}
            own: list[Array] = []
            for seed in range(SIMULATIONS):
                sample = panel(scores[np.random.default_rng([seed, n]).choice(ENDLESS, n, replace=False)])
                own.append(np.asarray(fit_panel(sample, config).aggregates["care_svd"].weights))
                for name, interval in weight_intervals(sample, config).items():
                    bounds[name].append((interval.lo, interval.hi))
            cells = [f"{_coverage(bounds[name], np.asarray(endless[name].weights)):.3f}" for name in NAMES]
            mean = np.mean(own, axis=0)
            print(f"| {n:,} | {' | '.join(cells)} | {_coverage(bounds['care_svd'], mean):.3f} |", flush=True)


def _coverage(bounds: list[tuple[Array, Array]], target: Array) -> float:
    return float(np.mean([(lo <= target) & (target <= hi) for lo, hi in bounds]))


if __name__ == "__main__":
    sys.exit(main())
