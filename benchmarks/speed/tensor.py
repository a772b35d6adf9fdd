"""Four states from three views: the portfolio against EM from the truth, the bare tensor beside it."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from assets.experiments.planted import matched, rotated, thirds
from care_ops.aggregators.care_tensor import free_starts, view_starts
from care_ops.errors import FitError
from care_ops.models import cp, mixture
from care_ops.models.mixture import Mixture
from care_ops.moments.state import accumulate
from care_ops.simulate import four_state_mixture
from care_ops.structure.views import Views

Array = NDArray[np.float64]

REGIMES = ((12, 5_000, 1.0), (36, 5_000, 1.0), (12, 2_000, 2.0), (12, 1_000, 1.0), (36, 1_000, 2.0))
SEEDS = 10


def run() -> list[dict[str, object]]:
    """A row a regime: relative errors of the means, medians over seeds, and the worst ratio to the oracle's."""
    rows: list[dict[str, object]] = []
    with threadpool_limits(limits=1, user_api="blas"):
        for p, n, noise in REGIMES:
            ratios, errors, bare, seconds, svd = [], [], {m: [] for m in ("jennrich", "power", "als")}, [], []
            for seed in range(SEEDS):
                rng = np.random.default_rng(seed)
                draw = four_state_mixture(rng, n=n, p=p, noise=noise)
                views = thirds(p)
                started = time.process_time()
                fitted = portfolio(draw.scores, views, rng)
                seconds.append(time.process_time() - started)
                oracle = mixture.expectation_maximisation(
                    draw.scores, draw.weights, draw.means, np.full(p, noise**2), tolerance=1e-9, max_iterations=3_000
                )
                floor = matched(oracle.means, draw.means)
                errors.append(matched(fitted.means, draw.means))
                ratios.append(errors[-1] / floor)
                centred = draw.means - draw.scores.mean(axis=0)
                tensor = cp.augmented_moment(accumulate(draw.scores), views)
                for method, listed in bare.items():
                    listed.append(_bare(tensor, views, rng, method, centred, float(np.linalg.norm(draw.means))))
                svd.append(rotated(cp.two_way_baseline(tensor, views, 4), centred))
            rows.append(
                {
                    "p": p,
                    "n": n,
                    "noise": noise,
                    "portfolio": float(np.median(errors)),
                    "over_oracle": float(np.median(ratios)),
                    "worst_over_oracle": max(ratios),
                    "cpu_s": float(np.median(seconds)),
                    **{f"bare_{m}": float(np.median(v)) for m, v in bare.items()},
                    "svd_baseline": float(np.median(svd)),
                }
            )
    return rows


def portfolio(values: Array, views: Views, rng: np.random.Generator) -> Mixture:
    """Fit the mixture as ``care_tensor`` does, and return the means on the scale of the scores."""
    centre, scale = values.mean(axis=0), values.std(axis=0)
    z = (values - centre) / scale
    moments = accumulate(z)
    tensor = cp.augmented_moment(moments, views)
    starts = view_starts(z, tensor, moments.covariance(), views, 4, rng)[0] + free_starts(z, 4, rng)
    best, _ = mixture.best_of(z, starts, tolerance=1e-9)
    return replace(best, means=centre + best.means * scale)


def _bare(tensor: Array, views: Views, rng: np.random.Generator, method: cp.Method, truth: Array, norm: float) -> float:
    try:
        found = cp.decompose(tensor, views, 4, rng, method=method)
    except FitError:
        return float("inf")
    return matched(found.means, truth) * float(np.linalg.norm(truth)) / norm
