"""Which aggregate holds on real panels: without labels and with 5 to 50 anchors. ``make bench-truth``.

Prints the tables of docs/care.md. Labels are drawn at random by item; items of a labelled split unit are never
measured. Constants were chosen on these panels, so each in-sample figure has one beside it for which the constants
were chosen on the other families.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.aggregators.base import Aggregate, Problem
from care_ops.aggregators.care import candidates_of, defensible
from care_ops.aggregators.placement import placed
from care_ops.aggregators.registry import REGISTRY
from care_ops.aggregators.votes import modal_grade
from care_ops.anchors import Anchors
from care_ops.calibration import prevalence_threshold
from care_ops.config import LABEL_FREE, Calibration
from care_ops.errors import FitError
from care_ops.metrics import calibration_error, evaluate
from care_ops.models.hypotheses import DEPARTURES, SLOPE, average_hypotheses
from care_ops.moments.state import accumulate
from care_ops.scores import ScoreMatrix, content_seed
from tests.support.panels import Panel, Summary, View, prepare, summarise, supervised, views

Array = NDArray[np.float64]

ANCHORS = (5, 10, 20, 50)
DRAWS = 100
NOISY = 10
SHOWN = ("care", "avg", "factor_analysis", "care_tensor")

GATES = (0.85, 0.9, 0.925, 0.95, 0.975)
SETTINGS = tuple((slope, wide) for slope in (0.4, 0.6) for wide in ((0.0, 0.2, 0.4), (0.0, 0.3, 0.6), (0.0, 0.1, 0.2)))


def without_labels(panel: Panel) -> dict[str, Aggregate]:
    """Every aggregator's answer; the mean's where one cannot answer."""
    found: dict[str, Aggregate] = {}
    for name in LABEL_FREE:
        p = panel.problem
        rng = np.random.default_rng([content_seed(p.scores), 0])
        problem = Problem(p.scores, p.moments, p.structure, rng, p.config)
        try:
            found[name] = REGISTRY[name].fit(problem)
        except FitError:
            found[name] = Aggregate(name, p.panel_mean, threshold=p.config.cut)
    return found


def draw(panel: Panel, m: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(labelled rows, rows to measure)."""
    n = len(panel.view.gold)
    rows = np.sort(np.random.default_rng([seed, m]).choice(n, min(m, n // 2), replace=False))
    return rows, ~np.isin(panel.view.units, panel.view.units[rows])


def beside_noise(panel: Panel, name: str, draws: int) -> list[float]:
    """An aggregate's m with one more judge in a family of its own: some judge's scores, items shuffled."""
    p = panel.problem
    measured: list[float] = []
    for seed in range(draws):
        rng = np.random.default_rng([seed, content_seed(p.scores)])
        shuffled = rng.permutation(p.scores.values[:, rng.integers(len(p.scores.judges))])
        values = np.column_stack([p.scores.values, shuffled])
        more = ScoreMatrix(values, p.scores.item_ids, (*p.scores.judges, "\uffff"), p.scores.families)
        found = REGISTRY[name].fit(Problem(more, accumulate(more.values), None, rng, p.config)).estimate
        measured.append(panel.view.measure(found))
    return measured


def with_anchors(
    panel: Panel, m: int, draws: int, slope: float = SLOPE, departures: tuple[float, ...] = DEPARTURES
) -> tuple[float, float]:
    """Mean over draws of care's m less the mean's on the same items, and its standard deviation."""
    answers = defensible(panel.problem)
    candidates = candidates_of(answers)
    z, mean = np.nan_to_num(panel.problem.standardised), panel.problem.panel_mean
    gains: list[float] = []
    for seed in range(draws):
        rows, rest = draw(panel, m, seed)
        labels = panel.view.gold[rows]
        average = average_hypotheses(
            candidates.hypotheses, answers.factors, z, rows, labels, slope=slope, departures=departures
        )
        latent = answers.latent if average is None else average.latent
        gains.append(panel.view.measure(latent, rest) - panel.view.measure(mean, rest))
    return float(np.mean(gains)), float(np.std(gains, ddof=1))


def calibration(panel: Panel, m: int, draws: int) -> tuple[float, float]:
    """Expected calibration error (ten bins of equal width) and accuracy of care's probabilities, means over draws."""
    errors: list[float] = []
    right: list[float] = []
    for seed in range(draws):
        rows, rest = draw(panel, m, seed)
        labels = {panel.view.scores.item_ids[r]: float(panel.view.gold[r]) for r in rows}
        p = panel.problem
        found = REGISTRY["care"].fit(Problem(p.scores, p.moments, p.structure, p.rng, p.config, Anchors(labels)))
        if found.p_quality is None:
            continue
        known = rest & ~np.isnan(found.p_quality)
        probability, gold = found.p_quality[known], panel.view.gold[known]
        errors.append(calibration_error(probability, gold))
        right.append(float(np.mean((probability > 0.5) == (gold > 0.5))))
    return float(np.mean(errors)), float(np.mean(right))


def placed_by_anchors(panel: Panel, name: str, m: int, draws: int) -> float:
    """Mean absolute error, or accuracy, of an aggregate on the scale of m anchors, over draws, on the rest."""
    found: list[float] = []
    p = panel.problem
    for seed in range(draws):
        rows, rest = draw(panel, m, seed)
        anchors = Anchors({p.scores.item_ids[r]: float(panel.view.gold[r]) for r in rows})
        config = replace(p.config, calibration=Calibration("anchors"))
        problem = Problem(p.scores, p.moments, p.structure, p.rng, config, anchors)
        answer = placed(REGISTRY[name].fit(problem), problem, anchors)
        found.append(float(np.nanmean(np.abs(answer.estimate - panel.view.gold)[rest])))
    return float(np.mean(found))


def chosen_by_anchors(panel: Panel, name: str, m: int, draws: int) -> float:
    """m less the mean's for care_svd, whose factor the anchors choose, and best_judge, whose judge they choose."""
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


def interval(panel: Panel, estimate: Array, resamples: int = 500) -> tuple[float, float]:
    """Bootstrap interval (90 %) over split units of m less the mean's m."""
    view, rng = panel.view, np.random.default_rng(0)
    units, group = np.unique(view.units, return_inverse=True)
    members = [np.flatnonzero(group == k) for k in range(len(units))]
    gains: list[float] = []
    for _ in range(resamples):
        rows = np.concatenate([members[k] for k in rng.integers(0, len(units), len(units))])
        if view.binary and np.ptp(view.gold[rows]) == 0:
            continue
        again = View(view.family, view.name, view.scores, view.gold[rows], view.units[rows], view.binary)
        gains.append(again.measure(estimate[rows]) - again.measure(panel.problem.panel_mean[rows]))
    low, high = np.quantile(gains, (0.05, 0.95))
    return float(low), float(high)


def redeclared(view: View, how: str) -> View:
    """The view with LLMBar's families declared another way: by model, base model or vendor; or none at all."""

    def family(judge: str) -> str:
        model = judge.split("/")[0]
        if view.family != "llmbar" or how == "base model":
            return view.scores.families[judge]
        return "openai" if how == "vendor" and "GPT" in model else model

    families = {} if how == "none" else {j: family(j) for j in view.scores.judges}
    scores = ScoreMatrix(view.scores.values, view.scores.item_ids, view.scores.judges, families)
    return View(view.family, view.name, scores, view.gold, view.units, view.binary)


def left_out(
    panels: Sequence[Panel], results: Mapping[object, Mapping[str, float]], score: Mapping[str, object]
) -> dict[str, float]:
    """m by view, each family's under the setting that gains most on the other families."""
    found: dict[str, float] = {}
    for family in sorted({p.view.family for p in panels}):
        others = [p.view for p in panels if p.view.family != family]
        best = max(results, key=lambda s: summarise(results[s], others, **score).gain)  # type: ignore[arg-type]
        found |= {p.name: results[best][p.name] for p in panels if p.view.family == family}
    return found


def main() -> None:
    """Print the tables."""
    with threadpool_limits(limits=1, user_api="blas"):
        _main()


def _main() -> None:
    panels = [prepare(view) for view in views()]
    some = [p.view for p in panels]
    score = {
        "mean": {p.name: p.view.measure(p.problem.panel_mean) for p in panels},
        "vote": {p.name: p.view.measure(modal_grade(p.problem.scores.values)) for p in panels},
        "ceiling": {p.name: supervised(p.view) for p in panels},
    }
    mean = score["mean"]

    def line(label: str, found: Mapping[str, float]) -> None:
        s: Summary = summarise(found, some, **score)
        print(f"| {label} | {s.gap:+.3f} | {s.gain:+.4f} | {s.harm:+.3f} | {s.worst} |", flush=True)

    print(f"{len(panels)} views of {len({v.family for v in some})} families, admission on\n\n## Without labels\n")
    print("| | gap | gain over avg | harm | worst on |\n|---|---|---|---|---|")
    estimates = {p.name: without_labels(p) for p in panels}
    measured = {a: {p.name: p.view.measure(estimates[p.name][a].estimate) for p in panels} for a in LABEL_FREE}
    for name in LABEL_FREE:
        line(f"`{name}`", measured[name])
    gates = {g: {p.name: p.view.measure(defensible(p.problem, g).latent) for p in panels} for g in GATES}
    line("`care`, its constant left out", left_out(panels, gates, score))
    for gate, found in gates.items():
        line(f"`care`, constant {gate:g}", found)
    for how in ("model", "vendor", "none"):
        other = [prepare(redeclared(p.view, how)) for p in panels]
        line(f"`care`, families declared: {how}", {p.name: p.view.measure(defensible(p.problem).latent) for p in other})
    print(f"\n## One more judge, of noise, in a family of its own: mean change of m and worst of {NOISY} draws\n")
    of = ("care", "avg", "families", "uws", "factor_analysis")
    print("| view | families | " + " | ".join(f"`{a}`" for a in of) + " |")
    print("|---" * (len(of) + 2) + "|")
    for p in panels:
        declared = len({p.problem.scores.families[judge] for judge in p.problem.scores.judges})
        moved = [np.array(beside_noise(p, name, NOISY)) - measured[name][p.name] for name in of]
        cells = " | ".join(f"{np.mean(m):+.3f}, {min(m):+.3f}" for m in moved)
        print(f"| {p.name} | {declared} | {cells} |", flush=True)
    print("\n## By view, without labels: order\n")
    print("| view | judges | " + " | ".join(f"`{a}`" for a in LABEL_FREE) + " | ridge | care − avg, 90 % |")
    print("|---" * (len(LABEL_FREE) + 4) + "|")
    for p in panels:
        low, high = interval(p, estimates[p.name]["care"].estimate)
        cells = " | ".join(f"{measured[a][p.name]:.3f}" for a in LABEL_FREE)
        ridge = score["ceiling"][p.name]
        print(
            f"| {p.name} | {p.problem.scores.shape[1]} | {cells} | {ridge:.3f} | {low:+.3f} to {high:+.3f} |",
            flush=True,
        )
    print("\n## By view, without labels: scale (MAE after filling the scale uniformly; accuracy at the natural cut)\n")
    print("| view | " + " | ".join(f"`{a}`" for a in LABEL_FREE) + " |\n" + "|---" * (len(LABEL_FREE) + 1) + "|")
    for p in panels:
        gold = p.view.gold
        scale = p.problem.config.scale or (float(gold.min()), float(gold.max()))
        cells: list[str] = []
        for name in LABEL_FREE:
            answer = estimates[p.name][name]
            found = evaluate(answer.estimate, gold, threshold=answer.threshold, scale=scale)
            figure = found.accuracy if p.view.binary else found.mae_filled
            cells.append("–" if figure is None else f"{figure:.3f}")
        print(f"| {p.name} | {' | '.join(cells)} |", flush=True)
    print(f"\n## With anchors: {DRAWS} draws\n")
    print("| | gap | gain over avg | harm | worst on |\n|---|---|---|---|---|")
    by_view: dict[str, list[str]] = {p.name: [] for p in panels}
    for m in ANCHORS:
        found: dict[str, float] = {}
        for p in panels:
            gain, spread = with_anchors(p, m, DRAWS)
            found[p.name] = mean[p.name] + gain
            by_view[p.name].append(f"{mean[p.name] + gain:.3f} ({spread:.3f})")
        line(f"`care`, {m} anchors", found)
        few = {s: {p.name: mean[p.name] + with_anchors(p, m, 20, *s)[0] for p in panels} for s in SETTINGS}
        line(f"`care`, {m} anchors, constants left out (20 draws)", left_out(panels, few, score))
        for name in ("care_svd", "best_judge"):
            chosen = {p.name: mean[p.name] + chosen_by_anchors(p, name, m, 20) for p in panels}
            line(f"`{name}`, {m} anchors (20 draws)", chosen)
    _print_probabilities(panels, estimates)
    _print_scale(panels, estimates)
    _print_doubt(panels, estimates)
    print("\nm of `care` by view: mean over draws (standard deviation), on the mean's m over all items\n")
    print("| view | avg | " + " | ".join(f"{m} anchors" for m in ANCHORS) + " |\n" + "|---" * (len(ANCHORS) + 2) + "|")
    for p in panels:
        print(f"| {p.name} | {mean[p.name]:.3f} | {' | '.join(by_view[p.name])} |")


def _print_probabilities(panels: Sequence[Panel], estimates: Mapping[str, Mapping[str, Aggregate]]) -> None:
    """Calibration error and accuracy of care with 20 and 50 anchors."""
    print("\n## Probabilities and thresholds of `care`, binary gold, 20 draws\n")
    print("| view | accuracy, natural cut, no labels | 20 anchors: ECE | accuracy | 50 anchors: ECE | accuracy |")
    print("|---|---|---|---|---|---|")
    for p in panels:
        if not p.view.binary:
            continue
        cells = [f"{np.mean((estimates[p.name]['care'].estimate > p.problem.config.cut) == (p.view.gold > 0.5)):.3f}"]
        for m in (20, 50):
            cells += [f"{figure:.3f}" for figure in calibration(p, m, 20)]
        print(f"| {p.name} | {' | '.join(cells)} |", flush=True)


def _print_scale(panels: Sequence[Panel], estimates: Mapping[str, Mapping[str, Aggregate]]) -> None:
    """MAE and accuracy of the mean and of care under each declaration."""
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


def _print_doubt(panels: Sequence[Panel], estimates: Mapping[str, Mapping[str, Aggregate]]) -> None:
    """Share of the errors that doubt could avoid and does, at the natural cut, without labels."""
    print("\n## Doubt finds errors: share of the oracle's risk-coverage gain, binary gold, no labels\n")
    print("| view | `care` | `care`, distance to the cut alone | `avg` | `mv` |\n|---|---|---|---|---|")
    found: dict[str, list[list[float]]] = {}
    for p in panels:
        if not p.view.binary:
            continue
        row: list[float] = []
        for name, with_sd in (("care", True), ("care", False), ("avg", False), ("mv", False)):
            a = estimates[p.name][name]
            sd = a.sd if with_sd else None
            gain = evaluate(a.estimate, p.view.gold, threshold=a.threshold, scale=None, sd=sd).risk_coverage
            row.append(float("nan") if gain is None else gain)
        found.setdefault(p.view.family, []).append(row)
        print(f"| {p.name} | {' | '.join(f'{c:.3f}' for c in row)} |", flush=True)
    by_family = np.mean([np.mean(rows, axis=0) for rows in found.values()], axis=0)
    by_view = np.mean([row for rows in found.values() for row in rows], axis=0)
    print(f"| mean of families | {' | '.join(f'{c:.3f}' for c in by_family)} |")
    print(f"| mean of views | {' | '.join(f'{c:.3f}' for c in by_view)} |")


if __name__ == "__main__":
    sys.exit(main())
