"""Importer of the judges' CSV files in ``judge_outputs/MODE/SET`` of the paper's released code.

Each judge has one file, with the columns ``text``, ``label``, ``raw_output`` and ``parsed_output``. Files are joined on
the text and not on the position, because their row orders differ.
"""

from collections import Counter
from pathlib import Path

from care_ops.errors import InputError
from warehouse.importers.collected import Collector, content_id, files_of
from warehouse.items import ItemRecord
from warehouse.sources.reading import listed
from warehouse.sources.tables import read_input_table

_COLUMNS = ("text", "label", "parsed_output")
_TOOL = "the released CARE code"


def read(path: Path, collector: Collector) -> None:
    """Read the scores of all judges on one test set from a folder with one CSV file per judge.

    Raises ``InputError`` if a file lacks a column, or the folder contains several test sets.
    """
    files = files_of(path, "*.csv", f"judges of {_TOOL}")
    folders = sorted({str(file.parent) for file in files})
    if len(folders) > 1:
        raise InputError(
            f"{path}: the folder has {len(folders)} test sets ({listed(folders, 4)}); give the folder of one test set"
        )
    first: list[str] = []
    for file in files:
        ids = _add(collector, file)
        first = first or ids
        moved = sum(one != other for one, other in zip(first, ids, strict=False)) + abs(len(first) - len(ids))
        if moved:
            collector.note(f"judge {file.stem!r}: {moved:,} rows are not in the first file's order; CARE joins by text")


def _add(collector: Collector, path: Path) -> list[str]:
    table = read_input_table(path).table
    if lacking := [name for name in _COLUMNS if name not in table.column_names]:
        raise InputError(f"{path}: no column {lacking[0]!r}; give a file with the columns {', '.join(_COLUMNS)}")
    used: Counter[str] = Counter()
    ids: list[str] = []
    for text, label, score in zip(*(table.column(name).to_pylist() for name in _COLUMNS), strict=True):
        used[str(text)] += 1
        item_id = content_id(str(text), str(used[str(text)]))
        ids.append(item_id)
        collector.add_item(ItemRecord(item_id, response=str(text)))
        collector.add_label(item_id, label)
        collector.add_score(item_id, path.stem, score)
    return ids
