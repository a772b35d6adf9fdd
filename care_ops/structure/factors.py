"""Factors of the low-rank part: their directions, signs, and which one is quality.

A rule chooses one of the factors, and the result names the rule. None is right on
every panel, so the pipeline shows where the others would point.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from care_ops.errors import FitError
from care_ops.moments.missing import condition
from care_ops.scores import Array

QualityRule = Literal["leading", "balance", "style", "anchors"]

_RELATIVE_RANK_TOLERANCE = 1e-6

_MIN_MASS = 0.1
"""Share of tr L below which a factor is not a candidate for quality without labels."""

_MIN_GAIN = 1e-3
"""Nats of evenness between the two signs of a confounder: below it the confounder has no sure sign."""


@dataclass(frozen=True)
class Factors:
    """Eigen-directions of L, strongest first (paper, Algorithm 1 step 3).

    Attributes
    ----------
    strengths : (h,) array
        Eigenvalues of L: the strength of each factor.
    directions : (p, h) array
        Unit columns u_r, each signed so that its weighted sum of scores rises with the panel's mean.
    agreements : (h,) array
        Correlation of each factor's score with the mean of the standardised judges. Near zero means that its
        sign rests on almost nothing.
    quality : int
        Column that is taken as the quality factor Q.
    rule : str
        The rule that chose it.
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
        """The quality factor's own entry of ``agreements``."""
        return float(self.agreements[self.quality])

    @property
    def mass(self) -> Array:
        """Share of tr L that each factor carries, shape (h,)."""
        return self.strengths / self.strengths.sum()

    @property
    def breadth(self) -> Array:
        """Number of judges that each factor rests on, shape (h,): exp of the evenness of its loadings, 1 to p."""
        return np.exp(_evenness(self.directions))

    def candidates(self) -> NDArray[np.intp]:
        """Factors strong enough to be quality when no label speaks for them."""
        return np.flatnonzero(self.mass >= min(_MIN_MASS, float(self.mass.max())))


def extract(low_rank: Array, correlation: Array) -> Factors:
    """Factors of L with deterministic signs; the leading one counts as quality.

    The largest eigenvalue is the paper's default rule (section "Identifying True-Quality Factor"): quality is
    what the judges share most. It is wrong where they share a confounder more.

    Parameters
    ----------
    low_rank : (p, p) array
        L of a ``Structure`` fitted on ``correlation``.
    correlation : (p, p) array

    Raises
    ------
    FitError
        L is zero: the penalty left no shared factor.
    """
    values, vectors = np.linalg.eigh(low_rank)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > _RELATIVE_RANK_TOLERANCE * max(float(np.trace(low_rank)), 1e-300)
    if not kept.any() or values[0] <= 1e-10:
        raise FitError("factors: the low-rank part is zero, so the judges share nothing to aggregate by")
    values, vectors = values[kept], vectors[:, kept]
    vectors = np.column_stack([_oriented(u, correlation) for u in vectors.T])
    agreements = np.array([_agreement(u, correlation) for u in vectors.T])
    return Factors(values, vectors, agreements)


def choose_by_balance(factors: Factors) -> Factors:
    """Choose the factor on which the judges load most evenly (paper, loading-balance heuristic).

    Evenness is the entropy of the squared loadings. It is wrong if the confounder is the broad factor and
    only some judges see quality.
    """
    return _chosen(factors, _evenness(factors.directions), "balance")


def choose_by_style(factors: Factors, scores: Array, covariates: Array) -> Factors:
    """Choose the factor whose score follows the style of the text least.

    A factor counts as stylish by its greatest absolute rank correlation with a covariate. It is wrong if
    good answers are also longer, which is common.
    """
    style = np.zeros(len(factors.strengths))
    for column in covariates.T:
        described = ~np.isnan(column)
        if described.sum() < 3 or np.ptp(column[described]) == 0:
            continue
        ranks = rankdata(column[described])
        followed = [abs(_correlation(rankdata(scores[described] @ u), ranks)) for u in factors.directions.T]
        style = np.maximum(style, followed)
    return _chosen(factors, -style, "style")


def choose_by_labels(factors: Factors, scores: Array, labels: Array) -> Factors:
    """Choose the factor, and the sign, whose score follows the labels best (paper, human-anchor criterion).

    The factors stay as they are with fewer than two labels, or with equal ones. With few labels chance may choose.

    Parameters
    ----------
    scores : (m, p) array
        Standardised scores of the labelled items, missing ones filled.
    labels : (m,) array
    """
    if len(labels) < 2 or np.ptp(labels) == 0:
        return factors
    follows = np.array([_correlation(scores @ u, labels) for u in factors.directions.T])
    chosen = int(np.flatnonzero(np.abs(follows) >= np.abs(follows).max() - 1e-9)[0])  # of equals the strongest
    sign = np.where((np.arange(len(follows)) == chosen) & (follows < 0), -1.0, 1.0)
    return replace(
        factors,
        directions=factors.directions * sign,
        agreements=factors.agreements * sign,
        quality=chosen,
        rule="anchors",
    )


def subtract_confounders(factors: Factors) -> Array:
    """Return the weights w = lambda* u* - sum_i lambda_i u_i (paper, "Addressing Orthogonality Violations").

    If a confounder's loadings overlap with those of quality, the eigenvector of quality leans towards it,
    and this leans it back; where they are orthogonal as assumed, it does harm. An eigenvector has no sign of
    its own, so each u_i is given the sign that leaves the weights more even, as those of quality are thought
    to be (compare ``choose_by_balance``). Where both signs are alike, as on judges that do not see quality at
    all, it is not subtracted.

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


def opinions(factors: Factors, scores: Array, covariates: Array) -> dict[QualityRule, int]:
    """Return the column of the factor that each label-free rule selects as quality.

    Only ``leading`` if just one factor is strong enough to be a candidate; ``style`` only with covariates.

    Parameters
    ----------
    scores, covariates : as in ``choose_by_style``
    """
    choices: dict[QualityRule, int] = {"leading": 0}
    if len(factors.candidates()) == 1:
        return choices
    choices["balance"] = choose_by_balance(factors).quality
    if not np.isnan(covariates).all():
        choices["style"] = choose_by_style(factors, scores, covariates).quality
    return choices


def effective_judges(factors: Factors, correlation: Array) -> float:
    """Return the effective number of judges with independent errors for the panel's mean.

    Kish's design effect on what is left of the standardised scores once the quality factor is taken out: p
    for independent errors, 1 for copies of one judge, more than p where errors cancel. It rests on the factor
    that is called quality.
    """
    strength = float(factors.strengths[factors.quality])
    covariance = np.sqrt(strength) * correlation @ factors.weights
    covariance = covariance / np.sqrt(1.0 + strength * factors.weights @ correlation @ factors.weights)
    errors = correlation - np.outer(covariance, covariance)
    return float(len(errors) * np.trace(errors) / max(float(errors.sum()), 1e-12))


def posterior(standardised: Array, direction: Array, strength: float, correlation: Array) -> tuple[Array, Array]:
    """E[Q | J] and its standard deviation under the joint Gaussian model, with or without missing scores.

    With K_HH = I the factor h has K_Jh = -sqrt(strength) * direction, hence
    ``E[h | J] = sqrt(strength) * direction' z`` and conditional variance one (paper, "CARE for Fully
    Gaussian"). A missing score is replaced by its conditional mean given the observed ones, and its
    conditional variance is added.

    Parameters
    ----------
    standardised : (n, p) array
        Scores less their mean over their standard deviation; NaN is missing.
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


def _chosen(factors: Factors, merit: Array, rule: QualityRule) -> Factors:
    candidates = factors.candidates()
    return replace(factors, quality=int(candidates[np.argmax(merit[candidates])]), rule=rule)


def _evenness(loadings: Array) -> Array:
    """Entropy in nats of the squared loadings, by column."""
    shares = loadings**2 / np.sum(loadings**2, axis=0)
    return -np.sum(shares * np.log(np.maximum(shares, 1e-300)), axis=0)


def _correlation(a: Array, b: Array) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else 0.0
