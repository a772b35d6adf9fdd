"""Can doubt find more of the errors, with and without labels? ``make bench-doubt``.

The measure is the share of an oracle's risk-coverage gain (``metrics.risk_coverage_gain``): how many of the errors that
abstaining could avoid are avoided by abstaining where doubt is greatest. The mean over families of panels is .561 for
``care`` without labels; .65 is wanted.

The design, fixed before any result was seen:

- Panels: every visible view with binary gold, prepared as in ``study_truth``. 0, 20 and 50 labels; 20 draws
  (``--draws``); items of a labelled split unit are not measured. With labels the decision is P(Q = 1) > .5 by
  ``calibration.logistic_map``, without labels the natural cut.
- Ways to doubt; for each family of panels the setting that is best on the other families, over all three numbers of
  labels together, is used:

  - *now*: distance of the estimate to the threshold over the ``sd`` of ``care``.
  - *distance*: that distance alone.
  - *power*: the distance over a power of the sd; .25, .5, .75.
  - *votes*: a weighted mean of the rank of *now* and the rank of the share of families whose mean lies on the decided
    side of the threshold, each family's mean being moved to the panel's location and spread; weights .25, .5, .75.
  - *answers*: the mean over the hypotheses of ``care``, by their weights (prior ones, or those that labels give), of
    the probability that an item lies on the decided side, Phi of its distance over s times the sd; s is .5, 1 or 2.

- Beside them *ridge*: a regression of gold on all judges, cross-fitted by split unit, cut at one half, doubted by
  distance. It has seen all labels and shows how much the scores allow.
- A way is taken over if its mean over families is higher than *now* with 0, 20 and 50 labels, and on no view lower by
  more than .02.

Belongs here: the ways and the table. Belongs elsewhere: what ``care`` does (``aggregators.care``).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata
from threadpoolctl import threadpool_limits

from benchmarks.study_few_labels import Figures, chosen_elsewhere
from benchmarks.study_truth import draw
from care_ops.aggregators.base import Aggregate, Problem
from care_ops.aggregators.care import Candidates, Defensible, candidates_of, defensible
from care_ops.aggregators.latent import family_of
from care_ops.aggregators.registry import REGISTRY
from care_ops.anchors import Anchors
from care_ops.metrics import risk_coverage_gain
from tests.support.panels import PreparedView, cross_fitted, prepare, views

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

LABELS = (0, 20, 50)


@dataclass(frozen=True)
class Decided:
    """An answer of ``care`` on one panel, and what doubt may use.

    Attributes
    ----------
    distance : (n,) array
        Of the estimate to the threshold, in standard deviations of the estimate; above 0 where Q = 1 is decided.
    sd : (n,) array
        ``sd`` of ``care``, in the same unit.
    families : (n, f) array
        Each family's mean less the threshold, on the scale of the estimate; NaN where a family is silent.
    rivals : (h, n) array
        Each hypothesis on the same scale, less the threshold.
    weights : (h,) array
        Of the hypotheses; they add to one.
    """

    distance: Array
    sd: Array
    families: Array
    rivals: Array
    weights: Array


Way = Callable[[Decided], Array]
"""From a decided answer to how sure each item is, in any unit."""


def power(exponent: float) -> Way:
    """The distance over a power of the standard deviation."""
    return lambda decided: np.abs(decided.distance) / decided.sd**exponent


def votes(weight: float) -> Way:
    """Ranks of the distance over the sd, and of the share of families that agree, in these parts."""

    def sure(decided: Decided) -> Array:
        agree = np.sign(decided.families) == np.sign(decided.distance)[:, None]
        heard = ~np.isnan(decided.families)
        share = np.where(heard, agree, False).sum(axis=1) / np.maximum(heard.sum(axis=1), 1)
        return (1 - weight) * rankdata(np.abs(decided.distance) / decided.sd) + weight * rankdata(share)

    return sure


def answers(scale: float) -> Way:
    """The probability of the decision, averaged over the hypotheses."""

    def sure(decided: Decided) -> Array:
        above = decided.weights @ norm.cdf(decided.rivals / (scale * decided.sd))
        return np.where(decided.distance > 0, above, 1 - above)

    return sure


WAYS: dict[str, dict[str, Way]] = {
    "now": {"": power(1.0)},
    "distance": {"": power(0.0)},
    "power": {f"{exponent:g}": power(exponent) for exponent in (0.25, 0.5, 0.75)},
    "votes": {f"{weight:g}": votes(weight) for weight in (0.25, 0.5, 0.75)},
    "answers": {f"{scale:g}": answers(scale) for scale in (0.5, 1.0, 2.0)},
}


def main() -> None:
    """Print a row for each way and number of labels, and the views below."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study_doubt")
    parser.add_argument("--draws", type=int, default=20)
    given = parser.parse_args()
    with threadpool_limits(1):
        panels = [prepare(view) for view in views() if view.binary]
        figures = _figures(panels, given.draws)
    family_of_view = {p.name: p.view.family for p in panels}
    chosen = {name: _left_out(by_setting, family_of_view) for name, by_setting in figures.items()}
    print("| way | labels | mean of families | least less now | on | settings |\n|---|---|---|---|---|---|")
    for name, (by_labels, settings) in chosen.items():
        for m in LABELS:
            less = {view: value - chosen["now"][0][m][view] for view, value in by_labels[m].items()}
            worst = min(less, key=lambda view: less[view])
            mean = _by_family(by_labels[m], family_of_view)
            print(f"| {name} | {m} | {mean:.3f} | {less[worst]:+.3f} | {worst} | {settings} |")
    bound = {p.name: _ridge_gain(p) for p in panels}
    print(f"| ridge, all labels | | {_by_family(bound, family_of_view):.3f} | | | |")
    print("\n| view | " + " | ".join(f"now, {m}" for m in LABELS) + " | ridge |\n" + "|---" * (len(LABELS) + 2) + "|")
    for p in panels:
        cells = " | ".join(f"{chosen['now'][0][m][p.name]:.3f}" for m in LABELS)
        print(f"| {p.name} | {cells} | {bound[p.name]:.3f} |")


def _figures(panels: Sequence[PreparedView], draws: int) -> dict[str, Figures]:
    figures: dict[str, Figures] = {name: {s: {m: {} for m in LABELS} for s in ways} for name, ways in WAYS.items()}
    for panel in panels:
        answered = defensible(panel.problem)
        candidates = candidates_of(answered)
        for m in LABELS:
            gains: dict[tuple[str, str], list[float]] = {}
            for seed in range(draws if m else 1):
                rows, rest = draw(panel, m, seed)
                answer = _fitted(panel, rows)
                if m and answer.p_quality is None:
                    continue
                decided = _decided(panel, answer, answered, candidates)
                wrong = (decided.distance > 0) != (panel.view.gold > 0.5)
                for name, ways in WAYS.items():
                    for setting, way in ways.items():
                        gain = risk_coverage_gain(-way(decided)[rest], wrong[rest])
                        if gain is not None:
                            gains.setdefault((name, setting), []).append(gain)
            for (name, setting), measured in gains.items():
                figures[name][setting][m][panel.name] = float(np.mean(measured))
    return figures


def _fitted(panel: PreparedView, rows: NDArray[np.intp]) -> Aggregate:
    p = panel.problem
    labels = Anchors({p.scores.item_ids[r]: float(panel.view.gold[r]) for r in rows.tolist()})
    return REGISTRY["care"].fit(Problem(p.scores, p.moments, p.structure, p.rng, p.config, labels))


def _decided(panel: PreparedView, answer: Aggregate, answered: Defensible, candidates: Candidates) -> Decided:
    """The answer, its rivals and the families on one scale, each less the threshold."""
    assert answer.threshold is not None
    assert answer.sd is not None
    location, spread = float(np.nanmean(answer.estimate)), float(np.nanstd(answer.estimate))
    cut = (answer.threshold - location) / spread
    told = answer.details.get("hypotheses", {h.name: h.prior for h in candidates.hypotheses})
    weights = np.array([float(told[h.name]) for h in candidates.hypotheses])
    sd = np.where(np.nan_to_num(answer.sd) > 0, answer.sd, spread) / spread
    return Decided(
        np.nan_to_num((answer.estimate - answer.threshold) / spread),
        sd,
        _families(panel) - cut,
        np.array([h.score for h in candidates.hypotheses]) - cut,
        weights / weights.sum(),
    )


def _families(panel: PreparedView) -> Array:
    """Means of the declared families' standardised scores, each with mean 0 and variance 1, (n, f)."""
    z, scores = panel.problem.standardised, panel.problem.scores
    members: dict[str, list[int]] = {}
    for k, judge in enumerate(scores.judges):
        members.setdefault(family_of(judge, scores.families), []).append(k)
    columns: list[Array] = []
    for family in members.values():
        present = ~np.isnan(z[:, family])
        total, count = np.where(present, z[:, family], 0.0).sum(axis=1), present.sum(axis=1)
        mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        columns.append((mean - np.nanmean(mean)) / np.nanstd(mean))
    return np.column_stack(columns)


def _ridge_gain(panel: PreparedView) -> float:
    """Of a ridge regression on all labels."""
    view = panel.view
    predicted = cross_fitted(view)
    gain = risk_coverage_gain(-np.abs(predicted - 0.5), (predicted > 0.5) != (view.gold > 0.5))
    return float("nan") if gain is None else gain


def _left_out(figures: Figures, family_of_view: Mapping[str, str]) -> tuple[dict[int, dict[str, float]], str]:
    """The figures with settings that are chosen on the other families, and which settings these are."""
    best = chosen_elsewhere(
        figures,
        family_of_view,
        lambda by_view, names: _by_family({view: by_view[view] for view in sorted(names)}, family_of_view),
    )
    by_labels = {m: {view: figures[best[family]][m][view] for view, family in family_of_view.items()} for m in LABELS}
    return by_labels, ", ".join(sorted(set(best.values())))


def _by_family(by_view: Mapping[str, float], family_of_view: Mapping[str, str]) -> float:
    """The mean over the families of their views' means."""
    values: dict[str, list[float]] = {}
    for view, value in by_view.items():
        values.setdefault(family_of_view[view], []).append(value)
    return float(np.mean([np.mean(of_family) for of_family in values.values()]))


if __name__ == "__main__":
    main()
