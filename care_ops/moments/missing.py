"""Missing scores under a Gaussian: conditional means, and the covariance by expectation-maximisation.

Pairwise-complete moments are unbiased only where scores are missing by chance. EM needs less: that what is
missing depends on the scores that are present (missing at random).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import FitError
from care_ops.moments.state import Moments, shrink
from care_ops.scores import Array

_SMALLEST_EIGENVALUE = 1e-9
"""Least eigenvalue of the correlation. With a smaller one conditional means consist of rounding errors."""

_ROWS = 16_384


@dataclass(frozen=True)
class ExpectedSums:
    """Expected sums of y = x - mean over items, given the scores present; they add.

    Attributes
    ----------
    n : int
        Items with at least one score.
    first : (p,) array
    second : (p, p) array
    log_likelihood : float
        Log likelihood of the scores present.
    """

    n: int
    first: Array
    second: Array
    log_likelihood: float

    def __add__(self, other: ExpectedSums) -> ExpectedSums:
        """Sums over the union of two disjoint sets of items."""
        return ExpectedSums(*(getattr(self, entry.name) + getattr(other, entry.name) for entry in fields(self)))


@dataclass(frozen=True)
class GaussianFit:
    """Mean and covariance of greatest likelihood given the scores present.

    Attributes
    ----------
    mean : (p,) array
    covariance : (p, p) array
    log_likelihood : float
        At the last expectation, one step before ``covariance``.
    """

    mean: Array
    covariance: Array
    log_likelihood: float
    n: int
    iterations: int
    converged: bool


def expected_sums(values: Array, mean: Array, covariance: Array) -> ExpectedSums:
    """The expectation step over some items.

    Let K be the precision, M the missing and O the present scores of an item. The conditional mean of M is
    ``mean_M - K_MM^{-1} K_MO (x_O - mean_O)`` and their covariance ``K_MM^{-1}`` (Little and Rubin, "Statistical
    Analysis with Missing Data", section 11.2), so that few missing scores cost little.

    Parameters
    ----------
    values : (n, p) array
        NaN is missing.
    mean : (p,) array
    covariance : (p, p) array, positive definite
    """
    p = len(mean)
    precision = np.linalg.inv(covariance).astype(np.float64, copy=False)
    constant = p * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1]
    total = ExpectedSums(0, np.zeros(p), np.zeros((p, p)), 0.0)
    for start in range(0, len(values), _ROWS):
        block = values[start : start + _ROWS]
        y = np.where(np.isnan(block), 0.0, block - mean)
        second, log_likelihood, seen = np.zeros((p, p)), 0.0, 0
        for rows, missing, inner in _fill(y, np.isnan(block), precision):
            m = missing.shape[1]
            if m == p:
                continue  # an item that nobody scored says nothing
            seen += len(rows)
            np.add.at(second, (missing[:, :, None], missing[:, None, :]), np.linalg.inv(inner))
            log_likelihood -= 0.5 * len(rows) * (constant - m * np.log(2 * np.pi))
            log_likelihood -= 0.5 * float(np.linalg.slogdet(inner)[1].sum())
        log_likelihood -= 0.5 * float(np.sum((y @ precision) * y))
        total = total + ExpectedSums(seen, y.sum(axis=0), second + y.T @ y, log_likelihood)
    return total


def gaussian_by_em(
    expect: Callable[[Array, Array], ExpectedSums],
    moments: Moments,
    judges: Sequence[str] | None = None,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 500,
) -> GaussianFit:
    """Mean and covariance by EM, from the pairwise-complete ones.

    Parameters
    ----------
    expect : callable (mean, covariance) -> ExpectedSums
        The expectation step over all items, wherever they lie.
    moments : Moments
        Moments of the same items.
    judges : sequence of str, optional
        The names that an error speaks of.
    tolerance : float
        On the change of means in standard deviations and of covariances in products of them.
    max_iterations : int
        Most iterations; a result that needs more says ``converged=False``.

    Raises
    ------
    FitError
        A judge never scored or never varied, two share no item, judges are copies or sums of one another, or
        there are fewer items than judges.
    """
    correlation, _ = shrink(moments.correlation(judges), moments.n)
    mean, scale = moments.mean(), np.sqrt(np.diag(moments.covariance()))
    covariance = correlation * np.outer(scale, scale)
    iteration, change, sums = 0, np.inf, ExpectedSums(0, mean, covariance, -np.inf)
    while change > tolerance and iteration < max_iterations:
        iteration += 1
        _must_be_regular(covariance, iteration)
        sums = expect(mean, covariance)
        step = sums.first / sums.n
        following = sums.second / sums.n - np.outer(step, step)
        following = 0.5 * (following + following.T)
        scale = np.sqrt(np.diag(following))
        change = max(
            float(np.abs(step / scale).max()), float(np.abs((following - covariance) / np.outer(scale, scale)).max())
        )
        mean, covariance = mean + step, following
    return GaussianFit(mean, covariance, sums.log_likelihood, sums.n, iteration, change <= tolerance)


def em_moments(
    moments: Moments, expect: Callable[[Array, Array], ExpectedSums], judges: Sequence[str] | None = None
) -> tuple[Moments, GaussianFit | None]:
    """The state with mean and covariance by EM, and that fit; as it is (None) where nothing is missing.

    Third moments stay as counted. For ``expect`` and errors see ``gaussian_by_em``.
    """
    if (moments.count1 == moments.n).all():
        return moments, None
    fit = gaussian_by_em(expect, moments, judges)
    p, n = moments.p, float(fit.n)
    first = n * (fit.mean - moments.shift)
    second = n * fit.covariance + np.outer(first, first) / n
    state = replace(
        moments,
        count1=np.full(p, n),
        sum1=first,
        count2=np.full((p, p), n),
        sum2=second,
        partial2=np.repeat(first[:, None], p, axis=1),
        square2=np.repeat(np.diag(second)[:, None], p, axis=1),
    )
    return state, fit


def condition(standardised: Array, correlation: Array, direction: Array | None = None) -> tuple[Array, Array]:
    """Conditional means of missing standardised scores given the others, and the variance that this leaves.

    Parameters
    ----------
    standardised : (n, p) array
        Scores less their mean over their standard deviation; NaN is missing.
    correlation : (p, p) array, positive definite
    direction : (p,) array, optional

    Returns
    -------
    filled : (n, p) array
    variance : (n,) array
        Variance of ``filled @ direction`` given the scores present; 0 where nothing is missing.
    """
    precision = np.linalg.inv(correlation).astype(np.float64, copy=False)
    absent = np.isnan(standardised)
    filled, variance = np.where(absent, 0.0, standardised), np.zeros(len(standardised))
    for rows, missing, inner in _fill(filled, absent, precision):
        if direction is not None and missing.shape[1]:
            weight = direction[missing]
            variance[rows] = np.einsum("rm,rm->r", weight, np.linalg.solve(inner, weight[:, :, None])[:, :, 0])
    return filled, variance


def _fill(
    y: Array, absent: NDArray[np.bool_], precision: Array
) -> Iterable[tuple[NDArray[np.intp], NDArray[np.intp], Array]]:
    """Put conditional means where ``absent``, rows that miss equally many scores together.

    Yields the rows, the (rows, m) positions of what they miss, and the (rows, m, m) precision of it.
    """
    number = absent.sum(axis=1)
    for m in np.unique(number):
        rows = np.flatnonzero(number == m)
        missing = np.nonzero(absent[rows])[1].reshape(len(rows), int(m))
        inner = precision[missing[:, :, None], missing[:, None, :]]
        if m:
            outer = np.einsum("rmp,rp->rm", precision[missing], y[rows])
            y[rows[:, None], missing] = -np.linalg.solve(inner, outer[:, :, None])[:, :, 0]
        yield rows, missing, inner


def _must_be_regular(covariance: Array, iteration: int) -> None:
    scale = np.sqrt(np.diag(covariance))
    lowest = float(np.linalg.eigvalsh(covariance / np.outer(scale, scale))[0]) if (scale > 0).all() else 0.0
    if lowest < _SMALLEST_EIGENVALUE:
        raise FitError(
            f"missing scores: after {iteration - 1} EM iterations the covariance is singular (smallest eigenvalue "
            f"{lowest:.1e}): judges copy one another or are more than the items; drop some, or use missing: pairwise"
        )
