"""File that proposes random items for labelling. The next fit uses the labels that a person enters in it."""

from __future__ import annotations

import csv
import heapq
import io
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from assets.report.data import ReportData
from care_ops.fit_labels import FitLabels
from warehouse.items import ITEM_TEXTS, ItemRecord
from warehouse.sources.delimited import allow_long_fields
from warehouse.spreadsheets import NUMBER, as_meant, csv_of
from warehouse.storage import DamagedError, find_sound, write_bytes

if TYPE_CHECKING:
    from care_ops.labels import Drawn

FILE = "to_label.csv"

TO_LABEL = 20
"""Number of random items to propose; no other selection was better (benchmarks/results/labelling.md)."""


def items_to_label(data: ReportData, labels: FitLabels) -> dict[str, Drawn]:
    """Draw items to label; return, for each item, whether it was drawn at random or chosen.

    Each fit draws the next items in the order of hashed ids, so the labels of all fits form one simple random sample. A
    labelled item belongs to this sample if it comes before the last drawn item in that order. If earlier labels have
    unequal sampling probabilities, the sample cannot be extended, and all drawn items are marked ``chosen``.
    """
    sample = labels.labels if labels.sample is None else labels.sample
    how: dict[str, Drawn] = {}
    new = 0
    for item in _first_places([item for item in data.scores.item_ids if item not in sample], len(labels)):
        if new == TO_LABEL:
            break
        new += item not in labels.labels
        how[item] = "random" if _equal_probabilities(labels) else "chosen"
    return how


def _first_places(item_ids: Sequence[str], labelled: int) -> list[str]:
    order = ((sha256(item.encode("utf-8", "surrogatepass")).digest(), item) for item in item_ids)
    return [item for _, item in heapq.nsmallest(labelled + TO_LABEL, order)]


def _equal_probabilities(labels: FitLabels) -> bool:
    return len(set((labels.sample or {}).values())) <= 1


def write_items_to_label(
    path: Path, how: Mapping[str, Drawn], records: Mapping[str, ItemRecord], labels: FitLabels
) -> tuple[list[str], int]:
    """Write a file that proposes items for labelling, with texts and columns ``label``, ``drawn`` and ``probability``.

    The file starts with the labels that the fit has used. Rows that a person has filled in stay unchanged, because the
    next fit reads the whole file. Returns the items whose label in the file differs from the fit's label, and the
    number of items that were added to an existing file.
    """
    seen = {
        item: {"item_id": item, **_texts(records.get(item)), "label": f"{label:g}", **_sampling_columns(item, labels)}
        for item, label in labels.labels.items()
    }
    columns, rows = _rows(path)
    present = {row["item_id"]: row for row in rows if row.get("item_id")}
    filled = [row for row in rows if row.get("item_id") and (row.get("label") or "").strip()]
    labels_by_item: dict[str, list[str]] = {}
    for row in filled:
        labels_by_item.setdefault(row["item_id"], []).append(row["label"].strip())
    filled = [*(row for item, row in seen.items() if item not in labels_by_item), *filled]
    for row in filled:
        drawn = how.get(row["item_id"], "")
        row["drawn"] = "random" if drawn == "random" else row.get("drawn") or drawn
    for item, drawn in how.items():
        if item not in labels_by_item and item not in seen:
            how_drawn = {"item_id": item, **_texts(records.get(item)), "drawn": drawn, "probability": ""}
            filled.append({**present.get(item, {}), **how_drawn})
    texts = [name for name in ITEM_TEXTS if any(row.get(name) for row in filled)]
    usual = ["item_id", *texts, "label", "drawn", "probability"]
    _write(path, [*usual, *(name for name in columns if name and name not in (*usual, *ITEM_TEXTS))], filled)
    single = {item: own[0] for item, own in labels_by_item.items() if len(own) == 1 and NUMBER.fullmatch(own[0])}
    differing = [k for k, row in seen.items() if k in single and f"{float(single[k]):g}" != row["label"]]
    return differing, len(how.keys() - present.keys()) if present else 0


def _sampling_columns(item_id: str, labels: FitLabels) -> dict[str, str]:
    chance = labels.chance_of(item_id)
    if chance is None or not _equal_probabilities(labels):
        return {"drawn": "chosen", "probability": "" if chance is None else f"{chance:.6g}"}
    return {"drawn": "random"}


def leave_out(path: Path, item_ids: Collection[str]) -> None:
    """Remove the rows of forgotten items from a file that proposes items for labelling."""
    columns, rows = _rows(path)
    kept = [row for row in rows if row.get("item_id") not in item_ids]
    if len(kept) < len(rows):
        _write(path, columns, kept)


def _write(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    write_bytes(path, csv_of(columns, [[row.get(name, "") for name in columns] for row in rows]))


def _texts(record: ItemRecord | None) -> dict[str, str]:
    return {name: text for name in ITEM_TEXTS if (text := getattr(record, name, None))}


def _rows(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns and rows of a file; both are empty if the file is missing or was quarantined."""

    def read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
        try:
            text = path.read_bytes().decode("utf-8-sig")  # with the mark that spreadsheets write
        except UnicodeDecodeError as error:
            raise DamagedError(f"{path} is damaged ({error})") from None
        allow_long_fields()
        reader = csv.DictReader(io.StringIO(text, newline=""))
        rows = [{name: as_meant(cell) for name, cell in row.items() if isinstance(cell, str)} for row in reader]
        return list(reader.fieldnames or ()), rows

    return (find_sound(path, read) if path.is_file() else None) or ([], [])
