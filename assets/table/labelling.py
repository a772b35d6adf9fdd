"""Choice of items to label."""

from collections.abc import Sequence

import numpy as np

from assets.table.label_file import LabelRow
from care_ops.errors import InputError


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
            f"the file has {len(items)} items, drawn with unequal probabilities, so CARE cannot add items to reach "
            f"{count}; label the items it has, or draw another file with --out"
        )
    if count > len(item_ids):
        raise InputError(f"--count is {count}, but there are only {len(item_ids)} items; lower --count")
    rest, rng = sorted(set(item_ids) - set(items)), np.random.default_rng([seed, len(items)])
    return [LabelRow(rest[int(k)]) for k in rng.choice(len(rest), count - len(items), replace=False)]


def second_labels(known: Sequence[LabelRow], repeats: int, seed: int) -> list[LabelRow]:
    """Draw items for a second label, until ``repeats`` items have one; raise ``InputError`` with too few labels."""
    by_item: dict[str, list[LabelRow]] = {}
    for row in known:
        by_item.setdefault(row.item_id, []).append(row)
    single = sorted(item for item, rows in by_item.items() if len(rows) == 1 and rows[0].label)
    missing = repeats - sum(len(rows) > 1 for rows in by_item.values())
    if missing > len(single):
        raise InputError(
            f"--repeat is {repeats}, but only {len(single)} more items have a first label; label more items, or lower "
            "--repeat"
        )
    drawn = np.random.default_rng([seed, 1]).choice(len(single), max(missing, 0), replace=False)
    first = [by_item[single[int(k)]][0] for k in drawn]
    return [LabelRow(row.item_id, drawn=row.drawn, probability=row.probability) for row in first]
