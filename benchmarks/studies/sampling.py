"""Do labels of chosen items help a fit more than labels of random ones? ``make bench-sampling``.

The design, fixed before a result was seen:

- Panels: llmbar 36 and care_civilcomments; judges are admitted by the default rule.
- Draws: 10, 20 and 50 items, all at random, or half (``CHOSEN``) by the expected gain of ``care label``;
  ``--draws`` of each, 60 by default.
- Measured: m of ``care`` with these labels less m of the panel's mean, on the items whose split unit has no label; the
  mean over draws and its standard error. The difference of two cells is decided where it exceeds two standard errors.

Belongs here: draws and table. Belongs elsewhere: which items are drawn (``care_ops.results.sampling``).
"""

from __future__ import annotations

import argparse

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.studies.rates import Array
from care_ops.aggregators.care import candidates_of, departures_of, disagreement, factors_of
from care_ops.aggregators.defensible import defensible
from care_ops.models.hypotheses import average_hypotheses
from care_ops.results.sampling import draw, inclusion
from tests.support.panels import PreparedView, prepare, views

VIEWS = ("llmbar 36", "care_civilcomments")
LABELS = (10, 20, 50)
CHOSEN = (0.0, 0.5)


def gains(panel: PreparedView, m: int, chosen: float, draws: int) -> Array:
    """m of ``care`` with labels less m of the mean, on the other items, by draw."""
    answers = defensible(panel.problem)
    candidates = candidates_of(answers)
    z, mean = departures_of(answers, np.nan_to_num(panel.problem.standardised)), panel.problem.panel_mean
    probability = inclusion(disagreement(answers, candidates), m, chosen)
    measured: list[float] = []
    for seed in range(draws):
        rows = np.sort(draw(probability, np.random.default_rng([seed, m])))
        average = average_hypotheses(candidates.hypotheses, factors_of(answers), z, rows, panel.view.gold[rows])
        latent = answers.latent if average is None else average.latent
        rest = ~np.isin(panel.view.units, panel.view.units[rows])
        measured.append(panel.view.measure(latent, rest) - panel.view.measure(mean, rest))
    return np.array(measured)


def main() -> None:
    """Print a row for each panel and number of labels."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.sampling")
    parser.add_argument("--draws", type=int, default=60)
    given = parser.parse_args()
    print("| panel | labels | all at random | half by expected gain |\n|---|---|---|---|")
    with threadpool_limits(1):
        for panel in (prepare(view) for view in views() if view.name in VIEWS):
            for m in LABELS:
                cells = [gains(panel, m, chosen, given.draws) for chosen in CHOSEN]
                shown = " | ".join(f"{c.mean():+.4f} ± {c.std(ddof=1) / np.sqrt(len(c)):.4f}" for c in cells)
                print(f"| {panel.name} | {m} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
