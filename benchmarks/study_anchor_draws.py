"""What thirty random anchors make of ``care_tensor`` on recorded pairwise panels, and whether bad draws are flagged.

``python -m benchmarks.study_anchor_draws [VIEW ...]`` (CARE_DATA_DIR must be set) prints the table of
docs/care-tensor.md; names choose some of the views.

Fixed before the result was seen: every recorded view of pairs, judges taken for Gaussian and for graded, five seeds of
starts, forty draws of thirty anchors each, so that a view has two hundred draws. Accuracy is that of the decisions on
all other items that have a score. A draw is *bad* where accuracy is below .6. It is *flagged* where starts do not agree
or the anchors do not confirm the states, as the review and the verdict see it.

Whatever changes in how anchors map states or in what is flagged is chosen on the seeds of starts from 100 to 104
(``DEVELOPMENT``), whose anchors are other draws from the same items; then the seeds above are run once.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from care_ops.aggregators.care_tensor import CareTensor, confirmed_by_anchors, quality_by_anchors
from care_ops.config import ObservationModel, TensorConfig
from care_ops.errors import FitError
from care_ops.scores import content_seed
from tests.support.panels import PreparedView, prepare, views

Array = NDArray[np.float64]

PAIRWISE = ("llmbar", "prd_vicuna80")
MODELS: tuple[ObservationModel, ...] = ("gaussian", "graded")
SEEDS, DRAWS, ANCHORS, BAD = 5, 40, 30, 0.6
DEVELOPMENT = range(100, 105)


@dataclass(frozen=True)
class Drawn:
    """What one draw of anchors gave."""

    accuracy: float
    flagged: bool


def drawn(panel: PreparedView, model: ObservationModel, seed: int) -> list[Drawn]:
    """Draws of anchors on the states of one seed; the states do not depend on the anchors."""
    rng = np.random.default_rng([content_seed(panel.problem.scores), seed])
    config = replace(panel.problem.config, tensor=TensorConfig(observation_model=model))
    states = CareTensor().states(replace(panel.problem, rng=rng, config=config))
    gold, scored = panel.view.gold, ~np.isnan(panel.problem.scores.values).all(axis=1)
    draws: list[Drawn] = []
    for _ in range(DRAWS):
        anchors = rng.choice(len(gold), ANCHORS, replace=False)
        if np.ptp(gold[anchors]) == 0:
            continue
        of_anchors = states.posterior[anchors]
        quality = quality_by_anchors(of_anchors, gold[anchors])
        others = scored.copy()
        others[anchors] = False
        right = (states.posterior[others] @ quality > 0.5) == (gold[others] > 0.5)
        confirmed = confirmed_by_anchors(of_anchors, gold[anchors]).get("anchors_confirm", False)
        draws.append(Drawn(float(right.mean()), not (confirmed and states.details["starts_agree"])))
    return draws


def main() -> None:
    """Print a row a view and model of the judges."""
    print(
        "| view | judges taken for | items | commoner label | accuracy: median | 5 % | least | bad draws "
        "| of these flagged | flagged draws that are not bad |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    with threadpool_limits(limits=1, user_api="blas"):
        for view in views():
            if view.family not in PAIRWISE or (sys.argv[1:] and view.name not in sys.argv[1:]):
                continue
            panel, commoner = prepare(view), max(view.gold.mean(), 1 - view.gold.mean())
            for model in MODELS:
                try:
                    draws = [draw for seed in range(SEEDS) for draw in drawn(panel, model, seed)]
                except FitError as error:
                    print(f"| {view.name} | {model} | {len(view.gold)} | {commoner:.2f} | none ({error}) |", flush=True)
                    continue
                accuracy = np.array([draw.accuracy for draw in draws])
                flagged, bad = np.array([draw.flagged for draw in draws]), accuracy < BAD
                print(
                    f"| {view.name} | {model} | {len(view.gold)} | {commoner:.2f} | {np.median(accuracy):.3f} "
                    f"| {np.quantile(accuracy, 0.05):.3f} | {accuracy.min():.3f} | {bad.sum()} of {len(draws)} "
                    f"| {(bad & flagged).sum()} | {(flagged & ~bad).sum()} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
