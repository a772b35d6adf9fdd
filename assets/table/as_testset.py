"""YAML definition of a test set that reads the same tables as ``care fit``."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from assets.table.fitting import ScoreTable
from care_ops.errors import InputError
from care_ops.scales import Scale
from warehouse.items import ITEM_TEXTS
from warehouse.spreadsheets import csv_of
from warehouse.storage import write_bytes
from warehouse.testsets import ReadingOptions, ScoreColumns, TestsetSpec


def testset_name(scores: Path, wanted: str | None) -> str:
    """Return the name of a test set, by default the name of the score file up to the first dot."""
    name = wanted or scores.name.split(".")[0]
    try:
        return TestsetSpec.model_validate({"name": name, "source": {"kind": "demo"}}).name
    except ValueError as error:
        raise InputError(f"{scores}: {name!r} is not a valid name of a test set; give another name") from error


def testset_yaml(
    folder: Path,
    name: str,
    table: ScoreTable,
    scores: Path,
    items: Path | None,
    scales: tuple[Scale | None, Mapping[str, Scale]],
    systems: Sequence[str],
    columns: ScoreColumns,
    reading: ReadingOptions,
) -> str:
    """Return the YAML for a test set with recorded scores; paths are relative to the workspace.

    If ``items`` is None, write a table of items from the columns of the score table that describe items. ``scales`` are
    the scale of the panel and the scales of individual judges.
    """
    scale, of_judges = scales
    if items is None:
        items = folder / f"items-{name}.csv"
        _write_items(items, table)
    of_scores: dict[str, Any] = {
        "path": _relative(scores, folder),
        "families": dict(table.scores.families),
        "scales": {judge: list(ends) for judge, ends in of_judges.items()},
        "columns": columns.model_dump(exclude_defaults=True, mode="json"),
        "reading": reading.model_dump(exclude_defaults=True, mode="json"),
    }
    document = {
        "description": f"Recorded scores of {scores.name}.",
        "scale": list(scale) if scale else None,
        "systems": list(systems),
        "source": {
            "kind": "files",
            "items": _relative(items, folder),
            "scores": {name: value for name, value in of_scores.items() if value},
        },
    }
    return yaml.safe_dump({name: value for name, value in document.items() if value}, sort_keys=False)


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path.absolute(), folder.absolute())


def _write_items(path: Path, table: ScoreTable) -> None:
    records = table.records
    fields = [field for field in (*ITEM_TEXTS, "split_unit") if any(getattr(one, field) is not None for one in records)]
    more = list(dict.fromkeys(name for record in records for name in record.metadata))
    ids = table.scores.item_ids
    rows = (
        [item, *(getattr(record, field) for field in fields), *map(record.metadata.get, more)]
        for item, record in zip(ids, records, strict=True)
    )
    write_bytes(path, csv_of(["item_id", *fields, *more], rows))
