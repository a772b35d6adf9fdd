"""Functions that draw random items to label, and labelled items for a second label."""

from collections.abc import Sequence

import numpy as np

from assets.table.label_file import LabelRow
from care_ops.errors import InputError, counted


def rows_to_label(known: Sequence[LabelRow], item_ids: Sequence[str], *, count: int, seed: int) -> list[LabelRow]:
    """Draw random rows to enlarge a file of labels to ``count`` items.

    On recorded panels, no rule for choosing items was better than a random sample (benchmarks/results/labelling.md). A
    sample with unequal probabilities is not enlarged, because the probabilities depend on its size.

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
            f"CARE cannot enlarge the file to {count} items, because its {counted(len(items), 'item')} were drawn with "
            "unequal probabilities; label these items, or draw items into another file with --out"
        )
    if count > len(item_ids):
        raise InputError(f"--count is {count}, but there are only {counted(len(item_ids), 'item')}; lower --count")
    rest, rng = sorted(set(item_ids) - set(items)), np.random.default_rng([seed, len(items)])
    return [LabelRow(rest[int(k)]) for k in rng.choice(len(rest), count - len(items), replace=False)]


def second_labels(known: Sequence[LabelRow], repeats: int, seed: int) -> list[LabelRow]:
    """Draw labelled items until ``repeats`` items get a second label; raise ``InputError`` if too few are labelled."""
    by_item: dict[str, list[LabelRow]] = {}
    for row in known:
        by_item.setdefault(row.item_id, []).append(row)
    single = sorted(item for item, rows in by_item.items() if len(rows) == 1 and rows[0].label)
    missing = repeats - sum(len(rows) > 1 for rows in by_item.values())
    if missing > len(single):
        raise InputError(
            f"--repeat is {repeats}, but only {counted(len(single), 'item')} can get a second label; label more items, "
            "or lower --repeat"
        )
    drawn = np.random.default_rng([seed, 1]).choice(len(single), max(missing, 0), replace=False)
    first = [by_item[single[int(k)]][0] for k in drawn]
    return [LabelRow(row.item_id, drawn=row.drawn, probability=row.probability) for row in first]
