"""Views that are valid, and what others cost: the paper's graph-aware experiment. ``make bench-tensor``."""

from __future__ import annotations

import sys

from threadpoolctl import threadpool_limits

from assets.experiments.graph_aware_views import partition_experiment


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
