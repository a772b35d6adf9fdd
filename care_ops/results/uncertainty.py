"""Bootstrap intervals of judge weights and loadings, by resampling of split units."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from care_ops.config import FitConfig
from care_ops.errors import FitError, InputError
from care_ops.fit import Watch, fit_panel, unwatched
from care_ops.fit_labels import NO_LABELS, FitLabels
from care_ops.minimum_sizes import MIN_RESAMPLES
from care_ops.records import Aggregate, Intervals
from care_ops.scores import Array, ScoreMatrix, canonical_order, content_seed, varies
from care_ops.sparsity import is_sparse

_Refit = tuple[Array, Array | None]
"""Weights and loadings of one aggregator on one resample."""

_TAILS = (0.05, 0.95)

MOST_ITEMS = 10_000
"""Maximum number of items in a resample; deviations are scaled to the number of all items (m out of n bootstrap)."""


def weight_intervals(
    scores: ScoreMatrix,
    config: FitConfig,
    labels: FitLabels = NO_LABELS,
    units: Sequence[str] | None = None,
    *,
    whole: Mapping[str, Aggregate] | None = None,
    most_items: int = MOST_ITEMS,
    watch: Watch = unwatched,
) -> dict[str, Intervals]:
    """Compute 90 % bootstrap intervals for each aggregator that has weights, from ``config.resamples`` refits.

    The intervals cover the weight that the method would compute from infinitely many items; this weight may be biased.

    Parameters
    ----------
    units : sequence of n str, optional
        Split unit of each item; by default each item is a separate unit.
    whole : mapping name -> Aggregate, optional
        Aggregates of all items, if already computed.
    most_items : int
        Maximum number of items in each resample.

    Raises
    ------
    InputError
        There are fewer than two split units.
    FitError
        Every aggregator fails on the full panel.
    """
    if not config.resamples:
        return {}
    members = rows_by_unit(scores.item_ids, units or scores.item_ids)
    if len(members) < 2:
        raise InputError(
            "intervals: all items belong to one split unit, but a resample needs two; give items different split units"
        )
    whole = fit_panel(scores, config, labels).aggregates if whole is None else whole
    weighted = {name: aggregate for name, aggregate in whole.items() if aggregate.weights is not None}
    if not weighted:
        return {}
    drawn_units = max(2, round(len(members) * min(1.0, most_items / len(scores.item_ids))))
    rng = np.random.default_rng([content_seed(scores), config.seed])
    config = replace(config, aggregators=tuple(weighted))
    refits: dict[str, list[_Refit]] = {name: [] for name in weighted}
    for done in range(config.resamples):
        drawn = rng.integers(0, len(members), drawn_units)
        rows = members[drawn, 0] if isinstance(members, np.ndarray) else np.concatenate([members[k] for k in drawn])
        refitted = _refit(*_resampled(scores, labels, rows), config)
        watch("intervals of the weights", done, config.resamples)
        for name, refit in refitted.items():
            refits[name].append(refit)
    shrink = float(np.sqrt(drawn_units / len(members)))
    enough = [name for name in weighted if len(refits[name]) >= MIN_RESAMPLES]
    return {name: _intervals(scores.judges, weighted[name], refits[name], shrink) for name in enough}


def _refit(scores: ScoreMatrix, labels: FitLabels, config: FitConfig) -> dict[str, _Refit]:
    """Return weights and loadings of the aggregators that have an estimate on a resample.

    On a dense panel, the result is empty if a judge's resampled scores are constant. A sparse panel allows such judges.
    """
    if not is_sparse(scores.values) and not varies(scores.values).all():
        return {}
    try:
        solve = "roughly" if "care_svd" in config.aggregators else "not"
        aggregates = fit_panel(scores, config, labels, solve=solve, weights_only=True).aggregates
    except FitError:  # no aggregator has an estimate on this resample; ``Intervals.resamples`` counts the others
        return {}
    return {name: (a.weights, a.loadings) for name, a in aggregates.items() if a.weights is not None}


def _intervals(judges: tuple[str, ...], whole: Aggregate, refits: Sequence[_Refit], shrink: float) -> Intervals:
    assert whole.weights is not None  # ``weight_intervals`` keeps no others
    lo, hi = _quantiles([weights for weights, _ in refits], whole.weights, shrink)
    if whole.loadings is None:
        return Intervals(judges, lo, hi, resamples=len(refits))
    matched = [_matched(loadings, whole.loadings) for _, loadings in refits if loadings is not None]
    return Intervals(judges, lo, hi, *_quantiles(matched, whole.loadings, shrink), len(refits))


def rows_by_unit(item_ids: Sequence[str], names: Sequence[str]) -> list[NDArray[np.intp]] | NDArray[np.intp]:
    """Return the rows of each split unit; units and their rows are sorted, so the order of items does not matter.

    Without declared units, ``names`` equals ``item_ids``; the result is then an (n, 1) array with one row per item.
    """
    by_item = canonical_order(item_ids)
    if names is item_ids or list(names) == list(item_ids):  # no unit is declared
        return by_item[:, None]
    code: dict[str, int] = {}
    unit = np.array([code.setdefault(names[int(row)], len(code)) for row in by_item], dtype=np.intp)
    members = np.split(by_item[np.argsort(unit, kind="stable")], np.cumsum(np.bincount(unit))[:-1])
    return [members[code[name]] for name in sorted(code)]


def _resampled(scores: ScoreMatrix, labels: FitLabels, rows: NDArray[np.intp]) -> tuple[ScoreMatrix, FitLabels]:
    """Return the scores and labels of resampled rows, with new item ids.

    The labels get no sampling probabilities, because refits need not calibrate probabilities.
    """
    ids = _item_ids(len(rows))
    features = {name: feature[rows] for name, feature in scores.features.items()}
    resample = ScoreMatrix(scores.values[rows], ids, scores.judges, scores.families, features)
    if not labels.labels:
        return resample, labels
    drawn = {new: scores.item_ids[int(row)] for new, row in zip(ids, rows, strict=True)}

    def of_rows(values: Mapping[str, float]) -> dict[str, float]:
        return {new: values[old] for new, old in drawn.items() if old in values}

    return resample, FitLabels(of_rows(labels.labels), of_rows(labels.counts), {}, labels.shares)


@lru_cache(maxsize=1)
def _item_ids(items: int) -> tuple[str, ...]:
    return tuple(f"{k:09d}" for k in range(items))


def _matched(loadings: Array, reference: Array) -> Array:
    """Match the order and signs of the columns of ``loadings`` to ``reference``; unmatched columns are NaN."""
    cosines = (reference / np.linalg.norm(reference, axis=0)).T @ (loadings / np.linalg.norm(loadings, axis=0))
    out = np.full(reference.shape, np.nan)
    for _ in range(min(cosines.shape)):
        a, b = (int(k) for k in np.unravel_index(int(np.argmax(np.abs(cosines))), cosines.shape))
        out[:, a] = np.sign(cosines[a, b]) * loadings[:, b]
        cosines[a, :] = 0.0
        cosines[:, b] = 0.0
    return out


def _quantiles(draws: list[Array], centre: Array, shrink: float) -> tuple[Array, Array]:
    """Return the ends of a quantile interval; their distances from ``centre`` are multiplied by ``shrink``.

    The interval always contains ``centre``, even if a few influential labels put it outside the quantiles.
    """
    lo, hi = np.nanquantile(np.array(draws), _TAILS, axis=0, method="weibull")
    return centre + shrink * np.minimum(lo - centre, 0.0), centre + shrink * np.maximum(hi - centre, 0.0)
