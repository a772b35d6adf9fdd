"""Comparison of systems by the estimates of their items, for a test set or a table of scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

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
from care_ops.results.pairs import Duels
from care_ops.results.rates import KINDS, Labelled, Rates, Repeats, rates_of
from care_ops.results.systems import bradley_terry, mean_differences
from care_ops.scores import Array, ScoreMatrix
from warehouse.items import ItemColumnsRead

CORRECTED = "care"
"""Name of the aggregator whose estimate is corrected by labels."""

Named = Sequence[tuple[str, ...] | None]
"""System of each item, or None; for pairwise comparisons, left and right system (a higher score favours the left)."""


def compare(
    aggregator: str,
    estimate: Array,
    items: ItemColumnsRead,
    named: Named,
    fit_labels: FitLabels,
    panel: ScoreMatrix,
    config: FitConfig,
) -> SystemsDocument:
    """Compare systems, and return their ranking and the difference between any two systems.

    With enough labels, the systems' values are rates corrected by the labels. Otherwise, they are means of estimates
    or, for pairwise comparisons, Bradley-Terry strengths. Raises ``FitError`` if no systems can be compared.

    Parameters
    ----------
    aggregator, estimate, named : str, (n,) array, Named
        Name of the aggregator, the estimates, and the systems of each item. The last two are in the order of ``items``.
    fit_labels : FitLabels
        Labels that correct the judges if each system (in pairwise comparisons, any two systems) has enough labels.
    panel : ScoreMatrix
        Scores from which ``care`` is fitted again, without the labels.
    config : FitConfig
        Settings of the fit without labels; its ``scale`` is the range of scores and labels of pairwise comparisons.
    """
    units = items.units()
    paired = {len(names) for names in named if names is not None} == {2}
    system_of = [None if names is None else names[0] for names in named]
    labels, scale = usable_labels(items.item_ids, fit_labels), (0.0, 1.0)
    if paired:
        scale = _scale_of_pairs(panel, config.scale)
        low, high = label_scale(labels[~np.isnan(labels)].tolist(), scale)
        labels = (labels - low) / (high - low)
    if _all_labelled(named, labels):
        unlabelled = recommended_estimate(panel, replace(config, calibration=Calibration()))
        blind = aligned(items.item_ids, dict(zip(panel.item_ids, unlabelled.tolist(), strict=True)))
        chance = np.array([fit_labels.chance_of(item) or 1.0 for item in items.item_ids], dtype=np.float64)
        shares = fit_labels.binary or bool(np.isin(labels[~np.isnan(labels)], (0.0, 1.0)).all())
        repeats = Repeats(fit_labels.counts_of(items.item_ids), shares)
        sample = Labelled(blind, labels, None if paired else system_of, units, chance, repeats)
        if paired:
            return _by_labels(Duels(**vars(sample), pairs=named, seed=config.seed).rates(), named, labels)
        return _by_labels(rates_of(sample, seed=config.seed), named, labels)
    if paired:
        share = np.clip((estimate - scale[0]) / (scale[1] - scale[0]), 0.0, 1.0)
        pairs = [None if names is None else (names[0], names[1]) for names in named]
        values, comparisons = bradley_terry(share, pairs, units)
    else:
        comparisons, of = mean_differences(estimate, system_of, units), np.array(system_of, dtype=np.object_)
        values = {s: float(np.nanmean(estimate[of == s])) for s in sorted({name for name in system_of if name})}
    counts = Counter(name for names in named if names is not None for name in names)
    systems = [SystemRecord(system, counts[system], value) for system, value in values.items()]
    systems.sort(key=lambda system: -system.value)
    kind = LOG_ODDS if paired else "mean estimate"
    return SystemsDocument(aggregator, kind, tuple(systems), tuple(comparisons))


def usable_labels(item_ids: Sequence[str], labels: FitLabels) -> Array:
    """Return the labels of items drawn with a known probability, NaN for other items; shape (n,)."""
    return aligned(item_ids, {i: label for i, label in labels.labels.items() if labels.chance_of(i) is not None})


def compared_in(workspace: Workspace, testset: str, panel: ScoreMatrix, fits: Mapping[str, str]) -> SystemsDocument:
    """Compare a test set's declared systems, using the recommended aggregate of the latest fit.

    ``fits`` maps aggregators to fit ids. Raises ``InputError`` if no item has a value in a declared column, and
    ``FitError`` if there are fewer than two systems.
    """
    name = recommended(fits)
    items = workspace.parts.read_gold(testset)
    named = workspace.parts.read_systems(testset, workspace.systems_of(testset))
    estimate = workspace.fits.read_fit(testset, fits[name]).in_order(items.item_ids).estimate
    fit_labels, config = workspace.labels_of(testset), workspace.fit_config(testset)
    return compare(name, estimate, items, named, fit_labels, panel, config)


def recommended_estimate(panel: ScoreMatrix, config: FitConfig, fit_labels: FitLabels = NO_LABELS) -> Array:
    """Fit ``care`` and return the estimate in the order of the panel's items.

    Labels that later correct the estimate must not be in ``fit_labels``, because the estimate would depend on them.
    """
    fit = fit_panel(panel, replace(config, aggregators=(CORRECTED,)), fit_labels, solve="not")
    return fit.aggregates[CORRECTED].estimate


def _all_labelled(named: Named, labels: Array) -> bool:
    systems = {name for names in named if names is not None for name in names}
    counts = Counter(
        frozenset(names) for names, y in zip(named, labels, strict=True) if names is not None and not np.isnan(y)
    )
    paired = any(names is not None and len(names) == 2 for names in named)
    groups = combinations(systems, 2 if paired else 1)
    return len(systems) >= 2 and all(counts[frozenset(group)] >= MIN_LABELS for group in groups)


def _by_labels(rates: Rates, named: Named, labels: Array) -> SystemsDocument:
    keys = [None if names is None else names[0] if len(names) == 1 else frozenset(names) for names in named]
    items = Counter(keys)
    labelled = Counter(key for key, label in zip(keys, labels, strict=True) if not np.isnan(label))
    comparisons: list[Comparison] = []
    for pair in combinations([rate.system for rate in rates.rates], 2):
        d, keys_of_pair = rates.difference(*pair), (*pair, frozenset(pair))
        counts = [sum(count[key] for key in keys_of_pair) for count in (items, labelled)]
        comparisons.append(Comparison(*pair, d.value, d.lo, d.hi, *counts))
    systems = tuple(SystemRecord(rate.system, rate.items, rate.value, rate.lo, rate.hi) for rate in rates.rates)
    return SystemsDocument(CORRECTED, KINDS[rates.kind], systems, tuple(comparisons))


def label_scale(labels: Iterable[float], scale: tuple[float, float] | None) -> tuple[float, float]:
    """Return the scale of pairwise labels: 0 to 1, or the declared scale if a label is outside 0 to 1."""
    return scale if scale is not None and any(not 0.0 <= label <= 1.0 for label in labels) else (0.0, 1.0)


def _scale_of_pairs(panel: ScoreMatrix, scale: tuple[float, float] | None) -> tuple[float, float]:
    low, high = float(np.nanmin(panel.values)), float(np.nanmax(panel.values))
    if np.isin(panel.values[~np.isnan(panel.values)], (1.0, 2.0)).all() and low < high:
        raise FitError(
            "systems: scores of the pairs are 1 and 2, which do not name a winner; write A if the first answer is "
            "better and B if the second is"
        )
    if scale is None and (low < 0.0 or high > 1.0):
        raise FitError(
            f"systems: the scores of the pairs range from {low:g} to {high:g}; declare a scale (--scale, or `scale` in "
            "the test set's file) with a midpoint that means a tie, and a maximum that means a win of the left answer"
        )
    return scale or (0.0, 1.0)
