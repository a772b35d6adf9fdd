"""Which CARE-SVD: program, input matrix, penalties and sign rule over real panels, by leave-one-family-out.

``python -m benchmarks.study_care_svd`` (CARE_DATA_DIR must be set) prints the tables of docs/care-svd.md.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.base import row_mean
from care_ops.aggregators.votes import modal_grade
from care_ops.errors import FitError
from care_ops.models.factor_analysis import normal_scores
from care_ops.moments.missing import condition, em_moments, expected_sums
from care_ops.moments.state import accumulate, shrink
from care_ops.structure.factors import Factors, choose_by_balance, extract, subtract_confounders
from care_ops.structure.program import solve
from tests.support.panels import Summary, View, summarise, supervised, views

Array = NDArray[np.float64]

PROGRAMS = ("frobenius", "dtrace")
MATRICES = ("correlation", "covariance", "normal scores")
GAMMAS = (0.25, 0.5, 1.0, 2.0, 4.0)
TAUS = (0.25, 0.5, 1.0)
PAPER_GAMMAS = (0.1, 0.2, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0)


@dataclass(frozen=True)
class Variant:
    """One way to run CARE-SVD; the penalties are as in ``care_ops.config.StructureConfig``."""

    program: str = "frobenius"
    matrix: str = "correlation"
    gamma: float = 1.0
    tau: float = 0.5
    sign: str = "panel mean"
    weights: str = "leading"
    missing: str = "pairwise"
    released: bool = False


def inputs(view: View, variant: Variant) -> tuple[Array, Array, int]:
    """(matrix to decompose, scores in its metric with missing ones filled, items)."""
    values = view.scores.values
    if variant.matrix == "normal scores":
        values = normal_scores(values)
    moments = accumulate(values)
    if variant.missing == "em":
        moments, _ = em_moments(moments, lambda m, c: expected_sums(values, m, c))
    correlation, _ = shrink(moments.correlation(), moments.n)
    filled, _ = condition(moments.standardise(values), correlation)
    if variant.matrix != "covariance":
        return correlation, filled, moments.n
    scale = np.sqrt(np.diag(moments.covariance()))
    scale = scale / np.median(scale)  # one scale for all judges changes nothing but the unit
    return correlation * np.outer(scale, scale), filled * scale, moments.n


def penalties(sigma: Array, n: int, variant: Variant) -> tuple[float, float]:
    """(lambda_s, lambda_l)."""
    p = len(sigma)
    if variant.released:
        weight = 4e-3 / np.sqrt(p)
        return variant.gamma * weight, weight
    unit = float(np.median(np.diag(np.linalg.inv(sigma)))) if variant.program == "frobenius" else 1.0
    gamma = variant.gamma * float(np.sqrt(np.log(p) / n)) * unit
    return gamma, gamma * variant.tau * float(np.sqrt(p))


def answer(view: View, variant: Variant) -> Array | None:
    """The latent quality, shape (n,); None where the penalties leave no factor."""
    sigma, filled, n = inputs(view, variant)
    lambda_s, lambda_l = penalties(sigma, n, variant)
    solved = solve(sigma, lambda_s=lambda_s, lambda_l=lambda_l, program=variant.program)  # type: ignore[arg-type]
    try:
        factors = extract(solved.low_rank, sigma)
    except FitError:
        return None
    return filled @ _weights(factors, variant)


def _weights(factors: Factors, variant: Variant) -> Array:
    if variant.weights == "balance":
        factors = choose_by_balance(factors)
    if variant.weights == "subtracted":
        return subtract_confounders(factors)
    weights = factors.weights
    if variant.sign == "sum of loadings":
        return weights if weights.sum() >= 0 else -weights
    if variant.sign == "largest loading":
        return weights if weights[np.argmax(np.abs(weights))] > 0 else -weights
    return weights


def measured(panels: Sequence[View], variant: Variant, fallback: Mapping[str, float]) -> dict[str, float]:
    """m by view; where there is no factor the mean stands in."""
    found: dict[str, float] = {}
    for view in panels:
        estimate = answer(view, variant)
        found[view.name] = fallback[view.name] if estimate is None else view.measure(estimate)
    return found


def left_out(
    panels: Sequence[View],
    results: Mapping[Variant, Mapping[str, float]],
    summary: Callable[[Mapping[str, float], Sequence[View]], Summary],
) -> dict[str, float]:
    """m by view, each family's under the variant that gains most on the other families."""
    found: dict[str, float] = {}
    for family in sorted({view.family for view in panels}):
        others = [view for view in panels if view.family != family]
        best = max(results, key=lambda v: summary(results[v], others).gain)
        found |= {view.name: results[best][view.name] for view in panels if view.family == family}
    return found


def with_labels(panels: Sequence[View], program: str, *, released: bool, seeds: int = 10) -> dict[str, float]:
    """gamma from the paper's grid by 15 % of the labels, drawn by split unit; measured on the rest, mean over seeds."""
    found: dict[str, float] = {}
    for view in panels:
        estimates = [answer(view, Variant(program=program, gamma=g, released=released)) for g in PAPER_GAMMAS]
        units = np.unique(view.units)
        scores: list[float] = []
        for seed in range(seeds):
            chosen = np.random.default_rng(seed).permutation(units)[: max(2, round(0.15 * len(units)))]
            seen = np.isin(view.units, chosen)
            merit = [-np.inf if e is None else view.measure(e, seen) for e in estimates]
            best = estimates[int(np.argmax(np.nan_to_num(merit, nan=-np.inf)))]
            if best is not None:
                scores.append(view.measure(best, ~seen))
        found[view.name] = float(np.mean(scores))
    return found


def main() -> None:
    """Print the tables."""
    panels = views()
    mean = {v.name: v.measure(row_mean(v.scores.values)) for v in panels}
    vote = {v.name: v.measure(modal_grade(v.scores.values)) for v in panels}
    ceiling = {v.name: supervised(v) for v in panels}

    def summary(found: Mapping[str, float], some: Sequence[View]) -> Summary:
        return summarise(found, some, mean, vote, ceiling)

    def line(label: str, found: Mapping[str, float]) -> None:
        s = summary(found, panels)
        print(f"| {label} | {s.gap:+.3f} | {s.gain:+.4f} | {s.harm:+.3f} | {s.worst} |", flush=True)

    print(f"{len(panels)} views of {len({v.family for v in panels})} families\n")
    print("| | gap | gain over avg | harm | worst on |\n|---|---|---|---|---|")
    line("avg", mean)
    line("mv", vote)
    results: dict[Variant, dict[str, float]] = {}
    for program, matrix, gamma, tau in itertools.product(PROGRAMS, MATRICES, GAMMAS, TAUS):
        variant = Variant(program, matrix, gamma, tau)
        results[variant] = measured(panels, variant, mean)
    default = results[Variant()]
    line("frobenius, correlation, gamma 1, tau .5 (default)", default)
    print("\nprogram and matrix, at the same penalties (gamma 1, tau .5), and penalties by leave-one-family-out\n")
    print("| | gap | gain over avg | harm | worst on |\n|---|---|---|---|---|")
    for program, matrix in itertools.product(PROGRAMS, MATRICES):
        line(f"{program}, {matrix}", results[Variant(program, matrix)])
        own = {v: r for v, r in results.items() if (v.program, v.matrix) == (program, matrix)}
        best = max(own, key=lambda v: summary(own[v], panels).gain)
        line(f"{program}, {matrix}, best in hindsight (gamma {best.gamma:g}, tau {best.tau:g})", own[best])
        line(f"{program}, {matrix}, left out", left_out(panels, own, summary))
    line("program, matrix and penalties, left out", left_out(panels, results, summary))
    programs = {v: r for v, r in results.items() if v == Variant(v.program)}
    line("program alone, left out", left_out(panels, programs, summary))
    print("\nother choices, the rest as default\n")
    print("| | gap | gain over avg | harm | worst on |\n|---|---|---|---|---|")
    for label, variant in (
        ("sign by the sum of loadings", Variant(sign="sum of loadings")),
        ("sign by the largest loading", Variant(sign="largest loading")),
        ("most balanced factor", Variant(weights="balance")),
        ("confounders subtracted", Variant(weights="subtracted")),
        ("missing scores by EM", Variant(missing="em")),
        ("dtrace, released penalties, gamma 1", Variant("dtrace", released=True)),
    ):
        line(label, measured(panels, variant, mean))
    for program in PROGRAMS:
        line(f"{program}, gamma by 15 % of labels", with_labels(panels, program, released=False))
    line("dtrace, released penalties, gamma by 15 % of labels", with_labels(panels, "dtrace", released=True))
    differences = {v.family: [] for v in panels}
    for view in panels:
        differences[view.family].append(results[Variant("dtrace")][view.name] - default[view.name])
    by_family = np.array([np.mean(d) for d in differences.values()])
    error = by_family.std(ddof=1) / np.sqrt(len(by_family))
    print(f"\ndtrace less frobenius by family: mean {by_family.mean():+.4f} (standard error {error:.4f}), ", end="")
    print(f"median {np.median(by_family):+.4f}; {dict(zip(differences, by_family.round(4).tolist(), strict=True))}")
    print("\nby view\n\n| view | avg | mv | frobenius | dtrace | ridge, cross-fitted |\n|---|---|---|---|---|---|")
    trace = results[Variant("dtrace")]
    for view in panels:
        n = view.name
        print(f"| {n} | {mean[n]:.3f} | {vote[n]:.3f} | {default[n]:.3f} | {trace[n]:.3f} | {ceiling[n]:.3f} |")


if __name__ == "__main__":
    sys.exit(main())
