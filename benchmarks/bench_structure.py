"""The structure solver against the same program in cvxpy (Clarabel and SCS)."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import cpu_seconds
from care_ops.conic import solve_conic
from care_ops.structure import solve


def run() -> list[dict[str, object]]:
    """One row a program and size: CPU seconds, ratios, relative excess of our objective over Clarabel's."""
    rows: list[dict[str, object]] = []
    for program in ("frobenius", "dtrace"):
        for p in (11, 24):
            rng = np.random.default_rng(p)
            loadings = rng.normal(size=(p, 2))
            covariance = loadings @ loadings.T + np.diag(rng.uniform(0.5, 2.0, p))
            scale = np.sqrt(np.diag(covariance))
            sigma = covariance / np.outer(scale, scale)
            penalties = {"lambda_s": 0.05, "lambda_l": 0.05 * p**0.5 / 2, "program": program}
            ours = solve(sigma, **penalties)  # type: ignore[arg-type]
            _, _, best = solve_conic(sigma, **penalties)  # type: ignore[arg-type]
            seconds = cpu_seconds(lambda s=sigma, k=penalties: solve(s, **k), 9)  # type: ignore[arg-type]
            row: dict[str, object] = {
                "program": program,
                "p": p,
                "ours_s": seconds,
                "gap": ours.certificate.gap,
                "excess": (ours.certificate.primal - best) / abs(best),
            }
            for solver in ("CLARABEL", "SCS"):
                rival = cpu_seconds(lambda s=sigma, k=penalties, v=solver: solve_conic(s, solver=v, **k), 3)  # type: ignore[arg-type]
                row[f"{solver.lower()}_ratio"] = rival / seconds
            rows.append(row)
    return rows
