"""Intermediate results of a test set's fit, as files: panel matrix, moments, structure, aggregates.

A file that cannot be read is set aside (``warehouse.parts``), and is then as one that was never made.

Belongs here: paths and formats. Does not: what the numbers mean, or anything that a person queries (that
is in the database).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from care_ops.errors import WarehouseError
from care_ops.scores import ScoreMatrix
from warehouse.parts import DamagedError, read_table, reading, sealed, set_aside, unsealed, write_bytes, write_table

_ITEM_ID = "item_id"
_FIT = ("panel.json", "panel.parquet", "moments.npz", "structure.json", "fit.json")
_RESULTS = ("factors.json", "systems.json", "review.json")


class FitFolder:
    """Files of the current fit of one test set."""

    def __init__(self, root: Path, testset: str) -> None:
        self.path = root / f"testset={quote(testset, safe='')}"

    @property
    def panel_file(self) -> Path:
        """The panel's score matrix, wide: item_id and a column a judge."""
        return self.path / "panel.parquet"

    def write_panel(self, scores: ScoreMatrix) -> None:
        """Store the panel's matrix with its families."""
        columns: dict[str, Any] = {_ITEM_ID: pa.array(scores.item_ids, pa.string())}
        for j, judge in enumerate(scores.judges):
            columns[judge] = pa.array(scores.values[:, j], pa.float64(), from_pandas=True)
        table = pa.table(columns).replace_schema_metadata({"families": json.dumps(dict(scores.families))})
        write_table(self.panel_file, table)

    def copy_panel(self, name: str) -> None:
        """Keep the panel's matrix as it is under another name."""
        write_bytes(self.path / f"{name}.parquet", self.panel_file.read_bytes())

    def panels(self) -> list[Path]:
        """The panel's matrix and what ``copy_panel`` kept, so far as they exist."""
        return sorted(self.path.glob("*.parquet"))

    def read_panel(self, name: str = "panel") -> ScoreMatrix:
        """The panel's matrix, or one kept by ``copy_panel``; ``WarehouseError`` if `panel` has not run."""
        path = self.path / f"{name}.parquet"
        with self._open(path):
            return panel_of(path)

    def write_arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Store named arrays."""
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        write_bytes(self.path / f"{name}.npz", buffer.getvalue())

    def read_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Named arrays; ``WarehouseError`` if the stage has not run."""
        path = self.path / f"{name}.npz"
        with self._open(path):
            return arrays_of(path)

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Store a JSON document."""
        write_bytes(self.path / f"{name}.json", json.dumps(sealed(value), indent=1, sort_keys=True).encode())

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON document; ``WarehouseError`` if the stage has not run."""
        path = self.path / f"{name}.json"
        with self._open(path):
            return json_of(path)

    def find_json(self, name: str) -> dict[str, Any]:
        """A JSON document, empty where there is none or where it could not be read and was set aside."""
        try:
            return self.read_json(name) if (self.path / f"{name}.json").exists() else {}
        except DamagedError:
            return {}

    def has_fit(self) -> bool:
        """Whether all files of a fit are there, whatever they hold."""
        solved = self._there(_FIT) and self.find_json("structure").get("solution") is not None
        return self._there(("structure.npz",) if solved else _FIT)

    def has_results(self) -> bool:
        """Whether all files are there that a report is made of beside the fit's."""
        return self._there(_RESULTS)

    def _there(self, names: tuple[str, ...]) -> bool:
        return all((self.path / name).is_file() for name in names)

    @contextmanager
    def _open(self, path: Path) -> Generator[None]:
        try:
            with reading(path):
                yield
        except FileNotFoundError:
            raise WarehouseError(f"{path}: it is not there; `care run` makes it, or the asset upstream") from None
        except DamagedError as error:
            aside = set_aside(path, self.path.parent, str(error))
            raise DamagedError(f"{error}. It was set aside as {aside}; the next `care run` makes it again") from None


def panel_of(path: Path) -> ScoreMatrix:
    """The score matrix that ``write_panel`` wrote; ``DamagedError`` where it cannot be read."""
    table = read_table(path)
    with reading(path):
        judges = tuple(name for name in table.column_names if name != _ITEM_ID)
        values = [table.column(j).to_numpy(zero_copy_only=False) for j in judges]
        families = json.loads((table.schema.metadata or {}).get(b"families", b"{}"))
        ids = tuple(table.column(_ITEM_ID).to_pylist())
        return ScoreMatrix(np.column_stack(values), ids, judges, families)


def arrays_of(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays that ``write_arrays`` wrote; ``DamagedError`` where they cannot be read."""
    with reading(path):
        try:
            with np.load(path, allow_pickle=False) as file:
                return {key: file[key] for key in file.files}
        except MemoryError:
            with zipfile.ZipFile(path) as file:
                if file.testzip() is None:
                    raise
            raise ValueError("its checksums do not match") from None  # and so neither does the size it asks for


def json_of(path: Path) -> dict[str, Any]:
    """The document that ``write_json`` wrote; ``DamagedError`` where it cannot be read."""
    with reading(path):
        return unsealed(path.read_text(encoding="utf-8"))
