"""Files with the intermediate results of a test set's fit: score matrix, moments, structure, aggregates.

A damaged file is quarantined (see ``storage``) and then counts as missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from care_ops.scores import ScoreMatrix
from warehouse.documents import read_record, write_record
from warehouse.storage import (
    delete,
    file_state,
    find_sound,
    folder_of,
    read_metadata,
    read_sound,
    read_table,
    write_table,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_FEATURE = "\x1f"
"""Prefix of the names of feature columns; no judge's name can begin with this character."""

_ITEM_ID = "item_id"
_ARRAYS = pa.schema(
    [
        ("name", pa.string()),
        ("type", pa.string()),
        ("shape", pa.list_(pa.field("element", pa.int64()))),  # Parquet's name for the elements of a list
        ("values", pa.list_(pa.field("element", pa.float64()))),
    ]
)
_FIT_FILES = ("panel.json", "panel.parquet", "moments.arrays", "structure.json", "fit.json")
T = TypeVar("T")


@dataclass(frozen=True)
class PanelSummary:
    """Summary of a score matrix: number of items, number of scores per judge, and hash (``fingerprint``)."""

    items: int
    present: dict[str, int]
    fingerprint: str

    @classmethod
    def of(cls, scores: ScoreMatrix) -> PanelSummary:
        """Compute the summary of a score matrix."""
        counts = len(scores.values) - np.isnan(scores.values).sum(axis=0)
        return cls(len(scores.values), dict(zip(scores.judges, counts.tolist(), strict=True)), scores.fingerprint())


class FitFolder:
    """Folder with the files of a test set's current fit."""

    def __init__(self, root: Path, testset: str) -> None:
        self.path = folder_of(root, "testset", testset)

    @property
    def panel_file(self) -> Path:
        """Path of the Parquet file with the score matrix: a column of item ids, and one column per judge."""
        return self.path / "panel.parquet"

    def write_panel(self, scores: ScoreMatrix) -> None:
        """Store the score matrix of the fit, with the judges' families and the items' features."""
        columns: dict[str, Any] = {_ITEM_ID: pa.array(scores.item_ids, pa.string())}
        for j, judge in enumerate(scores.judges):
            columns[judge] = pa.array(scores.values[:, j], pa.float64(), from_pandas=True)
        for name, feature in scores.features.items():
            columns[_FEATURE + name] = pa.array(feature, pa.float64(), from_pandas=True)
        summary = PanelSummary.of(scores)
        metadata = {"families": dict(scores.families), "fingerprint": summary.fingerprint, "present": summary.present}
        table = pa.table(columns).replace_schema_metadata({key: json.dumps(value) for key, value in metadata.items()})
        write_table(self.panel_file, table)
        _panel_of.cache_clear()

    def read_panel(self) -> ScoreMatrix:
        """Read the score matrix; raise ``WarehouseError`` if the asset `panel` has not been built."""
        return self._read(self.panel_file, lambda path: _panel_of(path, tuple(file_state(path) or ())))

    def panel_summary(self) -> PanelSummary:
        """Read the summary of the score matrix; raise ``WarehouseError`` if the asset `panel` has not been built."""
        return self._read(self.panel_file, summary_of)

    def write_arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Store the arrays that a fit stage computed; ``name`` is the stage, and ``arrays`` maps names to arrays."""
        rows = [
            {"name": key, "type": array.dtype.str, "shape": array.shape, "values": array.ravel()}
            for key, array in arrays.items()
        ]
        write_table(self.path / f"{name}.arrays", pa.Table.from_pylist(rows, _ARRAYS))

    def read_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Read the arrays of the fit stage ``name``; raise ``WarehouseError`` if the stage has not run."""
        return self._read(self.path / f"{name}.arrays", arrays_of)

    def write(self, record: DataclassInstance, name: str = "") -> None:
        """Store a record as a JSON document called ``name``, or named after the record's class if ``name`` is empty."""
        write_record(self._document(type(record), name), record)

    def read(self, kind: type[T]) -> T:
        """Read the record of the class ``kind`` that a fit stage stored; raise ``WarehouseError`` if there is none."""
        return self._read(self._document(kind), partial(read_record, kind=kind))

    def find(self, kind: type[T], name: str = "") -> T | None:
        """Return the stored record of the class ``kind``, or None if the record is missing or damaged."""
        return find_sound(self._document(kind, name), partial(read_record, kind=kind))

    def remove(self, kind: type[object], name: str = "") -> None:
        """Delete the stored record of the class ``kind`` if it exists."""
        delete(self._document(kind, name))

    def _document(self, kind: type[object], name: str = "") -> Path:
        return self.path / f"{name or kind.__name__.removesuffix('Document').lower()}.json"

    def has_fit(self, *, solved: bool) -> bool:
        """Return whether all files of the fit exist; if ``solved``, ``structure.arrays`` must also exist."""
        names = (*_FIT_FILES, "structure.arrays") if solved else _FIT_FILES
        return all((self.path / name).is_file() for name in names)

    def _read(self, path: Path, read: Callable[[Path], T]) -> T:
        return read_sound(path, read, "; `care run` builds it again", "the file does not exist; `care run` builds it")


@lru_cache(maxsize=1)
def _panel_of(path: Path, _state: tuple[int, ...]) -> ScoreMatrix:
    """Read and cache a score matrix, because successive assets of a fit read the same file."""
    return panel_of(path)


def panel_of(path: Path) -> ScoreMatrix:
    """Read the score matrix of a fit from its file; raise the same errors as ``storage.read_table``."""
    table = read_table(path)
    numbers = {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names[1:]}
    judges = tuple(name for name in numbers if not name.startswith(_FEATURE))
    features = {name.removeprefix(_FEATURE): numbers[name] for name in numbers if name.startswith(_FEATURE)}
    families = json.loads((table.schema.metadata or {}).get(b"families", b"{}"))
    ids = tuple(table.column(_ITEM_ID).to_pylist())
    return ScoreMatrix(np.column_stack([numbers[j] for j in judges]), ids, judges, families, features)


def arrays_of(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a fit stage from their file; raise the same errors as ``storage.read_table``."""
    names, types, shapes, values = (column.combine_chunks() for column in read_table(path, _ARRAYS).columns)
    return {
        name: values[k].values.to_numpy(zero_copy_only=False).astype(kind).reshape(shape)
        for k, (name, kind, shape) in enumerate(zip(*map(pa.Array.to_pylist, (names, types, shapes)), strict=True))
    }


def summary_of(path: Path) -> PanelSummary:
    """Read a score matrix's summary from its file's metadata; raise the same errors as ``storage.read_table``."""
    rows, metadata = read_metadata(path)
    return PanelSummary(rows, json.loads(metadata[b"present"]), json.loads(metadata[b"fingerprint"]))
