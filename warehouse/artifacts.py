"""Intermediate results of a test set's fit, as files: panel matrix, moments, structure, aggregates.

Belongs here: paths and formats. Does not: what the numbers mean, or anything that a person queries (that
is in the database).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from care_ops.errors import WarehouseError
from care_ops.scores import ScoreMatrix
from warehouse.parts import write_bytes, write_table

_ITEM_ID = "item_id"


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
        self._must_exist(path)
        table = pq.ParquetFile(path).read()
        judges = tuple(name for name in table.column_names if name != _ITEM_ID)
        values = [table.column(j).to_numpy(zero_copy_only=False) for j in judges]
        families = json.loads((table.schema.metadata or {}).get(b"families", b"{}"))
        ids = tuple(table.column(_ITEM_ID).to_pylist())
        return ScoreMatrix(np.column_stack(values), ids, judges, families)

    def write_arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Store named arrays."""
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        write_bytes(self.path / f"{name}.npz", buffer.getvalue())

    def read_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Named arrays; ``WarehouseError`` if the stage has not run."""
        path = self.path / f"{name}.npz"
        self._must_exist(path)
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Store a JSON document."""
        write_bytes(self.path / f"{name}.json", json.dumps(value, indent=1, sort_keys=True).encode())

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON document; ``WarehouseError`` if the stage has not run."""
        path = self.path / f"{name}.json"
        self._must_exist(path)
        return json.loads(path.read_text())  # type: ignore[no-any-return]

    def _must_exist(self, path: Path) -> None:
        if not path.exists():
            raise WarehouseError(f"{path}: not there yet; materialise the asset upstream first")
