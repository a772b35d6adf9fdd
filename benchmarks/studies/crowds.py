"""Recorded panels thinned to crowds: ``care`` beside the mean, the vote and annotator models. ``make bench-crowds``.

The design, fixed before any result was seen.

- Panels: every view of ``CARE_DATA_DIR`` with at least twenty admitted judges, at most 1,000 items of each drawn at
  random, with the cut and the declared scale that the other studies use.
- Thinning: each item keeps 2, 3 or 5 of its scores. Judges are drawn with probabilities 1, 1/2, 1/3, ... in random
  order, so that a few do most of the work, as in a crowd. Seeds 0 to 4.
- Methods: ``care``, ``avg``, ``mv`` and ``dawid_skene`` as ``care fit`` runs them, and crowd-kit's Dawid-Skene, GLAD
  and MACE on the same votes in the same run, by their probabilities (an expected grade where there are more than two
  classes).
- Measure: AUC, or Kendall's tau-b where gold is no yes or no, against gold that no method sees; the mean over the
  seeds.
- What counts: over all cells (a panel at one thinning), the mean of ``care`` minus the best of the other methods of
  that cell, which is to be -.01 or more; the worst cell is printed.

No constant of the model was chosen on these panels: the strength of its prior comes from planted crowds. But ``care``
was the factor alone when they were first looked at (``benchmarks/results/bench-crowds.md`` has both figures), and
became the mean of the factor and of the families' means afterwards. Panels that nobody had looked at confirm that
(``--fewest 10 --most 19 --without-rivals``): the same design on all views with ten to nineteen judges, thinned to 2, 3
and 5 scores.

Belongs here: draws and table. Belongs elsewhere: the model (``care_ops.models.sparse_factor``).
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.annotators import votes
from care_ops.aggregators.base import Problem
from care_ops.config import FitConfig
from care_ops.fit import fit_panel
from care_ops.moments.state import of_panel
from care_ops.scores import ScoreMatrix
from tests.support.panels import CUTS, SCALES, View, prepare, views

Array = NDArray[np.float64]

LEAST_JUDGES, MOST_ITEMS = 20, 1_000
SCORES_AN_ITEM = (2, 3, 5)
SEEDS = range(5)
OURS = ("care", "avg", "mv", "dawid_skene")
RIVALS = Path("build/rivals/bin/python")

_THEIRS = """
import sys
import numpy as np, pandas as pd
from crowdkit.aggregation import GLAD, MACE, DawidSkene
jobs, out = np.load(sys.argv[1]), {}
for job in sorted({name.split("/")[0] for name in jobs.files}):
    task, worker, label, values = (jobs[f"{job}/{part}"] for part in ("task", "worker", "label", "values"))
    frame = pd.DataFrame({"task": task, "worker": worker, "label": label})
    models = {"DawidSkene": DawidSkene(n_iter=100), "GLAD": GLAD(), "MACE": MACE(random_state=0)}
    for name, model in models.items():
        probability = model.fit_predict_proba(frame)
        expected = probability.to_numpy() @ values[probability.columns.to_numpy(int)]
        estimate = np.full(int(jobs[f"{job}/items"]), np.nan)
        estimate[probability.index.to_numpy(int)] = expected
        out[f"{job}/{name}"] = estimate
np.savez(sys.argv[2], **out)
"""


@dataclass(frozen=True)
class Crowd:
    """A panel thinned to a crowd, and what its fit is given."""

    view: View
    each: int
    config: FitConfig


def main() -> None:
    """Print a row for each panel and thinning, and what counts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.crowds")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--fewest", type=int, default=LEAST_JUDGES, help="judges of a panel")
    parser.add_argument("--most", type=int, default=1_000, help="judges of a panel")
    parser.add_argument("--without-rivals", action="store_true", help="leave out crowd-kit")
    given = parser.parse_args()
    measured: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    prepared = [panel.view for panel in map(prepare, views())]
    panels = [view for view in prepared if given.fewest <= len(view.scores.judges) <= given.most]
    for seed in range(given.seeds):
        crowds = [thinned(view, each, seed) for view in panels for each in SCORES_AN_ITEM]
        theirs = [{} for _ in crowds] if given.without_rivals else rivals(crowds)
        for k, crowd in enumerate(crowds):
            for name, estimate in {**ours(crowd), **theirs[k]}.items():
                measured[crowd.view.name, crowd.each][name].append(crowd.view.measure(estimate))
        print(f"seed {seed} is done", flush=True)
    _print({cell: {name: float(np.mean(m)) for name, m in by_name.items()} for cell, by_name in measured.items()})


def thinned(view: View, each: int, seed: int) -> Crowd:
    """A crowd of which each item keeps so many of its scores."""
    rng = np.random.default_rng([seed, each])
    n, p = view.scores.shape
    rows = np.sort(rng.permutation(n)[:MOST_ITEMS])
    values, work = view.scores.values[rows], rng.permutation(1.0 / np.arange(1, p + 1))
    kept = np.full(values.shape, np.nan)
    for kept_row, row in zip(kept, values, strict=True):
        present = np.flatnonzero(~np.isnan(row))
        if not len(present):
            continue
        share = work[present] / work[present].sum()
        judges = rng.choice(present, min(each, len(present)), replace=False, p=share)
        kept_row[judges] = row[judges]
    used: NDArray[np.bool_] = ~np.all(np.isnan(kept), axis=0)
    judges = tuple(judge for judge, u in zip(view.scores.judges, used, strict=True) if u)
    item_ids = tuple(view.scores.item_ids[int(row)] for row in rows)
    scores = ScoreMatrix(kept[:, used], item_ids, judges, view.scores.families)
    config = FitConfig(
        aggregators=OURS,
        cut=CUTS.get(view.family, 0.5 if view.binary else None),
        scale=SCALES.get(view.family, (0.0, 1.0)),
    )
    return Crowd(View(view.family, view.name, scores, view.gold[rows], view.units[rows], view.binary), each, config)


def ours(crowd: Crowd) -> dict[str, Array]:
    """The estimates of our aggregators, without ``mv`` where it does not apply."""
    fit = fit_panel(crowd.view.scores, crowd.config, solve="not")
    return {name: aggregate.estimate for name, aggregate in fit.aggregates.items()}


def rivals(crowds: Sequence[Crowd]) -> list[dict[str, Array]]:
    """The estimates of crowd-kit's models for each crowd, in an environment of its own."""
    jobs: dict[str, NDArray[np.generic]] = {}
    for k, crowd in enumerate(crowds):
        scores = crowd.view.scores
        problem = Problem(scores, of_panel(scores.values), None, np.random.default_rng(0), crowd.config)
        grades, values = votes(problem)
        task, worker = np.nonzero(grades >= 0)
        parts = {"task": task, "worker": worker, "label": grades[task, worker], "values": values}
        jobs |= {f"{k}/{name}": part for name, part in parts.items()} | {f"{k}/items": np.array(len(grades))}
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "jobs.npz", Path(folder) / "estimates.npz"
        np.savez(given, **jobs)  # type: ignore[arg-type]  # the stub takes the names for options
        subprocess.run([str(RIVALS), "-W", "ignore", "-c", _THEIRS, str(given), str(answer)], check=True)
        with np.load(answer) as estimates:
            names = ("DawidSkene", "GLAD", "MACE")
            return [{f"crowd-kit {name}": estimates[f"{k}/{name}"] for name in names} for k in range(len(crowds))]


def _print(cells: Mapping[tuple[str, int], Mapping[str, float]]) -> None:
    names = list(dict.fromkeys(name for by_name in cells.values() for name in by_name))
    print(f"| panel | scores an item | {' | '.join(names)} | care - best other |\n|{'---|' * (len(names) + 3)}")
    apart: dict[tuple[str, int], float] = {}
    for (panel, each), m in cells.items():
        apart[panel, each] = m["care"] - max(value for name, value in m.items() if name != "care")
        shown = " | ".join(f"{m[name]:.3f}" if name in m else "" for name in names)
        print(f"| {panel} | {each} | {shown} | {apart[panel, each]:+.3f} |")
    for name in names[1:]:
        differences = [m["care"] - m[name] for m in cells.values() if name in m]
        print(f"care - {name}: mean {np.mean(differences):+.4f}")
    for each in SCORES_AN_ITEM:
        print(f"care - best other at {each}: mean {np.mean([d for (_, e), d in apart.items() if e == each]):+.4f}")
    worst = min(apart, key=lambda cell: apart[cell])
    print(f"care - best other: mean {np.mean(list(apart.values())):+.4f}, worst {apart[worst]:+.3f} ({worst})")


if __name__ == "__main__":
    main()
