"""Measures every aggregator on real panels, without labels and with 5 to 50 anchors: ``make bench-truth``.

It writes its tables to ``benchmarks/results/recorded.md``. Labels are drawn at random by item, and no item of a
labelled split unit is measured. These panels were known while ``care`` was made; panels that were not are those of
``benchmarks.studies.panels``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.aggregators.base import Problem
from care_ops.aggregators.care import candidates_of, departures_of, factors_of
from care_ops.aggregators.defensible import defensible
from care_ops.aggregators.placement import placed
from care_ops.aggregators.registry import REGISTRY
from care_ops.aggregators.votes import modal_grade
from care_ops.anchors import Anchors
from care_ops.calibration import prevalence_threshold
from care_ops.config import LABEL_FREE, Calibration
from care_ops.errors import FitError
from care_ops.metrics import calibration_error, evaluate
from care_ops.models.hypotheses import average_hypotheses
from care_ops.moments.state import accumulate
from care_ops.records import Aggregate
from care_ops.scores import ScoreMatrix, content_seed
from tests.support.panels import PreparedView, Summary, View, prepare, summarise, supervised, views

Array = NDArray[np.float64]

RESULT = Path("benchmarks/results/recorded.md")
ANCHORS = (5, 10, 20, 50)
DRAWS = 20
NOISY = 10
SHOWN = ("care", "avg", "factor_analysis", "care_tensor")


def without_labels(panel: PreparedView) -> dict[str, Aggregate]:
    """Every aggregator's answer; the panel's mean for an aggregator that cannot answer."""
    answers: dict[str, Aggregate] = {}
    for name in LABEL_FREE:
        p = panel.problem
        rng = np.random.default_rng([content_seed(p.scores), 0])
        problem = Problem(p.scores, p.moments, p.structure, rng, p.config)
        try:
            answers[name] = REGISTRY[name].fit(problem)
        except FitError:
            answers[name] = Aggregate(name, p.panel_mean, threshold=p.config.cut)
    return answers


def draw(panel: PreparedView, m: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Draw m items to label; returns the labelled rows, and a mask of the rows to measure."""
    n = len(panel.view.gold)
    rows = np.sort(np.random.default_rng([seed, m]).choice(n, min(m, n // 2), replace=False))
    return rows, ~np.isin(panel.view.units, panel.view.units[rows])


def beside_noise(panel: PreparedView, name: str, draws: int) -> list[float]:
    """m of an aggregator when a judge of noise joins in a family of its own: another judge's scores, shuffled."""
    p = panel.problem
    measured: list[float] = []
    for seed in range(draws):
        rng = np.random.default_rng([seed, content_seed(p.scores)])
        shuffled = rng.permutation(p.scores.values[:, rng.integers(len(p.scores.judges))])
        values = np.column_stack([p.scores.values, shuffled])
        extended = ScoreMatrix(values, p.scores.item_ids, (*p.scores.judges, "\uffff"), p.scores.families)
        problem = Problem(extended, accumulate(extended.values), None, rng, p.config)
        measured.append(panel.view.measure(REGISTRY[name].fit(problem).estimate))
    return measured


def with_anchors(panel: PreparedView, m: int, draws: int) -> tuple[float, float]:
    """Mean over draws of care's m less the mean's on the same items, and its standard deviation."""
    answers = defensible(panel.problem)
    candidates = candidates_of(answers)
    departures = departures_of(answers, np.nan_to_num(panel.problem.standardised))
    mean, gains = panel.problem.panel_mean, list[float]()
    for seed in range(draws):
        rows, rest = draw(panel, m, seed)
        labels = panel.view.gold[rows]
        average = average_hypotheses(candidates.hypotheses, factors_of(answers), departures, rows, labels)
        latent = answers.latent if average is None else average.latent
        gains.append(panel.view.measure(latent, rest) - panel.view.measure(mean, rest))
    return float(np.mean(gains)), float(np.std(gains, ddof=1))


def calibration(panel: PreparedView, m: int, draws: int) -> tuple[float, float]:
    """Expected calibration error (ten bins of equal width) and accuracy of care's probabilities, means over draws."""
    errors: list[float] = []
    right: list[float] = []
    for seed in range(draws):
        rows, rest = draw(panel, m, seed)
        labels = {panel.view.scores.item_ids[r]: float(panel.view.gold[r]) for r in rows}
        p = panel.problem
        answer = REGISTRY["care"].fit(Problem(p.scores, p.moments, p.structure, p.rng, p.config, Anchors(labels)))
        if answer.p_quality is None:
            continue
        answered = rest & ~np.isnan(answer.p_quality)
        probability, gold = answer.p_quality[answered], panel.view.gold[answered]
        errors.append(calibration_error(probability, gold))
        right.append(float(np.mean((probability > 0.5) == (gold > 0.5))))
    return float(np.mean(errors)), float(np.mean(right))


def placed_by_anchors(panel: PreparedView, name: str, m: int, draws: int) -> float:
    """Mean absolute error of an aggregate that m anchors place on the scale, on the other items, over draws."""
    errors: list[float] = []
    p = panel.problem
    for seed in range(draws):
        rows, rest = draw(panel, m, seed)
        anchors = Anchors({p.scores.item_ids[r]: float(panel.view.gold[r]) for r in rows})
        config = replace(p.config, calibration=Calibration("anchors"))
        problem = Problem(p.scores, p.moments, p.structure, p.rng, config, anchors)
        answer = placed(REGISTRY[name].fit(problem), problem, anchors)
        errors.append(float(np.nanmean(np.abs(answer.estimate - panel.view.gold)[rest])))
    return float(np.mean(errors))


def chosen_by_anchors(panel: PreparedView, name: str, m: int, draws: int) -> float:
    """Gain over the mean of an aggregator in which anchors make a choice: care_svd's factor, or best_judge's judge."""
    gains: list[float] = []
    for seed in range(draws):
        rows, rest = draw(panel, m, seed)
        labels = {panel.view.scores.item_ids[r]: float(panel.view.gold[r]) for r in rows}
        p = panel.problem
        problem = Problem(p.scores, p.moments, p.structure, p.rng, p.config, Anchors(labels))
        try:
            estimate = REGISTRY[name].fit(problem).estimate
        except FitError:
            estimate = p.panel_mean
        gains.append(panel.view.measure(estimate, rest) - panel.view.measure(p.panel_mean, rest))
    return float(np.mean(gains))


def interval(panel: PreparedView, estimate: Array, resamples: int = 500) -> tuple[float, float]:
    """90 % bootstrap interval, over split units, of m of an estimate minus m of the mean."""
    view, rng = panel.view, np.random.default_rng(0)
    units, group = np.unique(view.units, return_inverse=True)
    members = [np.flatnonzero(group == k) for k in range(len(units))]
    gains: list[float] = []
    for _ in range(resamples):
        rows = np.concatenate([members[k] for k in rng.integers(0, len(units), len(units))])
        if view.binary and np.ptp(view.gold[rows]) == 0:
            continue
        resampled = View(view.family, view.name, view.scores, view.gold[rows], view.units[rows], view.binary)
        gains.append(resampled.measure(estimate[rows]) - resampled.measure(panel.problem.panel_mean[rows]))
    low, high = np.quantile(gains, (0.05, 0.95))
    return float(low), float(high)


def redeclared(view: View, how: str) -> View:
    """The view with LLMBar's families declared by model, base model or vendor, or with no families at all."""

    def family(judge: str) -> str:
        model = judge.split("/")[0]
        if view.family != "llmbar" or how == "base model":
            return view.scores.families[judge]
        return "openai" if how == "vendor" and "GPT" in model else model

    families = {} if how == "none" else {j: family(j) for j in view.scores.judges}
    scores = ScoreMatrix(view.scores.values, view.scores.item_ids, view.scores.judges, families)
    return View(view.family, view.name, scores, view.gold, view.units, view.binary)


@dataclass(frozen=True)
class Study:
    """The panels and what every printed table needs of them.

    Attributes
    ----------
    panels : list of PreparedView
    estimates : dict view -> aggregator -> Aggregate
        Every aggregator's answer without labels.
    mean, vote, ceiling : dict view -> float
        m of the panel's mean, of its most frequent grade, and of a ridge regression on gold.
    """

    panels: list[PreparedView]
    estimates: dict[str, dict[str, Aggregate]]
    mean: dict[str, float]
    vote: dict[str, float]
    ceiling: dict[str, float]

    @property
    def score(self) -> dict[str, dict[str, float]]:
        """The figures that ``summarise`` compares m with."""
        return {"mean": self.mean, "vote": self.vote, "ceiling": self.ceiling}

    def m_of(self, aggregator: str) -> dict[str, float]:
        """m of an aggregator without labels, by view."""
        return {p.name: p.view.measure(self.estimates[p.name][aggregator].estimate) for p in self.panels}

    def print_summary_header(self) -> None:
        """Print the head of a table of summaries."""
        print("| | gap | gain over avg | harm | worst on |\n|---|---|---|---|---|")

    def print_summary(self, label: str, m_by_view: Mapping[str, float]) -> None:
        """Print one row of a table of summaries."""
        s: Summary = summarise(m_by_view, [p.view for p in self.panels], **self.score)
        print(f"| {label} | {s.gap:+.3f} | {s.gain:+.4f} | {s.harm:+.3f} | {s.worst} |", flush=True)


def prepared_study() -> Study:
    """Read and fit every panel."""
    panels = [prepare(view) for view in views()]
    return Study(
        panels=panels,
        estimates={p.name: without_labels(p) for p in panels},
        mean={p.name: p.view.measure(p.problem.panel_mean) for p in panels},
        vote={p.name: p.view.measure(modal_grade(p.problem.scores.values)) for p in panels},
        ceiling={p.name: supervised(p.view) for p in panels},
    )


def main() -> None:
    """Write the tables."""
    RESULT.parent.mkdir(exist_ok=True)
    with (
        threadpool_limits(limits=1, user_api="blas"),
        RESULT.open("w", encoding="utf-8") as written,
        redirect_stdout(written),
    ):
        print(
            "# `care` on recorded panels\n\nBy `make bench-truth`. m is AUC, or Kendall's tau where gold is graded.\n"
        )
        study = prepared_study()
        families = {p.view.family for p in study.panels}
        print(f"{len(study.panels)} views of {len(families)} families of data, admission on.")
        _print_without_labels(study)
        _print_one_more_judge(study)
        _print_order_by_view(study)
        _print_uniform_scale(study)
        anchored = _print_with_anchors(study)
        _print_probabilities(study)
        _print_scale(study.panels, study.estimates)
        _print_doubt(study.panels, study.estimates)
        _print_anchors_by_view(study, anchored)


def _print_without_labels(study: Study) -> None:
    """Summaries of every aggregator, and of ``care`` with other declarations of families."""
    print("\n## Without labels\n")
    study.print_summary_header()
    for name in LABEL_FREE:
        study.print_summary(f"`{name}`", study.m_of(name))
    for how in ("model", "vendor", "none"):
        others = [prepare(redeclared(p.view, how)) for p in study.panels]
        m_by_view = {p.name: p.view.measure(defensible(p.problem).latent) for p in others}
        study.print_summary(f"`care`, families declared: {how}", m_by_view)


def _print_one_more_judge(study: Study) -> None:
    """Change of m where a judge of pure noise joins the panel."""
    print(f"\n## One more judge, of noise, in a family of its own: mean change of m and worst of {NOISY} draws\n")
    aggregators = ("care", "avg", "families", "uws", "factor_analysis")
    print("| view | families | " + " | ".join(f"`{a}`" for a in aggregators) + " |")
    print("|---" * (len(aggregators) + 2) + "|")
    m_of = {name: study.m_of(name) for name in aggregators}
    for p in study.panels:
        declared = len({p.problem.scores.families[judge] for judge in p.problem.scores.judges})
        changes = [np.array(beside_noise(p, name, NOISY)) - m_of[name][p.name] for name in aggregators]
        cells = " | ".join(f"{np.mean(m):+.3f}, {min(m):+.3f}" for m in changes)
        print(f"| {p.name} | {declared} | {cells} |", flush=True)


def _print_order_by_view(study: Study) -> None:
    """m of every aggregator by view, and how far ``care`` is from the mean."""
    print("\n## By view, without labels: order\n")
    print("| view | judges | " + " | ".join(f"`{a}`" for a in LABEL_FREE) + " | ridge | care − avg, 90 % |")
    print("|---" * (len(LABEL_FREE) + 4) + "|")
    m_of = {name: study.m_of(name) for name in LABEL_FREE}
    for p in study.panels:
        low, high = interval(p, study.estimates[p.name]["care"].estimate)
        cells = " | ".join(f"{m_of[a][p.name]:.3f}" for a in LABEL_FREE)
        ridge = study.ceiling[p.name]
        print(
            f"| {p.name} | {p.problem.scores.shape[1]} | {cells} | {ridge:.3f} | {low:+.3f} to {high:+.3f} |",
            flush=True,
        )


def _print_uniform_scale(study: Study) -> None:
    """Error of every aggregator that fills the scale uniformly, or its accuracy at the natural cut, by view."""
    print("\n## By view, without labels: scale (MAE after filling the scale uniformly; accuracy at the natural cut)\n")
    print("| view | " + " | ".join(f"`{a}`" for a in LABEL_FREE) + " |\n" + "|---" * (len(LABEL_FREE) + 1) + "|")
    for p in study.panels:
        gold = p.view.gold
        scale = p.problem.config.scale or (float(gold.min()), float(gold.max()))
        cells: list[str] = []
        for name in LABEL_FREE:
            answer = study.estimates[p.name][name]
            evaluation = evaluate(answer.estimate, gold, threshold=answer.threshold, scale=scale)
            figure = evaluation.accuracy if p.view.binary else evaluation.mae_filled
            cells.append("–" if figure is None else f"{figure:.3f}")
        print(f"| {p.name} | {' | '.join(cells)} |", flush=True)


def _print_with_anchors(study: Study) -> dict[str, list[str]]:
    """Summaries for each number of anchors; returns the cells of ``care`` by view, for the last table."""
    print(f"\n## With anchors: {DRAWS} draws\n")
    study.print_summary_header()
    panels, mean = study.panels, study.mean
    cells: dict[str, list[str]] = {p.name: [] for p in panels}
    for m in ANCHORS:
        m_by_view: dict[str, float] = {}
        for p in panels:
            gain, spread = with_anchors(p, m, DRAWS)
            m_by_view[p.name] = mean[p.name] + gain
            cells[p.name].append(f"{mean[p.name] + gain:.3f} ({spread:.3f})")
        study.print_summary(f"`care`, {m} anchors", m_by_view)
        for name in ("care_svd", "best_judge"):
            chosen = {p.name: mean[p.name] + chosen_by_anchors(p, name, m, DRAWS) for p in panels}
            study.print_summary(f"`{name}`, {m} anchors", chosen)
    return cells


def _print_probabilities(study: Study) -> None:
    """Calibration error and accuracy of the probabilities of ``care``."""
    print(f"\n## Probabilities and thresholds of `care`, binary gold, {DRAWS} draws\n")
    print("| view | accuracy, natural cut, no labels | 20 anchors: ECE | accuracy | 50 anchors: ECE | accuracy |")
    print("|---|---|---|---|---|---|")
    for p in study.panels:
        if not p.view.binary:
            continue
        votes = study.estimates[p.name]["care"].estimate > p.problem.config.cut
        cells = [f"{np.mean(votes == (p.view.gold > 0.5)):.3f}"]
        for m in (20, 50):
            cells += [f"{figure:.3f}" for figure in calibration(p, m, DRAWS)]
        print(f"| {p.name} | {' | '.join(cells)} |", flush=True)


def _print_anchors_by_view(study: Study, cells: Mapping[str, Sequence[str]]) -> None:
    """m of ``care`` with anchors, by view."""
    print("\nm of `care` by view: mean over draws (standard deviation), on the mean's m over all items\n")
    print("| view | avg | " + " | ".join(f"{m} anchors" for m in ANCHORS) + " |\n" + "|---" * (len(ANCHORS) + 2) + "|")
    for p in study.panels:
        print(f"| {p.name} | {study.mean[p.name]:.3f} | {' | '.join(cells[p.name])} |")


def _print_scale(panels: Sequence[PreparedView], estimates: Mapping[str, Mapping[str, Aggregate]]) -> None:
    """Mean absolute error and accuracy under each declaration about the scale."""
    print("\n## Graded gold: MAE under each declared scale (anchors: 20 draws)\n")
    print("| view | aggregate | own | uniform | 10 anchors | 20 | 50 |\n|---|---|---|---|---|---|---|")
    for p in panels:
        if p.view.binary:
            continue
        gold = p.view.gold
        scale = p.problem.config.scale or (float(gold.min()), float(gold.max()))
        for name in ("avg", "care"):
            own = evaluate(estimates[p.name][name].estimate, gold, threshold=None, scale=scale)
            cells = [own.mae, own.mae_filled, *(placed_by_anchors(p, name, m, 20) for m in (10, 20, 50))]
            print(f"| {p.name} | `{name}` | {' | '.join(f'{c:.3f}' for c in cells)} |", flush=True)
    print("\n## Binary gold: accuracy at the natural cut and at a declared prevalence (the true one)\n")
    print("| view | prevalence | " + " | ".join(f"`{a}` | declared" for a in SHOWN) + " |")
    print("|---" * (2 + 2 * len(SHOWN)) + "|")
    for p in panels:
        if not p.view.binary:
            continue
        gold, prevalence = p.view.gold > 0.5, float(p.view.gold.mean())
        cells: list[str] = []
        for name in SHOWN:
            answer = estimates[p.name][name]
            for threshold in (answer.threshold, prevalence_threshold(answer.estimate, prevalence)):
                cells.append(f"{np.mean((answer.estimate > threshold) == gold):.3f}")
        print(f"| {p.name} | {prevalence:.2f} | {' | '.join(cells)} |", flush=True)


def _print_doubt(panels: Sequence[PreparedView], estimates: Mapping[str, Mapping[str, Aggregate]]) -> None:
    """Share of the avoidable errors that abstaining by doubt avoids, at the natural cut and without labels."""
    print("\n## Doubt finds errors: share of the oracle's risk-coverage gain, binary gold, no labels\n")
    print("| view | `care` | `care`, distance to the cut alone | `avg` | `mv` |\n|---|---|---|---|---|")
    rows_by_family: dict[str, list[list[float]]] = {}
    for p in panels:
        if not p.view.binary:
            continue
        row: list[float] = []
        for name, with_sd in (("care", True), ("care", False), ("avg", False), ("mv", False)):
            a = estimates[p.name][name]
            sd = a.sd if with_sd else None
            gain = evaluate(a.estimate, p.view.gold, threshold=a.threshold, scale=None, sd=sd).risk_coverage
            row.append(float("nan") if gain is None else gain)
        rows_by_family.setdefault(p.view.family, []).append(row)
        print(f"| {p.name} | {' | '.join(f'{c:.3f}' for c in row)} |", flush=True)
    by_family = np.mean([np.mean(rows, axis=0) for rows in rows_by_family.values()], axis=0)
    by_view = np.mean([row for rows in rows_by_family.values() for row in rows], axis=0)
    print(f"| mean of families | {' | '.join(f'{c:.3f}' for c in by_family)} |")
    print(f"| mean of views | {' | '.join(f'{c:.3f}' for c in by_view)} |")


if __name__ == "__main__":
    main()
