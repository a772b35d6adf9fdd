"""Is "settled by probes with probability p" calibrated? ``make study-settled``, ten minutes.

The design, fixed before the reported draws were seen:

- ``DRAWS`` draws of each kind of corpus whose declaration is true (``generators``), ``TEXTS`` of those with texts.
  Seeds follow from the hash of the last commit that changed the generators or this file. While the kinds that are
  called chosen were written, draws of other seeds (from 10,000 on) were looked at; of those held out none was.
- Order is Kendall's tau with the truth as if ties were broken at random (``panels``). An answer is *good* where its
  order is at least that of the plain mean, ``avg``; there is no tolerance.
- p is what the verdict says (``settled.probability_by_probes``). An answer without one, because nobody responds, is
  counted apart. *Settled* is p of .9 and more. Calibrated is: of the settled answers of the held-out kinds nine in ten
  are good, all together; what single kinds do is said beside it.
- Beside p stands the probability of the hypotheses that agree with the answer, which was all of p before this study.
  Where that is not calibrated, p is mended by what is seen on the chosen kinds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.studies.panels.__main__ import order, upper
from benchmarks.studies.settled.generators import CHOSEN_ON, HELD_OUT, Corpus
from care_ops.aggregators.care import candidates_of, told_by_probes
from care_ops.aggregators.defensible import defensible
from care_ops.config import FitConfig
from care_ops.fit import fit_panel
from care_ops.results.settled import AGREES, probability_by_probes, problem_of

RESULT = Path("benchmarks/results/settled.md")
DESIGN = ("benchmarks/studies/settled/generators.py", "benchmarks/studies/settled/__main__.py")
DRAWS, TEXTS = 100, 8
SETTLED = 0.9
BINS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)


@dataclass(frozen=True)
class Row:
    """Gain over the mean, the probability that is said and the one by hypotheses alone; None where nobody responds."""

    gain: float
    said: float | None
    agreeing: float | None

    @property
    def good(self) -> bool:
        """Whether the answer orders the items at least as well as the mean."""
        return self.gain >= 0


def measured(corpus: Corpus) -> Row:
    """``care`` with probes on one corpus beside the mean, and what is said of it."""
    config = FitConfig(aggregators=("avg", "care"))
    fitted = fit_panel(corpus.scores, config, solve="not", probes=corpus.probes).aggregates
    with_probes, mean = (order(fitted[name].estimate, corpus.truth) for name in ("care", "avg"))
    said = probability_by_probes(corpus.scores, config, corpus.probes)
    return Row(with_probes - mean, said, agreeing(corpus))


def agreeing(corpus: Corpus) -> float | None:
    """Probability of the hypotheses that correlate with the answer by ``AGREES`` or more."""
    problem = problem_of(corpus.scores, FitConfig(), probes=corpus.probes)
    alone = told_by_probes(problem, candidates_of(defensible(problem)).hypotheses)[1]
    if not alone:
        return None
    answer = np.sum([h.prior * h.score for h in alone], axis=0)
    return sum(h.prior for h in alone if np.corrcoef(h.score, answer)[0, 1] >= AGREES)


def of_kind(kind: str, first: int) -> list[Row]:
    """The draws of one kind."""
    draw = {**CHOSEN_ON, **HELD_OUT}[kind]
    place = [*CHOSEN_ON, *HELD_OUT].index(kind)
    seeds = np.random.SeedSequence([first, place]).generate_state(TEXTS if kind.startswith("texts") else DRAWS)
    return [measured(draw(int(seed))) for seed in seeds]


def share(rows: list[Row]) -> str:
    """How many of the rows are good."""
    good = sum(row.good for row in rows)
    return f"{good} of {len(rows)}" + (f" ({good / len(rows):.2f})" if rows else "")


def line(kind: str, rows: list[Row]) -> str:
    """One kind."""
    gains = np.array([row.gain for row in rows])
    told = [row for row in rows if row.said is not None]
    before = [row for row in told if (row.agreeing or 0) >= SETTLED]
    settled = [row for row in told if (row.said or 0) >= SETTLED]
    cells = [f"{gains.mean():+.3f}", f"{gains.min():+.3f}", f"{len(rows) - len(told)}", share(rows)]
    return f"| {kind} | {' | '.join([*cells, share(before), share(settled)])} |"


HEAD = (
    "| corpora | gain | worst | no response | good | good, hypotheses >= .9 | good, said >= .9 |\n"
    "|---|---|---|---|---|---|---|"
)


def by_probability(rows: list[Row]) -> list[str]:
    """How often an answer is good by what was said of it, and by the hypotheses alone."""
    lines = ["| probability | said: answers | mean | good | hypotheses: answers | mean | good |", "|" + "---|" * 7]
    for low, high in pairwise(BINS):
        cells: list[str] = []
        for name in ("said", "agreeing"):
            of = [row for row in rows if (p := getattr(row, name)) is not None and low <= p < high + (high == 1.0)]
            mean = f"{np.mean([getattr(row, name) for row in of]):.2f}" if of else ""
            cells += [f"{len(of)}", mean, f"{np.mean([row.good for row in of]):.2f}" if of else ""]
        lines.append(f"| {low:.2f} to {high:.2f} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Draw, measure, and write the tables."""
    command = ["git", "log", "-1", "--format=%H", "--", *DESIGN]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    kinds = [*CHOSEN_ON] if "chosen" in sys.argv[1:] else [*CHOSEN_ON, *HELD_OUT]
    seed = int(commit[:8], 16)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        by_kind = dict(zip(kinds, pool.map(of_kind, kinds, [seed] * len(kinds)), strict=True))
    lines = [
        "# Settled by probes, with which probability",
        "",
        f"By `make study-settled`; {DRAWS} draws of each kind, {TEXTS} of texts; design of commit {commit[:12]}, "
        "from which the seeds follow. Good: the answer with probes is at least as good as the plain mean, in Kendall's "
        "tau with the truth.",
        "",
    ]
    for title, names in (("Kinds that were held out", HELD_OUT), ("Kinds on which p was mended", CHOSEN_ON)):
        rows = [row for kind in names for row in by_kind.get(kind, [])]
        settled = [row for row in rows if (row.said or 0) >= SETTLED]
        bad = sum(not row.good for row in settled)
        lines += [f"## {title}", "", HEAD, *(line(kind, by_kind[kind]) for kind in names if kind in by_kind), ""]
        lines += [*by_probability(rows), ""]
        lines += [f"Settled: {share(settled)} are good; at most {upper(bad, len(settled)):.3f} are not (95 %).", ""]
    if len(kinds) > len(CHOSEN_ON):
        RESULT.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
