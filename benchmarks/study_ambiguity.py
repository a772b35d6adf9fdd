"""Is a panel on which ``care`` loses to the mean called ambiguous, and how often is one without need?

The design:

- Recorded panels: every visible view under four declarations of families (base model, model, vendor, none; they differ
  on LLMBar, elsewhere the declared families and none). A loss is m of ``care`` without a label, less m of the panel's
  mean. Printed: all views with loss and flag; losses above .01 that are not flagged must be none.
- The rule (``Defensible.ambiguous``) has no constant that these panels set anew: several followed factors flag a panel,
  whatever their correlation with the answer. That LLMBar's 30 and 65 judges lose unflagged under some declarations was
  known before, and is why the rule was changed; they therefore show that it holds there and are no test of it.
- The test: simulated panels of 12 judges, each its own family, with loadings drawn from .4 to .9, on 200 or 1,000
  items, ``--draws`` of each. One factor: a flag is a false alarm. Two factors, six judges each, that are independent or
  correlate by .5, of which quality is one: a flag is right, and a loss above .01 without a flag is a miss.

Belongs here: panels and tables. Belongs elsewhere: the rule (``care_ops.aggregators.care``).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.study_truth import redeclared
from care_ops.aggregators.base import Problem
from care_ops.aggregators.care import defensible
from care_ops.config import FitConfig
from care_ops.metrics import tau
from care_ops.moments.state import accumulate
from care_ops.scores import ScoreMatrix
from tests.support.panels import PreparedView, prepare, views

DECLARATIONS = ("base model", "model", "vendor", "none")
LOSS = 0.01
JUDGES, ITEMS = 12, (200, 1000)
KINDS = {"one factor": None, "two independent factors": 0.0, "two factors that correlate by .5": 0.5}


def declared() -> Iterator[tuple[str, PreparedView]]:
    """Every view under each declaration that gives it other families."""
    for view in views():
        seen: set[tuple[tuple[str, str], ...]] = set()
        for how in DECLARATIONS:
            again = redeclared(view, how)
            families = tuple(sorted(again.scores.families.items()))
            if families not in seen:
                seen.add(families)
                yield how, prepare(again)


def simulated(kind: float | None, n: int, rng: np.random.Generator) -> tuple[bool, float]:
    """Whether a drawn panel is called ambiguous, and tau of ``care`` with quality less that of the mean."""
    quality, other = rng.normal(size=(2, n))
    if kind is not None:
        other = kind * quality + np.sqrt(1 - kind**2) * other
    loadings = rng.uniform(0.4, 0.9, JUDGES)
    follows = np.where(np.arange(JUDGES) < JUDGES // 2, True, kind is None)
    signal = np.where(follows, quality[:, None], other[:, None])
    values = loadings * signal + np.sqrt(1 - loadings**2) * rng.normal(size=(n, JUDGES))
    names = tuple(f"i{k:05}" for k in range(n)), tuple(f"j{k:02}" for k in range(JUDGES))
    scores = ScoreMatrix(values, *names, {})
    answers = defensible(Problem(scores, accumulate(values), None, rng, FitConfig()))
    return answers.ambiguous, tau(answers.latent, quality) - tau(answers.mean, quality)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study_ambiguity")
    parser.add_argument("--draws", type=int, default=200)
    given = parser.parse_args()
    with threadpool_limits(1):
        _print_recorded()
        _print_simulated(given.draws)


def _print_recorded() -> None:
    print("| view | families | care - mean | ambiguous |\n|---|---|---|---|")
    unflagged = flagged = cells = 0
    for how, panel in declared():
        answers = defensible(panel.problem)
        change = panel.view.measure(answers.latent) - panel.view.measure(panel.problem.panel_mean)
        print(f"| {panel.name} | {how} | {change:+.3f} | {'yes' if answers.ambiguous else 'no'} |", flush=True)
        cells, flagged = cells + 1, flagged + answers.ambiguous
        unflagged += change < -LOSS and not answers.ambiguous
    print(f"\n{unflagged} losses above {LOSS} without a flag; {flagged} of {cells} flagged\n")


def _print_simulated(draws: int) -> None:
    print("| simulated | items | called ambiguous | losses above .01 | of these not flagged |\n|---|---|---|---|---|")
    for name, kind in KINDS.items():
        for n in ITEMS:
            results = [simulated(kind, n, np.random.default_rng([n, seed])) for seed in range(draws)]
            lost = [flag for flag, change in results if change < -LOSS]
            share = np.mean([flag for flag, _ in results])
            print(f"| {name} | {n} | {share:.3f} | {len(lost) / draws:.3f} | {lost.count(False)} |", flush=True)


if __name__ == "__main__":
    main()
