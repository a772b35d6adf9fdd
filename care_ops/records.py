"""Data classes for the results of a fit, in memory and in stored files.

``warehouse.documents`` stores each class as JSON. An array becomes nested lists, with null for NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator


def _numbers(values: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("the value must be rows of numbers and null, all of the same length") from None


Array = Annotated[NDArray[np.float64], PlainValidator(_numbers)]
"""Array that is stored as nested lists of numbers, with null for NaN."""


@dataclass(frozen=True)
class JudgeCheck:
    """Result of the admission check of one judge.

    Attributes
    ----------
    reason : str or None
        Reason why the judge is not admitted; None for an admitted judge.
    notes : str or None
        Remarks about the judge that do not affect its admission.
    missing_rate : float
        Share of the scores that are missing or out of range.
    mode_share : float
        Share of the most frequent score among the observed scores.
    entropy : float
        Entropy of the scores in bits.
    agreement : float or None
        Correlation with the mean of the other judges; None if it is undefined.
    out_of_range : int
        Number of scores that were dropped because they lie outside the judge's declared scale.
    """

    judge: str
    admitted: bool
    reason: str | None = None
    notes: str | None = None
    missing_rate: float = 0.0
    mode_share: float = 0.0
    entropy: float = 1.0
    agreement: float | None = None
    out_of_range: int = 0


@dataclass(frozen=True)
class Certificate:
    """Duality gap of a solution: an upper bound on the distance between the objective and the optimum.

    Attributes
    ----------
    primal, dual : float
        Objectives of the returned (S, L) and of a dual point, both feasible; the optimum lies between them.
    gap : float
        ``(primal - dual) / max(1, |primal|)``.
    tolerance : float
        Largest gap at which the solver may stop.
    converged : bool
        Whether ``gap <= tolerance``.
    """

    primal: float
    dual: float
    gap: float
    tolerance: float
    iterations: int
    converged: bool


@dataclass(frozen=True)
class Aggregate:
    """Result of one aggregator, with None in each field that the aggregator does not estimate.

    Attributes
    ----------
    estimate : (n,) array
        Score of each item on the panel's scale; NaN if no judge scored the item.
    threshold : float, optional
        ``estimate > threshold`` decides Q = 1.
    sd : (n,) array, optional
        Posterior standard deviation of the estimate.
    p_quality : (n,) array, optional
        P(Q = 1), only if it is calibrated.
    weights : (p,) array, optional
        Weight of each judge; the absolute values sum to one.
    loadings : (p, h) array, optional
        Loading of each judge on each factor.
    latent : (n,) array, optional
        Quality estimate before the mapping to the panel's scale. For most aggregators, the judges' scales do
        not affect these values.
    labels_used : int
        Number of labels that the estimate uses.
    details : dict
        JSON-serialisable record of the computation, such as penalties, certificate and warnings.
    """

    name: str
    estimate: Array
    threshold: float | None = None
    sd: Array | None = None
    p_quality: Array | None = None
    weights: Array | None = None
    loadings: Array | None = None
    latent: Array | None = None
    labels_used: int = 0
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    def mapped(
        self, items: Callable[[Array], Array], judges: Callable[[Array], Array] = lambda same: same
    ) -> Aggregate:
        """Return a copy after applying the function ``items`` to per-item arrays and ``judges`` to per-judge arrays."""
        maps = dict.fromkeys(("estimate", "sd", "p_quality", "latent"), items) | {"weights": judges, "loadings": judges}
        arrays = {name: values for name in maps if (values := getattr(self, name)) is not None}
        return replace(self, **{name: maps[name](values) for name, values in arrays.items()})


@dataclass(frozen=True)
class Intervals:
    """Percentile intervals of the weights and loadings of one aggregator.

    Attributes
    ----------
    judges : tuple of p str
    lo, hi : (p,) arrays
        Ends of the intervals of the weights.
    loadings_lo, loadings_hi : (p, h) arrays, optional
        Ends of the intervals of the loadings. The factors of a resample are matched to those of the fit by direction.
    resamples : int
        Number of resamples for which the aggregator returned an estimate.
    """

    judges: tuple[str, ...]
    lo: Array
    hi: Array
    loadings_lo: Array | None = None
    loadings_hi: Array | None = None
    resamples: int = 0


@dataclass(frozen=True)
class Evaluation:
    """Metrics that compare one aggregate with gold labels; None for a metric that these labels do not allow.

    Attributes
    ----------
    n : int
        Number of items with an estimate and a gold label.
    tau : float
        Kendall's tau-b, a metric of the ranking. It favours tied estimates if gold has only two values.
    auc : float
        Area under the ROC curve, a metric of the ranking; only for gold with two values.
    mae : float
        Mean absolute error of the estimates, a metric of ranking and scale.
    mae_filled : float
        Mean absolute error after the estimates are spread uniformly over the scale by rank, a metric of the ranking.
    accuracy, balanced_accuracy : float
        For binary gold: share of correct decisions at the threshold, and the mean of this share over both classes.
    risk_coverage : float
        Gain from ranking the decisions by uncertainty (``metrics.risk_coverage_gain``).
    calibration_error : float
        Expected calibration error of P(Q = 1), if the aggregate has probabilities.
    """

    n: int
    tau: float | None = None
    auc: float | None = None
    mae: float | None = None
    mae_filled: float | None = None
    accuracy: float | None = None
    balanced_accuracy: float | None = None
    risk_coverage: float | None = None
    calibration_error: float | None = None

    @property
    def order(self) -> float | None:
        """Metric of the ranking: AUC if gold has two values, otherwise Kendall's tau."""
        return self.tau if self.auc is None else self.auc


@dataclass(frozen=True)
class Comparison:
    """Difference between two systems, ``first`` minus ``second``, with its interval.

    Attributes
    ----------
    difference, lo, hi : float
        The difference and the ends of its interval, on the scale of the estimates or, with labels, of the labels. For
        pairs the scale is the log odds of winning or, with labels, the share of wins.
    units : int
        Number of split units from which the difference was computed.
    labels_used : int
        Number of labels that corrected the difference. If it is 0, the difference includes all errors that the judges
        share.
    trust : float or None
        In comparisons stored by older versions, the weight of the estimates; now 1 without labels and None with labels.
    """

    first: str
    second: str
    difference: float
    lo: float
    hi: float
    units: int
    labels_used: int
    trust: float | None = None


@dataclass(frozen=True)
class ChangePoint:
    """Evidence that a judge has changed.

    Attributes
    ----------
    run_date : int
        Most likely day of the change, as a ``date`` ordinal.
    detected : int
        First day with enough evidence, as a ``date`` ordinal.
    shift : float
        Mean change of the scores from ``run_date`` until ``detected``, as a share of the scale.
    """

    run_date: int
    detected: int
    shift: float

    @property
    def direction(self) -> str:
        """Direction of the change, ``rose`` or ``fell``."""
        return "rose" if self.shift > 0 else "fell"

    def __str__(self) -> str:
        days = (date.fromordinal(day).isoformat() for day in (self.run_date, self.detected))
        return "by {:.3f} of the scale on {} (detected on {})".format(abs(self.shift), *days)
