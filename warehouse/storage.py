"""Files of the data folder: written whole or not at all, sealed with checksums, and set aside where they are damaged.

A file is written under a temporary name and then renamed, so that a reader sees all of it or none. Parquet files carry
a checksum of each page and one of their metadata, JSON documents one of their content, arrays those of their zip
archive. A file that cannot be read is *set aside*: moved to the folder ``damaged`` beside it, under its name and the
time, with a note (``.why``) that says what is wrong. What was in it is then missing, and is made again where that costs
nothing. The notes stay until a person has seen them (``care doctor --repair``).

Belongs here: writing and reading one file of any kind that CARE keeps. Does not: which files there are (``parts``,
``fits``, ``artifacts``), users' own files (``sources``), what is made again (``assets.state``).
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import zipfile
import zlib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from care_ops.errors import WarehouseError

DAMAGED = "damaged"
"""Folder of what was set aside, beside the files that are whole."""

_NOTE = ".why"
_TEMPORARY = ".tmp"
_SEAL = "sha256"
_ROWS_PER_GROUP = 131_072
T = TypeVar("T")


class DamagedError(WarehouseError):
    """A file is there, and its content is not what was written."""


class replacing:
    """A temporary path beside ``path`` that takes its place when the block ends well.

    A folder that stands in its place is set aside.
    """

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
            set_aside(self._path, _IS_A_FOLDER)
        self._temporary.replace(self._path)


def leftovers(folder: Path, *, deep: bool = True) -> list[tuple[Path, int]]:
    """Temporary files in a folder, and below it where ``deep``, each with the number of the process that writes it."""
    pattern = f".*{_TEMPORARY}"
    found = folder.rglob(pattern) if deep else folder.glob(pattern)
    numbers = [(path, path.name.removesuffix(_TEMPORARY).rpartition(".")[2]) for path in found]
    return [(path, int(number)) for path, number in numbers if number.isdigit()]


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that it appears whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a Parquet file with checksums of its pages and of its metadata."""
    metadata = {key: text for key, text in (table.schema.metadata or {}).items() if key != _SEAL.encode()}
    metadata[_SEAL.encode()] = _seal_of_table(table.schema, table.num_rows, metadata).encode()
    with replacing(path) as temporary:
        pq.write_table(
            table.replace_schema_metadata(metadata),
            temporary,
            row_group_size=_ROWS_PER_GROUP,
            write_page_checksum=True,
        )


def read_table(path: Path, schema: pa.Schema | None = None, required: Collection[str] = ()) -> pa.Table:
    """Read what ``write_table`` wrote.

    Parameters
    ----------
    schema : pyarrow.Schema, optional
        Only these columns, as these types; one that the file lacks is null.
    required : collection of str
        Columns that the file must have.

    Raises
    ------
    FileNotFoundError
        It is not there.
    DamagedError
        It cannot be read, or is not what was written.
    WarehouseError
        The system does not let it be read.
    """
    with _as_damage(path, (pa.ArrowException, OSError, ValueError, KeyError)):
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            columns, metadata = file.schema_arrow.names, _metadata_of(file)
            lacking = sorted(set(required) - set(columns))
            if lacking:
                raise ValueError(f"it has no column {', '.join(lacking)}")
            table = file.read(columns=None if schema is None else [name for name in schema.names if name in columns])
            if table.num_rows != file.metadata.num_rows:
                raise ValueError(f"it should have {file.metadata.num_rows} rows, {table.num_rows} can be read")
        table.validate(full=True)
        return table.replace_schema_metadata(metadata or None) if schema is None else _with_schema(table, schema)


def _metadata_of(file: pq.ParquetFile) -> dict[bytes, bytes]:
    """Metadata of a table; ``ValueError`` where what is not in its pages is not what was written."""
    metadata = dict(file.metadata.metadata or {})
    whole = metadata.pop(b"ARROW:schema", None) is not None
    if whole and _SEAL.encode() in metadata:
        seal = metadata.pop(_SEAL.encode()).decode(errors="replace")
        whole = seal == _seal_of_table(file.schema_arrow, file.metadata.num_rows, metadata)
    elif whole:  # from before 2026-11, when there were these keys and no seal
        whole = metadata.keys() <= {b"fit", b"families"}
    if not whole:
        raise ValueError("its columns, its metadata or the number of its rows are not what was written")
    return metadata


def _with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    absent = pa.nulls(table.num_rows)
    columns = [table.column(f.name) if f.name in table.column_names else absent for f in schema]
    return pa.table([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document with the hash of its content."""
    write_bytes(path, json.dumps(sealed(document), indent=1).encode())


def read_document(path: Path) -> dict[str, Any]:
    """Read what ``write_document`` wrote; raises as ``read_table`` does."""
    with _as_damage(path, (OSError, ValueError)):
        return unsealed(path.read_text(encoding="utf-8"))


def write_lines(path: Path, documents: Sequence[Mapping[str, Any]]) -> None:
    """Write JSON documents, one a line, each with the hash of its content."""
    write_bytes(path, "".join(json.dumps(sealed(document)) + "\n" for document in documents).encode())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read what ``write_lines`` wrote, at least one line; raises as ``read_table`` does."""
    with _as_damage(path, (OSError, ValueError)):
        documents = [unsealed(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if not documents:
            raise ValueError("it is empty")
        return documents


def readable_lines(path: Path) -> list[dict[str, Any]]:
    """The documents of a damaged file of lines that are still what was written."""
    documents: list[dict[str, Any]] = []
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            documents.append(unsealed(line.decode()))
        except ValueError:  # this line is what is damaged
            continue
    return documents


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as ``.npz``, with the hash of all of them as one more."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays, **{_SEAL: np.array(_seal_of_arrays(arrays))})  # type: ignore[arg-type]
    write_bytes(path, buffer.getvalue())


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read what ``write_arrays`` wrote; raises as ``read_table`` does."""
    # The last six are what the readers of zip archives and of arrays raise on headers that make no sense.
    unreadable = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, KeyError, RuntimeError, SyntaxError)
    with _as_damage(path, unreadable):
        content = io.BytesIO(path.read_bytes())
        with zipfile.ZipFile(content) as archive:
            broken = archive.testzip()
        content.seek(0)
        if broken is not None:
            raise ValueError(f"the checksum of {broken} does not match")
        with np.load(content, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        if str(arrays.pop(_SEAL, "")) != _seal_of_arrays(arrays):
            raise ValueError("its arrays are not what was written")
        return arrays


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON document with the hash of its content, by which ``unsealed`` knows a changed byte."""
    return {**document, _SEAL: _digest(json.loads(json.dumps(document)))}


def unsealed(text: str) -> dict[str, Any]:
    """A JSON document without its hash; those from before 2026-11 have none.

    Raises
    ------
    ValueError
        It is no JSON object, or document and hash do not belong together.
    """
    document: Any = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    content: dict[str, Any] = document
    seal = content.pop(_SEAL, None)
    if seal is None and content:  # from before 2026-11, or the seal has another name now
        last = next(reversed(content))
        seal = content[last] if content[last] == _digest({k: v for k, v in content.items() if k != last}) else None
    if seal is not None and seal != _digest(content):
        raise ValueError("its content is not what was written")
    return content


_IS_A_FOLDER = "there is a folder in place of the file"


@contextmanager
def _as_damage(path: Path, unreadable: tuple[type[Exception], ...]) -> Generator[None]:
    """Tell a damaged file from one that is not there and from one that the system does not let be read."""
    try:
        yield
    except FileNotFoundError:
        raise
    except unreadable as error:
        if path.is_dir():
            raise DamagedError(f"{path}: {_IS_A_FOLDER}") from None
        if isinstance(error, OSError) and error.errno is not None:
            raise WarehouseError(
                f"{path}: the system does not let it be read ({error.strerror}); mend that and run again"
            ) from None
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise DamagedError(f"{path}: it is damaged ({reason})") from None


def set_aside(path: Path, why: str) -> Path:
    """Move a file that cannot be read to the folder ``damaged`` beside it, and say so in a note and in the log.

    Raises
    ------
    WarehouseError
        It cannot be moved.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    target = path.parent / DAMAGED / f"{path.name}.{stamp}"
    try:
        target.parent.mkdir(exist_ok=True)
        path.rename(target)
        target.with_name(target.name + _NOTE).write_text(f"{why}\n", encoding="utf-8")
    except FileNotFoundError:  # another process was faster
        return target
    except OSError as error:
        raise WarehouseError(
            f"{why}, and it cannot be moved to {target} ({error.strerror}); move it away and run again"
        ) from None
    logging.getLogger(__name__).warning("%s. It was set aside as %s", why, target)
    return target


def read_sound(path: Path, read: Callable[[Path], T], then: str) -> T:
    """Read a file by its reader; one that is damaged is set aside.

    Parameters
    ----------
    read : callable
        Raises as ``read_table`` does, and so does this.
    then : str
        What becomes of a file that was set aside, for the message.
    """
    try:
        return read(path)
    except DamagedError as error:
        aside = set_aside(path, str(error))
        raise DamagedError(f"{error}. It was set aside as {aside}{then}") from None


def find_sound(path: Path, read: Callable[[Path], T]) -> T | None:
    """The same, or None where the file is not there or was damaged."""
    try:
        return read_sound(path, read, "")
    except (FileNotFoundError, DamagedError):
        return None


def notes_in(folder: Path) -> list[Path]:
    """Notes on what was set aside from a folder, oldest first."""
    return sorted((folder / DAMAGED).glob(f"*{_NOTE}"), key=lambda note: note.name.removesuffix(_NOTE)[-21:])


def notes_below(folder: Path) -> Iterator[Path]:
    """Notes on what was set aside anywhere below a folder."""
    for place in sorted(folder.rglob(DAMAGED)):
        yield from notes_in(place.parent)


def noted(note: Path) -> Path:
    """The file that a note is about, where it lies now."""
    return note.with_name(note.name.removesuffix(_NOTE))


def _seal_of_table(schema: pa.Schema, rows: int, metadata: Mapping[bytes, bytes]) -> str:
    pairs = sorted((key.hex(), text.hex()) for key, text in metadata.items())
    return _digest([[(field.name, str(field.type)) for field in schema], rows, pairs])


def _seal_of_arrays(arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()[:32]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]
