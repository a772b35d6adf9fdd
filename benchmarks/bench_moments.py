"""The moments' state against a naive einsum of the third moment."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import cpu_seconds
from care_ops.moments import accumulate


def run() -> list[dict[str, object]]:
    """One row a size: rows a CPU second, the ratio to einsum, and with 5 % of the scores missing."""
    rows: list[dict[str, object]] = []
    for n, p in ((20_000, 12), (20_000, 24)):
        x = np.random.default_rng(p).normal(size=(n, p))
        holes = np.where(np.random.default_rng(1).random(x.shape) < 0.05, np.nan, x)
        ours = cpu_seconds(lambda x=x: accumulate(x), 5)
        naive = cpu_seconds(lambda x=x: np.einsum("ni,nj,nk->ijk", x, x, x), 3)
        missing = cpu_seconds(lambda x=holes: accumulate(x), 5)
        rows.append(
            {
                "n": n,
                "p": p,
                "mrows_per_s": n / ours / 1e6,
                "einsum_ratio": naive / ours,
                "missing_mrows_per_s": n / missing / 1e6,
            }
        )
    return rows
