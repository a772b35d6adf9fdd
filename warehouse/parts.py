"""Parts: Parquet files that store items and scores permanently.

The name of a score part is a hash of the judge's key and the items; a batch that is written twice is stored once.
A damaged part is quarantined (see ``storage``). Its scores are then missing, and the judge scores the items again.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import pyarrow as pa

from care_ops.errors import counted
from warehouse.compute import pc
from warehouse.items import ITEM_TEXTS, ItemColumnsRead, ItemRecord, systems_in
from warehouse.storage import (
    DamagedError,
    delete,
    digest,
    find_sound,
    folder_of,
    leftovers,
    names_in,
    noted,
    notes_in,
    read_metadata,
    read_sound,
    read_table,
    write_bytes,
    write_table,
)

T = TypeVar("T")

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
        *((name, pa.string()) for name in ("item_id", *ITEM_TEXTS)),
        ("gold", pa.float64()),
        ("split_unit", pa.string()),
        ("metadata", pa.string()),
    ]
)

_WITHOUT_NULLS = ("item_id", "item_key", "judge_key", "status")
_MANY_PARTS = 16
"""Maximum number of a judge's parts on a test set; more parts are merged, because they are slow to read."""

_ROWS_A_PART = 1_048_576
_ATTEMPTS = "attempts.json"
"""Name of the file, next to a judge's parts, that counts the judge's failures on each item."""

_ITEMS_PER_GROUP = 8_192


class PartStore:
    """Store of a workspace's item and score files, below ``items/testset=T`` and ``scores/judge=J/testset=T``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def items_file(self, testset: str) -> Path:
        """Return the path of the Parquet file with a test set's items."""
        return folder_of(self.root / "items", "testset", testset) / "items.parquet"

    def scores_folder(self, judge: str, testset: str) -> Path:
        """Return the folder of the Parquet files with one judge's scores on one test set."""
        return folder_of(folder_of(self.root / "scores", "judge", judge), "testset", testset)

    def write_items(
        self, testset: str, records: Sequence[ItemRecord], source_version: str | None = None, code: str = ""
    ) -> tuple[str, str]:
        """Replace a test set's items, and store the versions of the source and of the code that read the source.

        Returns two content hashes: one of the columns that judges and fits may use, and one of the columns that only
        evaluation may use (gold, split unit and metadata).
        """
        texts = [name for name in ITEM_SCHEMA.names if name != "metadata"]
        rows = [
            {name: getattr(record, name) for name in texts}
            | {"metadata": json.dumps(record.metadata, sort_keys=True, default=str)}
            for record in records
        ]
        hidden = ("gold", "split_unit", "metadata")
        visible = [{k: v for k, v in row.items() if k not in hidden} for row in rows]
        gold = digest([[row["item_id"], *(row[k] for k in hidden)] for row in rows])
        versions = {"source_version": source_version, "gold_version": gold, "code": code}  # see items_version
        metadata = {key: json.dumps(version) for key, version in versions.items() if version is not None}
        table = pa.Table.from_pylist(rows, ITEM_SCHEMA.with_metadata(metadata))
        write_table(self.items_file(testset), table, _ITEMS_PER_GROUP)
        return digest(visible), gold

    def read_items_of(self, testset: str, item_ids: Sequence[str], names: Sequence[str]) -> pa.Table:
        """Return the columns ``names`` of the items ``item_ids``, in this order, with nulls for an unknown id.

        Raises the same errors as ``read_items``.
        """
        read = self.read_item_columns(testset, ("item_id", *names))
        rows = pc.index_in(pa.array(item_ids, pa.string()), read.column("item_id").combine_chunks())
        return read.select(names).take(rows)

    def read_items(self, testset: str, only: Collection[str] | None = None) -> list[ItemRecord]:
        """Return a test set's items in source order; ``only`` limits the result to the given ids.

        Raises ``WarehouseError`` if the items have not been written yet, and ``DamagedError`` if their file is
        damaged; the file is then quarantined.
        """
        table = self._read_items_file(testset, partial(read_table, schema=ITEM_SCHEMA))
        if only is not None:
            table = table.filter(pc.is_in(table.column("item_id"), pa.array(only, pa.string())))
        return [ItemRecord(**{**row, "metadata": json.loads(row["metadata"])}) for row in table.to_pylist()]

    def read_item_columns(self, testset: str, names: Sequence[str]) -> pa.Table:
        """Return a test set's item columns ``names`` in source order; raise the same errors as ``read_items``."""
        schema = pa.schema([ITEM_SCHEMA.field(name) for name in names])
        return self._read_items_file(testset, partial(read_table, schema=schema))

    def read_gold(self, testset: str) -> ItemColumnsRead:
        """Return a test set's ids, responses, gold labels and split units; raise the same errors as ``read_items``."""
        read = self.read_item_columns(testset, ("item_id", "response", "gold", "split_unit"))
        ids, responses, units = (read[name].to_pylist() for name in ("item_id", "response", "split_unit"))
        return ItemColumnsRead(ids, responses, read["gold"].to_numpy(), units)

    def read_systems(self, testset: str, names: Sequence[str]) -> list[tuple[str, ...] | None]:
        """Read each item's systems from the metadata columns ``names``; raise ``InputError`` if a column is empty."""
        metadata = map(json.loads, self.read_item_columns(testset, ("metadata",))["metadata"].to_pylist())
        return systems_in([*metadata], names, f"test set {testset!r}, systems")

    def items_version(self, testset: str, of: Literal["source_version", "gold_version", "code"]) -> str | None:
        """Return a version from the metadata of a test set's item file; None if the version was not stored.

        ``of`` selects the version of the source, of the evaluation-only columns (gold, split unit and metadata), or of
        the code that read the source. Raises the same errors as ``read_items``.
        """
        _, metadata = self._read_items_file(testset, read_metadata)
        kept = metadata.get(of.encode())
        return None if kept is None else json.loads(kept)

    def _read_items_file(self, testset: str, read: Callable[[Path], T]) -> T:
        then = "; run `care run` to read the items from their source again"
        missing = f"test set {testset!r} has no items yet; run `care run` to read them"
        return read_sound(self.items_file(testset), read, then, missing)

    def write_scores(
        self, judge: str, testset: str, judge_key: str, engine: str, rows: Sequence[Mapping[str, Any]]
    ) -> Path:
        """Write one batch of scores to a Parquet file named by a hash of judge key and items; return the path.

        Each row maps column names to values. The columns are those of ``SCORE_SCHEMA`` without judge_key, engine and
        created_at. ``item_id`` and ``item_key`` are required; any other missing column becomes null.
        """
        names = {name for row in rows for name in row}
        columns = {name: [row.get(name) for row in rows] for name in names | {"item_id", "item_key"}}
        return self.write_score_columns(judge, testset, judge_key, engine, columns)

    def write_score_columns(
        self, judge: str, testset: str, judge_key: str, engine: str, columns: Mapping[str, Sequence[Any] | pa.Array]
    ) -> Path:
        """Write one batch of scores, given as columns, to a Parquet file; store NaN as null; return the file's path.

        The columns ``item_id`` and ``item_key`` are required.
        """
        ids, keys = columns["item_id"], columns["item_key"]
        item_names = sorted(f"{key}\x1f{item_id}" for key, item_id in zip(keys, ids, strict=True))
        name = hashlib.sha256("\x1e".join([judge_key, *item_names]).encode()).hexdigest()[:32]
        same_in_all = {"judge_key": judge_key, "engine": engine, "created_at": int(time.time() * 1e6)}

        def column(field: pa.Field) -> pa.Array:
            if field.name in columns:
                return pa.array(columns[field.name], field.type, from_pandas=True)
            return pa.repeat(pa.scalar(same_in_all.get(field.name), field.type), len(ids))

        path = self.scores_folder(judge, testset) / f"{name}.parquet"
        write_table(path, pa.table([column(field) for field in SCORE_SCHEMA], schema=SCORE_SCHEMA))
        return path

    def read_scores(
        self,
        judge: str,
        testset: str,
        columns: Sequence[str] = SCORE_SCHEMA.names,
        *,
        key: str | None = None,
        aside: bool = True,
    ) -> pa.Table:
        """Return the stored score rows of a judge on a test set, for all keys of the judge or only for ``key``.

        Damaged files are left out; they are also quarantined, unless ``aside`` is false.
        """
        read = columns if key is None else dict.fromkeys([*columns, "judge_key"])
        schema = pa.schema([SCORE_SCHEMA.field(name) for name in read])
        files = sorted(self.scores_folder(judge, testset).glob("*.parquet"))
        tables = [table for file in files if (table := self._read_part(file, schema, aside, key)) is not None]
        rows = pa.concat_tables(tables) if tables else schema.empty_table()
        return (rows if key is None else rows.filter(pc.equal(rows["judge_key"], key))).select(columns)

    def _read_part(self, path: Path, schema: pa.Schema, aside: bool = True, key: str | None = None) -> pa.Table | None:
        """Return the rows of one score file, or None if the file is damaged or no longer exists.

        If ``key`` is a judge key, the result is also None if the file has no row with this key.
        """
        if key is not None:
            keys = self._read_part(path, pa.schema([SCORE_SCHEMA.field("judge_key")]), aside)
            if keys is None or not pc.any(pc.equal(keys.column(0), key)).as_py():
                return None
        if aside:
            return find_sound(path, partial(read_scores_part, schema=schema))
        try:
            return read_scores_part(path, schema)
        except (FileNotFoundError, DamagedError):
            return None

    def key_of(self, path: Path) -> str | None:
        """Return the judge key of a score file, or None if the file is empty or damaged."""
        table = self._read_part(path, pa.schema([SCORE_SCHEMA.field("judge_key")]))
        return table.column(0)[0].as_py() if table is not None and table.num_rows else None

    def must_not_pay_twice(self, judge: str, testset: str) -> None:
        """Raise ``DamagedError`` if a judge could be paid twice for the same item.

        This can happen while score files are quarantined, until a person runs ``care doctor --repair``.
        """
        if notes := notes_in(self.scores_folder(judge, testset)):
            raise DamagedError(
                f"CARE did not run judge {judge!r} on {testset!r}, because you would pay again for lost scores: "
                f"{counted(len(notes), 'damaged score file')} in quarantine (latest: {noted(notes[-1])}). "
                "Restore the files from a backup if you have one. Then run `care doctor --repair` and `care run`; CARE "
                "then requests only the scores that are still missing"
            )

    def done(self, judge: str, testset: str, judge_key: str, again: Collection[str] = ()) -> set[str]:
        """Return the keys of the items with a score row for ``judge_key``; ignore rows with a status in ``again``."""
        files = sorted(self.scores_folder(judge, testset).glob("*.parquet"))
        # Checksums cover pages, so a few parts are read with all columns: a part with damaged scores must not count.
        names = SCORE_SCHEMA.names if len(files) <= _MANY_PARTS else _WITHOUT_NULLS
        schema = pa.schema([SCORE_SCHEMA.field(name) for name in names])
        tables = map(partial(self._read_part, schema=schema, key=judge_key), files)
        item_keys: set[str] = set()
        for table in tables:
            if table is not None:
                to_repeat = pc.is_in(table.column("status"), pa.array([str(status) for status in again], pa.string()))
                counts = pc.and_not(pc.equal(table.column("judge_key"), judge_key), to_repeat)
                item_keys.update(table.column("item_key").filter(counts).to_pylist())
        return item_keys

    def has_many(self, judge: str, testset: str) -> int:
        """Return the number of a judge's score files on a test set, or 0 if there are too few files to merge."""
        count = sum(1 for _ in self.scores_folder(judge, testset).glob("*.parquet"))
        return count if count > _MANY_PARTS else 0

    def compact(self, judge: str, testset: str) -> int:
        """Merge a judge's score files on a test set into a few large files; return the decrease in the number of files.

        The caller must be the only writer. The large files are written first. If the process is killed before the
        small files are deleted, rows exist twice. Readers accept this, and the next call writes the same large files.
        """
        small = sorted(self.scores_folder(judge, testset).glob("*.parquet"))
        tables = [table for file in small if (table := self._read_part(file, SCORE_SCHEMA)) is not None]
        if not tables:
            return 0
        newest = max(file.stat().st_mtime_ns for file in small if file.exists())
        rows = pa.concat_tables(tables).group_by(SCORE_SCHEMA.names).aggregate([]).select(SCORE_SCHEMA.names)
        order = ("judge_key", "created_at", "item_key", "item_id", "status")
        rows = rows.sort_by([(name, "ascending") for name in order])
        large: list[Path] = []
        for key in rows.column("judge_key").unique().to_pylist():
            of_key = rows.filter(pc.equal(rows.column("judge_key"), key))
            for start in range(0, of_key.num_rows, _ROWS_A_PART):
                large.append(self._write_large(judge, testset, of_key.slice(start, _ROWS_A_PART).cast(SCORE_SCHEMA)))
        for file in large:
            os.utime(file, ns=(newest, newest))  # retention uses the time at which scores were written
        for file in set(small) - set(large):
            delete(file)
        return len(small) - len(large)

    def _write_large(self, judge: str, testset: str, rows: pa.Table) -> Path:
        """Write the rows of one judge key to a file whose name is a hash of the rows."""
        named = rows.select(["judge_key", "item_key", "item_id", "status", "created_at"]).to_pylist()
        name = hashlib.sha256(json.dumps(named, default=str).encode()).hexdigest()[:32]
        path = self.scores_folder(judge, testset) / f"{name}.parquet"
        write_table(path, rows)
        return path

    def judges(self) -> list[str]:
        """Return the names of all judges with stored scores, including judges removed from the workspace."""
        return names_in(self.root / "scores", "judge")

    def testsets(self) -> list[str]:
        """Return the names of the test sets that have items."""
        return names_in(self.root / "items", "testset")

    def sweep(self, judge: str) -> None:
        """Delete the temporary files left by a judge's killed runs."""
        for path, _ in leftovers(folder_of(self.root / "scores", "judge", judge)):
            path.unlink(missing_ok=True)


def read_scores_part(path: Path, schema: pa.Schema = SCORE_SCHEMA) -> pa.Table:
    """Return the rows of one score file; raise the same errors as ``storage.read_table``."""
    table = read_table(path, schema)
    nameless = [name for name in schema.names if name in _WITHOUT_NULLS and table.column(name).null_count]
    if nameless:
        raise DamagedError(f"{path}: the file is damaged (there are rows without {', '.join(nameless)})")
    return table


class Attempts:
    """Counts of a judge's failed attempts on each item of a test set, stored in a file next to the score files."""

    def __init__(self, folder: Path, judge_key: str) -> None:
        self._path, self._key = folder / _ATTEMPTS, judge_key
        self._counts: dict[str, int] = {}
        try:
            document = json.loads(self._path.read_text()) if self._path.exists() else {}
            if document.get("judge_key") == judge_key:
                self._counts = {str(item): int(count) for item, count in document["failed"].items()}
        except (ValueError, OSError, LookupError, TypeError, AttributeError):
            pass  # a lost count costs a few repeated questions, but no score

    def spent(self, attempts: int) -> set[str]:
        """Return the keys of the items on which the judge has failed at least ``attempts`` times."""
        return {item for item, count in self._counts.items() if count >= attempts}

    def record(self, failed: Collection[str], answered: Collection[str]) -> None:
        """Add one to the count of each failed item, and reset the count of each answered item."""
        if not failed and not self._counts.keys() & set(answered):
            return
        for item in failed:
            self._counts[item] = self._counts.get(item, 0) + 1
        for item in answered:
            self._counts.pop(item, None)
        write_bytes(self._path, json.dumps({"judge_key": self._key, "failed": self._counts}, sort_keys=True).encode())
