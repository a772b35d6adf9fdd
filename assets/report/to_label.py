"""The items that are most worth a label, as a table that a person fills in and gives back to the fit.

Belongs here: which items, and the file. Belongs elsewhere: what labels change (``care_ops.models.hypotheses``).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from care_ops.scores import content_seed
from warehouse.items import ITEM_TEXTS
from warehouse.storage import DamagedError, find_sound, write_bytes

if TYPE_CHECKING:
    from assets.report.data import ReportData
    from warehouse.items import ItemRecord

FILE = "to_label.csv"

AT_RANDOM = 10
"""Items drawn at random beside those where a label tells the most, which alone would be a biased sample."""


def items_to_label(data: ReportData, labelled: Sequence[str] = ()) -> list[str]:
    """The items where two defensible answers differ most, and as many again at random; none that has a label."""
    known = set(labelled)
    first = [] if data.care is None else [item for item in data.care.label_first if item not in known]
    others = [item for item in sorted(data.scores.item_ids) if item not in known and item not in set(first)]
    rng = np.random.default_rng(content_seed(data.scores))
    drawn = rng.choice(len(others), size=min(AT_RANDOM, len(others)), replace=False) if others else []
    return [*first, *(others[int(k)] for k in drawn)]


def write_items_to_label(
    path: Path, item_ids: Sequence[str], records: Mapping[str, ItemRecord], labels: Mapping[str, float]
) -> None:
    """Write the table: item_id, the texts that are known, and an empty column ``label``.

    The labels that the fit has seen stand above these, and so do the rows of the present file that a person has filled
    in, because the file as a whole is given to the next fit.
    """
    seen = {item: {"item_id": item, **_texts(records.get(item)), "label": f"{labels[item]:g}"} for item in labels}
    filled = {**seen, **_filled_rows(path)}
    rows = [{"item_id": item, **_texts(records.get(item))} for item in item_ids if item not in filled]
    rows = [*filled.values(), *rows]
    texts = [name for name in ITEM_TEXTS if any(row.get(name) for row in rows)]
    _write(path, ["item_id", *texts, "label"], rows)


def leave_out(path: Path, item_ids: Collection[str]) -> None:
    """Remove the rows of items that are to be forgotten; the labels of the others stay."""
    columns, rows = _rows(path)
    kept = [row for row in rows if row.get("item_id") not in item_ids]
    if len(kept) < len(rows):
        _write(path, columns, kept)


def _write(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    write_bytes(path, text.getvalue().encode())


def _texts(record: ItemRecord | None) -> dict[str, str]:
    known = {name: None if record is None else getattr(record, name) for name in ITEM_TEXTS}
    return {name: text for name, text in known.items() if text}


def _filled_rows(path: Path) -> dict[str, dict[str, str]]:
    """The rows of a file that already have a label, by item."""
    _, rows = _rows(path)
    return {row["item_id"]: row for row in rows if row.get("item_id") and (row.get("label") or "").strip()}


def _rows(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and rows of a file; none where there is no file, or one that is no text and is set aside."""

    def read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
        try:
            text = path.read_bytes().decode("utf-8-sig")  # as spreadsheets write it, with a mark at the beginning
        except UnicodeDecodeError as error:
            raise DamagedError(f"{path}: it is damaged ({error})") from None
        reader = csv.DictReader(io.StringIO(text, newline=""))
        return list(reader.fieldnames or ()), list(reader)

    return (find_sound(path, read) if path.is_file() else None) or ([], [])
