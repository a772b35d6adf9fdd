"""Experiments on convergence rates, on the paper's error bounds, and on subtracting confounders."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from assets.experiments.base import Chart, Experiment, ExperimentFindings, Table, by_seed
from assets.experiments.panels import named
from assets.experiments.third_moments import matched, views_of
from assets.fit.details import CareTensorDetails, read_details
from assets.report.charts import Series
from assets.workspace import Workspace
from care_ops.aggregators.care_svd import fit_structure
from care_ops.config import FitConfig, StructureConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.models import cp
from care_ops.moments.state import accumulate, shrink
from care_ops.scores import Array
from care_ops.simulate import four_state_mixture, joint_gaussian
from care_ops.structure.bounds import misspecification
from care_ops.structure.factors import extract, subtract_confounders

_JUDGES = 30
_STRENGTHS = (2.0, 1.0)
_OVERLAPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8)

_AS_FITTED, _SUBTRACTED, _BEST = "leading factor", "confounders subtracted", "best possible"
_LITERAL = "subtracted as written"


def errors_at(overlap: float, items: int, seed: int) -> dict[str, float]:
    """Simulate scores with one confounder; return 1 - R^2 of quality Q on each of four weighted sums of scores.

    ``overlap`` is the inner product of two unit vectors: the loadings of Q and the loadings of the confounder. At every
    overlap, E[Q | scores] is proportional to the sum of the scores weighted by the loadings of Q. These loadings are
    therefore the best weights.
    """
    rng = np.random.default_rng([seed, 14])
    basis, _ = np.linalg.qr(np.column_stack([rng.uniform(0.5, 1.0, _JUDGES), rng.standard_normal(_JUDGES)]))
    direction = basis[:, 0] * np.sign(basis[:, 0].sum())
    confounder = overlap * direction + np.sqrt(1 - overlap**2) * basis[:, 1]
    low_rank = _STRENGTHS[0] * np.outer(direction, direction) + _STRENGTHS[1] * np.outer(confounder, confounder)
    precision = (1.0 + np.linalg.eigvalsh(low_rank)[-1]) * np.eye(_JUDGES) - low_rank
    scores = rng.standard_normal((items, _JUDGES)) @ np.linalg.cholesky(np.linalg.inv(precision)).T
    quality = np.sqrt(_STRENGTHS[0]) * scores @ direction + rng.standard_normal(items)
    moments = accumulate(scores)
    structure, _ = fit_structure(moments, StructureConfig())
    factors = extract(structure.low_rank, shrink(moments.correlation(), moments.n)[0])
    standardised = moments.standardise(scores)
    literal = -factors.strengths
    literal[factors.quality] *= -1
    weighted = {
        _AS_FITTED: standardised @ factors.weights,
        _SUBTRACTED: standardised @ subtract_confounders(factors),
        _LITERAL: standardised @ (factors.directions @ literal),
        _BEST: scores @ direction,
    }
    return {name: 1.0 - float(np.corrcoef(sums, quality)[0, 1]) ** 2 for name, sums in weighted.items()}


def run_orthogonality(workspace: Workspace, *, seeds: int, items: int) -> ExperimentFindings:
    """Measure how subtracting the confounder changes the error of predicting quality, at each overlap of loadings."""
    rows, measures = list[dict[str, float]](), dict[str, float]()
    drawn = by_seed(workspace, seeds, {overlap: partial(errors_at, overlap, items) for overlap in _OVERLAPS})
    for overlap, found in drawn.items():
        means = {name: float(np.mean([errors[name] for errors in found])) for name in found[0]}
        change, literal = means[_SUBTRACTED] - means[_AS_FITTED], means[_LITERAL] - means[_AS_FITTED]
        rows.append({"overlap": overlap, **means, "change": change})
        measures |= {f"change at overlap {overlap:g}": change, f"change at overlap {overlap:g}, as written": literal}
    helps = ", ".join(f"{row['overlap']:g}" for row in rows if row["change"] < 0)
    conclusions = [
        f"Subtracting the confounder changes 1 - R^2 of Q by {rows[0]['change']:+.3f} if loadings are orthogonal.",
        f"Overlaps of the loadings at which subtracting the confounder lowers 1 - R^2: {helps or 'none'}.",
    ]
    curves = [Series(name, list(_OVERLAPS), [row[name] for row in rows]) for name in (_AS_FITTED, _SUBTRACTED, _BEST)]
    return ExperimentFindings(
        conclusions,
        [Table(f"1 - R^2 of Q; means over {seeds} seeds", rows)],
        [Chart("Subtracting the confounder", "overlap of the unit loadings", "1 - R^2 of Q", curves)],
        measures,
    )


_SIZES = (1_000, 3_162, 10_000, 31_623, 100_000)
_RESAMPLES = 2_000


def slope_of(sizes: Array, errors: Array) -> tuple[float, float, float]:
    """Regress the log of mean error over seeds (rows) on log sample size; return the slope and its 95 % interval."""
    x = np.log(sizes) - np.log(sizes).mean()

    def fitted(rows: Array) -> float:
        return float(x @ np.log(rows.mean(axis=0)) / (x @ x))

    rng = np.random.default_rng(0)
    draws = [fitted(errors[rng.integers(0, len(errors), len(errors))]) for _ in range(_RESAMPLES)]
    low, high = np.quantile(draws, (0.025, 0.975))
    return fitted(errors), float(low), float(high)


def direction_errors(sizes: Sequence[int], p: int, density: float, seed: int) -> Array:
    """Simulate scores; measure the error of the leading eigenvector of the low-rank matrix L at each sample size."""
    rng, errors = np.random.default_rng([seed, 11]), list[float]()
    draw = joint_gaussian(rng, n=max(sizes), p=p, confounders=1, edge_density=density)
    covariance = np.linalg.inv(draw.sparse - draw.low_rank)
    spread = np.sqrt(np.diag(covariance))
    # The fit sees correlations, whose precision is D (S - L) D: its leading direction is the truth.
    truth = np.linalg.eigh(draw.low_rank * np.outer(spread, spread))[1][:, -1]
    for n in sizes:
        structure, _ = fit_structure(accumulate(draw.scores[:n]), StructureConfig())
        found = np.linalg.eigh(structure.low_rank)[1][:, -1]
        errors.append(float(np.linalg.norm(found - np.sign(found @ truth) * truth)))
    return np.array(errors)


Estimate = Callable[[Array, int], tuple[Array, Array] | None]


def mixture_errors(sizes: Sequence[int], p: int, estimate: Estimate, seed: int) -> Array:
    """Simulate a mixture; return the errors of the estimated state means and state weights at each sample size.

    The result has shape (2, sizes). Both errors are infinite at a sample size without an estimate.
    """
    errors = np.full((2, len(sizes)), np.inf)
    draw = four_state_mixture(np.random.default_rng([seed, 12]), n=max(sizes), p=p)
    for column, n in enumerate(sizes):
        if (found := estimate(draw.scores[:n], seed)) is not None:
            state_means, shares = found
            errors[0, column], order = matched(state_means, draw.means)
            errors[1, column] = np.linalg.norm(shares[order] - draw.weights)
    return errors


def _by_care_tensor(values: Array, _seed: int) -> tuple[Array, Array]:
    fitted = fit_panel(named(values), FitConfig(aggregators=("care_tensor",)))
    details = read_details(fitted.aggregates["care_tensor"], CareTensorDetails)
    return np.array(details.state_means), np.array(details.state_weights)


def _by_third_moment(values: Array, seed: int) -> tuple[Array, Array] | None:
    moments, views = accumulate(values), views_of(np.arange(values.shape[1]))
    scale = np.sqrt(np.diag(moments.covariance()))
    tensor = cp.augmented_moment(moments, views, scale)
    try:
        weights, means, _ = cp.mixture_by_least_squares(tensor, views, 4, np.random.default_rng(seed))
    except FitError:
        return None
    return moments.mean() + means * scale, weights


def conditional_mean_errors(connection: Array, latent_precision: Array, scores: Array) -> tuple[Array, Array]:
    """Return each item's error in E[Q | scores] under a misspecified model, and the bound of the paper's corollary.

    The model replaces quality's loadings with the first eigenvector of the low-rank matrix, scaled to their norm.
    """
    low_rank = (connection / latent_precision) @ connection.T
    leading, norm = np.linalg.eigh(low_rank)[1][:, -1], float(np.linalg.norm(connection[:, 0]))
    direction, length = connection[:, 0] / norm, norm / latent_precision[0]
    turned = leading * (1.0 if direction @ leading >= 0 else -1.0) - direction
    confounders = low_rank - np.outer(direction, direction) * norm * length
    bound = 2 * np.linalg.norm(confounders, 2) / norm * np.linalg.norm(scores, axis=1)
    return np.abs(length * scores @ turned), bound


_DEVIATION, _MEAN = "largest ratio of deviation to bound", "largest ratio of the error of E[Q | o] to its bound"


def misspecified(seeds: range, strengths: tuple[float, ...]) -> list[dict[str, float]]:
    """Compare errors of one-factor models with the paper's bounds; return the largest ratios by confounder strength."""
    rows: list[dict[str, float]] = []
    for strength in strengths:
        deviations, means = list[float](), list[float]()
        for seed in seeds:
            rng = np.random.default_rng([seed, 13])
            connection = np.column_stack([rng.uniform(0.5, 1.0, 10), strength * rng.standard_normal((10, 2))])
            found = misspecification(connection, np.ones(3))
            if found.holds:
                low_rank = connection @ connection.T
                precision = (1.0 + np.linalg.eigvalsh(low_rank)[-1]) * np.eye(10) - low_rank
                scores = rng.standard_normal((200, 10)) @ np.linalg.cholesky(np.linalg.inv(precision)).T
                errors, bounds = conditional_mean_errors(connection, np.ones(3), scores)
                deviations.append(found.deviation / found.bound)
                means.append(float((errors / bounds).max()))
        largest = {_DEVIATION: max(deviations, default=np.nan), _MEAN: max(means, default=np.nan)}
        rows.append({"strength of the confounders": strength, "condition holds": len(means) / len(seeds), **largest})
    return rows


def run_rates(
    workspace: Workspace, *, seeds: int, items: Sequence[int], judges: Sequence[int], models: int
) -> ExperimentFindings:
    """Measure convergence rates of the estimates, and compare the paper's bounds with measured errors."""
    ways: dict[str, Estimate] = {"": _by_care_tensor, " by the third moment": _by_third_moment}
    drawn: dict[str, Callable[[int], Array]] = {
        "leading direction of L, fifty judges, sparse edges": partial(direction_errors, items, 50, 0.01),
        "the same, sixteen judges, sparse edges": partial(direction_errors, items, 16, 0.033),
        **{f"{way}, p = {p}": partial(mixture_errors, items, p, ways[way]) for p in judges for way in ways},
    }
    errors: dict[str, Array] = {}
    for name, of_seeds in by_seed(workspace, seeds, drawn).items():
        found = np.array(of_seeds)
        by_parameter = {f"state means{name}": found[:, 0], f"state weights{name}": found[:, 1]}
        errors |= {name: found} if found.ndim == 2 else by_parameter
    conclusions, rows, curves = list[str](), list[dict[str, float | str]](), list[Series]()
    measures: dict[str, float] = {}
    for name, found in errors.items():
        if not np.isfinite(found).all():
            conclusions.append(f"{name}: slope not computed, because some draws gave no estimate.")
            continue
        slope, low, high = slope_of(np.array(items, dtype=np.float64), found)
        means = found.mean(axis=0)
        by_size = {f"n = {size:,}": float(error) for size, error in zip(items, means, strict=True)}
        rows.append({"error of": name, **by_size, "slope": slope, "95 % interval": f"{low:.3f} to {high:.3f}"})
        curves.append(Series(name, np.log10(items).tolist(), np.log10(means).tolist()))
        measures[f"slope, {name}"] = slope
        conclusions.append(f"{name}: slope {slope:.3f} [{low:.3f}, {high:.3f}], n from {items[0]:,} to {items[-1]:,}.")
    bounds = misspecified(range(models), (0.05, 0.1, 0.2, 0.3, 0.5, 1.0))
    theorem, corollary = (sum(row[column] > 1 for row in bounds) for column in (_DEVIATION, _MEAN))
    conclusions.append(
        f"Where the theorem's condition holds, the error of the leading direction exceeds its bound at {theorem} of "
        f"{len(bounds)} confounder strengths; the error of E[Q | o] (o: scores) exceeds its bound at {corollary}."
    )
    return ExperimentFindings(
        conclusions,
        [
            Table(f"Mean errors over {seeds} seeds; slope of log error against log n", rows),
            Table(f"A one-factor model that omits confounders: {models} models per row, 200 items per model", bounds),
        ],
        [Chart("Error against items", "log10 of items", "log10 of the mean error", curves)],
        {
            **measures,
            "strengths at which the bound is exceeded": theorem,
            "strengths at which the bound on E[Q | o] is exceeded": corollary,
        },
    )


ORTHOGONALITY = Experiment(
    key="orthogonality",
    title="Subtracting confounders, with and without orthogonal loadings",
    paper=(
        "Subtracting confounders lowers the mean squared error of Q if the loadings of confounders and quality "
        "overlap. If these loadings are orthogonal, it slightly raises the error (paper: SVD weighting heuristic)."
    ),
    protocol=(
        "There are thirty judges, quality of strength 2, one confounder of strength 1, a diagonal S, and default "
        "penalties. We compare the weights of the leading factor of L with the weights of `subtract_confounders`. The "
        "paper does not specify the signs of eigenvectors. `subtract_confounders` chooses the sign that makes the "
        "weights more even. The variant `as written` makes each factor correlate positively with the panel's mean."
    ),
    run=run_orthogonality,
    small={"seeds": 6, "items": 10_000},
    full={"seeds": 25, "items": 10_000},
)

RATES = Experiment(
    key="theory_rates",
    title="Convergence rates and error bounds",
    paper="Theorems on convergence (errors of order n^(-1/2)) and on misspecification; corollary on misspecification.",
    protocol=(
        "Scores are drawn from known models; the default penalties are of order n^(-1/2). The sample sizes span two "
        "orders of magnitude; for each seed, small samples are part of larger ones. The 95 % intervals of the "
        "slopes are from a bootstrap over seeds. States are estimated by EM and by the third moment (Algorithm 2 with "
        "the true views). The panel of sixteen judges has the paper's size; that of fifty has as many edges per judge."
    ),
    run=run_rates,
    small={"seeds": 6, "items": _SIZES, "judges": (9, 18), "models": 200},
    full={"seeds": 50, "items": _SIZES, "judges": (9, 12, 18, 30), "models": 200},
)
EXPERIMENTS = (ORTHOGONALITY, RATES)
