"""Mapping of aggregates to the scale of the labels, and thresholds for a declared prevalence."""

from dataclasses import replace

import numpy as np

from care_ops.aggregators.base import Problem
from care_ops.calibration import prevalence_threshold, to_labels
from care_ops.errors import FitError
from care_ops.fit_labels import FitLabels
from care_ops.records import Aggregate


def placed(aggregate: Aggregate, problem: Problem, fit_labels: FitLabels) -> Aggregate:
    """Map an aggregate to the declared scale and threshold without changing the order of items.

    Raises ``FitError`` if the declared scale is that of the labels, but no labelled item is in the probability sample.
    """
    declared = problem.config.calibration
    estimate, threshold, sd = aggregate.estimate, aggregate.threshold, aggregate.sd
    if declared.scale == "anchors":
        rows, labels = fit_labels.rows(problem.scores.item_ids)
        weights = fit_labels.weights([problem.scores.item_ids[int(row)] for row in rows])
        labelled = ~np.isnan(estimate[rows]) & (weights > 0)
        has_scale = problem.config.scale is not None
        map_to_labels = to_labels(estimate[rows[labelled]], labels[labelled], weights[labelled], declared=has_scale)
        if map_to_labels is None:
            raise FitError(
                "calibration: the labels cannot set the scale, because no labelled item belongs to a random sample; "
                "label a random sample of the items, or give the sampling probabilities in the column `probability`"
            )
        offset, unit = map_to_labels
        placement = "location" if unit == 1.0 else "location and slope"
        aggregate = replace(
            aggregate,
            estimate=offset + unit * estimate,
            threshold=None if threshold is None else offset + unit * threshold,
            sd=None if sd is None else unit * sd,
            labels_used=max(aggregate.labels_used, int(labelled.sum())),
            details={**aggregate.details, "scale": f"{placement} of {int(labelled.sum())} anchors"},
        )
    if declared.prevalence is not None:
        threshold = prevalence_threshold(aggregate.estimate, declared.prevalence)
        declared_threshold = {"threshold": f"where a share {declared.prevalence:g} lies above"}
        aggregate = replace(aggregate, threshold=threshold, details={**aggregate.details, **declared_threshold})
    return aggregate
