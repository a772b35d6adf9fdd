"""A page's record over a sample of its items."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from assets.report.data import ReportData
from care_ops import samples
from care_ops.scores import content_seed


def rows_shown(data: ReportData) -> NDArray[np.intp]:
    """Return the rows of a sample and of the items on which two estimates differ; all rows if few.

    The sample includes all items with gold if they fit.
    """
    n, first = len(data.scores.item_ids), {*data.items_to_label}
    if not samples.is_sampled(n):
        return np.arange(n)
    drawn = samples.sampled_rows(n, np.random.default_rng(content_seed(data.scores)))
    labelled = np.flatnonzero(~np.isnan(data.gold))
    named = np.array([row for row, item in enumerate(data.scores.item_ids) if item in first], dtype=np.intp)
    kept = labelled if not samples.is_sampled(len(labelled)) else labelled[:0]
    return np.unique(np.concatenate([drawn, named, kept]))


def over_sample(data: ReportData) -> ReportData:
    """Return the record over a sample of the items; the record itself if there are few items.

    Counts, weights, intervals, evaluations and systems still cover all items.
    """
    if not samples.is_sampled(data.scores.shape[0]):
        return data
    rows = rows_shown(data)
    return replace(
        data,
        scores=data.scores.select_items(rows),
        aggregates={name: aggregate.mapped(lambda values: values[rows]) for name, aggregate in data.aggregates.items()},
        gold=data.gold[rows],
        responses=[data.responses[int(row)] for row in rows],
        rivals={name: answer[rows] for name, answer in data.rivals.items()},
    )
