"""Directions and signs of the factors of the low-rank part, and rules that select the quality factor.

The result names the rule that selected the factor. No rule is right on every panel, so the pipeline also shows the
choices of the other rules.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import FitError
from care_ops.moments.missing import condition
from care_ops.scores import Array, correlation

QualityRule = Literal["leading", "balance", "anchors"]

_RELATIVE_RANK_TOLERANCE = 1e-6

_MIN_MASS = 0.1
"""Minimum share of tr L that makes a factor a candidate for quality in rules without labels."""

_MIN_GAIN = 1e-3
"""Minimum difference in evenness, in nats, that decides between the two signs of a confounder."""


@dataclass(frozen=True)
class Factors:
    """Eigenvectors of L, strongest first (paper, Algorithm 1 step 3).

    Attributes
    ----------
    strengths : (h,) array
        Eigenvalues of L.
    directions : (p, h) array
        Unit vectors u_r, with signs that make each factor's score correlate positively with the panel's mean.
    agreements : (h,) array
        Correlation of each factor's score with the mean of standardised scores. Near zero, the sign is arbitrary.
    quality : int
        Column of the quality factor Q.
    rule : str
        Rule that selected the quality factor.
    """

    strengths: Array
    directions: Array
    agreements: Array
    quality: int = 0
    rule: QualityRule = "leading"

    @property
    def weights(self) -> Array:
        """Direction u* of the quality factor, shape (p,), unit length."""
        return self.directions[:, self.quality]

    @property
    def orientation(self) -> float:
        """Correlation of the quality factor's score with the mean of the standardised scores."""
        return float(self.agreements[self.quality])

    @property
    def mass(self) -> Array:
        """Share of tr L that each factor carries, shape (h,)."""
        return self.strengths / self.strengths.sum()

    @property
    def breadth(self) -> Array:
        """Effective number of judges on each factor (exp of the entropy of the squared loadings), shape (h,)."""
        return np.exp(_evenness(self.directions))

    def candidates(self) -> NDArray[np.intp]:
        """Return the columns of the factors that a rule without labels can select as quality."""
        return np.flatnonzero(self.mass >= min(_MIN_MASS, float(self.mass.max())))


def extract(low_rank: Array, correlation: Array) -> Factors:
    """Compute the factors of L with deterministic signs, and select the leading factor as quality.

    This selection is the paper's default rule (section "Identifying True-Quality Factor"). It is wrong if judges share
    a confounder more strongly than quality.

    Parameters
    ----------
    low_rank : (p, p) array
        L of a ``Structure`` that was fitted to ``correlation``.
    correlation : (p, p) array

    Raises
    ------
    FitError
        L is zero, because the penalty left no shared factor.
    """
    values, vectors = np.linalg.eigh(low_rank)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > _RELATIVE_RANK_TOLERANCE * max(float(np.trace(low_rank)), 1e-300)
    if not kept.any() or values[0] <= 1e-10:
        raise FitError("factors: the judges share no factor, as the low-rank part is zero; use the aggregator `care`")
    values, vectors = values[kept], vectors[:, kept]
    vectors = np.column_stack([_oriented(u, correlation) for u in vectors.T])
    agreements = np.array([_agreement(u, correlation) for u in vectors.T])
    return Factors(values, vectors, agreements)


def choose_by_balance(factors: Factors) -> Factors:
    """Choose the factor on which the judges load most evenly (paper, loading-balance heuristic).

    Evenness is the entropy of the squared loadings. The rule is wrong if more judges load on the confounder than on
    quality.
    """
    candidates, evenness = factors.candidates(), _evenness(factors.directions)
    return replace(factors, quality=int(candidates[np.argmax(evenness[candidates])]), rule="balance")


def choose_by_labels(factors: Factors, scores: Array, labels: Array) -> Factors:
    """Choose the factor and sign whose score correlates best with the labels (paper, human-anchor criterion).

    With fewer than two different labels, the factors are returned unchanged. A few labels may select a wrong factor.

    Parameters
    ----------
    scores : (m, p) array
        Standardised scores of the labelled items, without missing values.
    labels : (m,) array
    """
    if len(labels) < 2 or np.ptp(labels) == 0:
        return factors
    follows = np.nan_to_num([correlation(scores @ u, labels) for u in factors.directions.T])
    chosen = int(np.argmax(np.abs(follows) >= np.abs(follows).max() - 1e-9))  # the strongest of equally good factors
    sign = np.where((np.arange(len(follows)) == chosen) & (follows < 0), -1.0, 1.0)
    return replace(
        factors,
        directions=factors.directions * sign,
        agreements=factors.agreements * sign,
        quality=chosen,
        rule="anchors",
    )


def subtract_confounders(factors: Factors) -> Array:
    """Compute the weights w = lambda* u* - sum_i lambda_i u_i (paper, "Addressing Orthogonality Violations").

    If a confounder's loadings overlap with the loadings of quality, the eigenvector of quality is tilted towards the
    confounder, and the subtraction corrects this. If the loadings are orthogonal, as the paper assumes, the subtraction
    is harmful. Each u_i gets the sign that leaves the weights more even, as in ``choose_by_balance``. If both signs are
    equally good, the confounder is not subtracted.

    Returns
    -------
    (p,) array, unit length
    """
    quality = factors.strengths[factors.quality] * factors.weights
    weights = quality.copy()
    for i in range(len(factors.strengths)):
        if i == factors.quality:
            continue
        confounder = factors.strengths[i] * factors.directions[:, i]
        gain = float(_evenness(quality - confounder) - _evenness(quality + confounder))
        if abs(gain) >= _MIN_GAIN:
            weights = weights - np.sign(gain) * confounder
    return weights / np.linalg.norm(weights)


def posterior(standardised: Array, direction: Array, strength: float, correlation: Array) -> tuple[Array, Array]:
    """Compute E[Q | J] and its standard deviation under the joint Gaussian model, with or without missing scores.

    With K_HH = I the factor h has K_Jh = -sqrt(strength) * direction, hence
    ``E[h | J] = sqrt(strength) * direction' z`` and conditional variance one (paper, "CARE for Fully Gaussian").
    Missing scores are replaced by conditional means, and their conditional variance is added to the posterior variance.

    Parameters
    ----------
    standardised : (n, p) array
        Standardised scores; NaN marks a missing score.
    direction : (p,) array, unit length
    strength : float
        Eigenvalue of L.
    correlation : (p, p) array, positive definite

    Returns
    -------
    mean, sd : (n,) arrays
        In units of the factor's marginal standard deviation; NaN if every score is missing.
    """
    unit = np.sqrt(1.0 + strength * direction @ correlation @ direction)
    loading = np.sqrt(strength) * direction
    filled, extra = condition(standardised, correlation, loading)
    scored = ~np.isnan(standardised).all(axis=1)
    mean, sd = filled @ loading / unit, np.sqrt(1.0 + extra) / unit
    return np.where(scored, mean, np.nan), np.where(scored, sd, np.nan)


def _oriented(direction: Array, correlation: Array) -> Array:
    with_mean = float(np.sum(correlation @ direction))
    if abs(with_mean) < 1e-9:  # no preference: the largest entry counts as positive
        with_mean = float(direction[np.argmax(np.abs(direction))])
    return direction if with_mean > 0 else -direction


def _agreement(direction: Array, correlation: Array) -> float:
    ones = np.ones(len(direction))
    scale = np.sqrt((direction @ correlation @ direction) * (ones @ correlation @ ones))
    return float(direction @ correlation @ ones / scale)


def _evenness(loadings: Array) -> Array:
    """Return the entropy, in nats, of the squared loadings of each column."""
    shares = loadings**2 / np.sum(loadings**2, axis=0)
    return -np.sum(shares * np.log(np.maximum(shares, 1e-300)), axis=0)
