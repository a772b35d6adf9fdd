"""How good an aggregate is against gold: order and scale apart.

Belongs here: metrics on (estimate, gold) pairs. Does not: which items may be evaluated (``assets.evaluation``
leaves out what a fit has seen).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, rankdata

from care_ops.calibration import fill_uniformly
from care_ops.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """One aggregate against gold. What a kind of gold does not define is None.

    Attributes
    ----------
    n : int
        Items with both an estimate and gold.
    tau : float
        Kendall's tau-b (order).
    auc : float
        Area under the ROC curve (order; binary gold).
    mae : float
        Mean absolute error on the scale as estimated (order and scale together).
    mae_filled : float
        The same after every aggregate is mapped to fill the scale uniformly (order alone).
    accuracy, balanced_accuracy : float
        At the aggregate's own threshold (binary gold).
    """

    n: int
    tau: float | None
    auc: float | None
    mae: float | None
    mae_filled: float | None
    accuracy: float | None
    balanced_accuracy: float | None

    def as_dict(self) -> dict[str, float | int | None]:
        """Plain numbers by name."""
        return asdict(self)


def evaluate(estimate: Array, gold: Array, *, threshold: float | None, scale: tuple[float, float] | None) -> Evaluation:
    """Compare an aggregate with gold where both exist.

    Parameters
    ----------
    estimate, gold : (n,) arrays
        NaN where unknown. Gold of only 0 and 1 counts as binary.
    threshold : float, optional
        ``estimate > threshold`` decides Q = 1.
    scale : (low, high), optional
        The score scale, for the uniform fill.

    Raises
    ------
    InputError
        The arrays differ in length.
    """
    if estimate.shape != gold.shape:
        raise InputError(f"metrics: estimate has shape {estimate.shape}, gold {gold.shape}")
    known = ~np.isnan(estimate) & ~np.isnan(gold)
    e, g = estimate[known], gold[known]
    n = len(g)
    if n < 2:
        return Evaluation(n, None, None, None, None, None, None)
    if is_binary(g):
        decided = None if threshold is None else e > threshold
        accuracy = None if decided is None else float(np.mean(decided == (g > 0.5)))
        balanced = None if decided is None else _balanced(decided, g > 0.5)
        return Evaluation(n, tau(e, g), auc(e, g), None, None, accuracy, balanced)
    filled = None
    if scale is not None:
        filled = float(np.mean(np.abs(fill_uniformly(e, *scale) - g)))
    return Evaluation(n, tau(e, g), None, float(np.mean(np.abs(e - g))), filled, None, None)


def is_binary(gold: Array) -> bool:
    """Whether gold holds nothing but 0 and 1."""
    return bool(np.isin(gold[~np.isnan(gold)], (0.0, 1.0)).all())


def auc(estimate: Array, gold: Array) -> float | None:
    """Area under the ROC curve, ties counted half (Mann-Whitney); None with one class only."""
    positive = gold > 0.5
    m, n = int(positive.sum()), int((~positive).sum())
    if m == 0 or n == 0:
        return None
    return float((rankdata(estimate)[positive].sum() - m * (m + 1) / 2) / (m * n))


def tau(estimate: Array, gold: Array) -> float | None:
    """Kendall's tau-b; None where one of the two does not vary."""
    found = float(np.asarray(kendalltau(estimate, gold))[0])
    return None if np.isnan(found) else found


def _balanced(decided: NDArray[np.bool_], positive: NDArray[np.bool_]) -> float | None:
    if positive.all() or not positive.any():
        return None
    return float(0.5 * (decided[positive].mean() + (~decided[~positive]).mean()))
