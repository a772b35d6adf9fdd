"""Effect of labels on a panel's estimate, and expected effect of ten more labels."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from assets.results.comparison import recommended_estimate
from care_ops import samples
from care_ops.config import FitConfig
from care_ops.errors import FitError, counted
from care_ops.fit_labels import NO_LABELS, FitLabels
from care_ops.metrics import rank_correlation
from care_ops.scores import Array, ScoreMatrix

BATCH = 10
"""Number of labels that a person gives in about three minutes."""

_TOP = 20


@dataclass(frozen=True)
class LabelEffect:
    """Effect of labels on the estimate of ``care``.

    Attributes
    ----------
    labels, top : int
        Number of labels that the fit has used, and number of items in the top list.
    moved : int
        Number of items that are in the top list only if labels are used.
    correlation : float
        Rank correlation of the estimates with and without labels.
    next_moved : float
        Expected number of items in the top list that ten more labels would replace.
    """

    labels: int
    top: int
    moved: int
    correlation: float
    next_moved: float

    def sentence(self) -> str:
        """Describe the effect of the labels, and the expected effect of ten more labels."""
        return (
            f"{counted(self.labels, 'label')} changed {self.moved} of the top {counted(self.top, 'item')} (rank "
            f"correlation with the estimate without labels: {self.correlation:.2f}); ten more labels would probably "
            f"change about {self.next_moved:.0f}"
        )


def label_effect(panel: ScoreMatrix, config: FitConfig, labels: FitLabels) -> LabelEffect | None:
    """Measure the effect of labels: fit without labels, without the last ten labels, and with all labels.

    Returns None if no scored item has a label, there are too many items for three fits, or a fit fails.
    """
    seen = [item for item in labels.labels if item in {*panel.item_ids}]
    if not seen or samples.is_sampled(len(panel.item_ids)):
        return None
    steps = (0, max(len(seen) - BATCH, 0), len(seen))
    try:
        before, earlier, after = (recommended_estimate(panel, config, _only(labels, seen[:count])) for count in steps)
    except FitError:
        return None
    top = min(_TOP, max(len(panel.item_ids) // 10, 1))  # the top tenth, as in the verdict
    moved, last_moved = (len(_best(after, top) - _best(estimate, top)) for estimate in (before, earlier))
    # Calibrated on recorded panels (benchmarks/results/labelling.md).
    expected = 1.0 + 1.65 * float(np.sqrt(last_moved * len(seen) / (len(seen) + BATCH)))
    return LabelEffect(len(seen), top, moved, rank_correlation(before, after), expected)


def _only(labels: FitLabels, items: Iterable[str]) -> FitLabels:
    kept = {item: labels.labels[item] for item in items}
    if not kept:
        return NO_LABELS
    sample = None if labels.sample is None else {i: p for i, p in labels.sample.items() if i in kept}
    return replace(labels, labels=kept, sample=sample)


def _best(estimate: Array, top: int) -> set[int]:
    return {*np.argsort(-np.nan_to_num(estimate, nan=-np.inf), kind="stable")[:top].tolist()}
