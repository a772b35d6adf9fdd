"""Measure the gain of ``shuffled`` if judges drift along the file, and its harm if they do not.

The design was fixed before the results:

- *Recorded panels*: the thirteen panels of ``bench-real`` in 20 random orders of their rows, with and without
  ``shuffled``. The harm is the difference of the two gains over the plain average; the limit for each panel is -.005.
- *Simulated panels*: 40 panels for each of 100, 300 and 1,000 shuffled items, by eight judges with a correlation of .3
  to .8 with quality. None, a quarter, half or all of the judges drift along the file by .5 to 1 standard deviations; in
  the second kind of drift, half of these drift downwards. The gain by ``shuffled`` is in Kendall's tau with quality.
- A first version removed the trend of every judge and harmed panels without drift: by .003 on ASSET, and by .015 on 100
  simulated items. CARE now removes only the trends that chance does not explain. This study uses new draws.
- The study also counts how often the verdict asks about the order of the rows if ``shuffled`` is not given.

``make bench-position`` writes ``benchmarks/results/position.md`` in five minutes, and needs ``CARE_DATA_DIR``.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

import care_eval
from benchmarks.studies import printed_to
from benchmarks.studies.panels.__main__ import order as tau
from care_eval import FitResult
from care_ops.scores import Array
from tests.support.panels import WORST, panels

RESULT = Path("benchmarks/results/position.md")
ORDERS, DRAWS = 20, 40


def fitted(values: Array, order: np.ndarray, *, shuffled: bool) -> tuple[Array, FitResult]:
    """Fit the rows in the given order; return the estimate in the order of ``values``, and the fit."""
    columns: dict[str, list[object]] = {"item_id": [f"i{row:06d}" for row in order]}
    for j, column in enumerate(values[order].T):
        columns[f"j{j:03d}"] = [None if value != value else float(value) for value in column]
    result = care_eval.fit(columns, aggregators=("care",), intervals=0, shuffled=shuffled)
    place = {str(item): k for k, item in enumerate(result.items)}
    return result.estimate[[place[f"i{row:06d}"] for row in range(len(order))]], result


def asks(result: FitResult) -> bool:
    """Return whether the verdict asks about the order of the rows."""
    return any("--shuffled" in str(reason) for reason in result.verdict.reasons)


def recorded() -> None:
    """Print the table of recorded panels."""
    print("\n## Recorded panels, rows shuffled\n")
    print("| panel | gain without `shuffled` | further gain with `shuffled` |", end=" ")
    print("share of verdicts that ask about the order, shuffled rows | the verdict asks, rows in the file's order |")
    print("|---|---|---|---|---|")
    harms: list[float] = []
    for panel in panels():
        values = panel.view.scores.values
        gains: list[tuple[float, float]] = []
        asked: list[bool] = []
        for seed in range(ORDERS):
            order = np.random.default_rng([seed, 1]).permutation(len(values))
            before, result = fitted(values, order, shuffled=False)
            after, _ = fitted(values, order, shuffled=True)
            gains.append((panel.gain(before), panel.gain(after) - panel.gain(before)))
            asked.append(asks(result))
        mean, error = np.mean(gains, axis=0), np.std(gains, axis=0, ddof=1) / ORDERS**0.5
        harms.append(float(mean[1]))
        own = "yes" if asks(fitted(values, np.arange(len(values)), shuffled=False)[1]) else "no"
        print(f"| {panel.name} | {mean[0]:+.4f} | {mean[1]:+.4f} ± {error[1]:.4f} | {np.mean(asked):.2f} | {own} |")
    print(f"\nFurther gain: mean {np.mean(harms):+.4f}, lowest {min(harms):+.4f}; the study accepts {WORST} or more.")


def planted() -> None:
    """Print the table of simulated drift."""
    print("\n## Simulated drift in shuffled rows\n\n| items | judges that drift | direction |", end=" ")
    print("gain with `shuffled` | lowest gain | share of verdicts that ask about the order |")
    print("|---|---|---|---|---|---|")
    kinds = itertools.product((100, 300, 1000), ((0, "none"), (2, "one"), (4, "one"), (4, "both"), (8, "one")))
    for kind, (n, (drifting, direction)) in enumerate(kinds):
        gains: list[float] = []
        asked: list[bool] = []
        for draw in range(DRAWS):
            rng = np.random.default_rng([kind, draw, 1])
            quality, place, truth = rng.normal(size=n), np.linspace(-1.7, 1.7, n), rng.uniform(0.3, 0.8, 8)
            drift = np.where(np.arange(8) < drifting, rng.uniform(0.5, 1.0, 8), 0.0)
            drift *= np.where(np.arange(8) % 2, -1.0, 1.0) if direction == "both" else 1.0
            noise = rng.normal(size=(n, 8)) * np.sqrt(1 - truth**2)
            values = np.outer(quality, truth) + noise + np.outer(place, drift)
            before, result = fitted(values, np.arange(n), shuffled=False)
            after, _ = fitted(values, np.arange(n), shuffled=True)
            gains.append(tau(after, quality) - tau(before, quality))
            asked.append(asks(result))
        cells = f"{np.mean(gains):+.3f} | {min(gains):+.3f} | {np.mean(asked):.2f}"
        print(f"| {n} | {drifting} of 8 | {direction} | {cells} |")


def main() -> None:
    """Write the page of results."""
    with printed_to(RESULT):
        print("# Position in the file\n\n`make bench-position` wrote this page. The docstring of")
        print("`benchmarks/studies/position.py` describes the design.")
        recorded()
        planted()


if __name__ == "__main__":
    main()
