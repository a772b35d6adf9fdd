"""What ``care fit`` reads: scores, and beside them items, families and anchors.

Belongs here: reading the files together, and that they speak of the same items and judges. Does not: reading one
file (``warehouse.sources``), fitting (``assets.table``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from orchestration.cli import tables

if TYPE_CHECKING:
    from assets.table.fitting import ScoreTable
    from care_ops.scores import ScoreMatrix
    from warehouse.items import ItemRecord
    from warehouse.sources.reading import Reading
    from warehouse.testsets import ReadingOptions, ScoreColumns


def read_table(
    scores: Path,
    items: Path | None,
    judges: Path | None,
    anchors: Path | None,
    columns: ScoreColumns,
    options: ReadingOptions,
) -> ScoreTable:
    """Read every file, and print how each was read before anything is fitted."""
    from assets.table.fitting import ScoreTable
    from care_ops.anchors import NO_ANCHORS, Anchors
    from care_ops.errors import InputError
    from warehouse.sources.files import read_labels, read_scores

    readings: list[Reading] = []

    def tell(reading: Reading) -> None:
        readings.append(reading)
        tables.tell(reading)

    matrix = _with_families(read_scores(scores, columns, options=options, tell=tell).scores, judges, options, tell)
    if matrix.shape[1] < 2:
        raise InputError(f"{scores}: there is one judge, {matrix.judges[0]!r}; a panel needs at least two")
    item = columns.item_id
    records = _read_items(items, matrix, item, options, tell) if items else {}
    labels = Anchors.of(read_labels(anchors, item, options, tell)) if anchors else NO_ANCHORS
    labels.rows(matrix.item_ids)
    return ScoreTable(str(scores), matrix, records, labels, readings)


def _with_families(
    matrix: ScoreMatrix, judges: Path | None, options: ReadingOptions, tell: Callable[[Reading], object]
) -> ScoreMatrix:
    from care_ops.errors import InputError
    from care_ops.scores import ScoreMatrix
    from warehouse.sources.files import read_families

    if judges is None:
        return matrix
    families = read_families(judges, options, tell)
    unknown = [judge for judge in families if judge not in matrix.judges]
    if unknown:
        raise InputError(f"{judges}: judge {unknown[0]!r} has no scores; there are {', '.join(matrix.judges)}")
    return ScoreMatrix(matrix.values, matrix.item_ids, matrix.judges, families)


def _read_items(
    path: Path, matrix: ScoreMatrix, item: str, options: ReadingOptions, tell: Callable[[Reading], object]
) -> dict[str, ItemRecord]:
    from care_ops.errors import InputError
    from warehouse.sources.files import read_items

    records = {record.item_id: record for record in read_items(path, options=options, item=item, tell=tell)}
    missing = [item_id for item_id in matrix.item_ids if item_id not in records]
    if missing:
        raise InputError(
            f"{path}: {len(missing)} scored item(s) are not in it, the first is {missing[0]!r}; add them, or "
            "correct the item ids"
        )
    return records
