"""The moments' state against a naive einsum, Khatri-Rao blocks with dgemm, and dgemm's own peak."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed.timing import cpu_seconds
from care_ops.moments.state import accumulate

Array = NDArray[np.float64]


def naive(x: Array) -> Array:
    """The third moment as one writes it first."""
    return np.einsum("ni,nj,nk->ijk", x, x, x)


def khatri_rao(x: Array, rows: int = 2_048) -> Array:
    """Blocks of the row-wise Khatri-Rao product times the scores."""
    p = x.shape[1]
    total = np.zeros((p * p, p))
    for start in range(0, len(x), rows):
        block = x[start : start + rows]
        total += (block[:, :, None] * block[:, None, :]).reshape(len(block), p * p).T @ block
    return total


def dgemm_peak(size: int = 1_200) -> float:
    """Floating-point operations a CPU second of one square product."""
    a = np.random.default_rng(0).normal(size=(size, size))
    return 2 * size**3 / cpu_seconds(lambda: a @ a, 5)


def run() -> list[dict[str, object]]:
    """One row a size: Mrows a CPU second, ratios to the rivals, share of the dgemm peak.

    The share counts a multiplication and an addition for each distinct entry of the symmetric tensor of
    (1, x), and one multiplication for each product of two: nothing that the padding adds.
    """
    rows: list[dict[str, object]] = []
    for n, p in ((400_000, 12), (100_000, 24), (50_000, 40)):
        x = np.random.default_rng(p).normal(size=(n, p))
        holes = np.where(np.random.default_rng(1).random(x.shape) < 0.05, np.nan, x)
        ours = cpu_seconds(lambda x=x: accumulate(x), 9)
        q = p + 1
        operations = n * (q * (q + 1) * (q + 2) / 3 + q * (q + 1) / 2)
        rows.append(
            {
                "n": n,
                "p": p,
                "mrows_per_s": n / ours / 1e6,
                "einsum_ratio": cpu_seconds(lambda x=x: naive(x), 3) / ours,
                "khatri_rao_ratio": cpu_seconds(lambda x=x: khatri_rao(x), 3) / ours,
                "dgemm_share": operations / ours / dgemm_peak(),
                "missing_mrows_per_s": n / cpu_seconds(lambda x=holes: accumulate(x), 5) / 1e6,
            }
        )
    return rows
