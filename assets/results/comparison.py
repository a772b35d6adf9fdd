"""Comparison of systems by their items, for a test set of a workspace and for a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from assets.fit.kept import read_fitted
from assets.fit.stages import recommended
from assets.results.documents import LOG_ODDS, SystemRecord, SystemsDocument
from assets.results.gold import aligned
from assets.workspace import Workspace
from care_ops.config import Calibration, FitConfig
from care_ops.errors import FitError
from care_ops.fit import fit_panel
from care_ops.fit_labels import NO_LABELS, FitLabels
from care_ops.minimum_sizes import MIN_LABELS
from care_ops.records import Comparison
from care_ops.results.rates import Labelled, Rates, Repeats, rates_of
from care_ops.results.systems import bradley_terry, mean_differences, usable_labels
from care_ops.scores import Array, ScoreMatrix
from warehouse.items import ItemColumnsRead

CORRECTED = "care"
"""Aggregator whose estimate labels correct."""

Named = Sequence[tuple[str, ...] | None]
"""For each item the name of its system, or those of the left and the right one; None where one is not known.

The left one is that which a higher score prefers."""


def compare(
    aggregator: str,
    estimate: Array,
    items: ItemColumnsRead,
    named: Named,
    fit_labels: FitLabels,
    panel: ScoreMatrix,
    config: FitConfig,
) -> SystemsDocument:
    """Compare systems: return their order and the difference of each pair.

    If each system has enough labels, its value is the prediction-powered mean label of its items
    (``care_ops.results.rates``), and differences use the same draws. Otherwise values are the judges' means. Systems
    that are compared in pairs get Bradley-Terry strengths. Raises ``FitError`` if there is nothing to compare.

    Parameters
    ----------
    aggregator, estimate : str, (n,) array
        In the order of ``items``, like ``named``.
    fit_labels : FitLabels
        Labels that correct the values. Labels of unequal probabilities do so only if each system has enough
        labels, because differences by judges are corrected without weights.
    panel : ScoreMatrix
        The scores, for an estimate without labels.
    config : FitConfig
        Its scale places estimates of pairs in [0, 1].
    """
    units = items.units()
    labels = usable_labels(items.item_ids, fit_labels)
    chance = np.array([fit_labels.chance_of(item) or 1.0 for item in items.item_ids], dtype=np.float64)
    alike = len(np.unique(chance[~np.isnan(labels)])) <= 1
    unweighted = labels if alike else np.full(len(labels), np.nan)
    if {len(names) for names in named if names is not None} == {2}:
        compared = _pairwise(estimate, named, units, unweighted, _scale_of_pairs(panel, config.scale))
        return _by_judges(aggregator, LOG_ODDS, *compared)
    system_of = [None if names is None else names[0] for names in named]
    if _all_labelled(system_of, labels):
        unlabelled = recommended_estimate(panel, replace(config, calibration=Calibration()))
        blind = aligned(items.item_ids, dict(zip(panel.item_ids, unlabelled.tolist(), strict=True)))
        repeats = Repeats(fit_labels.counts_of(items.item_ids), fit_labels.binary)
        return _by_labels(rates_of(Labelled(blind, labels, system_of, units, chance, repeats), seed=config.seed))
    return _by_judges(aggregator, "mean estimate", *_by_mean(estimate, system_of, units, unweighted))


def compared_in(
    workspace: Workspace, testset: str, columns: tuple[str, ...] = (), *, fits: Mapping[str, str] | None = None
) -> SystemsDocument:
    """Compare the systems of a test set by its recommended aggregate.

    Systems are by default the ones that the test set's file declares. ``fits`` (aggregator -> fit_id) may name those of
    another fit version. Raises ``InputError`` if no item has such a
    column, ``FitError`` if there is nothing to compare, or no aggregate.
    """
    panel, latest = read_fitted(workspace.fit_folder(testset))
    fits = fits or latest.by_aggregator
    if not fits:
        raise FitError(f"test set {testset!r} has no aggregate to compare systems by")
    name = recommended(fits)
    items = workspace.parts.read_gold(testset)
    named = workspace.parts.read_systems(testset, workspace.systems_of(testset, columns))
    estimate = workspace.fits.read_fit(testset, fits[name]).in_order(items.item_ids).estimate
    fit_labels, config = workspace.labels_of(testset), workspace.fit_config(testset)
    return compare(name, estimate, items, named, fit_labels, panel, config)


def recommended_estimate(panel: ScoreMatrix, config: FitConfig, fit_labels: FitLabels = NO_LABELS) -> Array:
    """Return the recommended estimate in the order of the panel's items.

    A fit must not see labels that later correct its estimate, because the estimate would be too close to them.
    """
    fit = fit_panel(panel, replace(config, aggregators=(CORRECTED,)), fit_labels, solve="not")
    return fit.aggregates[CORRECTED].estimate


def _all_labelled(system_of: Sequence[str | None], labels: Array) -> bool:
    """Return whether at least two systems have enough labels each."""
    counts = Counter(name for name, label in zip(system_of, labels, strict=True) if name and not np.isnan(label))
    names = {name for name in system_of if name}
    return len(names) >= 2 and all(counts[name] >= MIN_LABELS for name in names)


def _by_labels(rates: Rates) -> SystemsDocument:
    kind = "share that people pass" if rates.kind == "share" else "mean label"
    labels = {rate.system: rate.labels for rate in rates.rates}
    items = {rate.system: rate.items for rate in rates.rates}
    comparisons = [
        Comparison(first, second, d.value, d.lo, d.hi, items[first] + items[second], labels[first] + labels[second])
        for first, second in combinations(labels, 2)
        for d in (rates.difference(first, second),)
    ]
    systems = tuple(SystemRecord(rate.system, rate.items, rate.value, rate.lo, rate.hi) for rate in rates.rates)
    return SystemsDocument(CORRECTED, kind, systems, tuple(comparisons))


def _by_judges(
    aggregator: str, kind: str, values: dict[str, float], counts: dict[str, int], comparisons: list[Comparison]
) -> SystemsDocument:
    systems = [SystemRecord(system, counts[system], value) for system, value in values.items()]
    systems.sort(key=lambda system: -system.value)
    return SystemsDocument(aggregator, kind, tuple(systems), tuple(comparisons))


Compared = tuple[dict[str, float], dict[str, int], list[Comparison]]


def label_scale(labels: Iterable[float], scale: tuple[float, float] | None) -> tuple[float, float]:
    """Return the scale of pairs' labels: 0 to 1, or the declared scale if some lie outside 0 to 1."""
    return scale if scale is not None and any(not 0.0 <= label <= 1.0 for label in labels) else (0.0, 1.0)


def _scale_of_pairs(panel: ScoreMatrix, scale: tuple[float, float] | None) -> tuple[float, float]:
    """Return the scale of pairs' scores. Its middle is a tie; its upper end prefers the left answer.

    Raises ``FitError`` if it is not declared and not 0 to 1, or scores may number the better answer.
    """
    low, high = float(np.nanmin(panel.values)), float(np.nanmax(panel.values))
    if np.isin(panel.values[~np.isnan(panel.values)], (1.0, 2.0)).all() and low < high:
        raise FitError(
            "systems: scores of the pairs are 1 and 2, which do not name a winner; write A if the first answer is "
            "better and B if the second is"
        )
    if scale is None and (low < 0.0 or high > 1.0):
        raise FitError(
            f"systems: scores of the pairs go from {low:g} to {high:g}; declare their scale, whose middle is a tie "
            "and whose upper end prefers the left answer (--scale, or `scale` of the test set)"
        )
    return scale or (0.0, 1.0)


def _pairwise(
    estimate: Array, named: Named, units: Sequence[str], labels: Array, scale: tuple[float, float]
) -> Compared:
    low, high = scale
    share = np.clip((estimate - low) / (high - low), 0.0, 1.0)
    low, high = label_scale(labels[~np.isnan(labels)].tolist(), scale)
    pairs = [None if names is None else (names[0], names[1]) for names in named]
    strengths, comparisons = bradley_terry(share, pairs, units, (labels - low) / (high - low))
    counts = {system: sum(pair is not None and system in pair for pair in pairs) for system in strengths}
    return strengths, counts, comparisons


def _by_mean(estimate: Array, system_of: Sequence[str | None], units: Sequence[str], labels: Array) -> Compared:
    comparisons = mean_differences(estimate, system_of, units, labels)
    counts = dict(sorted(Counter(name for name in system_of if name).items()))
    named = np.array(system_of, dtype=np.object_)
    return {system: float(np.nanmean(estimate[named == system])) for system in counts}, counts, comparisons
