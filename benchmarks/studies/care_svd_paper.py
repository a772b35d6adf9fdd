"""CARE-SVD as the paper writes it on the released scores of ASSET: readings of its program, and its choice of gamma.

``python -m benchmarks.studies.care_svd_paper`` (CARE_DATA_DIR must be set) writes
benchmarks/results/study-care-svd-paper.md; ``make bench-tensor`` runs it.

Fixed before a result was seen. The answer is w'J with weights of sum one (``aggregators.care_svd.weighted``), w the
leading eigenvector of L of the judges' correlation, or with the other factors' directions subtracted. The paper names
eleven values of gamma and neither tau nor a unit, so that three readings stand beside each other: multiples of the
theory's rate with our tau; gamma as the penalty itself with the same tau; and the released code's, whose S has gamma
and whose L one times .004 over the root of p. Each is solved with Algorithm 1's loss and with D-trace, which is the
released code's. By the paper's rule gamma is that of the least MAE on a random 15 % of the rows, in five seeds; MAE is
reported on all rows, as the released code reports it, and on the others. Judges are all that were recorded, and those
that the paper's own rule admits (at most 10 % missing scores).

Added once that was seen, to say why it does not give the paper's number: the rule w = f(lambda*) u* - sum f(lambda_i)
u_i with the sign of every eigenvector drawn, as the order of the judges draws it in the released code, fifty times for
each gamma; f is the identity in the paper and the root in that code. The choice of gamma then chooses among signs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.aggregators.care_svd import penalty_rate, weighted
from care_ops.config import Program, StructureConfig
from care_ops.errors import FitError
from care_ops.moments.missing import condition
from care_ops.moments.state import accumulate, shrink
from care_ops.selection import GRIDS
from care_ops.structure.factors import Factors, extract, subtract_confounders
from care_ops.structure.program import solve
from tests.support.panels import View, views

Array = NDArray[np.float64]

RESULT = Path(__file__).parents[1] / "results" / "study-care-svd-paper.md"

PAPER, SEEDS, SHARE, SIGNS = 27.629, range(5), 0.15, 50
GAMMAS = tuple(gamma for gamma, _ in GRIDS["care_svd"])
READINGS = ("multiples of the rate", "gamma itself", "released code's")
PROGRAMS: tuple[Program, ...] = ("frobenius", "dtrace")

_HEAD = """# CARE-SVD as the paper writes it, on ASSET

By `python -m benchmarks.studies.care_svd_paper` ({day}), which also says what was fixed before a result was seen. The
paper has {paper} ± .156. MAE by literal weights, no calibration; *chosen* is the paper's rule: gamma by the MAE of 15 %
of the rows, mean ± standard deviation over five seeds.
"""

_SIGNS = """## Signs drawn

The other factors subtracted with the sign of each eigenvector drawn, fifty times: mean ± standard deviation (least to
greatest).
"""


@dataclass(frozen=True)
class Grid:
    """L's factors at every gamma, None where there is none, and the raw scores that weights multiply."""

    raw: Array
    factors: list[Factors | None]


def grid(view: View, judges: Sequence[str], program: Program, reading: str) -> Grid:
    """The program solved at every gamma."""
    scores = view.scores.select_judges(tuple(judges))
    moments = accumulate(scores.values)
    correlation = shrink(moments.correlation(), moments.n)[0]
    filled, _ = condition(moments.standardise(scores.values), correlation)
    p, found = moments.p, list[Factors | None]()
    for gamma in GAMMAS:
        if reading == "released code's":
            lambda_s, lambda_l = 4e-3 / np.sqrt(p) * gamma, 4e-3 / np.sqrt(p)
        else:
            unit = penalty_rate(correlation, moments.n, program) if reading == READINGS[0] else 1.0
            lambda_s, lambda_l = gamma * unit, gamma * unit * StructureConfig.tau * np.sqrt(p)
        structure = solve(correlation, lambda_s=float(lambda_s), lambda_l=float(lambda_l), program=program)
        try:
            found.append(extract(structure.low_rank, correlation))
        except FitError:
            found.append(None)
    return Grid(moments.mean() + np.sqrt(np.diag(moments.covariance())) * filled, found)


def errors_of(view: View, solved: Grid, weigh: Callable[[Factors], Array]) -> Array:
    """|w'J - gold| at every gamma, shape (gammas, items); NaN where there is no factor or the weights cancel."""
    errors = np.full((len(GAMMAS), len(view.gold)), np.nan)
    for k, factors in enumerate(solved.factors):
        try:
            if factors is not None:
                errors[k] = np.abs(weighted(solved.raw, weigh(factors)) - view.gold)
        except FitError:
            continue
    return errors


def chosen(errors: Array) -> list[tuple[float, float]]:
    """MAE on all rows and on the others under the gamma that each seed's validation rows choose."""
    found: list[tuple[float, float]] = []
    for seed in SEEDS:
        validation = np.random.default_rng([seed, 51]).random(errors.shape[1]) < SHARE
        on_validation = errors[:, validation].mean(axis=1)
        if not np.isnan(on_validation).all():
            best = errors[int(np.nanargmin(on_validation))]
            found.append((float(best.mean()), float(best[~validation].mean())))
    return found


def row(view: View, judges: Sequence[str], name: str, errors: Array) -> str:
    """The grid and the paper's choice as a row of the table."""
    by_gamma = " | ".join("–" if np.isnan(e) else f"{e:.2f}" for e in errors.mean(axis=1))
    told = [f"{np.mean(v):.2f} ± {np.std(v):.2f}" for v in zip(*chosen(errors), strict=True)] or ["no answer"] * 2
    return f"| {name} | {len(judges)} | {by_gamma} | {' | '.join(told)} |"


def with_drawn_signs(factors: Factors, rng: np.random.Generator, power: float) -> Array:
    """The paper's weights with the confounders subtracted, each eigenvector's sign drawn."""
    signed = factors.strengths**power * rng.choice([-1.0, 1.0], len(factors.strengths))
    signed[factors.quality] = -(factors.strengths[factors.quality] ** power)
    return -factors.directions @ signed


def signs_row(view: View, judges: Sequence[str], name: str, solved: Grid, power: float) -> str:
    """MAE over draws of signs: of every gamma together, and of the one that the validation rows choose."""
    rng = np.random.default_rng(52)
    every, best = list[float](), list[float]()
    for _ in range(SIGNS):
        errors = errors_of(view, solved, lambda factors: with_drawn_signs(factors, rng, power))
        every += [float(e) for e in errors.mean(axis=1) if not np.isnan(e)]
        best += [everywhere for everywhere, _ in chosen(errors)]
    told = [f"{np.mean(v):.2f} ± {np.std(v):.2f} ({min(v):.2f} to {max(v):.2f})" for v in (every, best)]
    return f"| {name} | {len(judges)} | {' | '.join(told)} |"


def main() -> None:
    """Write the page."""
    assert os.environ.get("CARE_DATA_DIR"), "set CARE_DATA_DIR to the folder of recorded scores"
    view = next(view for view in views() if view.name == "care_asset")
    missing = np.isnan(view.scores.values).mean(axis=0)
    admitted = [judge for judge, share in zip(view.scores.judges, missing, strict=True) if share <= 0.10]
    panels = [list(view.scores.judges), admitted] if len(admitted) < len(missing) else [admitted]
    heads = ["program", "judges", *(f"{gamma:g}" for gamma in GAMMAS), "chosen, all rows", "chosen, other rows"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    signs = ["| program | judges | any gamma | chosen, all rows |", "|---|---|---|---|"]
    with threadpool_limits(limits=1, user_api="blas"):
        for judges in panels:
            for program in PROGRAMS:
                for reading in READINGS:
                    solved, name = grid(view, judges, program, reading), f"{program}, {reading}"
                    lines.append(row(view, judges, name, errors_of(view, solved, lambda factors: factors.weights)))
                    lines.append(
                        row(view, judges, f"{name}, subtracted", errors_of(view, solved, subtract_confounders))
                    )
                    for power, told in ((1.0, "lambda"), (0.5, "its root")):
                        signs.append(signs_row(view, judges, f"{name}, {told}", solved, power))
                    print("\n".join([*lines[-2:], *signs[-2:]]), flush=True)
    head = _HEAD.format(day=time.strftime("%Y-%m-%d"), paper=PAPER)
    RESULT.write_text("\n".join([head, *lines, "", _SIGNS, *signs, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
