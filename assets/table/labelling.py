"""Choice of items to label, and the number of labels needed."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from assets.results.comparison import recommended_estimate
from assets.table.label_file import LabelRow
from care_ops.config import FitConfig
from care_ops.errors import InputError
from care_ops.labels import Labels
from care_ops.minimum_sizes import MIN_LABELS
from care_ops.results.rates import Labelled, labels_needed, rates_of
from care_ops.scores import ScoreMatrix


def rows_to_label(known: Sequence[LabelRow], item_ids: Sequence[str], *, count: int, seed: int) -> list[LabelRow]:
    """Draw random rows to enlarge a file of labels to ``count`` items.

    On recorded panels no choice of the items beat a random sample (benchmarks/results/labelling.md). A sample with
    unequal probabilities is not enlarged: its probabilities hold for the size with which it was drawn.

    Raises
    ------
    InputError
        There are fewer items than ``count``, or the file is a sample with unequal probabilities.
    """
    items = sorted({row.item_id for row in known})
    if len(items) >= count:
        return []
    if any(row.probability for row in known):
        raise InputError(
            f"the file has {len(items)} items, drawn with unequal probabilities, so CARE cannot add items to reach "
            f"{count}; label the items it has, or draw another file with --out"
        )
    if count > len(item_ids):
        raise InputError(f"--count is {count}, but there are only {len(item_ids)} items; lower it")
    rest, rng = sorted(set(item_ids) - set(items)), np.random.default_rng([seed, len(items)])
    return [LabelRow(rest[int(k)]) for k in rng.choice(len(rest), count - len(items), replace=False)]


def second_labels(known: Sequence[LabelRow], repeats: int, seed: int) -> list[LabelRow]:
    """Draw labelled items for a second label, until ``repeats`` items have one.

    Raises ``InputError`` if fewer items have a label.
    """
    by_item: dict[str, list[LabelRow]] = {}
    for row in known:
        by_item.setdefault(row.item_id, []).append(row)
    single = sorted(item for item, rows in by_item.items() if len(rows) == 1 and rows[0].label)
    missing = repeats - sum(len(rows) > 1 for rows in by_item.values())
    if missing > len(single):
        raise InputError(
            f"{repeats} second labels need more items with a first label than the {len(single)} there are; label more "
            "items"
        )
    drawn = np.random.default_rng([seed, 1]).choice(len(single), max(missing, 0), replace=False)
    first = [by_item[single[int(k)]][0] for k in drawn]
    return [LabelRow(row.item_id, drawn=row.drawn, probability=row.probability) for row in first]


def labels_for_width(
    labels: Labels, panel: ScoreMatrix | None, items: int, config: FitConfig, width: float, level: float = 0.9
) -> tuple[int, str]:
    """Return the number of labels that give the mean label an interval of +- ``width``, and its basis.

    Raises ``InputError`` if the width is not positive.
    """
    if width <= 0:
        raise InputError(f"--width is {width:g}; give half the width of an interval, above 0")
    if panel is None or len(labels.sample) < MIN_LABELS:
        needed = (float(norm.ppf((1 + level) / 2)) / width) ** 2 * 0.25
        why = "labels of 0 and 1 of which half pass, without help from the judges" + (
            "" if panel is None else f"; {MIN_LABELS} labels would say more"
        )
        return math.ceil(needed / (1 + needed / items)), why
    names = panel.item_ids
    answer = recommended_estimate(panel, config)
    given = np.array([labels.values[i] if i in labels.sample else np.nan for i in names], dtype=np.float64)
    chance = np.array([labels.sample.get(i, 1.0) for i in names], dtype=np.float64)
    rate = rates_of(Labelled(answer, given, chance=chance), level=level, seed=config.seed).rates[0]
    return labels_needed(
        rate, width
    ), f"the interval {rate.lo:.3f} to {rate.hi:.3f} by {rate.labels} labels and the judges"
