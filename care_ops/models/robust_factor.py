"""One common factor that a few wrong pairs of judges cannot turn, with what judges of a family share beside it.

The judges' correlation is taken apart as in the paper, C = a a' + S, into what all judges share (rank one) and what
few share directly (sparse). S may be anything within declared families; elsewhere it is what the loadings leave
unexplained. The loadings are those of least *absolute* residuals, so that a pair that shares something else costs as
much as it is off, and not its square: with squares, two near-copies among ten judges turn the factor.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from care_ops.scores import Array

_STEPS, _SMALL = 200, 0.03
"""Steps of the reweighting at most, and the residual up to which a pair costs its square (Huber, 1964)."""

_LEAST_OWN = 0.05
"""Least share of a judge's variance that is its own, and least eigenvalue of S."""

_MOST_LOADING = 0.97

_MISFIT = (0.05, 0.10)
"""Misfit from which on one factor is not all that families share, and from which on it says little."""

_KIN = (0.02, 0.08)
"""Kinship from which on a declared family is believed to share its mistakes, and from which on wholly."""

_HEARD_FROM = 0.2
"""Loading from which on a judge is heard like the others. A judge of noise is not heard where one factor fits."""

BOUND = 3.0
"""No weight is larger than that of the median judge by more than this factor, so that no judge can rule the answer."""


@dataclass(frozen=True)
class RobustFactor:
    """What all judges share, and how surely.

    Attributes
    ----------
    loadings : (p,) array
        Correlation of each judge with what all share, shrunk towards each other by their sampling error.
    raw_loadings : (p,) array
        The same before they are shrunk.
    weights : (p,) array
        Weights of the judges in the regression on what they share, S^-1 a, each bounded.
    misfit : float
        Root mean square of the correlations between families that the factor leaves unexplained, sampling error taken
        off.
    kinship : float
        Mean correlation within families that the factor leaves unexplained; 0 where no two judges share a family.
    kinship_error : float
        Standard error of ``kinship`` where families share nothing more.
    """

    loadings: Array
    raw_loadings: Array
    weights: Array
    misfit: float
    kinship: float
    kinship_error: float

    @property
    def kin_share_more(self) -> bool:
        """Whether judges of one family share more than all judges do, by more than chance."""
        return self.kinship > max(_KIN[0], 2 * self.kinship_error)

    @property
    def fits(self) -> float:
        """How far one factor explains what families share with one another: 1 where it does, 0 where it does not."""
        return float(np.clip((_MISFIT[1] - self.misfit) / (_MISFIT[1] - _MISFIT[0]), 0.0, 1.0))


def fit(correlation: Array, families: NDArray[np.intp], items: float) -> RobustFactor:
    """Fit the factor by the pairs of judges of unlike families; by all pairs where there are fewer than three families.

    Parameters
    ----------
    correlation : (p, p) array
        Of the judges' normal scores.
    families : (p,) array of int
        The family of each judge.
    items : float
        Number of items behind a correlation.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    >>> correlation = np.outer(a, a) + np.diag(1 - a**2)
    >>> fit(correlation, np.arange(5), 1e6).raw_loadings.round(2)
    array([0.9, 0.8, 0.7, 0.6, 0.5])
    """
    p = len(correlation)
    if p == 2:  # one correlation says how much two judges share, and not which of them is better
        loadings = np.full(2, np.sqrt(np.clip(correlation[0, 1], 0.0, _MOST_LOADING**2)))
        return RobustFactor(loadings, loadings, np.ones(2), 0.0, 0.0, 0.0)
    kin = families[:, None] == families[None, :]
    others = ~np.eye(p, dtype=np.bool_)
    between = others & ~kin if len(np.unique(families)) >= 3 else others
    raw = common_loadings(correlation, between)
    loadings = np.clip(_shrunk(raw, between, items), 0.0, _MOST_LOADING)
    rest = correlation - np.outer(raw, raw)
    direct = np.where(kin & others, rest, 0.0)
    np.fill_diagonal(direct, np.maximum(1.0 - loadings**2, _LEAST_OWN))
    values, vectors = np.linalg.eigh(direct)
    weights = vectors @ ((vectors.T @ loadings) / np.maximum(values, _LEAST_OWN))
    bound = BOUND * float(np.median(np.abs(weights)))
    alone = 1.0 - raw**2  # with the error of a residual, of which the loadings that are fitted take 2 / (p - 1)
    by_chance = float(np.mean(np.outer(alone, alone)[between])) / items * max(1.0 - 2.0 / (p - 1), 0.1)
    misfit = float(np.sqrt(max(float(np.mean(rest[between] ** 2)) - by_chance, 0.0)))
    within = np.triu(kin & others)
    pairs = max(int(within.sum()), 1)
    kinship, own = float(rest[within].sum()) / pairs, 1.0 - loadings**2
    error = float(np.sqrt(np.outer(own, own)[within].sum() / items)) / pairs
    return RobustFactor(loadings, raw, np.clip(weights, -bound, bound), misfit, kinship, error)


def common_loadings(correlation: Array, pairs: NDArray[np.bool_]) -> Array:
    """Loadings a (p,) of least absolute residuals |c_jk - a_j a_k| over ``pairs``; their sum is not negative.

    Small residuals cost their square (Huber's loss), and the minimum is found by reweighted least squares.

    The best of three starts: medians of the correlations, the leading eigenvector, equal loadings. None of them depends
    on the order of the judges.
    """
    p = len(correlation)
    known = np.where(pairs, correlation, np.nan)
    middle = np.array([np.median(row[~np.isnan(row)]) if (~np.isnan(row)).any() else 0.0 for row in known])
    values, vectors = np.linalg.eigh(np.where(pairs, correlation, 0.0))
    leading = vectors[:, -1] * np.sqrt(max(float(values[-1]), 0.0))
    best, least = np.zeros(p), np.inf
    for start in (np.sqrt(np.clip(middle, 0.05, 1.0)), leading, np.full(p, 0.5)):
        found = _reweighted(correlation, pairs, start)
        loss = huber_loss(correlation, found, pairs)
        if loss < least - 1e-9:
            best, least = found, loss
    return best if best.sum() >= 0 else -best


def huber_loss(correlation: Array, loadings: Array, pairs: NDArray[np.bool_]) -> float:
    """The sum over ``pairs`` of what their residuals cost."""
    off = np.abs(correlation - np.outer(loadings, loadings))[pairs]
    return float(np.where(off < _SMALL, off**2 / (2 * _SMALL), off - _SMALL / 2).sum())


def _reweighted(correlation: Array, pairs: NDArray[np.bool_], loadings: Array) -> Array:
    for _ in range(_STEPS):
        off = np.maximum(np.abs(correlation - np.outer(loadings, loadings)), _SMALL)
        weight = np.where(pairs, 1.0 / off, 0.0)
        new = np.clip((weight * correlation) @ loadings / np.maximum(weight @ loadings**2, 1e-9), -1.0, 1.0)
        if float(np.abs(new - loadings).max()) < 1e-7:
            break
        loadings = 0.5 * (loadings + new)
    return loadings


def _shrunk(loadings: Array, pairs: NDArray[np.bool_], items: float) -> Array:
    """Loadings moved towards their mean by the share of their spread that is sampling error (empirical Bayes).

    A loading a is a correlation with what the paired judges say, r = a R^1/2, corrected for their reliability R
    (Spearman, 1904), and its variance is (1 - r^2)^2 / (n R). For a all loadings' root mean square is taken: a judge's
    own is as uncertain as what is to be told.
    """
    square = min(float(np.mean(loadings**2)), 0.9)
    signal = pairs.sum(axis=1) * square / (1.0 - square)
    reliability = np.maximum(signal / (1.0 + signal), 1e-9)
    variance = (1.0 - square * reliability) ** 2 / (items * reliability)
    trust = 1.0 / (variance + 0.02)
    centre = float(np.average(loadings, weights=trust))
    spread = max(float(np.average((loadings - centre) ** 2 - variance, weights=trust)), 0.0)
    return centre + spread / (spread + variance) * (loadings - centre)


def heard_once(correlation: Array, structure: RobustFactor, families: NDArray[np.intp]) -> Array:
    """Weights of judges that are taken for equally good, of whom those of one family share their mistakes, (p,).

    A family of k judges counts as k / (1 + (k - 1) s) of them, where s is the share of a judge's own variance that it
    has in common with its family (Kish's design effect). Where the panel's families share anything (``kinship``), half
    of it is taken for common before more is seen: what a family shares and the common factor took is not in the rest.
    """
    loadings = structure.raw_loadings
    declared = 0.5 * float(np.clip((structure.kinship - _KIN[0]) / (_KIN[1] - _KIN[0]), 0.0, 1.0))
    unheard = structure.fits * np.clip(1.0 - structure.loadings / _HEARD_FROM, 0.0, 1.0)
    weights = 1.0 - unheard
    for family in np.unique(families):
        members = np.flatnonzero(families == family)
        k = len(members)
        if k == 1:
            continue
        inside = (correlation - np.outer(loadings, loadings))[np.ix_(members, members)]
        shared = float(inside[~np.eye(k, dtype=np.bool_)].mean())
        own = max(1.0 - float(np.mean(loadings[members] ** 2)), _LEAST_OWN)
        common = declared + (1.0 - declared) * float(np.clip(shared / own, 0.0, 1.0))
        weights[members] /= 1.0 + (k - 1) * common
    return weights
