"""The recommended aggregator ``care``: the plain average, adjusted where the scores or labels support it.

Without labels, ``label_free`` gives the estimate. With labels, the estimate is the posterior mean of a Gaussian process
that starts from the label-free estimate (``models.label_model``). At least twenty binary labels of a probability
sample also determine P(Q = 1) of each item and a threshold (``calibration.probability_curve``).
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from care_ops.aggregators.alternatives import LabelFree
from care_ops.aggregators.base import Problem, unit_weights
from care_ops.aggregators.label_free import additive_mean, label_free
from care_ops.aggregators.latent import family_of
from care_ops.calibration import probability_curve, to_panel_scale
from care_ops.config import POSITION
from care_ops.metrics import changed, rank_correlation
from care_ops.minimum_sizes import FOLLOWS, LABELS_TO_CONFIRM
from care_ops.models import factor_analysis
from care_ops.models.label_model import Columns, fit_labels
from care_ops.moments.state import accumulate, shrink
from care_ops.records import Aggregate
from care_ops.scores import Array, ranks, rows_of

_FOLDS = 10
_DISTINCT = 1e-3
"""Minimum relative singular value of a direction of the judges' scores that the regression keeps."""


def care(problem: Problem) -> Aggregate:
    """Estimate quality by the plain average, adjusted where the scores or labels support it.

    Raises
    ------
    FitError
        There are fewer than three judges or ten items, a judge's scores are all equal, or all judges are duplicates.
    """
    found = label_free(problem)
    details = {} if problem.weights_only else summary(problem, found)
    rows, labels = problem.labels.rows(problem.scores.item_ids)
    latent, scored, fitted, curve = found.latent, found.scored, None, None
    if len(rows):
        labelled = [problem.scores.item_ids[int(row)] for row in rows]
        columns, counts = _label_columns(problem, found), problem.labels.counts_of(labelled)
        fitted = fit_labels(columns, rows, labels, counts, found.plain)
        if problem.labels.binary:
            curve = _calibrated(found, columns, rows, labels, counts, problem.labels.weights(labelled))
        if fitted is not None:
            latent = fitted.latent
            details |= {
                "labels_at_random": round(fitted.at_random, 4),
                "labels_better": round(fitted.better, 4),
                "labels_gain": round(fitted.gain, 4),
                "turned": round(float(np.corrcoef(latent[scored], found.latent[scored])[0, 1]), 4),
                "plain_average": asdict(changed(latent[scored], found.plain[scored])),
            }
    latent = np.where(scored, latent - latent[scored].mean(), np.nan)
    spread = float(latent[scored].std())
    mean = problem.panel_mean if problem.sparse else additive_mean(problem.scores.values)
    estimate, offset, unit = to_panel_scale(latent, mean, problem.ends)
    threshold, p_quality = problem.cut, None
    if threshold is not None and spread > 0 and unit * spread < (1 - 1e-12) * np.nanstd(mean):  # narrowed to the ends
        threshold = offset + unit * spread * float((threshold - np.nanmean(mean)) / np.nanstd(mean))
        threshold = round(threshold, _digits(estimate))
    estimate = np.round(estimate, _digits(estimate))
    if problem.labels.left_out:
        details["labels_not_of_a_sample"] = problem.labels.left_out
    if curve is not None and spread > 0:
        p_quality = np.interp(latent / spread, *curve)
        threshold = offset + unit * spread * float(np.interp(0.5, curve[1], curve[0]))
        details["threshold"] = "the estimate at which the labels give P(Q = 1) = 0.5"
    weights = _regressed(problem, found, latent) if fitted is not None else found.weights
    return Aggregate(
        "care",
        estimate,
        threshold=threshold,
        sd=np.where(scored, found.sd * unit * spread, np.nan),
        p_quality=p_quality,
        weights=unit_weights(weights),
        latent=latent,
        labels_used=len(rows),
        details=details,
    )


def _digits(estimate: Array) -> int:
    """Return the number of decimals for rounding estimates; without rounding, numerical errors would break ties."""
    spread = float(np.nanstd(estimate))
    return 9 - int(np.floor(np.log10(spread))) if spread > 0.0 else 9


def summary(problem: Problem, found: LabelFree) -> dict[str, Any]:
    """Summarise a label-free estimate as a JSON-serialisable mapping (``care_ops.concerns.CareSummary``)."""
    judges, scored = problem.scores.judges, found.scored
    group = found.duplicates.group
    alternative, agreement = found.least_alike
    facts: dict[str, Any] = {
        "concerns": list(found.concerns),
        "ambiguous": bool(found.concerns),
        "factor_share": round(found.share, 4),
        "alternative": alternative,
        "agreement": round(agreement, 4),
        "families": len({family_of(judge, problem.scores.families) for judge in judges}),
        "duplicates": [
            [judges[j] for j in members] for members in rows_of(map(str, group)).values() if len(members) > 1
        ],
        "perhaps_duplicates": [judges[j] for j in found.duplicates.uncertain],
        "weak": [judges[j] for j in found.weak],
        "near_average": [judges[j] for j in found.near_average],
        "items_to_label": items_to_label(problem.scores.item_ids, found),
        "scale": "location and spread of the panel mean",
        "follows": {name: round(value, 4) for name, value in found.follows.items()},
        "differing_feature": _differing_feature(found),
        "features": sorted(problem.scores.features.keys() - {POSITION}),
        "removed_effects": dict.fromkeys(found.removed, 1.0),
        "plain_average": asdict(changed(found.latent[scored], found.plain[scored])),
        "effective_judges": found.effective_judges,
    }
    if found.model is not None:
        facts |= {"misfit": found.model.misfit, "second_factor": found.model.second, "signal": found.model.signal}
    if found.sides is not None and found.model is not None:
        first = found.model.first_group[group]
        facts["groups"] = [
            [judge for judge, own in zip(judges, first, strict=True) if own == side] for side in (True, False)
        ]
    if found.kept is not None:
        facts["kept"] = asdict(changed(found.kept[scored], found.average[scored]))
    if found.without is not None:
        facts["without"] = asdict(changed(found.without[scored], found.latent[scored]))
    return facts


def oblique_factors(problem: Problem, found: LabelFree) -> Array:
    """Compute scores of oblique common factors, each signed to correlate positively with the estimate; shape (n, k)."""
    if problem.sparse:
        return found.factor[:, None]
    normal = factor_analysis.normal_scores(problem.standardised)
    correlation = shrink(accumulate(normal, third=False).correlation(), len(normal))[0]
    count = factor_analysis.number_of_factors(correlation, len(normal))
    rotated = factor_analysis.oblimin(factor_analysis.fit(correlation, count))
    scores = factor_analysis.factor_scores(rotated, normal)
    scores = np.where(found.scored[:, None], scores - scores[found.scored].mean(axis=0), 0.0)
    scores = scores / np.maximum(scores[found.scored].std(axis=0), 1e-12)
    return scores * np.where(found.latent @ scores < 0, -1.0, 1.0)


def _label_columns(problem: Problem, found: LabelFree) -> Columns:
    features = (np.where(found.scored, w, 0.0) for w in found.features.values())
    judges = np.column_stack([problem.filled, *features])
    return Columns(found.latent, oblique_factors(problem, found), judges)


def items_to_label(item_ids: Sequence[str], found: LabelFree, most: int = 10) -> list[str]:
    """Return the ids of up to ``most`` items whose ranks differ most between two plausible estimates of a panel."""
    first, second = found.rivals.values()
    difference = np.abs(ranks(first) - ranks(second)) * found.scored
    order = np.argsort(-difference, kind="stable")[:most]
    return [item_ids[int(i)] for i in order if difference[int(i)] > 0]


def _calibrated(
    found: LabelFree, columns: Columns, rows: NDArray[np.intp], labels: Array, counts: Array, weights: Array
) -> tuple[Array, Array] | None:
    """Calibrate P(Q = 1) with binary labels of a probability sample and cross-fitted estimates."""
    if np.count_nonzero(weights) < LABELS_TO_CONFIRM:
        return None
    unseen = np.empty(len(rows))
    fold = ranks(rows).astype(int) % _FOLDS
    for held in range(_FOLDS):
        seen = fold != held
        fitted = fit_labels(columns, rows[seen], labels[seen], counts[seen], None)
        latent = found.latent if fitted is None else fitted.latent
        scored = latent[found.scored]
        unseen[~seen] = ((latent - scored.mean()) / scored.std())[rows[~seen]]
    used = found.scored[rows] & (weights > 0)
    return probability_curve(unseen[used], labels[used], weights[used])


def _differing_feature(found: LabelFree) -> str | None:
    first, second = (estimate[found.scored] for estimate in found.rivals.values())
    follows = {name: abs(rank_correlation(first - second, w[found.scored])) for name, w in found.features.items()}
    nearest = max(follows, key=lambda name: follows[name], default=None)
    return nearest if nearest is not None and follows[nearest] >= FOLLOWS else None


def _regressed(problem: Problem, found: LabelFree, latent: Array) -> Array:
    z, scored = problem.filled, found.scored
    p = z.shape[1]
    z = np.column_stack([z, *(np.where(scored, w, 0.0) for w in found.features.values())])
    with_latent = z.T @ np.where(scored, latent, 0.0)  # items without scores are 0 in z
    return np.linalg.lstsq(z.T @ z, with_latent, rcond=_DISTINCT**2)[0][:p].astype(np.float64)
