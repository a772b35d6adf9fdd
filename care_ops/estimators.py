"""Estimator with scikit-learn's interface for arrays of scores: ``fit``, ``predict``, ``get_params``.

Rows are items, columns are judges, and NaN marks a missing score. The optional ``y`` contains labels that the fit may
use, and NaN for items without a label. ``predict`` estimates each new item from its own scores (``care_ops.frozen``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from care_ops.config import DEFAULT_AGGREGATORS, Calibration, FitConfig, Placement, StructureConfig
from care_ops.errors import FitError, InputError
from care_ops.fit import fit_panel
from care_ops.fit_labels import NO_LABELS, FitLabels
from care_ops.frozen import freeze
from care_ops.minimum_sizes import MIN_COLUMNS
from care_ops.scores import Array, ScoreMatrix

STRUCTURED = ("care_svd", "care_tensor", "care_tensor_paper")
"""Aggregators that need the sparse + low-rank structure of the judges' precision matrix."""


class ArrayError(InputError, ValueError):
    """Error for an array that an estimator cannot use; also a ``ValueError``, as scikit-learn requires."""


class NotFittedError(FitError, ValueError, AttributeError):
    """Error for an estimator that is used before it is fitted."""


@dataclass(eq=False, kw_only=True)
class CareEstimator:
    """Estimator that aggregates the scores of several judges, by default with ``care``; see docs/method.md.

    Parameters
    ----------
    aggregator : str
        Name in ``care_ops.config.AGGREGATORS``.
    families : sequence of str or None, optional
        Declared family of each judge (column); None for a judge without a family.
    cut : float, optional
        Value above which a score is a vote for a good item (Q = 1).
    scale : (low, high), optional
        The scale that all judges share.
    calibrate : str
        Scale of the estimates, ``own`` or ``anchors``; see ``care_ops.config.Calibration``.
    prevalence : float, optional
        Declared share of good items (Q = 1); this share of the estimates lies above ``threshold_``.
    seed : int
        Seed of the random starts.
    gamma, tau : float
        Penalties of ``care_svd`` and ``care_tensor``; see ``care_ops.config.StructureConfig``.
    placement : {"panel", "weights"}
        Scale of the estimate of ``care_svd``; see ``care_ops.config.FitConfig``.

    Attributes
    ----------
    estimate_ : (n,) array
        Estimated score of each item of the fit; NaN if no judge scored the item.
    sd_ : (n,) array or None
        Posterior standard deviation of each estimate; None if the aggregator does not estimate it.
    weights_ : (p,) array or None
        Weight of each judge; None if the aggregator has no weights.
    threshold_ : float or None
        Estimates above this value are classified as Q = 1; None if the aggregator has no threshold.
    fidelity_ : float
        Held-out R^2 of ``predict`` as an approximation of the estimates. If it is low, ``predict`` raises ``FitError``.
    n_features_in_ : int
        Number of judges.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> quality = rng.normal(size=200)
    >>> scores = quality[:, None] + rng.normal(scale=[0.5, 0.8, 1.0, 2.0], size=(200, 4))
    >>> estimator = CareEstimator().fit(scores)
    >>> bool(np.corrcoef(estimator.estimate_, quality)[0, 1] > 0.85)
    True
    >>> estimator.predict(scores[:3]).shape
    (3,)
    """

    aggregator: str = DEFAULT_AGGREGATORS[0]
    families: Sequence[str | None] | None = None
    cut: float | None = FitConfig.cut
    scale: tuple[float, float] | None = FitConfig.scale
    calibrate: str = Calibration.scale
    prevalence: float | None = Calibration.prevalence
    seed: int = FitConfig.seed
    gamma: float = StructureConfig.gamma
    tau: float = StructureConfig.tau
    placement: Placement = FitConfig.placement

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Fit the aggregator to scores ``X`` (n, p) and optional labels ``y`` (n,), where NaN means no label.

        Raises
        ------
        ArrayError
            ``X`` is not a matrix of numbers, or ``y`` has a different length.
        FitError
            The scores do not determine an estimate.
        """
        scores = self._matrix(X)
        if scores.shape[0] < 2 or scores.shape[1] < MIN_COLUMNS:
            raise ArrayError(
                f"a panel needs at least two items and two judges; found array with {scores.shape[0]} sample(s) and "
                f"{scores.shape[1]} feature(s); add items or judges"
            )
        config = FitConfig.of({**self.get_params(), "aggregators": (self.aggregator,)})
        solve = "exactly" if self.aggregator in STRUCTURED else "not"
        aggregate = fit_panel(scores, config, _fit_labels(y, scores.item_ids), solve=solve).aggregates[self.aggregator]
        self.n_features_in_ = scores.shape[1]
        self.estimate_ = aggregate.estimate
        self.sd_ = aggregate.sd
        self.weights_ = aggregate.weights
        self.threshold_ = aggregate.threshold
        self._frozen = freeze(scores, aggregate.estimate)
        self.fidelity_ = self._frozen.fidelity
        return self

    def predict(self, X: ArrayLike) -> Array:  # noqa: N803
        """Predict the scores of new items ``X`` (m, p); NaN if no judge scored the item.

        Raises
        ------
        NotFittedError
            ``fit`` was not called.
        ArrayError
            ``X`` and the fit differ in the number of columns.
        FitError
            Predictions from an item's own scores are too far from the fit's estimates (``fidelity_``).
        """
        if not hasattr(self, "_frozen"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call `fit` first")
        scores = self._matrix(X)
        if scores.shape[1] != self.n_features_in_:
            raise ArrayError(
                f"X has {scores.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        return self._frozen.apply(scores)

    def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None) -> Array:  # noqa: N803
        """Fit the aggregator, and return the estimate of each item."""
        return self.fit(X, y).estimate_

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` has no effect, because no parameter is an estimator."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; raise ``ArrayError`` if a name is unknown."""
        names = [entry.name for entry in fields(self)]
        for name, value in params.items():
            if name not in names:
                raise ArrayError(f"{type(self).__name__} has no parameter {name!r}; choose from {', '.join(names)}")
            setattr(self, name, value)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_frozen")

    def __sklearn_tags__(self) -> Any:
        sklearn: Any = import_module("sklearn.utils")
        return sklearn.Tags(
            estimator_type=None,
            target_tags=sklearn.TargetTags(required=False),
            input_tags=sklearn.InputTags(allow_nan=True),
        )

    def _matrix(self, X: ArrayLike) -> ScoreMatrix:  # noqa: N803
        """Convert an array to a score matrix, with generated item and judge names that keep the order of the array."""
        values = _numbers(X)
        n, p = values.shape
        judges = tuple(f"{column:05d}" for column in range(p))
        families = self.families or ()
        if self.families is not None and len(families) != p:
            raise ArrayError(f"families has {len(families)} entries for {p} judges; give each judge a family or None")
        declared = {judge: family for judge, family in zip(judges, families, strict=False) if family is not None}
        return ScoreMatrix(values, tuple(f"{row:09d}" for row in range(n)), judges, declared)


def _numbers(X: ArrayLike) -> Array:  # noqa: N803
    """Convert a dense matrix of finite numbers and NaN to float64; raise ``ArrayError`` for any other content."""
    if hasattr(X, "toarray"):
        raise ArrayError("X is a sparse matrix; give a dense array, with NaN where a score is missing")
    raw = np.ma.filled(X.astype(np.float64), np.nan) if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    if np.iscomplexobj(raw):
        raise ArrayError("Complex data not supported: X contains complex numbers; give real numbers")
    try:
        values = raw.astype(np.float64)
    except ValueError as error:
        raise ArrayError(
            f"X contains a value that is not a number ({error}); give numbers, with NaN where a score is missing"
        ) from error
    except TypeError as error:
        if "NAType" not in str(error):  # scikit-learn's checks require TypeError for other objects
            raise
        raise ArrayError('X is a pandas frame with NA in nullable columns; give X.astype("float64")') from error
    if values.ndim != 2:
        raise ArrayError(
            f"X has shape {values.shape}, not (items, judges). Reshape your data; for one item, use X.reshape(1, -1)"
        )
    if 0 in values.shape:
        raise ArrayError(
            f"Found array with {values.shape[0]} sample(s) and {values.shape[1]} feature(s) "
            f"(shape={values.shape}) while a minimum of 1 is required. Add items or judges."
        )
    if np.isinf(values).any():
        raise ArrayError("X contains infinity (inf); give finite scores, with NaN where a score is missing")
    return values


def _fit_labels(y: ArrayLike | None, item_ids: Sequence[str]) -> FitLabels:
    if y is None:
        return NO_LABELS
    try:
        labels = np.asarray(y, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ArrayError(
            f"y contains a value that is not a number ({error}); give labels as numbers, with NaN for no label"
        ) from error
    if labels.shape != (len(item_ids),):
        raise ArrayError(f"y has shape {labels.shape}; give a label, or NaN, for each of {len(item_ids)} items")
    return FitLabels({item: float(label) for item, label in zip(item_ids, labels, strict=True) if not np.isnan(label)})
