"""Parquet parts: the record of items and scores.

A part is written under a temporary name and then replaced, so that a reader sees all of it or none. The
name of a score part is the hash of what it holds, so that a batch written twice is one file.

A file that cannot be read is set aside: moved to the folder ``damaged`` beside the others, under its own path and the
time, with a note (``.why``) that says what was wrong. What was in it is then missing, and is made again where that
costs nothing. The notes stay until a person has seen them (`care doctor --repair`).

Belongs here: paths, schema, atomic writes, what is done already, what cannot be read. Does not: the database over the
parts, what is to be done about a file that was set aside (``assets.state.repair``).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import struct
import time
import zipfile
import zlib
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
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
_REQUIRED = ("item_id", "item_key", "judge_key", "status")
_TEMPORARY = ".tmp"
_SEAL = "sha256"

DAMAGED = "damaged"
"""Folder of what was set aside, below the folder that it came from."""

WHY = ".why"
"""Ending of the note beside what was set aside."""


class DamagedError(WarehouseError):
    """A file is there and its content is not what was written."""


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
        DamagedError
            They cannot be read; the part was set aside and is not there any more.
        """
        path = self.items_file(testset)
        if not path.exists():
            raise WarehouseError(f"{path}: test set {testset!r} has no items yet; `care run` reads them")
        try:
            return items_of(path)
        except DamagedError as error:
            aside = set_aside(path, self.root, str(error))
            raise DamagedError(
                f"{error}. It was set aside as {aside}; `care run` reads the items again from the source of {testset!r}"
            ) from None

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
        """All rows ever written for a judge on a test set, whatever their keys; what cannot be read is set aside."""
        files = sorted(self.scores_folder(judge, testset).glob("*.parquet"))
        tables = [self._scores_or_none(file, columns) for file in files]
        found = [table for table in tables if table is not None]
        return pa.concat_tables(found) if found else _schema_of(columns).empty_table()

    def _scores_or_none(self, path: Path, columns: Sequence[str] | None) -> pa.Table | None:
        try:
            return scores_of(path, columns)
        except FileNotFoundError:  # another process has set it aside, or `care gc` has deleted it
            return None
        except DamagedError as error:
            set_aside(path, self.root, str(error))
            return None

    def key_of(self, path: Path) -> str | None:
        """The judge key that a score part was written under; None where it cannot be read, and was set aside."""
        table = self._scores_or_none(path, ("judge_key",))
        return table.column(0)[0].as_py() if table is not None and table.num_rows else None

    def must_not_pay_twice(self, judge: str, testset: str) -> None:
        """To be called before a judge that costs money is asked what has no row.

        Raises
        ------
        DamagedError
            A part of its scores was set aside, and nobody has said yet that its items are to be asked again.
        """
        notes = notes_below(self._aside(judge, testset))
        if notes:
            lost = notes[-1].with_name(notes[-1].name.removesuffix(WHY))
            raise DamagedError(
                f"{len(notes)} part(s) of what {judge!r} said of {testset!r} could not be read and were set aside, the "
                f"last as {lost}. This judge costs money, so nothing is asked again by itself. Put the parts back from "
                "a backup, or leave them; then `care doctor --repair`, and the next `care run` asks for what is missing"
            )

    def _aside(self, judge: str, testset: str) -> Path:
        return self.root / DAMAGED / self.scores_folder(judge, testset).relative_to(self.root)

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
        leftovers = list((self.root / "scores" / f"judge={quote(judge, safe='')}").rglob(f"*{_TEMPORARY}"))
        for path in leftovers:
            path.unlink(missing_ok=True)
        return len(leftovers)


def scores_of(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows of one score part; ``DamagedError`` where it cannot be read."""
    schema = _schema_of(columns)
    with reading(path):
        table = _read(path, schema.names).cast(schema)
        nameless = [name for name in _REQUIRED if name in schema.names and table.column(name).null_count]
        if nameless:
            raise ValueError(f"there are rows without {', '.join(nameless)}")
        return table


def items_of(path: Path) -> list[ItemRecord]:
    """Items of one part; ``DamagedError`` where it cannot be read."""
    with reading(path):
        rows = _read(path).to_pylist()
        return [ItemRecord(**{**row, "metadata": json.loads(row["metadata"])}) for row in rows]


def read_table(path: Path) -> pa.Table:
    """A Parquet file that ``write_table`` wrote; ``DamagedError`` where it cannot be read."""
    with reading(path):
        return _read(path)


def _schema_of(columns: Sequence[str] | None) -> pa.Schema:
    return pa.schema([SCORE_SCHEMA.field(c) for c in columns]) if columns else SCORE_SCHEMA


def _read(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        table = file.read(columns=columns)
    table.validate(full=True)  # files from before there were checksums: what is no text must not come out as one
    return table


_SIGNS = (
    pa.ArrowException,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What readers of Parquet, of arrays and of JSON raise on bytes that make no sense."""


@contextmanager
def reading(path: Path) -> Generator[None]:
    """Say in one sentence what is wrong with a file.

    Raises
    ------
    DamagedError
        The file is there, and its content cannot be read or is not whole.
    WarehouseError
        The system does not let it be read, which says nothing of its content.
    FileNotFoundError
        It is not there.
    """
    try:
        yield
    except (FileNotFoundError, WarehouseError):
        raise
    except MemoryError:
        raise WarehouseError(
            f"{path}: there is not enough memory to read it; if its size of {path.stat().st_size} bytes says there "
            "should be, it is damaged: move it away, and `care run` makes it again"
        ) from None
    except _SIGNS as error:
        if path.is_dir():
            raise DamagedError(f"{path}: there is a folder in place of the file") from None
        if isinstance(error, OSError) and error.errno is not None:
            raise WarehouseError(
                f"{path}: the system does not let it be read ({error.strerror}); mend that and run again"
            ) from None
        says = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise DamagedError(f"{path}: it is damaged and cannot be read ({says})") from None


def set_aside(path: Path, root: Path, why: str) -> Path:
    """Move a file that cannot be read to ``root``'s folder of such files, and say so in a note and in the log.

    Raises
    ------
    WarehouseError
        It cannot be moved.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    target = root / DAMAGED / path.parent.relative_to(root) / f"{path.name}.{stamp}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        target.with_name(target.name + WHY).write_text(f"{why}\n")
    except FileNotFoundError:
        return target  # another process was faster
    except OSError as error:
        raise WarehouseError(f"{why}, nor moved to {target} ({error.strerror}); move it away and run again") from None
    logging.getLogger(__name__).warning("%s. It was set aside as %s", why, target)
    return target


def notes_below(folder: Path) -> list[Path]:
    """Notes on what was set aside, oldest first."""
    return sorted(folder.rglob(f"*{WHY}"), key=lambda note: (note.name.removesuffix(WHY).rpartition(".")[2], note))


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON document with the hash of its content, by which ``unsealed`` knows a changed byte."""
    return {**value, _SEAL: _digest(json.loads(json.dumps(value)))}


def unsealed(text: str) -> dict[str, Any]:
    """A JSON document without its hash; ``ValueError`` where the two do not belong together. Old ones have none."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    found: dict[str, Any] = value  # type: ignore[assignment]
    seal = found.pop(_SEAL, None)
    if seal is not None and seal != _digest(found):
        raise ValueError("its content is not what was written")
    return found


def write_table(path: Path, table: pa.Table) -> None:
    """Write a Parquet file so that it appears whole or not at all, with checksums of its pages."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, row_group_size=131_072, write_page_checksum=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that it appears whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


class replacing:
    """A temporary path beside ``path`` that takes its place when the block ends well; a folder there is moved away."""

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
        if self._path.is_dir():
            move_folder_away(self._path)
        self._temporary.replace(self._path)


def move_folder_away(path: Path) -> None:
    """Give a folder that stands in place of a file another name, and say so in the log."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    target = path.with_name(f"{DAMAGED}-{stamp}-{path.name}.folder")
    path.rename(target)
    logging.getLogger(__name__).warning("%s: there was a folder in place of the file; it is %s now", path, target)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def content_hash(rows: Iterable[Sequence[Any]]) -> str:
    """Hash of rows, whatever their order."""
    digest = hashlib.sha256()
    for row in sorted(repr(tuple(row)) for row in rows):
        digest.update(row.encode("utf-8", "surrogatepass"))
        digest.update(b"\x1e")
    return digest.hexdigest()[:32]
