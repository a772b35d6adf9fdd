"""The structure solver against the same program in cvxpy: paths as the released set-up writes them, single solves."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed.timing import cpu_seconds
from care_ops.structure.conic import solve_conic
from care_ops.structure.program import solve, solve_path
from tests.support.panels import recorded_correlation

Array = NDArray[np.float64]

GAMMAS = (0.1, 0.2, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0)
"""The grid of the paper, appendix "Hyperparameter Tuning"."""


def as_released(sigma: Array, gamma: float) -> float:
    """The program as the released code sets it up: three semi-definite variables and a nuclear norm, by SCS.

    Returns the objective at the point found, with L and S - L made positive semi-definite by what little
    they lack, so that it is comparable.
    """
    import cvxpy as cp

    p = len(sigma)
    weight = 4e-3 / np.sqrt(p)
    values, vectors = np.linalg.eigh(sigma)
    root = (vectors * np.sqrt(values)) @ vectors.T
    sparse, low_rank, difference = (cp.Variable((p, p), PSD=True) for _ in range(3))
    loss = 0.5 * cp.norm(difference @ root, "fro") ** 2 - cp.trace(difference)
    penalty = weight * (gamma * cp.sum(cp.abs(sparse)) + cp.norm(low_rank, "nuc"))
    problem = cp.Problem(cp.Minimize(loss + penalty), [difference == sparse - low_rank])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "solution may be inaccurate" is what is measured here
        problem.solve(solver=cp.SCS)
    if sparse.value is None or low_rank.value is None:
        return float("inf")
    return objective(sigma, *feasible(sparse.value, low_rank.value), gamma * weight, weight)


def feasible(sparse: Array, low_rank: Array) -> tuple[Array, Array]:
    """The nearest point by eigenvalues that satisfies the constraints."""
    values, vectors = np.linalg.eigh(0.5 * (low_rank + low_rank.T))
    low_rank = (vectors * np.maximum(values, 0)) @ vectors.T
    sparse = 0.5 * (sparse + sparse.T)
    lowest = np.linalg.eigvalsh(sparse - low_rank)[0]
    return sparse - min(lowest, 0.0) * np.eye(len(sparse)), low_rank


def objective(sigma: Array, sparse: Array, low_rank: Array, lambda_s: float, lambda_l: float) -> float:
    """The D-trace program's objective."""
    r = sparse - low_rank
    smooth = 0.5 * float(np.sum((r @ sigma) * r)) - float(np.trace(r))
    return smooth + lambda_s * float(np.abs(sparse).sum()) + lambda_l * float(np.trace(low_rank))


def factor_correlation(p: int, n: int = 4_000, seed: int = 0) -> Array:
    """The sample correlation of a panel with two factors."""
    rng = np.random.default_rng([seed, p])
    loadings = rng.normal(size=(p, 2))
    x = rng.normal(size=(n, 2)) @ loadings.T + rng.normal(size=(n, p)) * np.sqrt(rng.uniform(0.5, 2.0, p))
    return np.corrcoef(x.T)


def matrices() -> list[tuple[str, Array]]:
    """Panels with eleven and twenty-four judges: drawn ones, and the recorded ones where CARE_DATA_DIR is set."""
    found = [("drawn", factor_correlation(11)), ("drawn", factor_correlation(24))]
    folder = os.environ.get("CARE_DATA_DIR")
    for name in ("care_asset", "care_civilcomments") if folder else ():
        found.append((name, recorded_correlation(Path(str(folder)) / name)))
    return found


def paths() -> list[dict[str, object]]:
    """The eleven-point path: ours (warm-started, certificate included) and as released."""
    rows: list[dict[str, object]] = []
    for name, sigma in matrices():
        p = len(sigma)
        weight = 4e-3 / np.sqrt(p)
        grid = [(gamma * weight, weight) for gamma in GAMMAS]
        theirs = [as_released(sigma, gamma) for gamma in GAMMAS]
        rival = cpu_seconds(lambda s=sigma: [as_released(s, gamma) for gamma in GAMMAS], 3)
        for tolerance in (1e-6, 1e-8):
            options = {"program": "dtrace", "tolerance": tolerance}
            ours = solve_path(sigma, grid, **options)  # type: ignore[arg-type]
            seconds = cpu_seconds(lambda s=sigma, g=grid, k=options: solve_path(s, g, **k), 7)  # type: ignore[arg-type]
            excess = [(o.certificate.primal - t) / abs(t) for o, t in zip(ours, theirs, strict=True)]
            rows.append(
                {
                    "what": f"eleven-point path, dtrace, {name} p = {p}, gap {tolerance:.0e}",
                    "ours_s": seconds,
                    "rival": "cvxpy + SCS as released",
                    "ratio": rival / seconds,
                    "worst_gap": max(o.certificate.gap for o in ours),
                    "worst_excess": float(max(excess)),
                    "median_excess": float(np.median(excess)),
                }
            )
    return rows


def single_solves() -> list[dict[str, object]]:
    """One solve against lean formulations, and one at p = 200."""
    rows: list[dict[str, object]] = []
    for program in ("frobenius", "dtrace"):
        for p in (11, 24, 200):
            sigma = factor_correlation(p)
            options = {"lambda_s": 0.05, "lambda_l": 0.05 * p**0.5 / 2, "program": program}
            solution = solve(sigma, **options)  # type: ignore[arg-type]
            seconds = cpu_seconds(lambda s=sigma, k=options: solve(s, **k), 3 if p == 200 else 9)  # type: ignore[arg-type]
            row: dict[str, object] = {
                "what": f"one solve, {program}, p = {p}",
                "ours_s": seconds,
                "rival": "",
                "ratio": "",
                "worst_gap": solution.certificate.gap,
                "worst_excess": "",
                "median_excess": "",
            }
            if p < 200:
                rival = cpu_seconds(lambda s=sigma, k=options: solve_conic(s, **k), 3)  # type: ignore[arg-type]
                best = solve_conic(sigma, **options).certificate.primal  # type: ignore[arg-type]
                row |= {
                    "rival": "cvxpy + Clarabel, lean",
                    "ratio": rival / seconds,
                    "worst_excess": (solution.certificate.primal - best) / abs(best),
                }
            rows.append(row)
    return rows


def run() -> list[dict[str, object]]:
    """CPU seconds, ratios, gaps, and our relative excess over the rival's objective (negative: ours is better)."""
    return paths() + single_solves()
