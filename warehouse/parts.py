"""Parquet parts: the record of items and scores.

A part is written under a temporary name and then replaced, so that a reader sees all of it or none. The
name of a score part is the hash of what it holds, so that a batch written twice is one file.

Belongs here: paths, schema, atomic writes, what is done already. Does not: the database over the parts.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from care_ops.errors import WarehouseError
from warehouse.items import ItemRecord

SCORE_SCHEMA = pa.schema(
    [
        ("item_id", pa.string()),
        ("item_key", pa.string()),
        ("judge_key", pa.string()),
        ("score", pa.float64()),
        ("status", pa.string()),
        ("p_json", pa.string()),
        ("valid_mass", pa.float64()),
        ("order", pa.string()),
        ("raw", pa.string()),
        ("text_mismatch", pa.bool_()),
        ("latency_ms", pa.float64()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
        ("engine", pa.string()),
        ("created_at", pa.timestamp("us", tz="UTC")),
    ]
)
ITEM_SCHEMA = pa.schema(
    [
        ("item_id", pa.string()),
        ("prompt", pa.string()),
        ("response", pa.string()),
        ("response_2", pa.string()),
        ("reference", pa.string()),
        ("aspect", pa.string()),
        ("gold", pa.float64()),
        ("split_unit", pa.string()),
        ("metadata", pa.string()),
    ]
)
_TEMPORARY = ".tmp"


class PartStore:
    """Parts below one folder: ``items/testset=T`` and ``scores/judge=J/testset=T``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def items_file(self, testset: str) -> Path:
        """The part that holds a test set's items."""
        return self.root / "items" / f"testset={quote(testset, safe='')}" / "items.parquet"

    def scores_folder(self, judge: str, testset: str) -> Path:
        """Where the parts of one judge on one test set lie."""
        return self.root / "scores" / f"judge={quote(judge, safe='')}" / f"testset={quote(testset, safe='')}"

    def write_items(self, testset: str, records: Sequence[ItemRecord]) -> tuple[str, str]:
        """Replace a test set's items.

        Returns
        -------
        texts, gold : str
            Content hashes of what judges and fits may see, and of what only evaluation may.
        """
        rows = [
            {
                "item_id": r.item_id,
                "prompt": r.prompt,
                "response": r.response,
                "response_2": r.response_2,
                "reference": r.reference,
                "aspect": r.aspect,
                "gold": r.gold,
                "split_unit": r.split_unit,
                "metadata": json.dumps(r.metadata, sort_keys=True, default=str),
            }
            for r in records
        ]
        write_table(self.items_file(testset), pa.Table.from_pylist(rows, ITEM_SCHEMA))
        hidden = ("gold", "split_unit", "metadata")
        seen = [{k: v for k, v in row.items() if k not in hidden} for row in rows]
        return _digest(seen), _digest([[row["item_id"], *(row[k] for k in hidden)] for row in rows])

    def read_items(self, testset: str) -> list[ItemRecord]:
        """A test set's items in source order.

        Raises
        ------
        WarehouseError
            The items have not been written yet.
        """
        path = self.items_file(testset)
        if not path.exists():
            raise WarehouseError(f"{path}: test set {testset!r} has no items yet; materialise `items` first")
        rows = pq.ParquetFile(path).read().to_pylist()
        return [ItemRecord(**{**row, "metadata": json.loads(row["metadata"])}) for row in rows]

    def write_scores(
        self, judge: str, testset: str, judge_key: str, engine: str, rows: Sequence[Mapping[str, Any]]
    ) -> Path:
        """Write one batch of scores; the same batch again replaces itself.

        Parameters
        ----------
        rows : sequence of mappings
            Columns of ``SCORE_SCHEMA`` but judge_key, engine and created_at; what is not given is null.
        """
        names = sorted(f"{row['item_key']}\x1f{row['item_id']}" for row in rows)
        name = hashlib.sha256("\x1e".join([judge_key, *names]).encode()).hexdigest()[:32]
        now = int(time.time() * 1e6)
        full = [{**row, "judge_key": judge_key, "engine": engine, "created_at": now} for row in rows]
        path = self.scores_folder(judge, testset) / f"{name}.parquet"
        write_table(path, pa.Table.from_pylist(full, SCORE_SCHEMA))
        return path

    def read_scores(self, judge: str, testset: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows ever written for a judge on a test set, whatever their keys."""
        files = sorted(self.scores_folder(judge, testset).glob("*.parquet"))
        chosen = [SCORE_SCHEMA.field(c) for c in columns] if columns else list(SCORE_SCHEMA)
        schema = pa.schema(chosen)
        if not files:
            return schema.empty_table()
        names = [field.name for field in schema]
        return pa.concat_tables([pq.ParquetFile(file).read(columns=names).cast(schema) for file in files])

    def done(self, judge: str, testset: str, judge_key: str, again: Collection[str] = ()) -> set[str]:
        """Keys of the items that have a row under this judge key whose status is not in ``again``."""
        table = self.read_scores(judge, testset, ("item_key", "judge_key", "status"))
        rows = zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)
        return {item_key for item_key, key, status in rows if key == judge_key and status not in again}

    def judges(self) -> list[str]:
        """Judges that have parts, present in the workspace or not."""
        folders = sorted((self.root / "scores").glob("judge=*"))
        return [unquote(folder.name.removeprefix("judge=")) for folder in folders]

    def testsets(self) -> list[str]:
        """Test sets that have items."""
        folders = sorted((self.root / "items").glob("testset=*"))
        return [unquote(folder.name.removeprefix("testset=")) for folder in folders]

    def sweep(self, judge: str) -> int:
        """Remove temporary files that a killed run of this judge left behind; returns how many."""
        found = [path for path, _ in leftovers(self.root / "scores" / f"judge={quote(judge, safe='')}")]
        for path in found:
            path.unlink(missing_ok=True)
        return len(found)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a Parquet file so that it appears whole or not at all."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, row_group_size=131_072)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that it appears whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


class replacing:
    """A temporary path beside ``path`` that takes its place when the block ends well."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}{_TEMPORARY}")

    def __enter__(self) -> Path:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self._temporary

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self._temporary.unlink(missing_ok=True)
            return
        with self._temporary.open("rb") as file:
            os.fsync(file.fileno())
        self._temporary.replace(self._path)


def leftovers(folder: Path, *, deep: bool = True) -> list[tuple[Path, int]]:
    """Temporary files in a folder, and below it where ``deep``, each with the number of the process that writes it."""
    pattern = f".*{_TEMPORARY}"
    found = folder.rglob(pattern) if deep else folder.glob(pattern)
    numbers = [(path, path.name.removesuffix(_TEMPORARY).rpartition(".")[2]) for path in found]
    return [(path, int(number)) for path, number in numbers if number.isdigit()]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def content_hash(rows: Iterable[Sequence[Any]]) -> str:
    """Hash of rows, whatever their order."""
    digest = hashlib.sha256()
    for row in sorted(repr(tuple(row)) for row in rows):
        digest.update(row.encode("utf-8", "surrogatepass"))
        digest.update(b"\x1e")
    return digest.hexdigest()[:32]
