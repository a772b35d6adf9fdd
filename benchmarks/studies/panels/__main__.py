"""Is ``care`` ever worse than the plain mean, and is *clear* true? ``make study-panels``, ten minutes.

The design, fixed before a result was seen:

- 200 draws of each kind of panel (``generators``). Seeds follow from the hash of the last commit that changed the
  generators or this file, so that nobody can have chosen by these draws.
- Order is Kendall's tau with the truth as if ties of an answer were broken at random, (concordant - discordant) / pairs
  that differ in truth. The gain is that of ``care`` less that of the mean of the scores.
- A *false clear* is a panel that is called exactly clear and whose gain is below -.01; its upper bound is that of
  Clopper and Pearson at 95 %. Where *clear* names a condition ("if the number of words is no part of quality") and the
  truth follows that feature by .25 or more, the condition is not met, and the panel counts as not clear.
- Beside it stand what nothing but the slopes gives, nothing but the voices, and neither: ``care`` without the features,
  without ``voices``, and without both.

With CARE_DATA_DIR, recorded panels follow, each with two planted copies of noise. Tables go to
``benchmarks/results/panels.md``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy.stats import beta, kendalltau

from benchmarks.studies.panels.generators import CHOSEN_ON, HELD_OUT, Array, Drawn
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.scores import ScoreMatrix
from tests.support.panels import prepare, views

RESULT = Path("benchmarks/results/panels.md")
DESIGN = ("benchmarks/studies/panels/generators.py", "benchmarks/studies/panels/__main__.py")
LOSS, MET = -0.01, 0.25


@dataclass(frozen=True)
class Row:
    """One panel: gains over the mean, and the doubts of the verdict; None where the panel was refused."""

    gain: float
    neither: float
    slopes: float
    voices: float
    doubts: tuple[str, ...] | None


def order(estimate: Array, truth: Array) -> float:
    """Kendall's tau as if ties of the estimate were broken at random."""
    filled = np.where(np.isnan(estimate), np.nanmean(estimate), estimate)

    def untied(values: Array) -> float:
        counts = np.unique(values, return_counts=True)[1].astype(float)
        return len(values) * (len(values) - 1) / 2 - float((counts * (counts - 1) / 2).sum())

    tau = float(kendalltau(filled, truth)[0])
    return 0.0 if np.isnan(tau) else tau * float(np.sqrt(untied(filled) / untied(truth)))


def measured(drawn: Drawn) -> Row:
    """``care`` on one panel, whole and with one of its two parts or neither."""
    varies = np.nanstd(drawn.scores, axis=0) > 0
    values = drawn.scores[:, varies]
    judges = tuple(f"j{k:03d}" for k in range(values.shape[1]))
    families = dict(zip(judges, np.array(drawn.families)[varies].tolist(), strict=True))
    items = tuple(f"i{k:06d}" for k in range(len(values)))
    scores = ScoreMatrix(values, items, judges, families, dict(drawn.features))
    mean = order(np.nanmean(values, axis=1), drawn.truth)

    def fitted(panel: ScoreMatrix):
        return fit_panel(panel, FitConfig(aggregators=("care",)), solve="not").aggregates["care"]

    def gain(panel: ScoreMatrix) -> float:
        return order(fitted(panel).estimate, drawn.truth) - mean

    try:
        whole = fitted(scores)
    except FitError:
        return Row(0.0, 0.0, 0.0, 0.0, None)
    unseen = replace(scores, features={})
    with patch("care_ops.aggregators.defensible.voices", lambda said: np.arange(len(said.estimate))):
        neither, slopes = gain(unseen), gain(scores)
    doubts = tuple(whole.details["doubts"])
    follows = [float(np.corrcoef(drawn.features[name], drawn.truth)[0, 1]) for name in whole.details["taken_off"]]
    if not doubts and max(map(abs, follows), default=0.0) >= MET:
        doubts = ("condition not met",)
    return Row(order(whole.estimate, drawn.truth) - mean, neither, slopes, gain(unseen), doubts)


def of_kind(kind: str, draws: int, seed: int) -> list[Row]:
    """So many draws of one kind."""
    generator = {**CHOSEN_ON, **HELD_OUT}[kind]
    place = [*CHOSEN_ON, *HELD_OUT].index(kind)
    return [measured(generator(np.random.default_rng([seed, place, k]))) for k in range(draws)]


def line(kind: str, rows: list[Row]) -> str:
    """One row of a table."""
    gains = np.array([row.gain for row in rows])
    clear = [row for row in rows if row.doubts == ()]
    false = sum(row.gain < LOSS for row in clear)
    parts = [np.mean([getattr(row, name) for row in rows]) for name in ("neither", "slopes", "voices")]
    cells = [f"{np.mean(gains):+.3f}", f"{np.quantile(gains, 0.01):+.3f}", f"{gains.min():+.3f}"]
    cells += [f"{np.mean(gains < LOSS):.3f}", *(f"{part:+.3f}" for part in parts)]
    cells += [f"{len(clear) / len(rows):.2f}", f"{false} of {len(clear)} (<= {upper(false, len(clear)):.3f})"]
    return f"| {kind} | {' | '.join(cells)} |"


def upper(events: int, trials: int) -> float:
    """Upper end of the 95 % interval of Clopper and Pearson."""
    return 1.0 if events >= trials else float(beta.ppf(0.975, events + 1, trials - events))


HEAD = (
    "| panels | gain | 1st percentile | worst | lose above .01 | neither | slopes alone | voices alone | clear | "
    "false clear |\n|---|---|---|---|---|---|---|---|---|---|"
)


def recorded(seed: int) -> list[str]:
    """Gains on recorded panels as they are, and with two copies of noise among their judges."""
    lines = ["| recorded panel | judges | gain | with two copies of noise | doubts |", "|---|---|---|---|---|"]
    for view in views():
        prepared = prepare(view)
        scores, gold = prepared.problem.scores, prepared.view.gold
        families = [scores.families[judge] for judge in scores.judges]
        before = measured(Drawn(scores.values, families, gold))
        rng = np.random.default_rng([seed, 999])
        noise = rng.normal(size=len(gold))[:, None] + 0.1 * rng.normal(size=(len(gold), 2))
        spread = np.nanmean(scores.values) + np.nanstd(scores.values) * noise
        after = measured(Drawn(np.column_stack([scores.values, spread]), [*families, "x", "y"], gold))
        doubts = ", ".join(before.doubts or ())
        lines.append(f"| {view.name} | {len(families)} | {before.gain:+.3f} | {after.gain:+.3f} | {doubts} |")
    return lines


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
    clear = [row for rows in by_kind.values() for row in rows if row.doubts == ()]
    false = sum(row.gain < LOSS for row in clear)
    lines += [f"False clear over all kinds: {false} of {len(clear)} (at most {upper(false, len(clear)):.4f}).", ""]
    if "CARE_DATA_DIR" in os.environ:
        lines += ["## Recorded panels, without texts", "", *recorded(seed), ""]
    RESULT.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
