"""CARE-Tensor: quality as a state of a mixture seen from three views (paper, Algorithm 2).

Belongs here: the road from views to E[Q | J]. Does not: the decomposition (``cp``) or EM (``mixture``).
"""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from care_ops import cp, mixture
from care_ops.aggregators.base import Aggregate, Problem
from care_ops.calibration import to_panel_scale
from care_ops.errors import FitError
from care_ops.factors import extract
from care_ops.mixture import Mixture
from care_ops.views import Views, partition

Array = NDArray[np.float64]


class CareTensor:
    """``care_tensor``: the log-odds of Q = 1 given the scores, on the panel's scale.

    Judges are standardised first, so the answer does not depend on their scales. The tensor estimate and
    k-means starts are each refined by EM; the best likelihood is kept. States are mapped to Q by
    s_r = v' mu_r with v the quality direction of L (step E), or by anchors (step F). The posterior is that
    of conditionally independent judges and hence overconfident: it orders items and decides at one half,
    and is not printed as a probability.
    """

    name = "care_tensor"
    scale_free = True
    uses_labels = True
    states = 4
    k_means_starts = 5
    short_iterations = 30  # of every start; the finalists go on until they have converged
    finalists = 2

    def __init__(self, memo: dict[tuple[tuple[int, ...], ...], tuple[Mixture, dict[str, Any]]] | None = None) -> None:
        """``memo`` keeps the mixture by views, for many fits of the same scores that differ in their penalties."""
        self._memo = memo

    def fit(self, problem: Problem) -> Aggregate:
        """Views, third moment, decomposition, EM, states to Q."""
        structure = problem.require_structure()
        views = partition(structure.sparse)
        known: NDArray[np.bool_] = ~np.all(np.isnan(problem.standardised), axis=1)
        values = problem.standardised[known]
        fitted, tensor_details = self._remembered(problem, views, values)
        quality = extract(structure.low_rank, problem.correlation).weights
        positive = self._states_of_quality(problem, fitted, quality)
        log_joint = fitted.log_joint(values)
        latent = np.full(len(known), np.nan)
        latent[known] = mixture.log_sum(log_joint[:, positive]) - mixture.log_sum(log_joint[:, ~positive])
        estimate, offset, _ = to_panel_scale(latent, problem.panel_mean)
        details: dict[str, Any] = {
            "views": [[problem.scores.judges[j] for j in group] for group in views.groups],
            "view_tolerance": views.tolerance,
            "largest_cross_edge": views.largest_cross_edge,
            "tensor": tensor_details,
            "state_weights": fitted.weights.tolist(),
            "state_means": (problem.moments.mean() + fitted.means * problem.scale).tolist(),
            "states_of_quality": np.flatnonzero(positive).tolist(),
            "start": fitted.start,
            "converged": fitted.converged,
            "log_likelihood": fitted.log_likelihood,
            "certificate": asdict(structure.certificate),
            "scale": "location and spread of the panel mean; zero log-odds at the threshold",
        }
        return Aggregate(
            self.name,
            estimate,
            threshold=offset,
            loadings=fitted.means.T,
            latent=latent,
            labels_used=len(problem.anchors),
            details=details,
        )

    def _remembered(self, problem: Problem, views: Views, values: Array) -> tuple[Mixture, dict[str, Any]]:
        if self._memo is None:
            return self.components(problem, views, values)
        key = tuple(tuple(int(j) for j in group) for group in views.groups)
        if key not in self._memo:
            self._memo[key] = self.components(problem, views, values)
        return self._memo[key]

    def components(self, problem: Problem, views: Views, values: Array) -> tuple[Mixture, dict[str, Any]]:
        """The mixture with the best likelihood over the starts, and what the tensor stage said."""
        k = self.states
        starts: list[tuple[str, Array]] = []
        details: dict[str, Any] = {"used": False}
        tensor = cp.augmented_moment(problem.moments, views)
        tensor = cp.scale_tensor(
            tensor, (problem.scale[views.groups[0]], problem.scale[views.groups[1]], problem.scale[views.groups[2]])
        )
        try:
            bare = cp.decompose(tensor, views, k, problem.rng)
            details = {
                "used": True,
                "condition": bare.condition,
                "negative_weights": bare.negative_weights,
            }
            starts.append(("tensor", bare.means))
        except FitError as error:
            details["why_not"] = str(error)
        for start in range(self.k_means_starts):
            starts.append((f"k-means {start + 1}", mixture.k_means_plus_plus(values, k, problem.rng)))
        best, details["start_likelihoods"] = mixture.best_of(
            values, starts, short_iterations=self.short_iterations, finalists=self.finalists
        )
        return best, details

    def _states_of_quality(self, problem: Problem, fitted: Mixture, quality: Array) -> NDArray[np.bool_]:
        rows, labels = problem.anchors.rows(problem.scores.item_ids)
        if len(rows) >= 2 and np.ptp(labels) > 0:
            return _best_by_anchors(fitted, problem.standardised[rows], labels)
        score = fitted.means @ quality
        positive = np.zeros(len(score), dtype=bool)
        positive[np.argsort(score, kind="stable")[len(score) // 2 :]] = True
        return positive


def _best_by_anchors(fitted: Mixture, values: Array, labels: Array) -> NDArray[np.bool_]:
    """The map of states to Q whose P(Q = 1 | J) lies nearest the anchors' labels (step F)."""
    target = (labels > 0.5 * (labels.min() + labels.max())).astype(np.float64)
    filled = np.where(np.isnan(values).all(axis=1, keepdims=True), 0.0, values)
    posterior = fitted.posterior(filled)
    k = len(fitted.weights)
    maps = [np.array(m, dtype=bool) for m in itertools.product((False, True), repeat=k) if 0 < sum(m) < k]
    loss = [float(np.sum((posterior[:, m].sum(axis=1) - target) ** 2)) for m in maps]
    return maps[int(np.argmin(loss))]
