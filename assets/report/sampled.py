"""A page's record over a sample of its items, for figures, cards and tests that need no more."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from assets.report.data import ReportData
from care_ops import samples
from care_ops.scores import content_seed


def rows_shown(data: ReportData) -> NDArray[np.intp]:
    """The rows of a sample, in rising order, with the items on which two estimates differ; all rows where they are few.

    Where gold is known of no more items than the sample has, all of these are in it.
    """
    n, first = len(data.scores.item_ids), {*data.label_first}
    if not samples.is_sampled(n):
        return np.arange(n)
    drawn = samples.sampled_rows(n, np.random.default_rng(content_seed(data.scores)))
    labelled = np.flatnonzero(~np.isnan(data.gold))
    named = np.array([row for row, item in enumerate(data.scores.item_ids) if item in first], dtype=np.intp)
    kept = labelled if not samples.is_sampled(len(labelled)) else labelled[:0]
    return np.unique(np.concatenate([drawn, named, kept]))


def over_sample(data: ReportData) -> ReportData:
    """The record over a sample of the items; the record itself where there are few.

    What the record says of the whole (counts, weights, intervals, evaluations, systems) stays as it is.
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
