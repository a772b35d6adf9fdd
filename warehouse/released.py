"""Test sets for which the paper's authors published judges' scores."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from care_ops.errors import InputError
from warehouse.spreadsheets import csv_of
from warehouse.storage import write_bytes

ADDRESS = "https://github.com/SprocketLab/CARE"
COMMIT = "72f5b29"

_NUMBER = re.compile(r"[-+]?\d*\.?\d+")


class ReleasedSet(NamedTuple):
    """Published test set: path of the items, folder with a table for each judge, and settings of the test set.

    Items and scores are joined on the column ``by``; rows with equal values are joined in order.
    """

    items: str
    judges: str
    by: str
    columns: Mapping[str, str]
    settings: Mapping[str, Any]


RELEASED = {
    "care_asset": ReleasedSet(
        "data/score/asset.csv",
        "judge_outputs/fully_gaussian/asset",
        "row_index",
        {
            "prompt": "original",
            "response": "simplification",
            "aspect": "aspect",
            "split_unit": "example_index",
            "gold": "human_rating",
        },
        {"scale": [0, 100]},
    ),
    "care_civilcomments": ReleasedSet(
        "data/binary/civilcomments.csv",
        "judge_outputs/gaussian_mixture/civilcomments",
        "text",
        {"response": "text", "gold": "label"},
        {"scale": [0, 9], "cut": 4.5},
    ),
}
"""Published test sets that consist of plain files, keyed by name."""


def add_released(clone: Path, workspace: Path, testsets: Path) -> list[Path]:
    """Write the published test sets to a workspace; return the YAML files of the new test sets.

    Raises ``InputError`` if the ``clone`` of the authors' repository contains none of the published sets, or a judge's
    row matches no item.
    """
    found = [name for name, released in RELEASED.items() if (clone / released.items).exists()]
    if not found:
        first = next(iter(RELEASED.values())).items
        raise InputError(f"{clone}: the folder has no {first}; give a clone of {ADDRESS}")
    new = [name for name in found if not (testsets / f"{name}.yaml").exists()]
    for name in new:
        _write(RELEASED[name], clone, workspace / "released" / name)
        (testsets / f"{name}.yaml").write_text(_sheet(name), encoding="utf-8")
    return [testsets / f"{name}.yaml" for name in new]


def _write(released: ReleasedSet, clone: Path, folder: Path) -> None:
    """Write items.csv and scores.csv; the id of an item is its row number in the published table."""
    rows = _rows(clone / released.items)
    item_of = {key: number for number, key in enumerate(_keys(rows, released.by))}
    scores = list[tuple[int, str, float | None]]()
    for path in sorted((clone / released.judges).glob("*.csv")):
        judged = _rows(path)
        for key, row in zip(_keys(judged, released.by), judged, strict=True):
            if key not in item_of:
                raise InputError(
                    f"{path}: {released.by} {key[0][:60]!r} is not in {released.items}; clone the repository again"
                )
            scores.append((item_of[key], path.stem, _score(row["parsed_output"], *released.settings["scale"])))
    kept = [*released.columns.values()]
    items = ([number, *(row[name] for name in kept)] for number, row in enumerate(rows))
    write_bytes(folder / "items.csv", csv_of(["item_id", *kept], items))
    write_bytes(folder / "scores.csv", csv_of(["item_id", "judge", "score"], scores))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _keys(rows: list[dict[str, str]], by: str) -> Iterator[tuple[str, int]]:
    """Yield a join key for each row: the value in the column ``by``, and the number of earlier rows with this value."""
    seen = Counter[str]()
    for row in rows:
        yield row[by], seen[row[by]]
        seen[row[by]] += 1


def _score(text: str, low: float, high: float) -> float | None:
    """Return the first number in a text, as the authors' code does; None if that number is missing or off the scale."""
    number = _NUMBER.search(text)
    value = float(number.group()) if number else None
    return value if value is not None and low <= value <= high else None


def _sheet(name: str) -> str:
    scores = {"path": f"released/{name}/scores.csv", "family_pattern": "^(?:Meta-)?([A-Za-z]+)"}
    items = {"items": f"released/{name}/items.csv", "columns": dict(RELEASED[name].columns)}
    document = {
        "description": f"Published by the paper's authors ({ADDRESS}, commit {COMMIT}).",
        **RELEASED[name].settings,
        "source": {"kind": "files", **items, "scores": scores},
    }
    return yaml.safe_dump(document, sort_keys=False, width=120)
