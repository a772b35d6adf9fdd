"""What looking many times costs: intervals for one look beside confidence sequences. ``make bench-looks``.

The design, fixed before any result was seen. Labels come one by one, in random order; somebody looks after every tenth,
from 10 to 100 labels (of each system, where two are compared), and stops at the first decision.

- Coverage: the panels of ``studies.rates``; ``care`` without a label; 2,000 streams each (``--draws``). Printed: in
  which
  share of the streams the confidence sequence keeps the true mean after each of 100 labels, and in which share of a
  tenth of them the interval for one look does so at all ten looks; mean widths at 20, 50 and 100 labels. Graded labels
  are declared to lie between the least and the largest of the panel.
- Decisions: one system of ``triviaqa_judges_v1`` cut in two (nothing differs), the pair that differs most and the pair
  in the middle, as in ``studies.gate``; a tenth of the streams. Methods: the gate for one look, asked ten times at
  90 %;
  the same at 99 %, which is Bonferroni's correction for ten looks that were fixed in advance; the confidence sequence.
  Printed: share of streams that ended as better, worse, undecided, and the mean number of labels of each system.
- Nothing in ``care_ops.results.sequential`` was chosen on these panels: the largest bet is that of the paper, and the
  priors were tried on simulated populations.

Belongs here: draws and tables. Belongs elsewhere: the intervals (``care_ops.results.sequential``).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.studies.gate import COLUMN, VIEW, pairs, rows_of_pair
from benchmarks.studies.rates import VIEWS, Array, Cell, cells, column_of
from care_ops.results.gate import gate
from care_ops.results.rates import Labelled, item_scores, rates_of
from care_ops.results.sequential import Stream, evidence_of, interval, log_capitals
from tests.support.panels import prepare, views

LEVEL = 0.9
LOOKS = tuple(range(10, 101, 10))
SHOWN = (20, 50, 100)

Gate = Callable[[Array, Array, list[int], list[str], int], str]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.looks")
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--only", choices=("coverage", "decisions"), help="one of the two tables")
    given = parser.parse_args()
    with threadpool_limits(1):
        panels = [prepare(view) for view in views() if view.name in VIEWS]
        if given.only != "decisions":
            print(
                "| panel | kept at all looks | its widths at 20, 50, 100 | for one look: kept at ten looks | widths |"
            )
            print("|---|---|---|---|---|")
            for panel in panels:
                _print_coverage(next(cells(panel)), given.draws)
        if given.only != "coverage":
            print("| new - old | truth | method | better | worse | undecided | labels each |")
            print("|---|---|---|---|---|---|---|")
            panel = next(panel for panel in panels if panel.view.name == VIEW)
            cell = next(cells(panel))
            system = column_of(panel.view.family, COLUMN, panel.view.scores.item_ids)
            none, far, middle, _ = pairs(cell, system)
            for pair in (none, far, middle):
                _print_decisions(cell, system, pair, max(given.draws // 10, 1))


def _print_coverage(cell: Cell, draws: int) -> None:
    lo, hi = (0.0, 1.0) if cell.binary else (float(cell.gold.min()), float(cell.gold.max()))
    labels = (cell.gold - lo) / (hi - lo)
    truth = np.array([labels.mean()])
    score = item_scores(cell.answer, shares=cell.binary)
    size = min(LOOKS[-1], len(labels) // 2)
    kept, kept_once, few = 0, 0, max(draws // 10, 1)
    widths: dict[int, list[float]] = {m: [] for m in SHOWN if m <= size}
    widths_once: dict[int, list[float]] = {m: [] for m in SHOWN if m <= size}
    for k in range(draws):
        rows = np.random.default_rng([k, 5]).choice(len(labels), size, replace=False)
        most = max(float(log[0]) for log in log_capitals(Stream(score, rows, labels[rows]), truth))
        kept += most < -np.log(1 - LEVEL)
        if k >= few:
            continue
        for m in widths:
            ends = interval(evidence_of(Stream(score, rows[:m], labels[rows[:m]])), LEVEL)
            widths[m].append((ends[1] - ends[0]) * (hi - lo))
        kept_once += _kept_by_single_looks(cell, rows, k, widths_once)
    print(
        f"| {cell.name} | {kept / draws:.3f} | {_mean_widths(widths)} | {kept_once / few:.3f} "
        f"| {_mean_widths(widths_once)} |",
        flush=True,
    )


def _kept_by_single_looks(cell: Cell, rows: NDArray[np.intp], seed: int, widths: dict[int, list[float]]) -> bool:
    """Whether the interval for one look has the true mean at each of ten; its widths are added."""
    kept = True
    for m in LOOKS:
        if m > len(rows):
            break
        labels = np.full(len(cell.gold), np.nan)
        labels[rows[:m]] = cell.gold[rows[:m]]
        (rate,) = rates_of(Labelled(cell.answer, labels, units=cell.units.tolist()), level=LEVEL, seed=seed).rates
        kept = kept and rate.lo <= cell.gold.mean() <= rate.hi
        if m in widths:
            widths[m].append(rate.hi - rate.lo)
    return kept


def _mean_widths(widths: dict[int, list[float]]) -> str:
    return ", ".join(f"{np.mean(each):.3f}" for each in widths.values())


def _print_decisions(
    cell: Cell, system: NDArray[np.str_], pair: tuple[str, str | None, str | None], draws: int
) -> None:
    methods: dict[str, Gate] = {
        "one look, ten times": lambda a, y, _, names, k: (
            gate(Labelled(a, y, names), "new", "old", level=LEVEL, seed=k).outcome
        ),
        "one look at 99 %, ten times": lambda a, y, _, names, k: (
            gate(Labelled(a, y, names), "new", "old", level=1 - (1 - LEVEL) / len(LOOKS), seed=k).outcome
        ),
        "confidence sequence": lambda a, y, order, names, k: (
            gate(Labelled(a, y, names, order=order), "new", "old", level=LEVEL, seed=k).outcome
        ),
    }
    for name, method in methods.items():
        ended = [_first_decision(cell, system, pair, method, k) for k in range(draws)]
        shares = " | ".join(
            f"{sum(outcome == wanted for outcome, _, _ in ended) / draws:.3f}"
            for wanted in ("better", "worse", "undecided")
        )
        truth, asked = (float(np.mean(column)) for column in zip(*((t, m) for _, t, m in ended), strict=True))
        print(f"| {pair[0]} | {truth:+.3f} | {name} | {shares} | {asked:.0f} |", flush=True)


def _first_decision(
    cell: Cell, system: NDArray[np.str_], pair: tuple[str, str | None, str | None], method: Gate, seed: int
) -> tuple[str, float, int]:
    """The first look's outcome that decides, or "undecided"; the true difference; the labels of each system then."""
    rng = np.random.default_rng([seed, 7])
    new, old = rows_of_pair(system, pair[1], pair[2], rng)
    gold = np.concatenate([cell.gold[new], cell.gold[old]])
    names = ["new"] * len(new) + ["old"] * len(old)
    answer = cell.answer[np.concatenate([new, old])]
    truth = 0.0 if pair[1] is None else float(cell.gold[new].mean() - cell.gold[old].mean())
    turns = zip(rng.permutation(len(new)).tolist(), (len(new) + rng.permutation(len(old))).tolist(), strict=False)
    order = [row for both in turns for row in both]
    for m in LOOKS:
        labels = np.full(len(gold), np.nan)
        labels[order[: 2 * m]] = gold[order[: 2 * m]]
        outcome = method(answer, labels, order[: 2 * m], names, seed)
        if outcome != "undecided":
            return outcome, truth, m
    return "undecided", truth, LOOKS[-1]


if __name__ == "__main__":
    main()
