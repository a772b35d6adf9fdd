"""Systems compared by the items that belong to them: the same for a test set of a workspace and for a table.

Belongs here: from estimates and the names of systems to ``SystemsDocument``, and the pairs that a fit is told of. Does
not: the statistics (``care_ops.results.systems``), where the names come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from assets.results.documents import ComparisonRecord, SystemRecord, SystemsDocument
from care_ops.results.systems import anchors_as_labels, bradley_terry, mean_differences

if TYPE_CHECKING:
    from care_ops.anchors import Anchors
    from care_ops.results.systems import Comparison
    from care_ops.scores import Array
    from warehouse.matrix import ItemColumnsRead

Named = Sequence[tuple[str, ...] | None]
"""Of each item the name of its system, or those of the left and the right one; None where one is not known."""


def compare(
    aggregator: str,
    estimate: Array,
    items: ItemColumnsRead,
    named: Named,
    anchors: Anchors,
    scale: tuple[float, float] | None,
) -> SystemsDocument:
    """Systems in order and every difference between two of them.

    Parameters
    ----------
    aggregator : str
        Whose estimates they are.
    estimate : (n,) array
        In the order of ``items``, as ``named`` is.
    anchors : Anchors
        Labels that correct the estimates where there are enough.
    scale : (low, high), optional
        Of the scores; estimates of pairwise items are placed in [0, 1] by it.

    Raises
    ------
    FitError
        There is nothing to compare.
    """
    units = items.units()
    labels = anchors_as_labels(items.item_ids, anchors)
    pairwise = {len(names) for names in named if names is not None} == {2}
    if pairwise:
        kind = "log odds of winning"
        values, counts, comparisons = _pairwise(estimate, named, units, labels, scale or (0.0, 1.0))
    else:
        kind = "mean estimate"
        values, counts, comparisons = _by_mean(estimate, named, units, labels)
    ordered = sorted(values, key=lambda system: -values[system])
    return SystemsDocument(
        aggregator,
        kind,
        tuple(SystemRecord(system, counts[system], values[system]) for system in ordered),
        tuple(ComparisonRecord(**asdict(comparison)) for comparison in comparisons),
    )


Compared = tuple[dict[str, float], dict[str, int], "list[Comparison]"]


def _pairwise(
    estimate: Array, named: Named, units: Sequence[str], labels: Array, scale: tuple[float, float]
) -> Compared:
    low, high = scale
    share, won = np.clip((estimate - low) / (high - low), 0.0, 1.0), (labels - low) / (high - low)
    pairs = [None if names is None else (names[0], names[1]) for names in named]
    strengths, comparisons = bradley_terry(share, pairs, units, won)
    counts = {system: sum(pair is not None and system in pair for pair in pairs) for system in strengths}
    return strengths, counts, comparisons


def _by_mean(estimate: Array, named: Named, units: Sequence[str], labels: Array) -> Compared:
    system_of = [None if names is None else names[0] for names in named]
    comparisons = mean_differences(estimate, system_of, units, labels)
    members = {
        system: [row for row, name in enumerate(system_of) if name == system]
        for system in sorted({name for name in system_of if name})
    }
    values = {system: float(np.nanmean(estimate[rows])) for system, rows in members.items()}
    return values, {system: len(rows) for system, rows in members.items()}, comparisons
