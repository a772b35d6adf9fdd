"""Can labels that hardly say anything be kept from doing harm, and probabilities be better? ``make bench-few-labels``.

The design, fixed before any result was seen. On ``care_asset`` ten to fifty labels, one person's grade each, make the
order of ``care`` worse (tau .408 without them, .396 with). Panels, draws and measures are those of ``study_truth``; 20
draws (``--draws``) of 10, 20 and 50 labels. Each way has a few settings. For each family of panels the setting is used
that gains most over the mean on the other families, over 10, 20 and 50 labels together; constants are never chosen on
the rows that are reported.

Order:

- *now*: ``models.hypotheses`` as it is.
- *trust*: where a panel is not called ambiguous, the answer without labels has the prior probability .5, .7, .9 or .97
  instead of .3, and the others share the rest as before.
- *noise*: the noise of labels is not averaged over a grid but estimated from the panel: the correlation r of labels and
  answer, shrunk towards the prior slope as if 5 or 20 labels had shown that (Fisher's z), over the answer's own
  reliability; the noise is sqrt(1 - (r / reliability)^2), between .3 and .98.
- *steady* (added when the figures of *trust* and *noise* were known, and before its own were): *trust* with .97, and
  on panels that are not called ambiguous smaller departures along factors and judges: none, or standard deviations of
  0 and .1, of 0, .1 and .2, or of 0, .2 and .4 as now.
- *left out*: labels are left out in five folds; the answer with labels is taken with the weight Phi(t - t0), and the
  one without with the rest, where t is Student's statistic of what the first predicts better, t0 is 0, .5 or 1, and
  both are scaled to the labels of the folds. On all panels, or on those alone that are not called ambiguous.

A way is taken over if, with settings chosen on the other families, ASSET with 10, 20 and 50 labels is not below ASSET
without on the same items (a standard error of the difference allowed), the gap at 10 and 50 labels is lower by .01 at
most, and harm is no worse.

Probabilities (panels with binary gold, 20 and 50 labels, calibration error in ten bins on the rest):

- *now*: ``calibration.logistic_map``.
- *slope*: the same map with prior means 1, 1.5, 2 or 2.5 and prior standard deviations .4 or .75 of its slope.
- *ranks*: the same settings, on normal scores of the answer instead of the answer.
- *beta*: beta calibration (Kull, Silva Filho and Flach 2017) of the answer's share of ranks, logit p = a + b log s - c
  log(1 - s), with the prior means .5, .8 or 1.2 of b and c, and the prior standard deviations .2 or .5.

One is taken over if its mean error over the panels is lower at 20 and at 50 labels and its worst is no higher, with
settings chosen on the other families by the mean error at 20 and 50.

How low can the error be? (Added when the figures above were known, and before its own were.) Calibration error is at
least the error of the mean probability, which no map can make smaller than labels allow.

- *level*: |mean of P(Q = 1) - share of positives| of *now*, on the rest.
- *share alone*: the error of the share of positives by ``results.rates`` from the same labels and the same answer.
- *told the share*: *now* with its intercept moved until the mean probability is the true share, which no user knows.
- *told everything*: a logistic regression of gold on the same answer over all measured items, as *now* in form.

Belongs here: the ways and the tables. Belongs elsewhere: what ``care`` does (``aggregators.care``).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm, rankdata
from threadpoolctl import threadpool_limits

from benchmarks.study_truth import draw
from care_ops.aggregators.care import Candidates, Defensible, candidates_of, defensible
from care_ops.aggregators.votes import modal_grade
from care_ops.metrics import calibration_error
from care_ops.models.factor_analysis import normal_scores
from care_ops.models.hypotheses import DEPARTURES, NOISES, SLOPE, Hypothesis, average_hypotheses
from care_ops.results.rates import rates_of
from tests.support.panels import PreparedView, prepare, summarise, supervised, views

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

LABELS = (10, 20, 50)
FOLDS = 5


@dataclass(frozen=True)
class Panel:
    """A view with what its answers need.

    Attributes
    ----------
    prepared : PreparedView
    answers : Defensible
    candidates : Candidates
    judges : (n, p) array
        Standardised scores, missing ones as 0.
    """

    prepared: PreparedView
    answers: Defensible
    candidates: Candidates
    judges: Array

    def average(
        self,
        rows: Rows,
        hypotheses: list[Hypothesis] | None = None,
        noises: tuple[float, ...] = NOISES,
        departures: tuple[float, ...] = DEPARTURES,
    ) -> Array:
        """The answer by some labels; without any where they do not differ."""
        labels = self.prepared.view.gold[rows]
        average = average_hypotheses(
            hypotheses or self.candidates.hypotheses,
            self.answers.factors,
            self.judges,
            rows,
            labels,
            noises=noises,
            departures=departures,
        )
        return self.answers.latent if average is None else average.latent


Way = Callable[[Panel, Rows], Array]


def trusting(prior: float, departures: tuple[float, ...] = DEPARTURES) -> Way:
    """A larger prior probability of the answer without labels, where the panel is not called ambiguous."""

    def answer(panel: Panel, rows: Rows) -> Array:
        if panel.answers.ambiguous:
            return panel.average(rows)
        hypotheses = panel.candidates.hypotheses
        rest = sum(h.prior for h in hypotheses if h.name != "care")
        weighed = [replace(h, prior=prior if h.name == "care" else h.prior / rest * (1 - prior)) for h in hypotheses]
        return panel.average(rows, weighed, departures=departures)

    return answer


def noise_of_panel(prior_labels: float) -> Way:
    """The noise of labels by their correlation with the answer and the answer's reliability."""

    def answer(panel: Panel, rows: Rows) -> Array:
        labels, latent = panel.prepared.view.gold[rows], panel.answers.latent[rows]
        if np.ptp(labels) == 0 or np.ptp(latent) == 0:
            return panel.answers.latent
        seen = np.arctanh(np.clip(np.corrcoef(labels, latent)[0, 1], -0.99, 0.99))
        z = (len(rows) * seen + prior_labels * np.arctanh(SLOPE)) / (len(rows) + prior_labels)
        reliability = np.sqrt(max(1.0 - float(np.mean(panel.answers.sd[panel.answers.scored] ** 2)), 0.1))
        noise = np.sqrt(1.0 - min(float(np.tanh(z)) / reliability, 1.0) ** 2)
        return panel.average(rows, noises=(float(np.clip(noise, 0.3, 0.98)),))

    return answer


class LeftOut:
    """The answers with and without labels, mixed by how much better the first predicts labels that it has not seen."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], tuple[Array, float]] = {}

    def way(self, offset: float, *, everywhere: bool) -> Way:
        """With t0 = ``offset``, on all panels or on those alone that are not called ambiguous."""

        def answer(panel: Panel, rows: Rows) -> Array:
            told, t = self._told(panel, rows)
            if panel.answers.ambiguous and not everywhere:
                return told
            weight, untold = float(norm.cdf(t - offset)), panel.answers.latent
            return weight * told / told.std() + (1.0 - weight) * untold / untold.std()

        return answer

    def _told(self, panel: Panel, rows: Rows) -> tuple[Array, float]:
        """The answer with labels, and Student's statistic; computed once for all settings."""
        key = (panel.prepared.name, rows.tobytes())
        if key not in self._known:
            self._known[key] = panel.average(rows), _statistic(panel, rows)
        return self._known[key]


def _statistic(panel: Panel, rows: Rows) -> float:
    """How much better the answer with labels predicts those that it has not seen, over the standard error of that."""
    labels = panel.prepared.view.gold[rows]
    folds = np.arange(len(rows)) % FOLDS
    better = np.zeros(len(rows))
    for fold in range(FOLDS):
        kept, out = rows[folds != fold], rows[folds == fold]
        errors = [
            (labels[folds == fold] - _scaled(latent, kept, labels[folds != fold])[out]) ** 2
            for latent in (panel.answers.latent, panel.average(kept))
        ]
        better[folds == fold] = errors[0] - errors[1]
    spread = float(better.std(ddof=1))
    return float(better.mean()) / spread * float(np.sqrt(len(better))) if spread > 0 else 0.0


def _scaled(latent: Array, rows: Rows, labels: Array) -> Array:
    """On the labels' scale: least squares with a slope shrunk by two labels' worth."""
    x, y = latent[rows], labels
    centred = x - x.mean()
    slope = float(centred @ (y - y.mean())) / (float(centred @ centred) + 2.0 * float(latent.var()))
    return y.mean() + slope * (latent - x.mean())


_LEFT_OUT = LeftOut()
WAYS: dict[str, dict[str, Way]] = {
    "now": {"": lambda panel, rows: panel.average(rows)},
    "trust": {f"{prior:g}": trusting(prior) for prior in (0.5, 0.7, 0.9, 0.97)},
    "steady": {
        str(departures): trusting(0.97, departures) for departures in ((0.0,), (0.0, 0.1), (0.0, 0.1, 0.2), DEPARTURES)
    },
    "noise": {f"{prior:g}": noise_of_panel(prior) for prior in (5.0, 20.0)},
    "left out": {
        f"{offset:g} {'everywhere' if everywhere else 'where clear'}": _LEFT_OUT.way(offset, everywhere=everywhere)
        for everywhere in (True, False)
        for offset in (0.0, 0.5, 1.0)
    },
}

Map = Callable[[Array, Rows, Array], Array]
"""From the answer over all items, the labelled rows and their labels to a probability for each item."""


def logistic(mean: float, sd: float, *, ranks: bool) -> Map:
    """A logit on the answer, or on its normal scores."""

    def probabilities(latent: Array, rows: Rows, labels: Array) -> Array:
        x = normal_scores(latent[:, None])[:, 0] if ranks else (latent - latent.mean()) / latent.std()
        return _fitted(np.column_stack([np.ones(len(x)), x]), rows, labels, (0.0, mean), (1.5, sd))

    return probabilities


def beta(mean: float, sd: float) -> Map:
    """Beta calibration of the share of items that the answer ranks lower."""

    def probabilities(latent: Array, rows: Rows, labels: Array) -> Array:
        share = (rankdata(latent) - 0.5) / len(latent)
        design = np.column_stack([np.ones(len(share)), np.log(share), -np.log(1.0 - share)])
        return _fitted(design, rows, labels, (0.0, mean, mean), (1.5, sd, sd))

    return probabilities


def _fitted(design: Array, rows: Rows, labels: Array, mean: Sequence[float], sd: Sequence[float]) -> Array:
    """Posterior mode of a logistic regression with independent normal priors, by Newton's method."""
    centre, precision = np.array(mean), 1.0 / np.array(sd) ** 2
    beta_, x = centre.copy(), design[rows]
    for _ in range(50):
        p = expit(x @ beta_)
        gradient = x.T @ (p - labels) + precision * (beta_ - centre)
        step = np.linalg.solve((x.T * (p * (1 - p))) @ x + np.diag(precision), gradient)
        beta_ = beta_ - step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
    return expit(design @ beta_)


_SLOPES = [(mean, sd) for mean in (1.0, 1.5, 2.0, 2.5) for sd in (0.4, 0.75)]
MAPS: dict[str, dict[str, Map]] = {
    "now": {"": logistic(1.5, 0.75, ranks=False)},
    "slope": {f"{mean:g} {sd:g}": logistic(mean, sd, ranks=False) for mean, sd in _SLOPES},
    "ranks": {f"{mean:g} {sd:g}": logistic(mean, sd, ranks=True) for mean, sd in _SLOPES},
    "beta": {f"{mean:g} {sd:g}": beta(mean, sd) for mean in (0.5, 0.8, 1.2) for sd in (0.2, 0.5)},
}

Figures = dict[str, dict[int, dict[str, float]]]
"""Setting -> number of labels -> view -> figure."""


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study_few_labels")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--floor", action="store_true", help="how low calibration error can be, and nothing else")
    parser.add_argument("--way", choices=list(WAYS), action="append", help="of these alone; leaves probabilities out")
    given = parser.parse_args()
    with threadpool_limits(1):
        panels = [_panel(prepare(view)) for view in views()]
        if given.floor:
            _print_floor(panels, given.draws)
            return
        if given.way is None:
            _print_probabilities(panels, given.draws)
            _print_floor(panels, given.draws)
        _print_order(panels, given.draws, given.way or list(WAYS))


def _panel(prepared: PreparedView) -> Panel:
    answers = defensible(prepared.problem)
    return Panel(prepared, answers, candidates_of(answers), np.nan_to_num(prepared.problem.standardised))


def _print_order(panels: Sequence[Panel], draws: int, ways: Sequence[str]) -> None:
    mean = {p.prepared.name: p.prepared.view.measure(p.prepared.problem.panel_mean) for p in panels}
    vote = {p.prepared.name: p.prepared.view.measure(modal_grade(p.prepared.problem.scores.values)) for p in panels}
    ceiling = {p.prepared.name: supervised(p.prepared.view) for p in panels}
    score = {"mean": mean, "vote": vote, "ceiling": ceiling}
    every_view = [p.prepared.view for p in panels]
    asset = next(p for p in panels if p.prepared.name == "care_asset")
    untold = {m: _gains(asset, lambda panel, _: panel.answers.latent, m, draws) for m in LABELS}
    print("| way | labels | gap | gain | harm | worst on | care_asset less without | its error | settings |")
    print("|---" * 9 + "|")
    for name, settings in ((name, WAYS[name]) for name in ways):
        figures: Figures = {}
        changes: dict[tuple[str, int], Array] = {}
        for setting, way in settings.items():
            figures[setting] = {}
            for m in LABELS:
                gains = {p.prepared.name: _gains(p, way, m, draws) for p in panels}
                figures[setting][m] = {view: mean[view] + float(np.mean(gain)) for view, gain in gains.items()}
                changes[setting, m] = np.array(gains["care_asset"]) - np.array(untold[m])
        best = chosen_elsewhere(
            figures,
            {view.name: view.family for view in every_view},
            lambda kept, names: summarise(kept, [v for v in every_view if v.name in names], **score).gain,
        )
        for m in LABELS:
            chosen = {v.name: figures[best[v.family]][m][v.name] for v in every_view}
            s = summarise(chosen, every_view, **score)
            change = changes[best["care_asset"], m]
            error = float(change.std(ddof=1) / np.sqrt(draws))
            print(
                f"| {name} | {m} | {s.gap:+.3f} | {s.gain:+.4f} | {s.harm:+.3f} | {s.worst} | {change.mean():+.4f} "
                f"| {error:.4f} | {sorted(set(best.values()))} |",
                flush=True,
            )


def _gains(panel: Panel, way: Way, m: int, draws: int) -> list[float]:
    """Of the answer over the panel's mean, on items of other split units than the labelled ones."""
    gains: list[float] = []
    for seed in range(draws):
        rows, rest = draw(panel.prepared, m, seed)
        view = panel.prepared.view
        gains.append(view.measure(way(panel, rows), rest) - view.measure(panel.prepared.problem.panel_mean, rest))
    return gains


def chosen_elsewhere(
    figures: Figures, family_of: Mapping[str, str], value: Callable[[Mapping[str, float], set[str]], float]
) -> dict[str, str]:
    """For each family the setting with the largest value on the other families, over all numbers of labels."""
    chosen: dict[str, str] = {}
    for family in sorted(set(family_of.values())):
        others = {view for view, of in family_of.items() if of != family}
        chosen[family] = max(figures, key=lambda s: sum(value(by_view, others) for by_view in figures[s].values()))
    return chosen


def _print_probabilities(panels: Sequence[Panel], draws: int) -> None:
    binary = [p for p in panels if p.prepared.view.binary]
    family_of = {p.prepared.name: p.prepared.view.family for p in binary}
    errors: dict[str, Figures] = {name: {setting: {} for setting in settings} for name, settings in MAPS.items()}
    for m in (20, 50):
        for panel in binary:
            measured = _calibration_errors(panel, m, draws)
            for (name, setting), error in measured.items():
                errors[name][setting].setdefault(m, {})[panel.prepared.name] = error
    print("| map | labels | mean error | worst | on | settings |\n|---|---|---|---|---|---|")
    for name, figures in errors.items():
        best = chosen_elsewhere(
            figures, family_of, lambda by_view, names: -float(np.mean([by_view[view] for view in sorted(names)]))
        )
        for m in (20, 50):
            chosen = {view: figures[best[family]][m][view] for view, family in family_of.items()}
            worst = max(chosen, key=lambda view: chosen[view])
            print(
                f"| {name} | {m} | {np.mean(list(chosen.values())):.3f} | {chosen[worst]:.3f} | {worst} "
                f"| {sorted(set(best.values()))} |",
                flush=True,
            )


def _print_floor(panels: Sequence[Panel], draws: int) -> None:
    """Of calibration error, as far as it is due to the labels' number alone."""
    print("| with | labels | mean error | worst | on |\n|---|---|---|---|---|")
    for m in (20, 50):
        measured = {p.prepared.name: _floor(p, m, draws) for p in panels if p.prepared.view.binary}
        for name in next(iter(measured.values())):
            errors = {view: by_name[name] for view, by_name in measured.items()}
            worst = max(errors, key=lambda view: errors[view])
            print(
                f"| {name} | {m} | {np.mean(list(errors.values())):.3f} | {errors[worst]:.3f} | {worst} |", flush=True
            )


def _floor(panel: Panel, m: int, draws: int) -> dict[str, float]:
    """Mean errors over the draws whose labels are of both kinds; see "How low can the error be?" above."""
    view, now = panel.prepared.view, MAPS["now"][""]
    errors: dict[str, list[float]] = {"level": [], "share alone": [], "told the share": [], "told everything": []}
    for seed in range(draws):
        rows, rest = draw(panel.prepared, m, seed)
        labels, gold = view.gold[rows], view.gold[rest]
        if np.ptp(labels) == 0:
            continue
        latent = panel.average(rows)
        told = now(latent, rows, labels)[rest]
        errors["level"].append(abs(float(told.mean() - gold.mean())))
        known = np.full(len(latent), np.nan)
        known[rows] = labels
        (rate,) = rates_of(latent, known, ["all"] * len(latent), view.units.tolist(), seed=seed).rates
        errors["share alone"].append(abs(rate.value - float(view.gold.mean())))
        errors["told the share"].append(calibration_error(_with_mean(told, float(gold.mean())), gold))
        everything = now(latent, np.flatnonzero(rest), gold)[rest]
        errors["told everything"].append(calibration_error(everything, gold))
    return {name: float(np.mean(values)) for name, values in errors.items()}


def _with_mean(probability: Array, mean: float) -> Array:
    """The probabilities with another intercept of their logits, so that this is their mean."""
    return expit(logit(probability) + brentq(lambda by: expit(logit(probability) + by).mean() - mean, -10.0, 10.0))


def _calibration_errors(panel: Panel, m: int, draws: int) -> dict[tuple[str, str], float]:
    """Mean calibration error of each map, over the draws whose labels are of both kinds."""
    errors: dict[tuple[str, str], list[float]] = {(name, s): [] for name, settings in MAPS.items() for s in settings}
    view = panel.prepared.view
    for seed in range(draws):
        rows, rest = draw(panel.prepared, m, seed)
        labels = view.gold[rows]
        if np.ptp(labels) == 0:
            continue
        latent = panel.average(rows)
        for (name, setting), measured in errors.items():
            measured.append(calibration_error(MAPS[name][setting](latent, rows, labels)[rest], view.gold[rest]))
    return {key: float(np.mean(measured)) for key, measured in errors.items()}


if __name__ == "__main__":
    main()
