"""Does any choice of the items to label beat a random sample, and what do ten more labels buy?

The design, fixed before its results were seen:

- The thirteen panels of ``bench-real``, without families and texts. In each of 20 draws half of the split units are the
  pool from which items are labelled, and the order is measured on the other half. A data set counts once in a mean.
- Choices of 10, 20 and 50 items: *random*; *rivals*, the items whose rank differs most between two plausible estimates
  (``care.disagreement``); *mixed*, half at random and half in proportion to that difference (``--chosen 0.5``);
  *spread*, the items on which the judges differ most; *variance*, greedily the item whose quality is least certain
  given the earlier choices, by the prior of ``models.label_model``.
- The difference from random is paired by draw. Its standard error is over draws within a panel, and over data sets in
  the summary. A choice beats random if its mean difference over the three numbers of labels exceeds two standard
  errors over data sets, and no panel's mean is below -.005.
- Ten more labels: after 10, 20, 30, 40 and 50 random labels, how many of the best items ten more would change, as
  ``care label`` predicts it, against how many ten more random labels change, and by how much they raise the order.

``make bench-labelling`` writes ``benchmarks/results/labelling.md`` in two minutes, and needs ``CARE_DATA_DIR``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from assets.table.label_effect import BATCH
from care_ops.aggregators.base import Problem
from care_ops.aggregators.care import disagreement, oblique_factors
from care_ops.aggregators.label_free import LabelFree, label_free
from care_ops.config import FitConfig
from care_ops.fit import problem_of
from care_ops.models.label_model import DEPARTURES, NOISES, SLOPE_SD, Columns, fit_labels
from care_ops.results.sampling import draw, inclusion
from care_ops.scores import Array
from tests.support.panels import WORST, Panel, panels

RESULT = Path("benchmarks/results/labelling.md")
LABELS, DRAWS, TOP = (10, 20, 50), 20, 20
SIZES = (0, 10, 20, 30, 40, 50, 60)
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Subject:
    """A panel in the order of its view, ready for many sets of labels."""

    panel: Panel
    columns: Columns
    rivals: Array
    spread: Array

    def estimate(self, rows: Rows) -> Array:
        """``care`` by these labels."""
        fitted = fit_labels(self.columns, rows, self.panel.view.gold[rows]) if len(rows) else None
        return self.columns.estimate if fitted is None else fitted.latent


def subject_of(panel: Panel) -> Subject:
    """Fit the panel once without labels."""
    scores = panel.scores(families=False, texts=False)
    problem: Problem = problem_of(scores, FitConfig(aggregators=("care",)))
    found: LabelFree = label_free(problem)
    place = {item: k for k, item in enumerate(problem.scores.item_ids)}
    order = [place[item] for item in scores.item_ids]
    columns = Columns(found.latent[order], oblique_factors(problem, found)[order], problem.filled[order])
    spread = np.nan_to_num(np.nanstd(problem.standardised, axis=1))[order]
    return Subject(panel, columns, disagreement(found)[order], spread)


def by_variance(subject: Subject, pool: Rows, m: int) -> Rows:
    """The item of largest prior variance given the earlier ones, m times."""
    columns, scale = subject.columns, DEPARTURES[1]
    features = np.column_stack(
        [
            SLOPE_SD * columns.estimate,
            scale * columns.factors / np.sqrt(columns.factors.shape[1]),
            scale * columns.judges / np.sqrt(columns.judges.shape[1]),
        ]
    )[pool]
    chosen: list[int] = []
    for _ in range(m):
        left = np.sum(features**2, axis=1)
        left[chosen] = -1.0
        best = int(np.argmax(left))
        chosen.append(best)
        along = features[best].copy()
        with_best = features @ along
        step = 1.0 - np.sqrt(NOISES[1] ** 2 / (NOISES[1] ** 2 + along @ along))
        features = features - np.outer(with_best, along) * (step / max(float(along @ along), 1e-12))
    return pool[chosen]


CHOICES: dict[str, Callable[[Subject, Rows, int, np.random.Generator], Rows]] = {
    "random": lambda _, pool, m, rng: rng.choice(pool, m, replace=False),
    "rivals": lambda s, pool, m, _: pool[np.argsort(-s.rivals[pool], kind="stable")[:m]],
    "mixed": lambda s, pool, m, rng: pool[draw(inclusion(s.rivals[pool], m, 0.5), rng)],
    "spread": lambda s, pool, m, _: pool[np.argsort(-s.spread[pool], kind="stable")[:m]],
    "variance": lambda s, pool, m, _: by_variance(s, pool, m),
}


def halves(panel: Panel, seed: int) -> tuple[Rows, NDArray[np.bool_]]:
    """The rows that may be labelled, and the others."""
    units = np.unique(panel.view.units)
    taken = np.random.default_rng([seed, 1]).permutation(units)[: len(units) // 2]
    pool = np.isin(panel.view.units, taken)
    return np.flatnonzero(pool), ~pool


def compared(subject: Subject) -> dict[tuple[str, int], list[float]]:
    """Order on the other half by choice and number of labels, for each draw."""
    measured: dict[tuple[str, int], list[float]] = {}
    for seed in range(DRAWS):
        pool, rest = halves(subject.panel, seed)
        for m in LABELS:
            for name, choose in CHOICES.items():
                rows = np.sort(choose(subject, pool, min(m, len(pool)), np.random.default_rng([seed, m, 2])))
                gain = subject.panel.gain(subject.estimate(rows), rest)
                measured.setdefault((name, m), []).append(gain)
    return measured


def ten_more(subject: Subject) -> list[tuple[float, int, float]]:
    """Predicted and realised changes of the best items, and the gain in order, by ten more random labels."""
    found: list[tuple[float, int, float]] = []
    for seed in range(DRAWS):
        pool, rest = halves(subject.panel, seed)
        order = np.random.default_rng([seed, 3]).permutation(pool)
        estimates = [subject.estimate(np.sort(order[:size])) for size in SIZES if size <= len(order)]
        top = min(TOP, max(len(estimates[0]) // 5, 1))
        best = [{*np.argsort(-estimate, kind="stable")[:top].tolist()} for estimate in estimates]
        order_of = [subject.panel.gain(estimate, rest) for estimate in estimates]
        for k in range(1, len(estimates) - 1):
            predicted = len(best[k] - best[k - 1]) * SIZES[k] / (SIZES[k] + BATCH)
            found.append((predicted, len(best[k + 1] - best[k]), order_of[k + 1] - order_of[k]))
    return found


def show_choices(results: Sequence[tuple[Panel, dict[tuple[str, int], list[float]]]]) -> None:
    """Print the difference of each choice from random."""
    names = [name for name in CHOICES if name != "random"]
    print(f"\n## Choice of the items\n\nDifference from random labels; mean of {DRAWS} draws and its standard error.\n")
    print("| panel | labels | random: gain over the plain average | " + " | ".join(names) + " |")
    print("|---|---|---|" + "---|" * len(names))
    means: dict[str, dict[str, list[tuple[str, float]]]] = {name: {} for name in names}
    for panel, measured in results:
        for m in LABELS:
            base = np.array(measured["random", m])
            cells: list[str] = []
            for name in names:
                differences = np.array(measured[name, m]) - base
                means[name].setdefault(panel.view.family, []).append((panel.name, float(differences.mean())))
                cells.append(f"{differences.mean():+.3f} ± {differences.std(ddof=1) / DRAWS**0.5:.3f}")
            print(f"| {panel.name} | {m} | {base.mean():+.3f} | {' | '.join(cells)} |")
    print("\n| choice | mean difference by data set | standard error over data sets | worst panel | beats random |")
    print("|---|---|---|---|---|")
    for name in names:
        by_set = np.array([np.mean([value for _, value in each]) for each in means[name].values()])
        by_panel: dict[str, list[float]] = {}
        for panel_name, value in (pair for each in means[name].values() for pair in each):
            by_panel.setdefault(panel_name, []).append(value)
        worst = min(by_panel, key=lambda key: float(np.mean(by_panel[key])))
        lowest, error = float(np.mean(by_panel[worst])), float(by_set.std(ddof=1) / len(by_set) ** 0.5)
        beats = by_set.mean() > 2 * error and lowest >= WORST
        print(f"| {name} | {by_set.mean():+.4f} | {error:.4f} | {lowest:+.3f} ({worst}) | {'yes' if beats else 'no'} |")


def show_ten_more(found: Sequence[tuple[float, int, float]]) -> None:
    """Print predicted against realised changes."""
    print("\n## Ten more labels\n\nItems of the top 20 that ten more labels change, and what they add to the order.\n")
    print("| predicted | cases | mean predicted | mean realised | mean gain in order |\n|---|---|---|---|---|")
    predicted, realised, gain = np.array(found).T
    for low, high in ((0.0, 0.5), (0.5, 1.5), (1.5, 3.5), (3.5, 6.5), (6.5, 10.5), (10.5, 20.5)):
        here = (predicted >= low) & (predicted < high)
        if here.any():
            row = f"{here.sum()} | {predicted[here].mean():.1f} | {realised[here].mean():.1f}"
            print(f"| {low:g} to {high:g} | {row} | {gain[here].mean():+.4f} |")
    print(f"\nCorrelation of predicted and realised: {np.corrcoef(predicted, realised)[0, 1]:.2f}.")


def main() -> None:
    """Write the tables."""
    logging.disable(logging.WARNING)
    with threadpool_limits(limits=1, user_api="blas"):
        subjects = [subject_of(panel) for panel in panels()]
        results = [(subject.panel, compared(subject)) for subject in subjects]
        found = [case for subject in subjects for case in ten_more(subject)]
    with RESULT.open("w", encoding="utf-8") as written, redirect_stdout(written):
        print("# Labels: which items, and what ten more buy\n\nBy `make bench-labelling`; the design is at the head of")
        print("`benchmarks/studies/labelling.py`. AUC where gold has two values, else Kendall's tau-b.")
        show_choices(results)
        show_ten_more(found)


if __name__ == "__main__":
    main()
