"""Input (``Problem``) and interface (``Aggregator``) of all aggregators."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from care_ops.blocks import by_rows
from care_ops.config import FitConfig
from care_ops.errors import FitError, counted
from care_ops.fit_labels import NO_LABELS, FitLabels
from care_ops.minimum_sizes import MIN_ITEMS, MIN_JUDGES
from care_ops.models.sparse_factor import SparseFactor
from care_ops.models.sparse_factor import fit as fit_sparse_factor
from care_ops.moments.state import Moments, shrink
from care_ops.records import Aggregate
from care_ops.scores import Array, ScoreMatrix, mean_of_present, varies
from care_ops.sparsity import comparable
from care_ops.structure.program import Structure

OF_SCORES = ("correlation", "scale", "standardised", "filled", "panel_mean", "ends")
"""Cached properties of a ``Problem`` that depend only on the scores and the configuration, not on the aggregator."""

TOO_SPARSE = (
    "most judges scored less than half of the items, or two judges share no item, so correlations of judges are "
    "unreliable; use an aggregator that needs no correlations: `care`, `factor_analysis` or `dawid_skene`"
)
"""Reason why an aggregator that needs correlations of judges has no estimate on a sparse panel."""


@dataclass(frozen=True)
class Problem:
    """Input of an aggregator, with items and judges in sorted order.

    Attributes
    ----------
    scores : ScoreMatrix
        Scores, with items and judges sorted by name.
    moments : Moments
        Moments of the same scores.
    structure : Structure, optional
        Sparse + low-rank structure of the shrunk correlation; None if it cannot be estimated.
    rng : numpy.random.Generator
        Generator that is seeded from the content of the scores.
    weights_only : bool
        Whether the caller reads only weights and loadings, as in a bootstrap. ``care`` then skips its diagnostics.
    """

    scores: ScoreMatrix
    moments: Moments
    structure: Structure | None
    rng: np.random.Generator
    config: FitConfig = field(default_factory=FitConfig)
    labels: FitLabels = NO_LABELS
    weights_only: bool = False

    @property
    def cut(self) -> float | None:
        """Value above which a score is a vote for a good item (Q = 1)."""
        return self.config.cut

    def require_structure(self) -> Structure:
        """Return the sparse + low-rank structure; raise ``FitError`` if it could not be estimated."""
        if self.structure is None:
            raise FitError("no sparse + low-rank structure could be estimated for the panel; use the aggregator `care`")
        return self.structure

    @cached_property
    def correlation(self) -> Array:
        """Correlation matrix of the judges, shrunk to be invertible, shape (p, p)."""
        return shrink(self.moments.correlation(), self.moments.n)[0]

    @cached_property
    def scale(self) -> Array:
        """Standard deviation of each judge's scores, shape (p,)."""
        return np.sqrt(self.moments.variance() if self.sparse else np.diag(self.moments.covariance()))

    @property
    def sparse(self) -> bool:
        """Whether judges share too few items for reliable correlations (``sparsity.is_sparse``)."""
        return self.moments.sparse

    @cached_property
    def standardised(self) -> Array:
        """Standardised scores, NaN if missing, shape (n, p); see ``sparsity.comparable`` for sparse panels."""
        return comparable(self.scores.values) if self.sparse else self.moments.standardise(self.scores.values)

    @cached_property
    def filled(self) -> Array:
        """Standardised scores with 0 for missing scores, shape (n, p)."""
        return np.nan_to_num(self.standardised)

    @cached_property
    def sparse_factor(self) -> SparseFactor:
        """Common factor of a sparse panel; raises ``FitError`` if there are too few scores, or all scores are equal."""
        check_size(self.scores)
        if not varies(self.standardised.ravel()):
            raise FitError("factor analysis: no judge's scores vary over items; add judges that distinguish the items")
        return fit_sparse_factor(self.standardised)

    @cached_property
    def panel_mean(self) -> Array:
        """Mean of each item's scores, shape (n,); NaN for an item without scores."""
        return row_mean(self.scores.values)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Minimum and maximum over all scores and both ends of the declared scale."""
        values = self.scores.values
        low, high = self.config.scale or (np.inf, -np.inf)
        return min(low, float(np.nanmin(values))), max(high, float(np.nanmax(values)))


@dataclass(frozen=True)
class Aggregator:
    """Method that combines the scores of several judges into one score per item.

    Attributes
    ----------
    fit : callable
        Function that aggregates a ``Problem``; raises ``FitError`` if no estimate is possible.
    uses_labels : bool
        Whether labels can change the estimate.
    """

    name: str
    fit: Callable[[Problem], Aggregate]
    uses_labels: bool = False


def check_size(scores: ScoreMatrix) -> None:
    """Raise ``FitError`` if there are too few judges or items for factor analysis."""
    n, p = scores.shape
    if p < MIN_JUDGES or n < MIN_ITEMS:
        raise FitError(
            f"factor analysis needs at least three judges and ten items, but the panel has {counted(p, 'judge')} and "
            f"{counted(n, 'item')}; add judges or items"
        )


def unit_weights(weights: Array) -> Array:
    """Divide weights by the sum of their absolute values."""
    return weights / np.abs(weights).sum()


def row_mean(values: Array) -> Array:
    """Return the mean of each row's scores, shape (n,); NaN for a row without scores."""
    return by_rows(lambda rows: mean_of_present(rows, 1), values)
