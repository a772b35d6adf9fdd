"""Other ways to aggregate, on the panels of the study: who is better than ``care``, and by how much.

``make study-rivals``; needs `make rivals` before.

The design, fixed before any result but those that the choice below needs:

- The panels are those of ``benchmarks.studies.panels``, by the same seeds: the first ``DRAWS`` draws of each of
  ``KINDS``. Order is Kendall's tau with the truth as if ties were broken at random; a gain is that over the plain mean.
- ``care`` reads scores, families and texts, as its users give them. Models of votes read the grades (ten bins of equal
  width where scores are no grades). Models of two answers, and of comparisons, are tried on kinds of votes alone, where
  all read the same; ``ising`` counts all answers, and so takes at most ``MOST_JUDGES`` judges and no ties.
- crowd-kit 1.4.2 by its models' probabilities, an expected grade; M-MSR by its weighted vote. Its GLAD and MACE take 2
  to 11 CPU seconds a panel: those of ``care_ops.models.annotators`` stand for them, which are held against them
  (``tests/care_ops/test_annotators.py``). Untried: its zero-based skill, 2.3 CPU seconds a panel for what Wawa does at
  once, and KOS, which gives labels and no order.
- ``ising``, ``random_effects`` and ``bt_sigma`` (``tests.support.dependent_votes``) were written for this, by their
  papers' formulas. The penalty of ``ising`` was chosen in its favour among .003, .01, .03, .1, .3, 1, 3 and 10 on ten
  draws of other seeds of six kinds of votes: the largest, by which hardly any coupling is left (mean gain over the
  plain mean +.001; by 1 -.034, by .1 -.116).
- With labels: 10, 20 or 50 items drawn at random, their truth told to all; order on the other items. cje-eval 0.9.3
  calibrates the mean of the judges, with and without the number of words. fewhumans 1.0.0 has no score of an item.
- Rates: the share of items whose quality is above .3, by 50 labels, 90 % intervals: fewhumans' PPI++ and cje-eval
  beside ``care rate``, each by the mean of the judges and by the answer of ``care`` (without a label).

Tables go to ``benchmarks/results/panels-rivals.md``, and with ``--labels`` to ``panels-rivals-labels.md`` beside it.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.studies.panels.__main__ import DESIGN, LOSS, order
from benchmarks.studies.panels.generators import CHOSEN_ON, HELD_OUT, Array, Drawn
from care_ops.aggregators.annotators import votes
from care_ops.aggregators.base import Problem
from care_ops.aggregators.registry import REGISTRY
from care_ops.anchors import Anchors
from care_ops.config import FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.moments.state import of_panel
from care_ops.results.rates import Labelled, rates_of
from care_ops.scores import ScoreMatrix
from tests.support.dependent_votes import MOST_JUDGES, bt_sigma, ising, random_effects
from tests.support.panels import ridge

RESULT = Path("benchmarks/results/panels-rivals.md")
LABELS_RESULT = Path("benchmarks/results/panels-rivals-labels.md")
RIVALS = Path("build/rivals/bin/python")
OTHERS = Path(__file__).with_name("others.py")
DRAWS, DRAWS_OF_RATES = 50, 100
PENALTY = 10.0
KINDS = (
    "ordinary",
    "4 copies of 10",
    "one factor",
    "item response",
    "pairs with a side",
    "ordinary, votes",
    "3 copies of 10, votes",
    "one factor, votes",
    "ordinary, neither",
    "better judges among poorer ones, grades",
    "one better judge among poorer ones",
    "pairs with copies of a judge of sides",
    "heavy tails",
)
WITH_LABELS = ("ordinary", "ordinary, no texts", "4 copies of 10")
LABELS = (10, 20, 50)
RATED = ("ordinary", "4 copies of 10")
PASSES, LABELS_OF_RATES = 0.3, 50

Job = Mapping[str, NDArray[np.generic]]
Answers = dict[str, Array]
Gains = Mapping[str, Mapping[str, Sequence[float]]]
Orders = Mapping[str, Mapping[int, Mapping[str, Sequence[float]]]]
Rated = Mapping[str, Mapping[str, Sequence[tuple[float, float, float, float]]]]


@dataclass(frozen=True)
class Panel:
    """One panel as ``care`` reads it, its truth and its mean."""

    scores: ScoreMatrix
    truth: Array
    families: list[str]

    @property
    def mean(self) -> Array:
        """Mean of the scores that are there."""
        return np.nanmean(self.scores.values, axis=1)


def seed_of_the_study() -> int:
    """The seed that follows from the commit of the study's design."""
    command = ["git", "log", "-1", "--format=%H", "--", *DESIGN]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout[:8], 16)


def panel(kind: str, k: int, seed: int) -> Panel:
    """Draw k of a kind, as the study draws it."""
    place = [*CHOSEN_ON, *HELD_OUT].index(kind)
    drawn: Drawn = {**CHOSEN_ON, **HELD_OUT}[kind](np.random.default_rng([seed, place, k]))
    varies = np.nanstd(drawn.scores, axis=0) > 0
    values = drawn.scores[:, varies]
    judges = tuple(f"j{j:03d}" for j in range(values.shape[1]))
    families = np.array(drawn.families)[varies].tolist()
    items = tuple(f"i{i:06d}" for i in range(len(values)))
    scores = ScoreMatrix(values, items, judges, dict(zip(judges, families, strict=True)), dict(drawn.features))
    return Panel(scores, drawn.truth, families)


def care(panel: Panel, anchors: Anchors | None = None) -> Array:
    """The answer of ``care``, with labels where there are any; the mean where it refuses."""
    try:
        fit = fit_panel(panel.scores, FitConfig(aggregators=("care",)), anchors or Anchors({}), solve="not")
    except FitError:
        return panel.mean
    return fit.aggregates["care"].estimate


def problem_of(panel: Panel) -> Problem:
    """What aggregators of votes are given."""
    return Problem(panel.scores, of_panel(panel.scores.values), None, np.random.default_rng(0), FitConfig())


def of_annotators(panel: Panel) -> Answers:
    """GLAD and MACE on the grades."""
    return {name.upper(): REGISTRY[name].fit(problem_of(panel)).estimate for name in ("glad", "mace")}


def of_votes(panel: Panel) -> Answers:
    """What the models of dependent votes, and of comparisons, make of votes."""
    given = panel.scores.values
    answers = {"random effects": random_effects(given, panel.families)[0], "BT-sigma": bt_sigma(given)[0]}
    if given.shape[1] <= MOST_JUDGES and 0.5 not in given:
        answers["Ising"] = ising(given, PENALTY)[0]
    return answers


def others(jobs: Sequence[Job]) -> list[Answers]:
    """What the libraries make of each job, in their own environment."""
    with tempfile.TemporaryDirectory() as folder:
        given, answered = Path(folder) / "jobs.npz", Path(folder) / "answers.npz"
        named = {f"{k}/{part}": value for k, job in enumerate(jobs) for part, value in job.items()}
        np.savez(given, **named)  # type: ignore[arg-type]  # the stub takes the names for options
        subprocess.run([str(RIVALS), "-W", "ignore", str(OTHERS), str(given), str(answered)], check=True)
        answers: list[Answers] = [{} for _ in jobs]
        with np.load(answered) as loaded:
            for name in loaded.files:
                number, _, method = name.partition("/")
                answers[int(number)][method] = loaded[name]
    return answers


def crowd_job(panel: Panel) -> Job:
    """A panel's grades as votes of a crowd."""
    grades, values = votes(problem_of(panel))
    task, worker = np.nonzero(grades >= 0)
    parts = {"task": task, "worker": worker, "label": grades[task, worker], "values": values}
    two = {"two": np.array(1)} if len(values) < 4 else {}
    return {"kind": np.array("crowd"), "items": np.array(len(grades)), **parts, **two}


def without_labels(kind: str, draws: int, seed: int) -> dict[str, list[float]]:
    """Gain over the mean of every method on each draw of a kind; NaN where it does not apply."""
    panels = [panel(kind, k, seed) for k in range(draws)]
    gains: dict[str, list[float]] = {}
    for k, (drawn, theirs) in enumerate(zip(panels, others([crowd_job(drawn) for drawn in panels]), strict=True)):
        mean = order(drawn.mean, drawn.truth)
        apart = of_votes(drawn) if np.isin(drawn.scores.values, (0.0, 0.5, 1.0)).all() else {}
        for name, estimate in {"care": care(drawn), **theirs, **of_annotators(drawn), **apart}.items():
            row = gains.setdefault(name, [float("nan")] * draws)
            row[k] = order(estimate, drawn.truth) - mean
    return gains


def with_labels(kind: str, draws: int, seed: int) -> dict[int, dict[str, list[float]]]:
    """Order on the items without a label, by the number of labels and the method."""
    found: dict[int, dict[str, list[float]]] = {m: {} for m in LABELS}
    cases = [(m, k, panel(kind, k, seed)) for m in LABELS for k in range(draws)]
    drawn = [labelled(p, m, k, seed) for m, k, p in cases]
    theirs = others([calibration_job(p, rows) for (_, _, p), rows in zip(cases, drawn, strict=True)])
    for (m, _, p), rows, answers in zip(cases, drawn, theirs, strict=True):
        labels = {p.scores.item_ids[row]: float(p.truth[row]) for row in rows}
        z = np.nan_to_num((p.scores.values - np.nanmean(p.scores.values, 0)) / np.nanstd(p.scores.values, 0))
        estimates = {
            "mean": p.mean,
            "care, no label": care(p),
            "care": care(p, Anchors(labels)),
            "ridge on the labels": ridge(z[rows], p.truth[rows], z),
            **answers,
        }
        rest = np.setdiff1d(np.arange(len(p.truth)), rows)
        for name, estimate in estimates.items():
            found[m].setdefault(name, []).append(order(estimate[rest], p.truth[rest]))
    return found


def labelled(panel: Panel, m: int, k: int, seed: int) -> NDArray[np.intp]:
    """The rows that people label in draw k."""
    return np.sort(np.random.default_rng([seed, m, k]).choice(len(panel.truth), m, replace=False))


def calibration_job(panel: Panel, rows: NDArray[np.intp]) -> Job:
    """The mean of the judges and the labels, both between 0 and 1, and what is seen of the texts."""
    labels = np.full(len(panel.truth), np.nan)
    low, high = panel.truth[rows].min(), panel.truth[rows].max()
    labels[rows] = (panel.truth[rows] - low) / (high - low)
    features = {"features": np.column_stack(list(panel.scores.features.values()))} if panel.scores.features else {}
    return {"kind": np.array("calibrate"), "score": _unit(panel.mean), "labels": labels, **features}


def _unit(values: Array) -> Array:
    return (values - values.min()) / np.ptp(values)


def rates(kind: str, draws: int, seed: int) -> dict[str, list[tuple[float, float, float, float]]]:
    """(value, lo, hi, truth) of the share that passes, by method."""
    found: dict[str, list[tuple[float, float, float, float]]] = {}
    panels = [panel(kind, k, seed) for k in range(draws)]
    answers = [care(p) for p in panels]
    passed = [(p.truth > PASSES).astype(float) for p in panels]
    labels = [np.full(len(p.truth), np.nan) for p in panels]
    for k, (p, given, truth) in enumerate(zip(panels, labels, passed, strict=True)):
        rows = labelled(p, LABELS_OF_RATES, k, seed)
        given[rows] = truth[rows]
    for by in ("mean", "care"):
        scores = [_unit(p.mean if by == "mean" else answer) for p, answer in zip(panels, answers, strict=True)]
        jobs = [
            {"kind": np.array("mean"), "score": s, "labels": given} for s, given in zip(scores, labels, strict=True)
        ]
        for k, theirs in enumerate(others(jobs)):
            (ours,) = rates_of(Labelled(scores[k], labels[k]), seed=k).rates
            target = float(passed[k].mean())
            told = {"care rate": (ours.value, ours.lo, ours.hi), **{name: tuple(b) for name, b in theirs.items()}}
            if by == "mean":
                told["labels alone"] = ours.by_labels
            for name, (value, lo, hi) in told.items():
                where = name if name == "labels alone" else f"{name}, by {by}"
                found.setdefault(where, []).append((float(value), float(lo), float(hi), target))
    return found


def table_without_labels(by_kind: Gains) -> list[str]:
    """Mean gain of each method on each kind, and below who is better than ``care`` by more than two standard errors."""
    names = list(dict.fromkeys(name for gains in by_kind.values() for name in gains))
    lines = [f"| panels | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    better: list[str] = []
    for kind, gains in by_kind.items():
        cells: list[str] = []
        for name in names:
            values = np.array(gains.get(name, [np.nan]))
            there = ~np.isnan(values)
            some = f" ({there.sum()})" if there.any() and not there.all() else ""
            cells.append(f"{values[there].mean():+.3f}{some}" if there.any() else "–")
            if name != "care" and there.sum() > 1:
                apart = values[there] - np.array(gains["care"])[there]
                error = apart.std(ddof=1) / np.sqrt(len(apart))
                if apart.mean() > 2 * error:
                    better.append(f"- {kind}: {name} by {apart.mean():.3f} (± {error:.3f})")
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    lines += ["", "Share of all draws on which a method is more than .01 below the mean, and its mean gain:", ""]
    lines += [
        "| method | draws | mean gain | loses above .01 | `care` gains on the same draws |",
        "|---|---|---|---|---|",
    ]
    for name in names:
        values = np.concatenate(
            [np.array(gains.get(name, [np.nan] * len(gains["care"]))) for gains in by_kind.values()]
        )
        ours = np.concatenate([np.array(gains["care"]) for gains in by_kind.values()])
        there = ~np.isnan(values)
        lost = float(np.mean(values[there] < LOSS))
        lines.append(
            f"| {name} | {there.sum()} | {values[there].mean():+.3f} | {lost:.3f} | {ours[there].mean():+.3f} |"
        )
    return [*lines, "", "Better than `care` by more than two standard errors of the paired difference:", "", *better]


def table_with_labels(by_kind: Orders) -> list[str]:
    """Mean order on the items without a label."""
    names = list(dict.fromkeys(name for by_m in by_kind.values() for found in by_m.values() for name in found))
    lines = [f"| panels | labels | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for kind, by_m in by_kind.items():
        for m, found in by_m.items():
            cells = [f"{np.mean(found[name]):.3f}" if name in found else "–" for name in names]
            lines.append(f"| {kind} | {m} | {' | '.join(cells)} |")
    return lines


def table_of_rates(by_kind: Rated) -> list[str]:
    """Coverage of the 90 % intervals, their mean width, and the root mean squared error."""
    lines = ["| panels | method | coverage | width | error |", "|---|---|---|---|---|"]
    for kind, found in by_kind.items():
        for name, bounds in found.items():
            value, lo, hi, truth = np.array(bounds).T
            inside, error = np.mean((lo <= truth) & (truth <= hi)), np.sqrt(np.mean((value - truth) ** 2))
            lines.append(f"| {kind} | {name} | {inside:.3f} | {np.mean(hi - lo):.3f} | {error:.4f} |")
    return lines


def main() -> None:
    """Draw, measure, and write a file, after each kind anew."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.panels.rivals")
    parser.add_argument("draws", type=int, nargs="?", default=DRAWS)
    parser.add_argument("--labels", action="store_true", help="what a few labels are worth, and rates by them")
    given = parser.parse_args()
    seed, many = seed_of_the_study(), DRAWS_OF_RATES * given.draws // DRAWS
    order_of, labelled_of, rate_of = {}, {}, {}
    stages = [(order_of, without_labels, KINDS, given.draws)]
    if given.labels:
        stages = [(labelled_of, with_labels, WITH_LABELS, given.draws), (rate_of, rates, RATED, many)]
    with ProcessPoolExecutor(2) as pool:
        for found, measure, kinds, number in stages:
            of_each = pool.map(measure, kinds, [number] * len(kinds), [seed] * len(kinds))
            for kind, measured in zip(kinds, of_each, strict=True):
                found[kind] = measured
                text = labels_text(labelled_of, rate_of, many) if given.labels else order_text(order_of)
                head = HEAD.format(draws=given.draws, option=" --labels" if given.labels else "")
                (LABELS_RESULT if given.labels else RESULT).write_text("\n".join([head, *text, ""]))


HEAD = """# Rivals on panels of known truth

Written by `python -m benchmarks.studies.panels.rivals {draws}{option}` (`make study-rivals`), whose docstring has the
design; {draws} draws of each kind, by the seeds of [panels](panels.md). Kendall's tau.
"""


def order_text(order_of: Gains) -> list[str]:
    """What is measured so far without labels."""
    told = "In parentheses on how many draws a method applies, where it is not all."
    return ["## Without labels: gain over the plain mean", "", told, "", *table_without_labels(order_of)]


def labels_text(labelled_of: Orders, rate_of: Rated, many: int) -> list[str]:
    """What is measured so far with labels."""
    share = f"## Share of items whose quality is above {PASSES}, by {LABELS_OF_RATES} labels, 90 % intervals"
    noise = f"{many} draws: a coverage of .9 has a standard error of {np.sqrt(0.09 / many):.2f}."
    order_table, rate_table = table_with_labels(labelled_of), table_of_rates(rate_of)
    return ["## With labels: order on the other items", "", *order_table, "", share, "", noise, "", *rate_table]


if __name__ == "__main__":
    main()
