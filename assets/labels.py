"""Reader of label tables, which may also state how the labelled items were sampled."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from care_ops.errors import InputError
from care_ops.labels import Drawn, Label, Labels
from warehouse.sources.files import LabelCells, Report, ignore_reading, read_label_cells
from warehouse.sources.tables import TableSource, guarded_reader
from warehouse.testsets import AS_FOUND, ReadingOptions

_ASSUMED = {
    "random": "for {} of {} labels, no column states how the item was sampled; as declared, CARE treats it as random",
    "chosen": "no column states how items were sampled for {} of {} labels; CARE treats these items as chosen, not "
    "random; if they are a random sample, add a column `drawn` with the value random",
}
_UNSTATED = (
    "cannot use these labels: for {} of {} labels, no column states how the item was sampled, and chosen items "
    "do not represent the other items; add a column `drawn` (random or chosen) or, if all items were sampled at "
    'random, give --drawn random (drawn="random" in Python)'
)


@guarded_reader
def read_labels(
    source: TableSource | Mapping[str, float],
    item: str | None = None,
    options: ReadingOptions = AS_FOUND,
    report: Report = ignore_reading,
    *,
    unstated: Drawn | None = "chosen",
) -> Labels:
    """Read labels from a table; rows without a label are skipped, and an item may have several rows.

    Optional columns state how an item was sampled, who labelled it, and when.

    ``source``, ``item`` and ``options`` are as in ``read_label_cells``. ``report`` is called with the record of how
    the table was read. ``unstated`` is the sampling that CARE assumes for rows that state none; if it is None, such
    rows raise ``InputError``.

    Raises ``InputError`` also if a column is missing, a label is not a finite number, a probability is not in (0, 1],
    ``drawn`` is neither "random" nor "chosen", rows of an item contradict each other, or one rater gave an item two
    labels at the same time.
    """
    rows, reading = read_label_cells(source, item, options)
    silent = sum(row.drawn is None and row.probability is None for row in rows)
    if silent and unstated is None:
        unstated_drawn = "; ".join([_UNSTATED.format(silent, len(rows)), *reading.notes])
        raise InputError(f"{reading.source}: {unstated_drawn}")
    unstated = _sampling(unstated, "chosen")
    try:
        labels = Labels(tuple(_label(row, unstated) for row in rows))
    except InputError as error:
        raise InputError(f"{reading.source}: {error}") from None
    _refuse_copies(reading.source, labels)
    assumed = [_ASSUMED[unstated].format(silent, len(rows))] if silent else []
    report(replace(reading, notes=(*reading.notes, *assumed, *labels.sentences())))
    return labels


def _label(row: LabelCells, unstated: Drawn) -> Label:
    drawn = _sampling(row.drawn, unstated if row.probability is None else "chosen")
    return Label(row.item_id, row.value, drawn, row.probability, row.rater, row.labelled_at)


def _sampling(word: str | None, unstated: Drawn) -> Drawn:
    if word is None:
        return unstated
    if word.lower() not in get_args(Drawn):
        raise InputError(f"`drawn` must be random, chosen or empty, got {word!r}")
    return "random" if word.lower() == "random" else "chosen"


def _refuse_copies(where: str, labels: Labels) -> None:
    seen = Counter((x.item_id, x.rater, x.labelled_at) for x in labels.given if x.rater and x.labelled_at)
    twice = next((key for key, count in seen.items() if count > 1), None)
    if twice is not None:
        raise InputError(
            f"{where}: several rows say that {twice[1]} labelled item {twice[0]!r} at {twice[2]}; keep one row, or "
            "correct the times of the others"
        )
