"""Algorithm 1 as it is written, where L may have negative eigenvalues, beside ours, where it may not.

``python -m benchmarks.studies.free_low_rank`` (CARE_DATA_DIR must be set) prints the table of
``benchmarks/results/study-free-low-rank.md``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.studies.care_svd import Variant, inputs, penalties
from care_ops.structure.factors import extract
from care_ops.structure.program import solve
from tests.support.panels import View, views

Array = NDArray[np.float64]

_SETTLED = 1e-9
_MOST_SWEEPS = 200_000


@dataclass(frozen=True)
class Comparison:
    """What the constraint on L changes on one panel.

    Attributes
    ----------
    negative : float
        Share of the nuclear norm of the free L that lies in negative eigenvalues.
    least_precision : float
        Least eigenvalue of S - L of the free program; below zero it is no precision matrix.
    cosine : float
        Between the leading singular direction of the free L and the leading direction of ours.
    cosine_positive : float
        The same for the free L's direction of the largest positive eigenvalue; NaN where none is positive.
    free, free_positive, constrained : float
        AUC or Kendall's tau of the score of each of the three.
    """

    negative: float
    least_precision: float
    cosine: float
    cosine_positive: float
    free: float
    free_positive: float
    constrained: float


def solve_free(sigma: Array, lambda_s: float, lambda_l: float) -> tuple[Array, Array]:
    """(S, L) of Algorithm 1 step 2 with L free: 1/2 ||Theta - (S - L)||^2 + lambda_s ||S||_1 + lambda_l ||L||_*.

    S and L are minimised in turn, each in closed form. The loss is smooth and the penalties are separate, so that this
    descends to the optimum (Tseng, "Convergence of a block coordinate descent method", 2001).
    """
    theta = np.linalg.inv(sigma)
    low_rank = np.zeros_like(theta)
    for _ in range(_MOST_SWEEPS):
        shifted = theta + low_rank
        sparse = np.sign(shifted) * np.maximum(np.abs(shifted) - lambda_s, 0.0)
        values, vectors = np.linalg.eigh(sparse - theta)
        shrunk = np.sign(values) * np.maximum(np.abs(values) - lambda_l, 0.0)
        before, low_rank = low_rank, (vectors * shrunk) @ vectors.T
        if np.abs(low_rank - before).max() <= _SETTLED * max(1.0, float(np.abs(theta).max())):
            return sparse, low_rank
    raise RuntimeError(f"not settled after {_MOST_SWEEPS:,} sweeps")


def compare(view: View) -> Comparison | None:
    """Both programs at the default penalties; None where either leaves no factor."""
    variant = Variant()
    sigma, filled, n = inputs(view, variant)
    lambda_s, lambda_l = penalties(sigma, n, variant)
    ours = solve(sigma, lambda_s=lambda_s, lambda_l=lambda_l)
    sparse, low_rank = solve_free(sigma, lambda_s, lambda_l)
    values, vectors = np.linalg.eigh(low_rank)
    if np.abs(values).max() < 1e-9 or np.linalg.eigvalsh(ours.low_rank)[-1] < 1e-9:
        return None
    constrained = extract(ours.low_rank, sigma).weights
    # the paper's step 3 is an SVD: its leading direction has the largest absolute eigenvalue
    free, positive = (
        vectors[:, k] * np.sign(np.sum(sigma @ vectors[:, k])) for k in (int(np.argmax(np.abs(values))), -1)
    )
    is_positive = values[-1] > 1e-9
    return Comparison(
        negative=float(np.abs(values[values < 0]).sum() / np.abs(values).sum()),
        least_precision=float(np.linalg.eigvalsh(sparse - low_rank)[0]),
        cosine=float(free @ constrained),
        cosine_positive=float(positive @ constrained) if is_positive else float("nan"),
        free=view.measure(filled @ free),
        free_positive=view.measure(filled @ positive) if is_positive else float("nan"),
        constrained=view.measure(filled @ constrained),
    )


def main() -> None:
    """Print the table."""
    print("| view | of L negative | least eigenvalue of S - L | cos | cos, positive | L free | its positive | L >= 0 |")
    print("|---|---|---|---|---|---|---|---|")
    for view in views():
        try:
            row = compare(view)
        except RuntimeError as error:
            print(f"{view.name}: {error}", file=sys.stderr)
            continue
        if row is None:
            print(f"| {view.name} | – | – | – | – | – | – | – |")
            continue
        print(
            f"| {view.name} | {row.negative:.0%} | {row.least_precision:.3f} | {row.cosine:.3f} | "
            f"{row.cosine_positive:.3f} | {row.free:.3f} | {row.free_positive:.3f} | {row.constrained:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
