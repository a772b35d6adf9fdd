"""Placement of aggregates on the declared scale, with the declared threshold."""

from dataclasses import replace

import numpy as np

from care_ops.aggregators.base import Problem
from care_ops.calibration import fill_uniformly, prevalence_threshold, to_labels
from care_ops.errors import FitError
from care_ops.fit_labels import FitLabels
from care_ops.records import Aggregate
from care_ops.scores import Array


def placed(aggregate: Aggregate, problem: Problem, fit_labels: FitLabels) -> Aggregate:
    """Map an aggregate to the declared scale and threshold without changing the order of items.

    Raises ``FitError`` if the scale ``anchors`` is declared, but no label is of an item in the probability sample.
    """
    declared = problem.config.calibration
    estimate = aggregate.estimate
    if declared.scale == "uniform":
        assert problem.config.scale is not None  # FitConfig checks this
        moved = fill_uniformly(estimate, *problem.config.scale)
        aggregate = _moved(aggregate, moved, "fills the declared scale evenly")
    elif declared.scale == "anchors":
        rows, labels = fit_labels.rows(problem.scores.item_ids)
        weights = fit_labels.weights([problem.scores.item_ids[int(row)] for row in rows])
        labelled = ~np.isnan(estimate[rows]) & (weights > 0)
        has_scale = problem.config.scale is not None
        map_to_labels = to_labels(estimate[rows[labelled]], labels[labelled], weights[labelled], declared=has_scale)
        if map_to_labels is None:
            raise FitError(
                "calibration: the labels cannot set the scale, because no labelled item was drawn at random or with a "
                "known probability; add labels of such items"
            )
        offset, unit = map_to_labels
        placement = "location" if unit == 1.0 else "location and slope"
        aggregate = replace(
            _moved(aggregate, offset + unit * estimate, f"{placement} of {int(labelled.sum())} anchors", unit),
            labels_used=max(aggregate.labels_used, int(labelled.sum())),
        )
    if declared.prevalence is not None:
        threshold = prevalence_threshold(aggregate.estimate, declared.prevalence)
        declared_threshold = {"threshold": f"where a share {declared.prevalence:g} lies above"}
        aggregate = replace(aggregate, threshold=threshold, details={**aggregate.details, **declared_threshold})
    return aggregate


def _moved(aggregate: Aggregate, estimate: Array, placement: str, unit: float | None = None) -> Aggregate:
    before, scored = aggregate.estimate, ~np.isnan(aggregate.estimate)
    threshold, sd = aggregate.threshold, aggregate.sd
    order = np.argsort(before[scored], kind="stable")
    x, y = before[scored][order], estimate[scored][order]
    if threshold is not None:
        threshold = _moved_threshold(threshold, x, y) if len(x) else None
    if sd is not None:
        sd = sd * (float(np.std(y)) / max(float(np.std(x)), 1e-12) if unit is None else unit)
    return replace(
        aggregate, estimate=estimate, threshold=threshold, sd=sd, details={**aggregate.details, "scale": placement}
    )


def _moved_threshold(threshold: float, before: Array, after: Array) -> float:
    """Map a threshold like the sorted estimates (n,), such that every item stays on the same side of the threshold."""
    negative = int(np.searchsorted(before, threshold, side="right"))
    if negative == len(after):
        return float(after[-1])
    just_below = float(np.nextafter(after[negative], -np.inf))
    if negative == 0:
        return just_below
    return float(np.clip(np.interp(threshold, before, after), after[negative - 1], just_below))
