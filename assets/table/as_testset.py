"""Definition of a test set that reads the tables of ``care fit`` in place."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from assets.table.fitting import ScoreTable
from care_ops.errors import InputError
from care_ops.scales import Scale, scale_of_grades
from warehouse.items import ITEM_TEXTS
from warehouse.spreadsheets import csv_of
from warehouse.storage import write_bytes
from warehouse.testsets import ReadingOptions, ScoreColumns, TestsetSpec


@dataclass(frozen=True)
class Declared:
    """Scales, columns and systems that the YAML of a test set must declare because its files do not."""

    scale: Scale | None
    scales: dict[str, Scale]
    systems: Sequence[str]
    columns: ScoreColumns
    reading: ReadingOptions


def care_yaml(name: str) -> str:
    """Return care.yaml of a workspace of recorded scores, with the common settings as comments."""
    return f"""\
# A CARE workspace over recorded scores: no judge is asked, and the next run fits what has changed in the files.
# `care admin schema` lists every setting with what it means and its default.

# The folder of scores, fits and pages.
data: data

# Labels by people that the fit may see, a file for each test set; `care label {name}` draws items and asks.
# labels:
#   {name}: labels/{name}.csv

# When a daemon (`care admin daemon`) brings everything up to date; `on_change: true`: as soon as files change.
# nightly:
#   at: "02:00"
#   zone: Europe/Berlin

# Who is notified when a run failed, or a fit awaits review.
# alerts:
#   webhook: ${{ALERT_WEBHOOK}}

# Judges of your own (models, endpoints, programs) are files in the folder judges; `care judges new` writes one.
"""


def testset_name(scores: Path, wanted: str | None) -> str:
    """Return the name of a test set, by default the stem of its file of scores."""
    name = wanted or scores.name.split(".")[0]
    try:
        return TestsetSpec.model_validate({"name": name, "source": {"kind": "demo"}}).name
    except ValueError as error:
        message = f"{scores}: no test set can have the name {name!r}; give the file another name, or the test set"
        raise InputError(message) from error


def testset_yaml(
    folder: Path, name: str, table: ScoreTable, scores: Path, items: Path | None, declared: Declared
) -> str:
    """Return the YAML of the test set, with paths relative to the workspace.

    Without a table of items, one is written from the columns of the scores that describe items.
    """
    if items is None:
        items = folder / f"items-{name}.csv"
        _write_items(items, table)
    of_scores: dict[str, Any] = {
        "path": _relative(scores, folder),
        "families": dict(table.scores.families),
        "scales": {judge: list(scale) for judge, scale in declared.scales.items()},
        "columns": declared.columns.model_dump(exclude_defaults=True, mode="json"),
        "reading": declared.reading.model_dump(exclude_defaults=True, mode="json"),
    }
    document = {
        "description": f"Recorded scores of {scores.name}.",
        "scale": list(declared.scale) if declared.scale else None,
        "systems": list(declared.systems),
        "source": {
            "kind": "files",
            "items": _relative(items, folder),
            "scores": {name: value for name, value in of_scores.items() if value},
        },
    }
    written = yaml.safe_dump({name: value for name, value in document.items() if value}, sort_keys=False)
    if declared.scale is None and (seen := _scale_seen(table, pairs=len(declared.systems) == 2)):
        comment = (
            "The least and the highest score. Take the # off where these are the ends of the scale that judges were"
        )
        comment += " given, or correct them; scores are then averaged in its units, and its middle is a tie of pairs."
        written = f"# {comment}\n# scale: [{seen[0]:g}, {seen[1]:g}]\n{written}"
    return written if table.scores.families else written + _families_to_declare(table.scores.judges)


def _scale_seen(table: ScoreTable, *, pairs: bool) -> Scale | None:
    """Return the scale of the scores: the range of ``pairs`` or grades, or the scale to which all were rescaled.

    None if the scores are neither pairs nor grades, or if some lie outside that scale.
    """
    seen = float(np.nanmin(table.scores.values)), float(np.nanmax(table.scores.values))
    if table.brought:
        low, high = table.brought[0].panel
        return (low, high) if low <= seen[0] and seen[1] <= high else None
    return seen if seen[0] < seen[1] and (pairs or scale_of_grades(table.scores)) else None


def _families_to_declare(judges: Sequence[str]) -> str:
    """Return the block ``families`` of ``source.scores`` as comments."""
    named = yaml.safe_dump(dict.fromkeys(judges, "its family"), sort_keys=False, allow_unicode=True, width=1000)
    message = "Which judges share a base model, a vendor or a prompt? Take the marks off, and name the family of each."
    return "".join(f"    # {line}\n" for line in (message, "families:", *(f"  {line}" for line in named.splitlines())))


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path.absolute(), folder.absolute())


def _write_items(path: Path, table: ScoreTable) -> None:
    records = [table.items.get(item) for item in table.scores.item_ids]
    fields = [f for f in (*ITEM_TEXTS, "split_unit") if any(getattr(one, f, None) is not None for one in records)]
    more = list(dict.fromkeys(name for record in records if record is not None for name in record.metadata))
    texts = [[getattr(record, name, None) for name in fields] for record in records]
    others = [map(({} if record is None else record.metadata).get, more) for record in records]
    rows = ([item, *own, *rest] for item, own, rest in zip(table.scores.item_ids, texts, others, strict=True))
    write_bytes(path, csv_of(["item_id", *fields, *more], rows))
