"""Compare ``care`` with the plain average on simulated panels, and check the verdict *clear*: ``make bench-panels``.

The study takes ten minutes. Its design was fixed before the first result:

- There are 200 draws of each kind of panel (``kinds``). Seeds follow from the hash of the last commit that changed
  the generators, the kinds or this file, so nobody can choose a setting by these draws.
- Order is Kendall's tau with the truth, as if ties of an estimate were broken at random: (concordant - discordant) /
  pairs that differ in truth. The gain is the tau of ``care`` minus the tau of the mean of the scores.
- A *false clear* is a panel with the exact state *clear* and a gain below -.01; its upper bound is that of Clopper and
  Pearson at 95 %. The state *clear if* names a condition, such as "if the number of words is no part of quality", so
  such a panel does not count as clear.
- Kinds whose scores cannot tell which judges are right (``kinds.UNIDENTIFIABLE``) are counted separately.

Each panel is fitted by ``care_eval.fit``, with admission, as a user would. Tables are written to
``benchmarks/results/panels.md``.
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
from benchmarks.studies.panels.generators import Array, Drawn
from benchmarks.studies.panels.kinds import CHOSEN_ON, HELD_OUT, UNIDENTIFIABLE
from care_ops.errors import FitError

RESULT = Path("benchmarks/results/panels.md")
DESIGN = [f"benchmarks/studies/panels/{name}.py" for name in ("generators", "kinds", "__main__")]
LOSS = -0.01


@dataclass(frozen=True)
class Row:
    """Gain of ``care`` over the plain average on a panel, and state of the verdict; *failed* if the fit was refused."""

    gain: float
    state: str


def order(estimate: Array, truth: Array) -> float:
    """Return Kendall's tau, as if ties of the estimate were broken at random."""
    filled = np.where(np.isnan(estimate), np.nanmean(estimate), estimate)

    def untied(values: Array) -> float:
        counts = np.unique(values, return_counts=True)[1].astype(float)
        return len(values) * (len(values) - 1) / 2 - float((counts * (counts - 1) / 2).sum())

    tau = float(np.asarray(kendalltau(filled, truth))[0])
    return 0.0 if np.isnan(tau) else tau * float(np.sqrt(untied(filled) / untied(truth)))


def measured(drawn: Drawn) -> Row:
    """Fit a panel as a user would, with its scores, declared families and features, and return the result."""
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
    """Measure several draws of one kind of panel."""
    generator = {**CHOSEN_ON, **HELD_OUT}[kind]
    place = [*CHOSEN_ON, *HELD_OUT].index(kind)
    return [measured(generator(np.random.default_rng([seed, place, k]))) for k in range(draws)]


def line(kind: str, rows: list[Row]) -> str:
    """Return the table row of one kind of panel."""
    gains = np.array([row.gain for row in rows])
    clear = [row for row in rows if row.state == "clear"]
    false = sum(row.gain < LOSS for row in clear)
    usable = sum(row.state in ("clear", "clear if") for row in rows)
    cells = [f"{np.mean(gains):+.3f}", f"{np.quantile(gains, 0.01):+.3f}", f"{gains.min():+.3f}"]
    cells += [f"{np.mean(gains < LOSS):.3f}", f"{len(clear) / len(rows):.2f}", f"{usable / len(rows):.2f}"]
    return f"| {kind} | {' | '.join(cells)} | {false} of {len(clear)} (<= {upper(false, len(clear)):.3f}) |"


def upper(events: int, trials: int) -> float:
    """Return the upper end of the 95 % interval of Clopper and Pearson."""
    return 1.0 if events >= trials else float(beta.ppf(0.975, events + 1, trials - events))


HEAD = (
    "| kind of panel | mean gain | 1st percentile | lowest gain | share with a loss above .01 | share clear "
    "| share clear or clear if | false clear verdicts (upper bound) |\n"
    "|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    """Simulate all kinds of panels, and write the tables."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%H", "--", *DESIGN], capture_output=True, text=True, check=True
    ).stdout.strip()
    seed = int(commit[:8], 16)
    kinds = [*CHOSEN_ON, *HELD_OUT]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        by_kind = dict(zip(kinds, pool.map(of_kind, kinds, [draws] * len(kinds), [seed] * len(kinds)), strict=True))
    lines = [
        "# Simulated panels",
        "",
        f"`python -m benchmarks.studies.panels {draws}` wrote this page, with {draws} draws of each kind of panel. "
        f"The design and the seeds are those of commit {commit[:12]}. The gain is Kendall's tau of `care` minus that "
        "of the plain average. A *false clear* is a clear verdict with a gain below -.01; the bound is the upper end "
        "of a 95 % interval.",
        "",
    ]
    for title, names in (("Kinds on which thresholds were chosen", CHOSEN_ON), ("Held-out kinds", HELD_OUT)):
        lines += [f"## {title}", "", HEAD, *(line(kind, by_kind[kind]) for kind in names), ""]
    for title, unidentifiable in (("can", False), ("cannot", True)):
        rows = [row for kind, found in by_kind.items() if (kind in UNIDENTIFIABLE) is unidentifiable for row in found]
        clear = [row for row in rows if row.state == "clear"]
        false = sum(row.gain < LOSS for row in clear)
        share = f"{len(clear)} of {len(rows)} verdicts are clear, {false} of them false"
        bound = f"(share at most {upper(false, len(clear)):.4f})"
        lines += [f"Kinds whose scores {title} tell which judges are right: {share} {bound}.", ""]
    RESULT.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
