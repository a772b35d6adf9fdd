"""Views and within-state covariance of ``care_tensor`` on real panels: order, cost, and how far seeds move them.

``python -m benchmarks.studies.tensor_choices [VIEW ...]`` (CARE_DATA_DIR must be set) prints the tables of
benchmarks/results/study-tensor-choices.md; names choose some of the panels.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.base import Problem
from care_ops.aggregators.care_tensor import CareTensor, free_starts
from care_ops.config import TensorConfig
from care_ops.errors import FitError
from care_ops.models import mixture
from care_ops.scores import content_seed
from care_ops.structure.factors import extract
from tests.support.panels import PreparedView, prepare, views

Array = NDArray[np.float64]

_SEEDS = range(5)


def by_settings(**settings: str) -> Callable[[Problem], Array]:
    """``care_tensor``'s latent with these settings."""

    def fit(problem: Problem) -> Array:
        config = replace(problem.config, tensor=TensorConfig(**settings))  # type: ignore[arg-type]
        latent = CareTensor().fit(replace(problem, config=config)).latent
        assert latent is not None
        return latent

    return fit


def with_full_covariance(problem: Problem) -> Array:
    """The same states to Q, from a mixture whose judges may hang together in any way within states."""
    z = problem.standardised
    complete = z[~np.isnan(z).any(axis=1)]
    fitted, _ = mixture.best_of(complete, free_starts(complete, 4, problem.rng), shape="full", finalists=1)
    score = fitted.means @ extract(problem.require_structure().low_rank, problem.correlation).weights
    positive = np.isin(np.arange(4), np.argsort(score, kind="stable")[2:])
    joint = fitted.log_joint(z)
    return mixture.log_sum(joint[:, positive]) - mixture.log_sum(joint[:, ~positive])


CHOICES: dict[str, Callable[[Problem], Array]] = {
    "views by S": by_settings(views="structure"),
    "views within states (default)": by_settings(),
    "full covariance": with_full_covariance,
    "graded": by_settings(observation_model="graded"),
    "categorical": by_settings(observation_model="categorical"),
}


def measured(panel: PreparedView, choose: Callable[[Problem], Array]) -> str:
    """Median and range of m over seeds, and CPU seconds of one fit."""
    scores, started = list[float](), time.process_time()
    try:
        for seed in _SEEDS:
            rng = np.random.default_rng([content_seed(panel.problem.scores), seed])
            scores.append(panel.view.measure(choose(replace(panel.problem, rng=rng))))
    except (FitError, np.linalg.LinAlgError) as error:
        return f"none ({error})"
    seconds = (time.process_time() - started) / len(scores)
    return f"{np.median(scores):.3f} ({min(scores):.3f} to {max(scores):.3f}), {seconds:.1f} s"


def main() -> None:
    """Print a row a panel."""
    wanted = sys.argv[1:]
    print(f"| view | {' | '.join(CHOICES)} |\n|---|{'---|' * len(CHOICES)}")
    for view in views():
        if not wanted or view.name in wanted:
            panel = prepare(view)
            cells = [measured(panel, choose) for choose in CHOICES.values()]
            print(f"| {view.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
