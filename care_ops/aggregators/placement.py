"""An aggregate under the scale and the prevalence that a fit declares."""

from dataclasses import replace

import numpy as np

from care_ops.aggregators.base import Problem
from care_ops.calibration import as_distributed, fill_uniformly, prevalence_threshold, to_labels
from care_ops.errors import FitError, InputError, listed
from care_ops.fit_labels import FitLabels
from care_ops.records import Aggregate
from care_ops.scores import Array


def placed(aggregate: Aggregate, problem: Problem, anchors: FitLabels) -> Aggregate:
    """The aggregate on the declared scale, with the declared threshold; itself where nothing is declared.

    No map falls where the estimate rises. Decisions at the aggregate's own threshold stay as they are, unless the map
    gives items on both sides of it one score, as a judge of few grades does; the details then say how many change.

    Raises
    ------
    InputError
        A judge's distribution is declared and the judge is not in the panel.
    FitError
        The anchors' scale is declared and there are none.
    """
    declared = problem.config.calibration
    estimate = aggregate.estimate
    if declared.scale == "uniform":
        assert problem.config.scale is not None  # FitConfig sees to it
        moved = fill_uniformly(estimate, *problem.config.scale)
        aggregate = _moved(aggregate, moved, "fills the declared scale evenly")
    elif declared.scale.startswith("judge:"):
        judge = declared.scale.removeprefix("judge:")
        if judge not in problem.scores.judges:
            raise InputError(
                f"calibration: judge {judge!r} is not in the panel; there are {listed(problem.scores.judges)}"
            )
        target = problem.scores.values[:, problem.scores.judges.index(judge)]
        aggregate = _moved(aggregate, as_distributed(estimate, target), f"distributed as the scores of {judge}")
    elif declared.scale == "anchors":
        rows, labels = anchors.rows(problem.scores.item_ids)
        weights = anchors.weights([problem.scores.item_ids[int(row)] for row in rows])
        labelled = ~np.isnan(estimate[rows]) & (weights > 0)
        known = problem.config.scale is not None
        map_to_labels = to_labels(estimate[rows[labelled]], labels[labelled], weights[labelled], known=known)
        if map_to_labels is None:
            raise FitError(
                "calibration: the scale of the anchors is declared, but there are none whose items were drawn at "
                "random or with a known probability; add labels of such items"
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
    """The aggregate at another place: the threshold goes along, the sd by the local slope of the map."""
    before, scored = aggregate.estimate, ~np.isnan(aggregate.estimate)
    threshold, sd = aggregate.threshold, aggregate.sd
    order = np.argsort(before[scored], kind="stable")
    x, y = before[scored][order], estimate[scored][order]
    if threshold is not None:
        threshold, otherwise = _moved_threshold(threshold, x, y) if len(x) else (None, 0)
        if otherwise:
            placement += f"; {otherwise} items are decided otherwise, since it gives items of both sides one score"
    if sd is not None:
        sd = sd * (float(np.std(y)) / max(float(np.std(x)), 1e-12) if unit is None else unit)
    return replace(
        aggregate, estimate=estimate, threshold=threshold, sd=sd, details={**aggregate.details, "scale": placement}
    )


def _moved_threshold(threshold: float, before: Array, after: Array) -> tuple[float, int]:
    """Where a threshold lies after a map, and how many items are decided otherwise there.

    Parameters
    ----------
    threshold : float
        Estimates above it are positive.
    before, after : (n,) arrays
        Estimates in rising order, at least one, and what the map makes of them, which never falls.
    """
    negative = int(np.searchsorted(before, threshold, side="right"))
    if negative == len(after):
        return float(after[-1]), 0
    just_below = float(np.nextafter(after[negative], -np.inf))
    if negative == 0:
        return just_below, 0
    highest = float(after[negative - 1])
    if highest < after[negative]:
        return float(np.clip(np.interp(threshold, before, after), highest, just_below)), 0
    rise = negative - int(np.searchsorted(after, highest, side="left"))
    fall = int(np.searchsorted(after, highest, side="right")) - negative
    return (just_below, rise) if rise < fall else (highest, fall)
