"""Measure on simulated panels whether ``care`` is ever worse than the plain average, and whether *clear* is true.

``make bench-panels``; ten minutes.

The design, fixed before a result was seen:

- 200 draws of each kind of panel (``generators``). Seeds follow from the hash of the last commit that changed the
  generators or this file, so that nobody can have chosen by these draws.
- Order is Kendall's tau with the truth as if ties of an answer were broken at random, (concordant - discordant) / pairs
  that differ in truth. The gain is that of ``care`` less that of the mean of the scores.
- A *false clear* is a panel that is called exactly clear and whose gain is below -.01; its upper bound is that of
  Clopper and Pearson at 95 %. Where *clear* names a condition ("if the number of words is no part of quality") and the
  truth follows that feature by .25 or more, the condition is not met, and the panel counts as not clear.
- Kinds on which no score can tell who is right (``generators.UNIDENTIFIABLE``) are counted apart.

Tables go to ``benchmarks/results/panels.md``. Panels go through ``care_eval.fit``, as a user calls it, admission
included.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import beta, kendalltau

import care_eval
from benchmarks.studies.panels.generators import CHOSEN_ON, HELD_OUT, UNIDENTIFIABLE, Array, Drawn
from care_ops.errors import FitError

RESULT = Path("benchmarks/results/panels.md")
DESIGN = ("benchmarks/studies/panels/generators.py", "benchmarks/studies/panels/__main__.py")
LOSS = -0.01


@dataclass(frozen=True)
class Row:
    """One panel: the gain over the plain average, and the state of the verdict; *failed* where it was refused."""

    gain: float
    state: str


def order(estimate: Array, truth: Array) -> float:
    """Kendall's tau as if ties of the estimate were broken at random."""
    filled = np.where(np.isnan(estimate), np.nanmean(estimate), estimate)

    def untied(values: Array) -> float:
        counts = np.unique(values, return_counts=True)[1].astype(float)
        return len(values) * (len(values) - 1) / 2 - float((counts * (counts - 1) / 2).sum())

    tau = float(np.asarray(kendalltau(filled, truth))[0])
    return 0.0 if np.isnan(tau) else tau * float(np.sqrt(untied(filled) / untied(truth)))


def measured(drawn: Drawn) -> Row:
    """Fit one panel as a user does: scores, declared families, and features as columns of the items."""
    varies = np.nanstd(drawn.scores, axis=0) > 0
    values = drawn.scores[:, varies]
    judges = [f"j{k:03d}" for k in range(values.shape[1])]
    ids = [f"i{k:06d}" for k in range(len(values))]
    columns = {"item_id": ids} | {
        judge: [None if value != value else float(value) for value in column]
        for judge, column in zip(judges, values.T, strict=True)
    }
    items = {"item_id": ids, **{name: feature.tolist() for name, feature in drawn.features.items()}}
    try:
        result = care_eval.fit(
            columns,
            items=items if drawn.features else None,
            judges=dict(zip(judges, np.array(drawn.families)[varies].tolist(), strict=True)),
            features=list(drawn.features),
            aggregators=("care",),
            intervals=0,
        )
    except FitError:
        return Row(0.0, "failed")
    place = {item: k for k, item in enumerate(result.items)}
    estimate = result.aggregates["care"].estimate[[place[item] for item in ids]]
    gain = order(estimate, drawn.truth) - order(np.nanmean(values, axis=1), drawn.truth)
    return Row(gain, result.verdict.state)


def of_kind(kind: str, draws: int, seed: int) -> list[Row]:
    """So many draws of one kind."""
    generator = {**CHOSEN_ON, **HELD_OUT}[kind]
    place = [*CHOSEN_ON, *HELD_OUT].index(kind)
    return [measured(generator(np.random.default_rng([seed, place, k]))) for k in range(draws)]


def line(kind: str, rows: list[Row]) -> str:
    """One row of a table."""
    gains = np.array([row.gain for row in rows])
    clear = [row for row in rows if row.state == "clear"]
    false = sum(row.gain < LOSS for row in clear)
    usable = sum(row.state in ("clear", "clear if") for row in rows)
    cells = [f"{np.mean(gains):+.3f}", f"{np.quantile(gains, 0.01):+.3f}", f"{gains.min():+.3f}"]
    cells += [f"{np.mean(gains < LOSS):.3f}", f"{len(clear) / len(rows):.2f}", f"{usable / len(rows):.2f}"]
    return f"| {kind} | {' | '.join(cells)} | {false} of {len(clear)} (<= {upper(false, len(clear)):.3f}) |"


def upper(events: int, trials: int) -> float:
    """Upper end of the 95 % interval of Clopper and Pearson."""
    return 1.0 if events >= trials else float(beta.ppf(0.975, events + 1, trials - events))


HEAD = (
    "| panels | gain | 1st percentile | worst | lose above .01 | clear | clear or clear if | false clear |\n"
    "|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    """Draw, measure, and write the tables."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%H", "--", *DESIGN], capture_output=True, text=True, check=True
    ).stdout.strip()
    seed = int(commit[:8], 16)
    kinds = [*CHOSEN_ON, *HELD_OUT]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        by_kind = dict(zip(kinds, pool.map(of_kind, kinds, [draws] * len(kinds), [seed] * len(kinds)), strict=True))
    lines = [
        "# Panels of known truth",
        "",
        f"Written by `python -m benchmarks.studies.panels {draws}`; {draws} draws of each kind; design of commit "
        f"{commit[:12]}, from which the seeds follow.",
        "",
    ]
    for title, names in (("Kinds on which thresholds were chosen", CHOSEN_ON), ("Kinds that were held out", HELD_OUT)):
        lines += [f"## {title}", "", HEAD, *(line(kind, by_kind[kind]) for kind in names), ""]
    for title, unidentifiable in (("can", False), ("cannot", True)):
        rows = [row for kind, found in by_kind.items() if (kind in UNIDENTIFIABLE) is unidentifiable for row in found]
        clear = [row for row in rows if row.state == "clear"]
        false = sum(row.gain < LOSS for row in clear)
        share = f"clear on {len(clear)} of {len(rows)}, false on {false} (at most {upper(false, len(clear)):.4f})"
        lines += [f"Kinds where the scores {title} tell who is right: {share}.", ""]
    RESULT.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
