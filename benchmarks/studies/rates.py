"""Measure coverage and width of intervals of a system's mean label: ``make bench-rates``.

The design was fixed before any result on these panels:

- Panels: one or two views of each folder of CARE_DATA_DIR that has scores and gold (``VIEWS``), with the default rule
  of admission.
- Estimate: ``care`` without labels, so no label is used twice.
- Labels: gold of a simple random sample of 20, 50 or 100 items of the panel, or of each of two systems. Each cell has
  ``--draws`` samples (default 5,000), the same for all methods.
- Targets: the mean of gold over the panel's items. If a panel names systems (``SYSTEMS``), also the difference of two
  systems: the pair with the largest and the pair with the smallest difference, among systems with 200 items or more.
- CARE: ``results.rates.rates_of`` with the declared split units. Its form and priors were chosen on simulated
  populations, not on these panels (``tests/care_ops/test_rates.py`` repeats some of the simulations).
- Other methods on the same draws: labels only (by CARE), and two linear corrections. truescore and ppi-python were
  measured at 3daed5ae.
- Output: coverage of 90 % intervals, mean width, root mean squared error. If labels cannot reach the coverage, because
  the binomial distribution is too coarse at 20 labels, the row of labels only shows it.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.aggregators.registry import REGISTRY
from care_ops.results.rates import Labelled, rates_of
from tests.support.panels import PreparedView, prepare, views

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Bounds = tuple[float, float, float]

VIEWS = (
    "care_asset",
    "care_civilcomments",
    "dices350",
    "frank",
    "hanna Complexity",
    "hanna Relevance",
    "llmbar 36",
    "prd",
    "triviaqa_judges_v1",
)
SYSTEMS = {"frank": "model_name", "hanna": "system", "triviaqa_judges_v1": "exam_taker"}
"""Column that names the system, in the items of each folder."""

LABELS = (20, 50, 100)
MIN_ITEMS = 200
LEVEL = 0.9


@dataclass(frozen=True)
class Cell:
    """Estimand: the mean of gold over ``first``, minus the mean over ``second`` if given.

    Attributes
    ----------
    name : str
    answer, gold : (n,) arrays
        Estimate of ``care`` without labels, and gold, for all items of the panel.
    units : (n,) array
        Split unit of each item.
    first, second : arrays of int
        Rows of the first and of the second system.
    """

    name: str
    answer: Array
    gold: Array
    units: NDArray[np.str_]
    first: Rows
    second: Rows | None

    @property
    def groups(self) -> list[Rows]:
        return [self.first] if self.second is None else [self.first, self.second]

    @property
    def target(self) -> float:
        """True value of the estimand."""
        means = [float(self.gold[rows].mean()) for rows in self.groups]
        return means[0] if len(means) == 1 else means[0] - means[1]


Method = Callable[[Cell, list[Rows], int], Bounds | None]


def cells(panel: PreparedView) -> Iterator[Cell]:
    """Yield the mean of the whole panel and, if the panel names systems, two differences of systems."""
    view, answer = panel.view, REGISTRY["care"].fit(panel.problem).estimate
    everything = np.arange(len(answer))

    def cell(name: str, first: Rows, second: Rows | None) -> Cell:
        return Cell(name, answer, view.gold, view.units, first, second)

    yield cell(view.name, everything, None)
    column = SYSTEMS.get(view.family)
    if column is None:
        return
    system = column_of(view.family, column, view.scores.item_ids)
    members = {name: np.flatnonzero(system == name) for name in np.unique(system)}
    members = {name: rows for name, rows in members.items() if len(rows) >= MIN_ITEMS}
    gap = {
        (a, b): abs(float(view.gold[members[a]].mean() - view.gold[members[b]].mean()))
        for a in members
        for b in members
        if a < b
    }
    if gap:
        for word, (a, b) in (("far", max(gap, key=lambda k: gap[k])), ("near", min(gap, key=lambda k: gap[k]))):
            yield cell(f"{view.name}, {word}: {a} - {b}", members[a], members[b])


def column_of(folder: str, column: str, item_ids: tuple[str, ...]) -> NDArray[np.str_]:
    """Read a column of a folder's items, in the order of the item ids."""
    table = pq.read_table(Path(os.environ["CARE_DATA_DIR"]) / folder / "items.parquet", columns=["item_id", column])
    value = dict(zip(table.column("item_id").to_pylist(), table.column(column).to_pylist(), strict=True))
    return np.array([str(value[item]) for item in item_ids])


def sample_rows(cell: Cell, m: int, rng: np.random.Generator) -> list[Rows]:
    """Draw a simple random sample of each system."""
    return [rng.choice(rows, min(m, len(rows) // 2), replace=False) for rows in cell.groups]


def ours(cell: Cell, sample: list[Rows], seed: int) -> Bounds | None:
    """Estimate with ``rates_of`` from the labels and the estimate of ``care``."""
    return _ours(cell, sample, seed, cell.answer)


def labels_only(cell: Cell, sample: list[Rows], seed: int) -> Bounds | None:
    """Estimate with ``rates_of`` from the labels only."""
    return _ours(cell, sample, seed, np.zeros(len(cell.gold)))


def _ours(cell: Cell, sample: list[Rows], seed: int, answer: Array) -> Bounds | None:
    labels = np.full(len(cell.gold), np.nan)
    systems: list[str | None] = [None] * len(labels)
    for name, rows, seen in zip("ab", cell.groups, sample, strict=False):
        labels[seen] = cell.gold[seen]
        for row in rows.tolist():
            systems[row] = name
    if any(len(seen) < 5 for seen in sample):
        return None
    rates = rates_of(
        Labelled(answer, labels, systems, cell.units.tolist(), np.ones(len(labels))), level=LEVEL, seed=seed
    )
    if cell.second is None:
        (rate,) = rates.rates
        return rate.value, rate.lo, rate.hi
    difference = rates.difference("a", "b")
    return difference.value, difference.lo, difference.hi


def ppi_plus_plus(cell: Cell, sample: list[Rows], _: int) -> Bounds | None:
    """Estimate a mean with PPI++ (Angelopoulos, Duchi and Zrnic, 2023), with slope and variance from the labels."""
    return None if cell.second is not None else _by_line(cell, sample[0], known=False)


def known_line(cell: Cell, sample: list[Rows], _: int) -> Bounds | None:
    """Return the narrowest .88 interval of a linear correction, with the slope and variance of all gold."""
    return None if cell.second is not None else _by_line(cell, sample[0], known=True)


def _by_line(cell: Cell, seen: Rows, *, known: bool) -> Bounds:
    n, m = len(cell.first), len(seen)
    rest = np.setdiff1d(cell.first, seen)
    answer = np.where(np.isnan(cell.answer), np.nanmean(cell.answer), cell.answer)
    x, y = (answer[cell.first], cell.gold[cell.first]) if known else (answer[seen], cell.gold[seen])
    slope = float(np.cov(y, x)[0, 1] / np.var(answer[cell.first])) / (1.0 if known else 1.0 + m / (n - m))
    spread = float(np.var(y - slope * x))
    drift = float(answer[cell.first].mean() if known else answer[rest].mean()) - float(answer[seen].mean())
    value = float(cell.gold[seen].mean()) + slope * drift
    share = (1.0 - m / n) if known else 1.0
    error = np.sqrt(share * spread / m + (0.0 if known else slope**2 * np.var(answer[rest]) / len(rest)))
    half = (1.555 if known else 1.645) * float(error)
    return value, value - half, value + half


def main() -> None:
    """Print a row for each cell, number of labels and method."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.rates")
    parser.add_argument("--draws", type=int, default=5_000)
    parser.add_argument("--match", default="", help="only cells whose name contains this text")
    parser.add_argument("--labels", type=int, action="append", help="number of labels; repeatable")
    parser.add_argument("--method", action="append", help="only the method of this name; repeatable")
    parser.add_argument("--systems", action="store_true", help="only all systems of a panel together, by CARE")
    given = parser.parse_args()
    methods: dict[str, Method] = {"labels only": labels_only, "care, this": ours, "PPI++": ppi_plus_plus}
    methods |= {"line known": known_line}
    print("| target | labels | method | coverage | width | error |\n|---|---|---|---|---|---|")
    with threadpool_limits(1):
        panels = [prepare(view) for view in views() if view.name in VIEWS]
        if given.systems:
            for panel, m in itertools.product(panels, given.labels or (10, 20, 50)):
                _print_systems(panel, m, given.draws)
            return
        for cell in (cell for panel in panels for cell in cells(panel) if given.match in cell.name):
            for m in given.labels or LABELS:
                for name in given.method or methods:
                    _print(cell, m, name, [_bounds(cell, m, methods[name], k) for k in range(given.draws)])


def _print_systems(panel: PreparedView, m: int, draws: int) -> None:
    """Print the mean and the lowest coverage over the systems of a panel, each with ``m`` random labels."""
    view, column = panel.view, SYSTEMS.get(panel.view.family)
    if column is None:
        return
    system, answer = column_of(view.family, column, view.scores.item_ids), REGISTRY["care"].fit(panel.problem).estimate
    members = {name: rows for name in np.unique(system) if len(rows := np.flatnonzero(system == name)) >= 2 * m}
    if not members:
        return
    named = [name if name in members else None for name in system.tolist()]
    inside, width, error = (np.zeros((draws, len(members))) for _ in range(3))
    for seed in range(draws):
        rng = np.random.default_rng([seed, m])
        labels = np.full(len(answer), np.nan)
        for rows in members.values():
            seen = rng.choice(rows, m, replace=False)
            labels[seen] = view.gold[seen]
        rates = {rate.system: rate for rate in rates_of(Labelled(answer, labels, named), level=LEVEL, seed=seed).rates}
        for k, (name, rows) in enumerate(members.items()):
            rate, truth = rates[name], float(view.gold[rows].mean())
            inside[seed, k], width[seed, k] = rate.lo <= truth <= rate.hi, rate.hi - rate.lo
            error[seed, k] = abs(rate.value - truth)
    figures = f"{inside.mean():.3f} | {inside.mean(axis=0).min():.3f} | {width.mean():.3f} | {error.mean():.4f}"
    print(f"| {view.name}, {len(members)} systems | {m} | {figures} |", flush=True)


def _bounds(cell: Cell, m: int, method: Method, seed: int) -> Bounds | None:
    return method(cell, sample_rows(cell, m, np.random.default_rng([seed, m])), seed)


def _print(cell: Cell, m: int, name: str, bounds: list[Bounds | None]) -> None:
    made = np.array([b for b in bounds if b is not None])
    if not len(made):
        return
    value, lo, hi = made.T
    inside = float(((lo <= cell.target) & (cell.target <= hi)).mean())
    error = float(np.sqrt(np.mean((value - cell.target) ** 2)))
    print(f"| {cell.name} | {m} | {name} | {inside:.3f} | {float((hi - lo).mean()):.3f} | {error:.4f} |", flush=True)


if __name__ == "__main__":
    main()
