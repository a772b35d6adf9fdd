"""Which CARE-SVD: program, input matrix, penalties and sign rule over real panels, by leave-one-family-out.

``python -m benchmarks.studies.care_svd`` (CARE_DATA_DIR must be set) prints the tables of
benchmarks/results/bench-panels.md.
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
    """The penalties (lambda_s, lambda_l) of the sparse and the low-rank part."""
    p = len(sigma)
    if variant.released:
        weight = 4e-3 / np.sqrt(p)
        return variant.gamma * weight, weight
    unit = float(np.median(np.diag(np.linalg.inv(sigma)))) if variant.program == "frobenius" else 1.0
    gamma = variant.gamma * float(np.sqrt(np.log(p) / n)) * unit
    return gamma, gamma * variant.tau * float(np.sqrt(p))


def answer(view: View, variant: Variant) -> Array | None:
    """The estimate of quality, shape (n,); None if the penalties leave no factor."""
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
    """m by view; the fallback's m for a view on which the variant finds no factor."""
    m_by_view: dict[str, float] = {}
    for view in panels:
        estimate = answer(view, variant)
        m_by_view[view.name] = fallback[view.name] if estimate is None else view.measure(estimate)
    return m_by_view


def left_out(
    panels: Sequence[View],
    results: Mapping[Variant, Mapping[str, float]],
    summary: Callable[[Mapping[str, float], Sequence[View]], Summary],
) -> dict[str, float]:
    """m by view, where the views of each family use the variant that gains most on the other families."""
    m_by_view: dict[str, float] = {}
    for family in sorted({view.family for view in panels}):
        others = [view for view in panels if view.family != family]
        best = max(results, key=lambda v: summary(results[v], others).gain)
        m_by_view |= {view.name: results[best][view.name] for view in panels if view.family == family}
    return m_by_view


def with_labels(panels: Sequence[View], program: str, *, released: bool, seeds: int = 10) -> dict[str, float]:
    """m by view if 15 % of the labels choose gamma from the paper's grid.

    The labels are drawn by split unit; m is measured on the other items, as a mean over the seeds.
    """
    m_by_view: dict[str, float] = {}
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
        m_by_view[view.name] = float(np.mean(scores))
    return m_by_view


@dataclass(frozen=True)
class Study:
    """The views and the figures that every variant is compared with.

    Attributes
    ----------
    views : list of View
    mean, vote, ceiling : dict view -> float
        m of the panel's mean, of its most frequent grade, and of a ridge regression on gold.
    """

    views: list[View]
    mean: dict[str, float]
    vote: dict[str, float]
    ceiling: dict[str, float]

    def summary(self, m_by_view: Mapping[str, float], some: Sequence[View]) -> Summary:
        """Gap, gain and harm over some of the views."""
        return summarise(m_by_view, some, self.mean, self.vote, self.ceiling)

    def print_summary(self, label: str, m_by_view: Mapping[str, float]) -> None:
        """Print one row of a table of summaries over all views."""
        s = self.summary(m_by_view, self.views)
        print(f"| {label} | {s.gap:+.3f} | {s.gain:+.4f} | {s.harm:+.3f} | {s.worst} |", flush=True)

    @staticmethod
    def print_summary_header() -> None:
        """Print the head of a table of summaries."""
        print("| | gap | gain over avg | harm | worst on |\n|---|---|---|---|---|")


def main() -> None:
    """Print the tables."""
    panels = views()
    study = Study(
        views=panels,
        mean={v.name: v.measure(row_mean(v.scores.values)) for v in panels},
        vote={v.name: v.measure(modal_grade(v.scores.values)) for v in panels},
        ceiling={v.name: supervised(v) for v in panels},
    )
    print(f"{len(panels)} views of {len({v.family for v in panels})} families\n")
    study.print_summary_header()
    study.print_summary("avg", study.mean)
    study.print_summary("mv", study.vote)
    results: dict[Variant, dict[str, float]] = {}
    for program, matrix, gamma, tau in itertools.product(PROGRAMS, MATRICES, GAMMAS, TAUS):
        variant = Variant(program, matrix, gamma, tau)
        results[variant] = measured(panels, variant, study.mean)
    study.print_summary("frobenius, correlation, gamma 1, tau .5 (default)", results[Variant()])
    _print_programs_and_matrices(study, results)
    _print_other_choices(study)
    _print_difference_of_programs(study, results)
    _print_by_view(study, results)


def _print_programs_and_matrices(study: Study, results: Mapping[Variant, Mapping[str, float]]) -> None:
    """Summaries of each program and input matrix, with penalties at their default, in hindsight and left out."""
    print("\nprogram and matrix, at the same penalties (gamma 1, tau .5), and penalties by leave-one-family-out\n")
    study.print_summary_header()
    panels = study.views
    for program, matrix in itertools.product(PROGRAMS, MATRICES):
        study.print_summary(f"{program}, {matrix}", results[Variant(program, matrix)])
        own = {v: r for v, r in results.items() if (v.program, v.matrix) == (program, matrix)}
        best = max(own, key=lambda v: study.summary(own[v], panels).gain)
        penalties_of_best = f"gamma {best.gamma:g}, tau {best.tau:g}"
        study.print_summary(f"{program}, {matrix}, best in hindsight ({penalties_of_best})", own[best])
        study.print_summary(f"{program}, {matrix}, left out", left_out(panels, own, study.summary))
    study.print_summary("program, matrix and penalties, left out", left_out(panels, results, study.summary))
    programs = {v: r for v, r in results.items() if v == Variant(v.program)}
    study.print_summary("program alone, left out", left_out(panels, programs, study.summary))


def _print_other_choices(study: Study) -> None:
    """Summaries of single choices, each with the others at their default, and of penalties chosen by labels."""
    print("\nother choices, the rest as default\n")
    study.print_summary_header()
    for label, variant in (
        ("sign by the sum of loadings", Variant(sign="sum of loadings")),
        ("sign by the largest loading", Variant(sign="largest loading")),
        ("most balanced factor", Variant(weights="balance")),
        ("confounders subtracted", Variant(weights="subtracted")),
        ("missing scores by EM", Variant(missing="em")),
        ("dtrace, released penalties, gamma 1", Variant("dtrace", released=True)),
    ):
        study.print_summary(label, measured(study.views, variant, study.mean))
    for program in PROGRAMS:
        study.print_summary(f"{program}, gamma by 15 % of labels", with_labels(study.views, program, released=False))
    by_labels = with_labels(study.views, "dtrace", released=True)
    study.print_summary("dtrace, released penalties, gamma by 15 % of labels", by_labels)


def _print_difference_of_programs(study: Study, results: Mapping[Variant, Mapping[str, float]]) -> None:
    """How much better D-trace is than Frobenius at the same penalties, by family."""
    differences = {v.family: [] for v in study.views}
    for view in study.views:
        differences[view.family].append(results[Variant("dtrace")][view.name] - results[Variant()][view.name])
    by_family = np.array([np.mean(d) for d in differences.values()])
    error = by_family.std(ddof=1) / np.sqrt(len(by_family))
    print(f"\ndtrace less frobenius by family: mean {by_family.mean():+.4f} (standard error {error:.4f}), ", end="")
    print(f"median {np.median(by_family):+.4f}; {dict(zip(differences, by_family.round(4).tolist(), strict=True))}")


def _print_by_view(study: Study, results: Mapping[Variant, Mapping[str, float]]) -> None:
    """m of both programs beside the mean, the vote and the ridge regression."""
    print("\nby view\n\n| view | avg | mv | frobenius | dtrace | ridge, cross-fitted |\n|---|---|---|---|---|---|")
    frobenius, dtrace = results[Variant()], results[Variant("dtrace")]
    for view in study.views:
        columns = (study.mean, study.vote, frobenius, dtrace, study.ceiling)
        print(f"| {view.name} | {' | '.join(f'{column[view.name]:.3f}' for column in columns)} |")


if __name__ == "__main__":
    sys.exit(main())
