"""What thirty random anchors make of ``care_tensor`` on recorded panels, and whether bad draws are flagged.

``python -m benchmarks.studies.anchor_draws [VIEW ...]`` (CARE_DATA_DIR must be set) prints the table of
benchmarks/results/study-anchor-draws.md; names choose some of the views.

Fixed before the result was seen: every recorded view of pairs, judges taken for Gaussian and for graded, five seeds of
starts, forty draws of thirty anchors each, so that a view has two hundred draws. Accuracy is that of the decisions on
all other items that have a score. A draw is *bad* where accuracy is below .6. It is *flagged* where starts do not agree
or the anchors do not confirm the states, and flags for the anchors are counted apart as well; the review leaves out
starts whose ends decide .99 of the items alike (``starts_alike``). *By labels alone* is the map nearest the labels,
which was the rule until 2026-11-23.

The rule with the label-free map, its constant, and that anchors are asked to confirm only where they speak against that
map, were chosen on the seeds of starts from 100 to 104 (``DEVELOPMENT``), whose anchors are other draws from the same
items. The other views with labels of two values chose nothing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from care_ops.aggregators.care_tensor import CareTensor, confirmed_by_anchors, quality_by_anchors
from care_ops.config import ObservationModel, TensorConfig
from care_ops.errors import FitError
from care_ops.scores import content_seed
from tests.support.panels import PreparedView, prepare, views

PAIRWISE = ("llmbar", "prd_vicuna80")
MODELS: tuple[ObservationModel, ...] = ("gaussian", "graded")
SEEDS, DRAWS, ANCHORS, BAD = 5, 40, 30, 0.6
DEVELOPMENT = range(100, 105)


@dataclass(frozen=True)
class Drawn:
    """What one draw of anchors gave, by labels alone and beside the label-free map."""

    by_labels: float
    accuracy: float
    agree: bool
    confirmed: bool
    starts_agree: bool

    @property
    def flagged(self) -> bool:
        """Whether either is in doubt."""
        return not (self.confirmed and self.starts_agree)


def drawn(panel: PreparedView, model: ObservationModel, seed: int) -> list[Drawn]:
    """Draws of anchors on the states of one seed; the states do not depend on the anchors."""
    rng = np.random.default_rng([content_seed(panel.problem.scores), seed])
    config = replace(panel.problem.config, tensor=TensorConfig(observation_model=model))
    states = CareTensor().states(replace(panel.problem, rng=rng, config=config))
    gold = panel.view.gold
    scored = np.flatnonzero((~np.isnan(panel.problem.scores.values)).any(axis=1))
    draws: list[Drawn] = []
    for _ in range(DRAWS):
        anchors = rng.choice(len(gold), ANCHORS, replace=False)
        if np.ptp(gold[anchors]) == 0:
            continue
        of_anchors, others = states.posterior[anchors], np.setdiff1d(scored, anchors)
        right = [
            float(np.mean((states.posterior[others] @ quality > 0.5) == (gold[others] > 0.5)))
            for quality in (
                quality_by_anchors(of_anchors, gold[anchors]),
                quality_by_anchors(of_anchors, gold[anchors], states.quality),
            )
        ]
        told = confirmed_by_anchors(of_anchors, gold[anchors], states.quality)
        draws.append(
            Drawn(right[0], right[1], told["anchors_agree"], told["anchors_confirm"], states.details["starts_agree"])
        )
    return draws


def row(draws: list[Drawn]) -> str:
    """The cells of a view: accuracy by labels alone and beside the label-free map, bad draws, flags."""
    cells: list[str] = []
    for accuracy in ([draw.by_labels for draw in draws], [draw.accuracy for draw in draws]):
        shown = (np.mean(accuracy), np.median(accuracy), np.quantile(accuracy, 0.05), min(accuracy))
        cells += [f"{value:.3f}" for value in shown]
        cells.append(str(sum(value < BAD for value in accuracy)))
    bad = [draw for draw in draws if draw.accuracy < BAD]
    good = [draw for draw in draws if draw.accuracy >= BAD]
    cells += [
        str(sum(not draw.agree for draw in draws)),
        str(sum(draw.flagged for draw in bad)),
        str(sum(draw.flagged for draw in good)),
        str(sum(not draw.confirmed for draw in good)),
    ]
    return f"{' | '.join(cells)} | {len(draws)}"


def main() -> None:
    """Print a row a view and model of the judges, views of pairs first, then the others with labels of two values."""
    print(
        "| view | judges taken for | items | commoner label | by labels alone: mean | median | 5 % | least | bad "
        "| mean | median | 5 % | least | bad | anchors against the label-free map | bad and flagged | others flagged "
        f"| of these for the anchors | draws |\n|{'---|' * 19}"
    )
    with threadpool_limits(limits=1, user_api="blas"):
        chosen = [view for view in views() if view.binary and (not sys.argv[1:] or view.name in sys.argv[1:])]
        for view in sorted(chosen, key=lambda view: view.family not in PAIRWISE):
            panel, commoner = prepare(view), max(view.gold.mean(), 1 - view.gold.mean())
            for model in MODELS:
                named = f"| {view.name} | {model} | {len(view.gold)} | {commoner:.2f} |"
                try:
                    draws = [draw for seed in range(SEEDS) for draw in drawn(panel, model, seed)]
                except FitError as error:
                    print(f"{named} none ({error}) |", flush=True)
                    continue
                print(f"{named} {row(draws)} |", flush=True)


if __name__ == "__main__":
    main()
