"""Measure error rates of the gate, with and without a true difference: ``make bench-gate``.

The design, fixed before any result was seen. ``triviaqa_judges_v1`` names nine systems that answered 400 questions
each; ``care`` is fitted once, without a label.

- Nothing differs: the items of one system, drawn again for each gate, are cut into two halves at random; one is called
  new.
- Something differs: for the pairs of systems whose gold differs by the most, the median and the least (of all 36).
- 20, 50 and 100 labels for each of the two; 2,000 gates for each cell (``--draws``), samples drawn again.
- Methods: this gate; the same on labels only; and the judges only, which is what a gate without labels does: a paired
  or unpaired t interval of the difference of ``care``'s mean, on which labels have no influence.
- Printed: share of gates that said better, worse, undecided, where the new system is the better one by gold.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from threadpoolctl import threadpool_limits

from benchmarks.studies.rates import Array, Cell, cells, column_of
from care_ops.results.gate import gate
from care_ops.results.rates import Labelled
from tests.support.panels import prepare, views

LABELS = (20, 50, 100)
VIEW, COLUMN = "triviaqa_judges_v1", "exam_taker"
LEVEL = 0.9


def main() -> None:
    """Print a row for each pair, number of labels and method."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.gate")
    parser.add_argument("--draws", type=int, default=2_000)
    given = parser.parse_args()
    print("| new - old | truth | labels each | method | better | worse | undecided |\n|---|---|---|---|---|---|---|")
    with threadpool_limits(1):
        panel = prepare(next(view for view in views() if view.name == VIEW))
        cell = next(cells(panel))
        system = column_of(panel.view.family, COLUMN, panel.view.scores.item_ids)
        for name, new, old in pairs(cell, system):
            for m in LABELS:
                _print(cell, system, (name, new, old), m, given.draws)


def pairs(cell: Cell, system: NDArray[np.str_]) -> list[tuple[str, str | None, str | None]]:
    """Return no difference (None, None) and three pairs of systems, the better one first."""
    gold = {name: float(cell.gold[system == name].mean()) for name in np.unique(system).tolist()}
    separate = sorted((gold[a] - gold[b], a, b) for a in gold for b in gold if (gold[a], a) > (gold[b], b))
    return [
        ("one system, cut in two", None, None),
        *((f"{a} - {b}", a, b) for _, a, b in (separate[-1], separate[len(separate) // 2], separate[0])),
    ]


def _print(cell: Cell, system: NDArray[np.str_], pair: tuple[str, str | None, str | None], m: int, draws: int) -> None:
    outcomes: dict[str, Counter[str]] = {"this gate": Counter(), "labels only": Counter(), "judges only": Counter()}
    truth = 0.0
    for k in range(draws):
        rng = np.random.default_rng([k, m])
        new, old = rows_of_pair(system, pair[1], pair[2], rng)
        truth = 0.0 if pair[1] is None else float(cell.gold[new].mean() - cell.gold[old].mean())
        rows, names = np.concatenate([new, old]), ["new"] * len(new) + ["old"] * len(old)
        labels = np.full(len(rows), np.nan)
        seen = np.concatenate(
            [rng.choice(len(new), m, replace=False), len(new) + rng.choice(len(old), m, replace=False)]
        )
        labels[seen] = cell.gold[rows[seen]]
        units = cell.units[rows].tolist()
        answer = cell.answer[rows]
        outcomes["this gate"][
            gate(Labelled(answer, labels, names, units), "new", "old", level=LEVEL, seed=k).outcome
        ] += 1
        flat = np.zeros(len(rows))
        outcomes["labels only"][
            gate(Labelled(flat, labels, names, units), "new", "old", level=LEVEL, seed=k).outcome
        ] += 1
        outcomes["judges only"][_judges_only(cell.answer[new], cell.answer[old])] += 1
    for method, counted in outcomes.items():
        shares = " | ".join(f"{counted[outcome] / draws:.3f}" for outcome in ("better", "worse", "undecided"))
        print(f"| {pair[0]} | {truth:+.3f} | {m} | {method} | {shares} |", flush=True)


def rows_of_pair(
    system: NDArray[np.str_], new: str | None, old: str | None, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    if new is not None and old is not None:
        return np.flatnonzero(system == new), np.flatnonzero(system == old)
    name = rng.choice(np.unique(system))
    rows = rng.permutation(np.flatnonzero(system == name))
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]


def _judges_only(new: Array, old: Array) -> str:
    new, old = new[~np.isnan(new)], old[~np.isnan(old)]
    error = float(np.sqrt(new.var(ddof=1) / len(new) + old.var(ddof=1) / len(old)))
    half = float(student.ppf((1 + LEVEL) / 2, len(new) + len(old) - 2)) * error
    separate = float(new.mean() - old.mean())
    return "better" if separate > half else "worse" if separate < -half else "undecided"


if __name__ == "__main__":
    main()
