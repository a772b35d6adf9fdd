"""Compare ``care`` with the plain average on recorded panels of real judges with gold: ``make bench-real``.

The design was fixed before the results:

- There are thirteen panels of nine data sets (``tests.support.panels.PANELS``); each data set has the same weight in
  means.
- Order is measured by AUC for gold with two values, and by Kendall's tau-b otherwise. The *plain average* is the mean
  of the scores if the judges share a scale, and the mean of the standardised scores otherwise. A gain is the difference
  from the plain average.
- Without labels, ``care_eval.fit`` fits each panel with admission, as a user would: with and without families (the
  model's name), and with and without texts if there are texts. The same call fits the other aggregators.
- There are 20 random draws of 10, 20 and 50 labels; items of a labelled split unit are not evaluated. ``care`` is
  compared with ridge regression on the judges, shrunk to the average, and with the judge that agrees best with the
  labels. Standard errors are over draws.
- The rules of the estimate (``label_free.Rules``) are also chosen for each data set on the other data sets: the rules
  of a small grid with the largest mean gain and no panel below -.005. The table shows their gain on the left-out data
  set.
- The number of effective judges is compared with its value by gold, for the plain average.
- The verdict is checked on panels whose plain average is within .02 of a cross-validated ridge regression: the state
  should be *clear* or *clear if*.
- The probability of "at least as good as the plain average" is compared with the share of fits for which it is true.
- The probability at which labels settle a panel is also chosen for each data set on the other data sets: the lowest of
  .5, .6, .7, .8 and .9 such that in each of them at least nine of ten fits with this probability or a higher one gain
  -.01 or more. The table shows how many fits of the left-out data set settle, and how many of them gain so much.

It writes ``benchmarks/results/real.md`` in about ten minutes, and needs ``CARE_DATA_DIR``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import care_eval
from benchmarks.studies import printed_to
from care_ops.aggregators.label_free import RULES, Rules, effective_judges, label_free
from care_ops.config import FitConfig
from care_ops.fit import fit_panel, problem_of
from care_ops.fit_labels import FitLabels
from care_ops.moments.state import accumulate
from care_ops.results.fit_facts import SETTLED
from care_ops.scores import Array
from tests.support.panels import NEARLY_BEST, WORST, Panel, View, panels, ridge, supervised

RESULT = Path("benchmarks/results/real.md")

LABEL_FREE_RIVALS = ("uws", "factor_analysis", "median", "dawid_skene")
LABELS, DRAWS = (10, 20, 50), 20
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)


def fitted(panel: Panel, *, families: bool, texts: bool) -> tuple[dict[str, Array], str, float | None]:
    """Fit a panel; return the estimates, the state of the verdict, and the number of effective judges."""
    scores = panel.view.scores
    columns: dict[str, Any] = {"item_id": list(scores.item_ids)}
    columns |= {judge: _nullable(column) for judge, column in zip(scores.judges, scores.values.T, strict=True)}
    items: dict[str, Any] | None = None
    if texts:
        pair = "response_b" in panel.texts
        items = {"item_id": list(scores.item_ids), "response_a" if pair else "response": list(panel.texts["response"])}
        items |= {"response_b": list(panel.texts["response_b"])} if pair else {}
    result = care_eval.fit(
        columns,
        items=items,
        judges=scores.families if families else None,
        aggregators=("care", "avg", *LABEL_FREE_RIVALS),
        intervals=0,
    )
    order = {item: k for k, item in enumerate(result.items)}
    place = [order[item] for item in scores.item_ids]
    estimates = {name: aggregate.estimate[place] for name, aggregate in result.aggregates.items()}
    return estimates, result.verdict.state, result.aggregates["care"].details.get("effective_judges")


def _nullable(column: Array) -> list[float | None]:
    return [None if value != value else float(value) for value in column]


def effective_by_gold(view: View) -> float:
    """Return ``effective_judges`` of the plain average, by each judge's correlation with gold."""
    values = (view.scores.values - np.nanmean(view.scores.values, axis=0)) / np.nanstd(view.scores.values, axis=0)
    gold = (view.gold - view.gold.mean()) / view.gold.std()
    validity = np.nanmean(values * gold[:, None], axis=0)
    return effective_judges(validity, accumulate(values).correlation(), np.ones(len(validity)))


def by_data_set(panel_list: Sequence[Panel], figures: Mapping[str, float]) -> dict[str, float]:
    """Return the mean of the panels' figures for each data set."""
    sets: dict[str, list[float]] = {}
    for panel in panel_list:
        if panel.name in figures:
            sets.setdefault(panel.view.family, []).append(figures[panel.name])
    return {name: float(np.mean(each)) for name, each in sets.items()}


def summary(panel_list: Sequence[Panel], figures: Mapping[str, float]) -> str:
    """Return two table cells: the mean over data sets, and the panel with the lowest figure."""
    worst = min(figures, key=lambda name: figures[name])
    return f"{np.mean(list(by_data_set(panel_list, figures).values())):+.4f} | {figures[worst]:+.4f} ({worst})"


def without_labels(panel_list: Sequence[Panel]) -> dict[str, str]:
    """Print the table without labels; return the state of each panel without families and texts."""
    print(
        "\n## Without labels\n\nThe last six columns show the gain over the plain average, and the verdict's state.\n"
    )
    print("| panel | families | texts | average | `care` | state | " + " | ".join(LABEL_FREE_RIVALS) + " |")
    print("|---" * (6 + len(LABEL_FREE_RIVALS)) + "|")
    gains: dict[tuple[str, str], dict[str, float]] = {}
    states: dict[str, str] = {}
    known: dict[str, tuple[float, float]] = {}
    for panel in panel_list:
        for families, texts in itertools.product((False, True), (False, True)):
            if texts and not panel.texts:
                continue
            estimates, state, effective = fitted(panel, families=families, texts=texts)
            declared = f"{'families' if families else 'no families'}, {'texts' if texts else 'no texts'}"
            for name, estimate in estimates.items():
                gains.setdefault((name, declared), {})[panel.name] = panel.gain(estimate)
            if not families and not texts:
                states[panel.name] = state
                known[panel.name] = (effective or np.nan, effective_by_gold(panel.view))
            cells = [gains[name, declared].get(panel.name) for name in LABEL_FREE_RIVALS]
            shown = " | ".join("" if cell is None else f"{cell:+.3f}" for cell in cells)
            yes = [("yes" if each else "no") for each in (families, texts)]
            average, gain = panel.view.measure(panel.plain), gains["care", declared][panel.name]
            print(f"| {panel.name} | {' | '.join(yes)} | {average:.3f} | {gain:+.4f} | {state} | {shown} |", flush=True)
    print("\n| aggregator | declared | mean gain over data sets | lowest gain (panel) |\n|---|---|---|---|")
    for (name, declared), figures in sorted(gains.items()):
        print(f"| `{name}` | {declared} | {summary(panel_list, figures)} |")
    print("\n## Effective judges\n\n| panel | judges | effective judges without labels |", end=" ")
    print("effective judges by gold | ratio |\n|---|---|---|---|---|")
    within = 0
    for panel in panel_list:
        ours, gold = known[panel.name]
        within += max(ours, gold) <= 1.5 * min(ours, gold)
        print(f"| {panel.name} | {panel.view.scores.shape[1]} | {ours:.2f} | {gold:.2f} | {ours / gold:.2f} |")
    print(f"\nThe two numbers differ by a factor of at most 1.5 on {within} of {len(panel_list)} panels.")
    return states


def verdicts(panel_list: Sequence[Panel], states: Mapping[str, str]) -> None:
    """Print the state of each verdict, and how much a supervised regression improves on the plain average."""
    print("\n## The verdict\n\n| panel | cross-validated ridge regression minus average | state |\n|---|---|---|")
    near, usable = 0, 0
    for panel in panel_list:
        gap = supervised(panel.view) - panel.view.measure(panel.plain)
        near += gap <= NEARLY_BEST
        usable += gap <= NEARLY_BEST and states[panel.name] in ("clear", "clear if")
        print(f"| {panel.name} | {gap:+.3f} | {states[panel.name]} |")
    print(f"\nIf the average is within {NEARLY_BEST} of the regression, the state is *clear* or *clear if*", end=" ")
    print(f"on {usable} of {near} panels.")


def shrunk_ridge(panel: Panel, z: Array, rows: np.ndarray, labels: Array) -> Array:
    """Predict gold by the plain average, plus a ridge regression of its residuals on the judges' scores."""
    plain = np.nan_to_num((panel.plain - np.nanmean(panel.plain)) / np.nanstd(panel.plain))
    slope = max(float(plain[rows] @ (labels - labels.mean())) / float(plain[rows] @ plain[rows]), 0.0)
    left = labels - labels.mean() - slope * plain[rows]
    return slope * plain + (ridge(z[rows], left, z) if np.ptp(left) > 0 else 0.0)


def best_judge(z: Array, rows: np.ndarray, labels: Array) -> Array:
    """Return the standardised scores of the judge that correlates best with the labels."""
    spread = np.maximum(z[rows].std(axis=0), 1e-9)
    return z[:, int(np.argmax((labels - labels.mean()) @ z[rows] / spread))]


def with_labels(panel_list: Sequence[Panel]) -> None:
    """Print the tables with labels."""
    print("\n## With labels\n\nThe table shows the gain over the plain average without texts: the mean of", end=" ")
    print(f"{DRAWS} draws and its standard error.\n")
    print("| panel | labels | `care` | ridge shrunk to the average | best judge |\n|---|---|---|---|---|")
    gains: dict[tuple[int, str], dict[str, float]] = {}
    given: list[tuple[str, int, float, float]] = []
    for panel in panel_list:
        scores = panel.scores(families=False, texts=False)
        z = np.nan_to_num((scores.values - np.nanmean(scores.values, axis=0)) / np.nanstd(scores.values, axis=0))
        for m in LABELS:
            drawn: dict[str, list[float]] = {"care": [], "ridge": [], "best judge": []}
            for seed in range(DRAWS):
                n = len(panel.view.gold)
                rows = np.sort(np.random.default_rng([seed, m]).choice(n, min(m, n // 2), replace=False))
                rest, labels = ~np.isin(panel.view.units, panel.view.units[rows]), panel.view.gold[rows]
                if np.ptp(labels) == 0:
                    continue
                seen_labels = FitLabels({scores.item_ids[int(r)]: float(panel.view.gold[r]) for r in rows})
                answer = fit_panel(scores, FitConfig(aggregators=("care",)), seen_labels, solve="not").aggregates[
                    "care"
                ]
                drawn["care"].append(panel.gain(answer.estimate, rest))
                drawn["ridge"].append(panel.gain(shrunk_ridge(panel, z, rows, labels), rest))
                drawn["best judge"].append(panel.gain(best_judge(z, rows, labels), rest))
                given.append((panel.view.family, m, answer.details["labels_better"], drawn["care"][-1]))
            for name, each in drawn.items():
                gains.setdefault((m, name), {})[panel.name] = float(np.mean(each))
            cells = [f"{np.mean(e):+.3f} ± {np.std(e, ddof=1) / len(e) ** 0.5:.3f}" for e in drawn.values()]
            print(f"| {panel.name} | {m} | {' | '.join(cells)} |", flush=True)
    print("\n| method | labels | mean gain over data sets | lowest gain (panel) |\n|---|---|---|---|")
    for (m, name), figures in gains.items():
        print(f"| {name} | {m} | {summary(panel_list, figures)} |")
    print('\n### Calibration of "at least as good as the plain average"\n')
    print("| labels | predicted probability | fits | mean prediction | share with a gain of -.01 or more |")
    print("|---" * 5 + "|")
    for m, (low, high) in itertools.product(LABELS, ((0.0, 0.5), (0.5, 0.9), (0.9, 0.99), (0.99, 1.01))):
        chosen = [(p, gain) for _, count, p, gain in given if count == m and low <= p < high]
        if chosen:
            p, gain = np.array(chosen).T
            print(
                f"| {m} | {low:.2f} to {min(high, 1):.2f} | {len(p)} | {p.mean():.2f} | {np.mean(gain >= -0.01):.2f} |"
            )
    print("\n### Probability at which labels settle, chosen on the other data sets\n")
    print("| data set | chosen | fits that settle | of these, gain of -.01 or more |", end=" ")
    print(f"fits that settle at {SETTLED} | of these, gain of -.01 or more |\n{'|---' * 6}|")
    names = sorted({name for name, *_ in given})

    def settled(name: str, least: float) -> tuple[int, float]:
        good = [gain >= -0.01 for each, _, p, gain in given if each == name and p >= least]
        return len(good), float(np.mean(good or [True]))

    for name in names:
        others = [each for each in names if each != name]
        chosen = min((p for p in THRESHOLDS if all(settled(o, p)[1] >= 0.9 for o in others)), default=THRESHOLDS[-1])
        cells = [f"{count} | {share:.2f}" for count, share in (settled(name, chosen), settled(name, SETTLED))]
        print(f"| {name} | {chosen} | {' | '.join(cells)} |")


def leave_one_out(panel_list: Sequence[Panel]) -> None:
    """Print the gain on each data set of the rules chosen on the other data sets."""
    grid = [
        replace(RULES, weak=weak, factor_share=share, most_misfit=misfit, least_gain=gain)
        for weak, share, misfit, gain in itertools.product(
            (0.0, 0.15, 0.25, 0.35), (0.0, 0.2, 0.4, 0.6), (0.03, 0.05), (0.0, 0.005, 0.01)
        )
    ]
    gains = {rules: {panel.name: _gain_by(panel, rules) for panel in panel_list} for rules in grid}
    print("\n## Rules chosen on the other data sets\n\nFamilies and texts are not declared.\n")
    print("| data set | weak | share | misfit | least gain | gain of chosen rules | gain of CARE's rules |")
    print("|---" * 7 + "|")
    chosen_gains: list[float] = []
    for left_out in sorted({panel.view.family for panel in panel_list}):
        others = [panel for panel in panel_list if panel.view.family != left_out]

        def quality(rules: Rules, others: Sequence[Panel] = others) -> tuple[bool, float]:
            figures = {panel.name: gains[rules][panel.name] for panel in others}
            return min(figures.values()) >= WORST, float(np.mean(list(by_data_set(others, figures).values())))

        best = max(grid, key=quality)
        here, shipped = (by_data_set(panel_list, gains[rules])[left_out] for rules in (best, RULES))
        chosen_gains.append(here)
        chosen = f"{best.weak} | {best.factor_share} | {best.most_misfit} | {best.least_gain}"
        print(f"| {left_out} | {chosen} | {here:+.4f} | {shipped:+.4f} |")
    print(f"\nMean gain of the chosen rules: {np.mean(chosen_gains):+.4f}; of CARE's rules: ", end="")
    print(f"{np.mean(list(by_data_set(panel_list, gains[RULES]).values())):+.4f}.")


def _gain_by(panel: Panel, rules: Rules) -> float:
    scores = panel.scores(families=False, texts=False)
    found = label_free(problem_of(scores, FitConfig(aggregators=("care",))), rules)
    order = {item: k for k, item in enumerate(scores.canonical().item_ids)}
    return panel.gain(found.latent[[order[item] for item in scores.item_ids]])


def main() -> None:
    """Write the page of results."""
    panel_list = list(panels())
    with printed_to(RESULT):
        print("# `care` on recorded panels of real judges\n\n`make bench-real` wrote this page. The docstring of")
        print("`benchmarks/studies/real.py` describes the design. The measure of order is AUC for gold with two")
        print("values, and Kendall's tau-b otherwise.")
        states = without_labels(panel_list)
        verdicts(panel_list, states)
        with_labels(panel_list)
        leave_one_out(panel_list)


if __name__ == "__main__":
    main()
