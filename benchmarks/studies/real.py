"""Compare ``care`` with the plain average on recorded panels of real judges with gold: ``make bench-real``.

The design, fixed before its results were seen:

- Thirteen panels of nine data sets (``tests.support.panels.PANELS``); in every mean a data set counts once, whatever
  its number of panels.
- Order is measured by AUC where gold has two values, and else by Kendall's tau-b. The *plain average* is the mean of
  the scores if the judges share a scale, and else of the standardised scores. A gain is a difference from it.
- Without labels the panel goes through ``care_eval.fit``, as a user calls it, admission included: with and without
  families (the model's name), with and without texts where there are any. Rivals come from the same call.
- With 10, 20 and 50 labels, 20 random draws: items of a labelled split unit are not measured. Rivals: ridge regression
  on the judges, shrunk to the average, and the judge that agrees best with the labels. Standard errors are over draws.
- The rules of the estimate (``label_free.Rules``) are also chosen for each data set by the other data sets:
  among a small grid the largest mean gain with no panel below -.005. The gain of these rules is shown for the data set
  that was left out.
- The number of effective judges is compared with the one by gold, from the residuals of each judge given gold.
- Whether the verdict means something: on how many of the panels where the plain average is within .02 of a
  cross-validated ridge regression the state is *clear* or *clear if*.
- "At least as good as the plain average" by labels: the probability that was given, against how often it was true.

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
from care_ops.aggregators.label_free import RULES, Rules, label_free
from care_ops.config import FitConfig
from care_ops.fit import fit_panel, problem_of
from care_ops.fit_labels import FitLabels
from care_ops.moments.state import accumulate
from care_ops.scores import Array
from tests.support.panels import NEARLY_BEST, WORST, Panel, View, panels, ridge, supervised

RESULT = Path("benchmarks/results/real.md")

LABEL_FREE_RIVALS = ("uws", "factor_analysis", "median", "dawid_skene")
LABELS, DRAWS = (10, 20, 50), 20


def fitted(panel: Panel, *, families: bool, texts: bool) -> tuple[dict[str, Array], str, float | None]:
    """The estimates of a user's ``care_eval.fit``, the state of its verdict, and the number of effective judges."""
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
    """p^2 over the sum of the correlations of the judges' residuals given gold."""
    values, gold = view.scores.values, view.gold
    residuals = np.full(values.shape, np.nan)
    for j, column in enumerate(values.T):
        seen = ~np.isnan(column)
        residuals[seen, j] = column[seen] - np.polyval(np.polyfit(gold[seen], column[seen], 1), gold[seen])
    correlation = accumulate(residuals).correlation()
    return len(correlation) ** 2 / float(correlation.sum())


def by_data_set(panel_list: Sequence[Panel], figures: Mapping[str, float]) -> dict[str, float]:
    """The mean of a figure over the panels of each data set."""
    sets: dict[str, list[float]] = {}
    for panel in panel_list:
        if panel.name in figures:
            sets.setdefault(panel.view.family, []).append(figures[panel.name])
    return {name: float(np.mean(each)) for name, each in sets.items()}


def summary(panel_list: Sequence[Panel], figures: Mapping[str, float]) -> str:
    """The mean by data set, and the worst panel, as two cells of a table."""
    worst = min(figures, key=lambda name: figures[name])
    return f"{np.mean(list(by_data_set(panel_list, figures).values())):+.4f} | {figures[worst]:+.4f} ({worst})"


def without_labels(panel_list: Sequence[Panel]) -> dict[str, str]:
    """Print the table without labels; return the state of each panel without families and texts."""
    print("\n## Without labels\n\nGain over the plain average.\n")
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
    print("\n| | declared | mean gain by data set | worst panel |\n|---|---|---|---|")
    for (name, declared), figures in sorted(gains.items()):
        print(f"| `{name}` | {declared} | {summary(panel_list, figures)} |")
    print("\n## Effective judges\n\n| panel | judges | without labels | by gold | ratio |\n|---|---|---|---|---|")
    within = 0
    for panel in panel_list:
        ours, gold = known[panel.name]
        within += max(ours, gold) <= 1.5 * min(ours, gold)
        print(f"| {panel.name} | {panel.view.scores.shape[1]} | {ours:.2f} | {gold:.2f} | {ours / gold:.2f} |")
    print(f"\nWithin a factor of 1.5 on {within} of {len(panel_list)}.")
    return states


def verdicts(panel_list: Sequence[Panel], states: Mapping[str, str]) -> None:
    """Print whether the state means something."""
    print("\n## The verdict\n\n| panel | best, cross-validated, less the average | state |\n|---|---|---|")
    near, usable = 0, 0
    for panel in panel_list:
        gap = supervised(panel.view) - panel.view.measure(panel.plain)
        near += gap <= NEARLY_BEST
        usable += gap <= NEARLY_BEST and states[panel.name] in ("clear", "clear if")
        print(f"| {panel.name} | {gap:+.3f} | {states[panel.name]} |")
    print(f"\nWhere the average is within {NEARLY_BEST} of the best: clear or clear if on {usable} of {near}.")


def shrunk_ridge(panel: Panel, z: Array, rows: np.ndarray, labels: Array) -> Array:
    """Ridge regression on the judges' scores of what the plain average leaves of the labels."""
    plain = np.nan_to_num((panel.plain - np.nanmean(panel.plain)) / np.nanstd(panel.plain))
    slope = max(float(plain[rows] @ (labels - labels.mean())) / float(plain[rows] @ plain[rows]), 0.0)
    left = labels - labels.mean() - slope * plain[rows]
    return slope * plain + (ridge(z[rows], left, z) if np.ptp(left) > 0 else 0.0)


def best_judge(z: Array, rows: np.ndarray, labels: Array) -> Array:
    """The judge that correlates best with the labels."""
    spread = np.maximum(z[rows].std(axis=0), 1e-9)
    return z[:, int(np.argmax((labels - labels.mean()) @ z[rows] / spread))]


def with_labels(panel_list: Sequence[Panel]) -> None:
    """Print the tables with labels."""
    print(f"\n## With labels\n\nGain over the plain average, mean of {DRAWS} draws and its standard error; no texts.\n")
    print("| panel | labels | `care` | ridge shrunk to the average | best judge |\n|---|---|---|---|---|")
    gains: dict[tuple[int, str], dict[str, float]] = {}
    given: list[tuple[int, float, float]] = []
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
                given.append((m, answer.details["labels_better"], drawn["care"][-1]))
            for name, each in drawn.items():
                gains.setdefault((m, name), {})[panel.name] = float(np.mean(each))
            cells = [f"{np.mean(e):+.3f} ± {np.std(e, ddof=1) / len(e) ** 0.5:.3f}" for e in drawn.values()]
            print(f"| {panel.name} | {m} | {' | '.join(cells)} |", flush=True)
    print("\n| | labels | mean gain by data set | worst panel |\n|---|---|---|---|")
    for (m, name), figures in gains.items():
        print(f"| {name} | {m} | {summary(panel_list, figures)} |")
    print('\n### Is "at least as good as the plain average" true?\n')
    print("| labels | given probability | panels | mean given | at least the average less .01 |\n|---|---|---|---|---|")
    for m, (low, high) in itertools.product(LABELS, ((0.0, 0.5), (0.5, 0.9), (0.9, 0.99), (0.99, 1.01))):
        chosen = [(p, gain) for count, p, gain in given if count == m and low <= p < high]
        if chosen:
            p, gain = np.array(chosen).T
            print(
                f"| {m} | {low:.2f} to {min(high, 1):.2f} | {len(p)} | {p.mean():.2f} | {np.mean(gain >= -0.01):.2f} |"
            )


def leave_one_out(panel_list: Sequence[Panel]) -> None:
    """Print the gains of rules that were chosen by the other data sets."""
    grid = [
        replace(RULES, weak=weak, factor_share=share, most_misfit=misfit, least_gain=gain)
        for weak, share, misfit, gain in itertools.product(
            (0.0, 0.15, 0.25, 0.35), (0.0, 0.2, 0.4, 0.6), (0.03, 0.05), (0.0, 0.005, 0.01)
        )
    ]
    gains = {rules: {panel.name: _gain_by(panel, rules) for panel in panel_list} for rules in grid}
    print("\n## Rules chosen without the data set that is shown\n\nWithout families and texts.\n")
    print("| data set | weak | share | misfit | least gain | gain, chosen | gain, as shipped |\n" + "|---" * 7 + "|")
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
    print(f"\nMean gain of the chosen rules: {np.mean(chosen_gains):+.4f}; of those shipped: ", end="")
    print(f"{np.mean(list(by_data_set(panel_list, gains[RULES]).values())):+.4f}.")


def _gain_by(panel: Panel, rules: Rules) -> float:
    """Gain of the estimate by other rules, without families and texts."""
    scores = panel.scores(families=False, texts=False)
    found = label_free(problem_of(scores, FitConfig(aggregators=("care",))), rules)
    order = {item: k for k, item in enumerate(scores.canonical().item_ids)}
    return panel.gain(found.latent[[order[item] for item in scores.item_ids]])


def main() -> None:
    """Write the tables."""
    panel_list = list(panels())
    with printed_to(RESULT):
        print("# `care` on recorded panels of real judges\n\nBy `make bench-real`; the design is at the head of")
        print("`benchmarks/studies/real.py`. AUC where gold has two values, else Kendall's tau-b.")
        states = without_labels(panel_list)
        verdicts(panel_list, states)
        with_labels(panel_list)
        leave_one_out(panel_list)


if __name__ == "__main__":
    main()
