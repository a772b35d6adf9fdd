"""Factor analysis of scores after mapping them to normal quantiles."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri

from care_ops.blocks import by_columns, by_rows
from care_ops.scores import Array, ranks

MIN_UNIQUENESS = 0.02
"""Minimum unique share of a judge's variance; without it one judge may become the factor (a Heywood case)."""

_MOST_TURNS = 2_000
_NOISE_PRIOR = 0.5
"""Weight of the panel's mean noise relative to an item's own noise, as a share of the judges."""


@dataclass(frozen=True)
class FactorModel:
    """Factor model z = loadings f + e, with Var f = factor_correlation and Var e = diag(uniqueness).

    Attributes
    ----------
    loadings : (p, k) array
        Pattern coefficients.
    uniqueness : (p,) array
    factor_correlation : (k, k) array
        Correlation of the factors; the identity before rotation.
    """

    loadings: Array
    uniqueness: Array
    factor_correlation: Array


def normal_scores(values: Array) -> Array:
    """Replace each judge's scores by the normal quantiles of their mean ranks (van der Waerden); NaN stays NaN.

    Parameters
    ----------
    values : (n, p) array
    """
    return by_columns(_normal, values)


def _normal(column: Array) -> Array:
    scored = ~np.isnan(column)
    items = max(int(scored.sum()), 1)
    score = ranks(column[scored], lambda mean_ranks: ndtri((mean_ranks - 0.5) / items))  # equal scores share a quantile
    sd = float(score.std()) if len(score) else 0.0
    out = np.full(len(column), np.nan)
    out[scored] = score / sd if sd > 0 else score
    return out


def fit(correlation: Array, factors: int) -> FactorModel:
    """Fit the factor model by maximum likelihood over the uniquenesses, which determine the loadings (Joreskog, 1967).

    Parameters
    ----------
    correlation : (p, p) array, positive definite
    factors : int
        Number k of factors, less than p.
    """

    def loadings_of(uniqueness: Array) -> tuple[Array, Array]:
        root = np.sqrt(uniqueness)
        values, vectors = np.linalg.eigh(correlation / np.outer(root, root))
        top = vectors[:, ::-1][:, :factors] * np.sqrt(np.maximum(values[::-1][:factors] - 1.0, 0.0))
        return root[:, None] * top, values

    def discrepancy(logs: Array) -> tuple[float, Array]:
        uniqueness = np.exp(logs)
        loadings, values = loadings_of(uniqueness)
        rest = values[: len(values) - factors]
        residual = np.sum(loadings**2, axis=1) + uniqueness - np.diag(correlation)
        return float(np.sum(rest - np.log(rest) - 1.0)), residual / uniqueness

    start = np.log(np.clip((1.0 - 0.5 * factors / len(correlation)) / np.diag(np.linalg.inv(correlation)), 0.05, 0.95))
    optimum = minimize(
        discrepancy,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(float(np.log(MIN_UNIQUENESS)), 0.0)] * len(correlation),
        options={"maxiter": 1_000, "ftol": 1e-14, "gtol": 1e-9},
    )
    uniqueness = np.exp(optimum.x)
    loadings, _ = loadings_of(uniqueness)
    sign = np.where(loadings.sum(axis=0) >= 0, 1.0, -1.0)
    return FactorModel(loadings * sign, uniqueness, np.eye(factors))


def factor_scores(model: FactorModel, standardised: Array) -> Array:
    """Compute E[f | observed scores] (Thomson's regression scores), shape (n, k); 0 for an item without scores.

    Parameters
    ----------
    standardised : (n, p) array
        Standardised scores; NaN marks a missing score.
    """
    present = ~np.isnan(standardised)
    weighted = model.loadings / model.uniqueness[:, None]
    if present.all():  # every item has the same information
        precision = np.linalg.inv(model.factor_correlation) + model.loadings.T @ weighted
        return standardised @ np.linalg.solve(precision, weighted.T).T
    information = np.einsum("np,pa,pb->nab", present.astype(float), model.loadings, weighted, optimize=True)
    right = np.where(present, standardised, 0.0) @ weighted
    prior = np.linalg.inv(model.factor_correlation)
    return np.linalg.solve(prior + information, right[:, :, None])[:, :, 0]


def posterior_sd(model: FactorModel, standardised: Array) -> Array:
    """Compute the posterior standard deviation of one common factor by item, shape (n,); 1 for an item without scores.

    The deviation is larger for an item whose scores the factor explains less well than usual. The noise of each item
    has its own scale, with an inverse gamma prior that weighs as much as the scores of half of the judges (a Gaussian
    scale mixture; Lange, Little and Taylor, JASA 1989). Mistakes that all judges share are not part of the deviation.

    Parameters
    ----------
    model : FactorModel
        A model with one factor.
    standardised : (n, p) array
        Standardised scores; NaN marks a missing score.
    """
    scores = factor_scores(model, standardised)

    def parts(standardised: Array, scores: Array) -> Array:
        present = ~np.isnan(standardised)
        count = present.sum(axis=1)
        variance = 1.0 / (1.0 + present @ (model.loadings[:, 0] ** 2 / model.uniqueness))
        fitted = scores @ model.loadings.T
        residual = np.where(present, (standardised - fitted) ** 2, 0.0) @ (1.0 / model.uniqueness)
        return np.column_stack([variance, residual / np.maximum(count, 1)])

    variance, residual = by_rows(parts, standardised, scores).T
    scored = ~np.isnan(standardised).all(axis=1)
    usual = float(residual[scored].mean()) or 1.0  # below 1, because the factor fits some of the noise
    noise = (residual / usual + _NOISE_PRIOR) / (1.0 + _NOISE_PRIOR)
    return np.sqrt(np.where(scored, variance * noise, 1.0))


def number_of_factors(correlation: Array, n: int) -> int:
    """Count the eigenvalues above the limit for unrelated judges; the result is at least 1 and less than p / 2.

    The limit is the upper edge of the Marchenko-Pastur law, (1 + sqrt(p / n))^2: parallel analysis for many
    judges, without simulation (Dobriban, "Permutation methods for factor analysis and PCA", 2020).

    Parameters
    ----------
    correlation : (p, p) array
    n : int
        Number of items from which the correlation was computed.
    """
    p = len(correlation)
    above = int((np.linalg.eigvalsh(correlation) > (1.0 + np.sqrt(p / n)) ** 2).sum())
    return max(1, min(above, (p - 1) // 2))


def oblimin(model: FactorModel) -> FactorModel:
    """Rotate factors obliquely by direct quartimin and gradient projection (Bernaards and Jennrich, 2005).

    The step length follows Barzilai and Borwein (IMA Journal of Numerical Analysis 1988).
    """
    a, k = model.loadings, model.loadings.shape[1]
    if k == 1:
        return model
    turn, step = np.eye(k), 1.0
    others = np.ones((k, k)) - np.eye(k)

    def value(t: Array) -> tuple[float, Array, Array, Array]:
        inverse = np.linalg.inv(t).astype(np.float64, copy=False)
        loadings = a @ inverse.T
        squares = loadings**2
        return 0.25 * float(np.sum(squares * (squares @ others))), squares, loadings, inverse

    current, squares, loadings, inverse = value(turn)
    projected, moved_by, iteration = np.full((k, k), np.inf), np.zeros((k, k)), 0
    while float(np.linalg.norm(projected)) > 1e-6 and iteration < _MOST_TURNS:
        iteration += 1
        gradient = -(loadings.T @ (loadings * (squares @ others)) @ inverse).T
        before, projected = projected, gradient - turn * np.sum(turn * gradient, axis=0)
        size = float(np.sum(projected**2))
        if iteration > 1:
            bend = abs(float(np.sum(moved_by * (projected - before))))
            step = float(np.sum(moved_by**2)) / bend if bend > 0 else 2.0 * step
        while True:
            trial = turn - step * projected
            trial = trial / np.linalg.norm(trial, axis=0)
            following, *moved = value(trial)
            if following < current - 0.5 * size * step or step < 1e-12:
                break
            step /= 2.0
        moved_by = trial - turn
        turn, current, (squares, loadings, inverse) = trial, following, moved
    rotated = FactorModel(loadings, model.uniqueness, turn.T @ turn)
    return rotated if np.isfinite(rotated.loadings).all() else model
