"""Bootstrap intervals of weights and loadings over split units."""

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
from care_ops.scores import Array, ScoreMatrix, content_seed, varies
from care_ops.sparsity import is_sparse

_Refit = tuple[Array, Array | None]
"""Weights and loadings of one aggregator on one resample."""

_TAILS = (0.05, 0.95)

_NINE_IN_TEN = 1.2816
"""Standard deviations by which a normal value lies on one side with a probability of .9."""

_FROM_A_HALF = 0.1
"""How far from a half the share of the higher vote may be: at .6 a tenth of the items lies in a half with its like."""

MOST_ITEMS = 10_000
"""Most items of a resample. Where there are more, deviations are scaled to all items (m out of n bootstrap)."""


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
    """90 % intervals for each aggregator that has weights, by the whole fit on ``config.resamples`` resamples.

    They cover the weight that the same method would find on endless items of the same kind, and not its bias.

    Parameters
    ----------
    units : sequence of n str, optional
        Split unit of each item; by default each item is one of its own.
    whole : mapping name -> Aggregate, optional
        The weights on all items, if already computed; otherwise they are computed here.
    most_items : int
        Of each resample.

    Raises
    ------
    InputError
        There are fewer than two split units.
    FitError
        No aggregator could answer on all items.
    """
    if not config.resamples:
        return {}
    members = rows_by_unit(scores.item_ids, units or scores.item_ids)
    if len(members) < 2:
        raise InputError("intervals: all items share one split unit; there is nothing to resample")
    whole = fit_panel(scores, config, labels).aggregates if whole is None else whole
    weighted = {name: aggregate for name, aggregate in whole.items() if aggregate.weights is not None}
    if not weighted:
        return {}
    drawn_units = max(2, round(len(members) * min(1.0, most_items / len(scores.item_ids))))
    rng = np.random.default_rng([content_seed(scores), config.seed])
    config = replace(config, aggregators=tuple(weighted))
    refits: dict[str, list[_Refit]] = {name: [] for name in weighted}
    for done in range(config.resamples):
        rows = np.concatenate([members[k] for k in rng.integers(0, len(members), drawn_units)])
        refitted = _refit(*_resampled(scores, labels, rows), config)
        watch("intervals of the weights", done, config.resamples)
        for name, refit in refitted.items():
            refits[name].append(refit)
    shrink = float(np.sqrt(drawn_units / len(members)))
    enough = [name for name in weighted if len(refits[name]) >= MIN_RESAMPLES]
    return {name: _intervals(scores.judges, weighted[name], refits[name], shrink) for name in enough}


def has_halves(values: Array) -> bool:
    """Whether the upper half of the items, (n, p), is another one than the lower: not where most votes are alike.

    The median then parts items of one class, of which none deserves its half.
    """
    least, most = np.nanmin(values), np.nanmax(values)
    share = float(np.mean(values == most) / np.mean(~np.isnan(values)))
    return bool(np.any((values > least) & (values < most))) or abs(share - 0.5) <= _FROM_A_HALF


def halves_are_sure(estimate: Array, sd: Array) -> NDArray[np.bool_]:
    """Return whether each item stands on the right side of the median with a probability of .9, given ``sd``, (n,).

    Where judges err for themselves, 96 to 98 of 100 such items are in the right half; of what judges share ``sd`` knows
    nothing (``docs/method.md``). False if no judge scored the item.

    Examples
    --------
    >>> import numpy as np
    >>> halves_are_sure(np.array([1.0, 4.9, 5.0, 9.0]), np.full(4, 0.5)).tolist()
    [True, False, False, True]
    """
    return np.abs(estimate - np.nanmedian(estimate)) >= _NINE_IN_TEN * sd


def _refit(scores: ScoreMatrix, labels: FitLabels, config: FitConfig) -> dict[str, _Refit]:
    """Return weights and loadings of the aggregators that can answer on a resample.

    A constant judge leaves none, unless the panel is sparse: a judge of few scores is shrunk towards the others.
    """
    if not is_sparse(scores.values) and not varies(scores.values).all():
        return {}
    try:
        solve = "roughly" if "care_svd" in config.aggregators else "not"
        aggregates = fit_panel(scores, config, labels, solve=solve, weights_only=True).aggregates
    except FitError:  # no aggregator can answer on this resample; ``Intervals.resamples`` counts those that did
        return {}
    return {name: (a.weights, a.loadings) for name, a in aggregates.items() if a.weights is not None}


def _intervals(judges: tuple[str, ...], whole: Aggregate, refits: Sequence[_Refit], shrink: float) -> Intervals:
    """Return the intervals of an aggregate's weights and loadings from those on resamples."""
    assert whole.weights is not None  # ``weight_intervals`` keeps no others
    lo, hi = _quantiles([weights for weights, _ in refits], whole.weights, shrink)
    if whole.loadings is None:
        return Intervals(judges, lo, hi, resamples=len(refits))
    matched = [_matched(loadings, whole.loadings) for _, loadings in refits if loadings is not None]
    return Intervals(judges, lo, hi, *_quantiles(matched, whole.loadings, shrink), len(refits))


def rows_by_unit(item_ids: Sequence[str], names: Sequence[str]) -> list[NDArray[np.intp]] | NDArray[np.intp]:
    """Return the rows of each split unit; units and their rows are sorted, so the order of items does not matter.

    Where ``names`` are the item ids, each item is a unit, and the rows of all come as one array.
    """
    by_item = np.array(sorted(range(len(item_ids)), key=item_ids.__getitem__), dtype=np.intp)
    if names is item_ids or list(names) == list(item_ids):  # no unit is declared
        return by_item[:, None]
    code: dict[str, int] = {}
    unit = np.array([code.setdefault(names[int(row)], len(code)) for row in by_item], dtype=np.intp)
    members = np.split(by_item[np.argsort(unit, kind="stable")], np.cumsum(np.bincount(unit))[:-1])
    return [members[code[name]] for name in sorted(code)]


def _resampled(scores: ScoreMatrix, labels: FitLabels, rows: NDArray[np.intp]) -> tuple[ScoreMatrix, FitLabels]:
    """Return the scores and labels of these rows, which may repeat, under item ids of their own.

    The labels count as chosen, so that no refit calibrates probabilities, of which nothing is kept.
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
    """Return the ids of a resample's items, the same tuple for every resample."""
    return tuple(f"{k:09d}" for k in range(items))


def _matched(loadings: Array, reference: Array) -> Array:
    """Return ``loadings`` with columns ordered and signed as the nearest columns of ``reference``.

    A column of the reference for which no column of ``loadings`` is left has NaN.
    """
    cosines = (reference / np.linalg.norm(reference, axis=0)).T @ (loadings / np.linalg.norm(loadings, axis=0))
    out = np.full(reference.shape, np.nan)
    for _ in range(min(cosines.shape)):
        a, b = (int(k) for k in np.unravel_index(int(np.argmax(np.abs(cosines))), cosines.shape))
        out[:, a] = np.sign(cosines[a, b]) * loadings[:, b]
        cosines[a, :] = 0.0
        cosines[:, b] = 0.0
    return out


def _quantiles(draws: list[Array], centre: Array, shrink: float) -> tuple[Array, Array]:
    """Return the ends of the interval, which holds ``centre``, with deviations scaled by ``shrink``.

    Where a few labels count as much as all scores, the fit of all of them may lie beyond most of its resamples.
    """
    lo, hi = np.nanquantile(np.array(draws), _TAILS, axis=0, method="weibull")
    return centre + shrink * np.minimum(lo - centre, 0.0), centre + shrink * np.maximum(hi - centre, 0.0)
