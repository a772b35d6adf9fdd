"""Functions that write and read files of the data folder, with checksums and quarantine of damaged files.

A file is written under a temporary name and then renamed, so a reader never sees an incomplete file. A Parquet file has
a checksum for each page and one for its metadata; a JSON document has one checksum. A file that cannot be read is
*quarantined*: CARE moves it to the subfolder ``damaged``, appends the time to its name, and writes the reason into a
note (``.why``). CARE then treats the file as missing, and rebuilds it if this costs no money. The notes remain until
a person runs ``care doctor --repair``.

If a folder is a copy of a remote store (``remote``), the store is its *record*: CARE writes and deletes files in the
record first.
"""

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from care_ops.errors import WarehouseError, sentence

DAMAGED = "damaged"
"""Name of the folder for quarantined files."""

_NOTE = ".why"
_TEMPORARY = ".tmp"
_SEAL = "sha256"
_ROWS_PER_GROUP = 131_072
_DICTIONARY_BYTES = 65_536
"""Maximum size in bytes of the dictionary of a Parquet column. A larger dictionary of many different scores takes four
times as long to write, and three times as long to read."""
_SETTLED_S = 2.0
"""Age in seconds above which a file's times show any further change; a file system's clock may be this coarse."""

_log = logging.getLogger(__name__)
T = TypeVar("T")

_UNREADABLE_TABLE = (pa.ArrowException, OSError, ValueError, KeyError)


class Record:
    """Hooks for uploads to and deletions from a remote store; without a store, the methods do nothing."""

    def replacing(self, path: Path, content: Path) -> AbstractContextManager[None]:
        """Upload the file ``content`` as ``path``, before the ``with`` block renames the local file."""
        return nullcontext()

    def removing(self, paths: Sequence[Path]) -> AbstractContextManager[None]:
        """Delete files in the remote store, before the ``with`` block deletes the local files."""
        return nullcontext()


records: dict[Path, Record] = {}
"""Remote-store hooks of each folder that is registered as a copy of a remote store in this process."""


def _record_of(path: Path) -> Record:
    return next((record for folder, record in records.items() if path.is_relative_to(folder)), Record())


class DamagedError(WarehouseError):
    """Error raised when the content of a file changed after CARE wrote the file."""


@contextmanager
def replacing(path: Path, record: Record | None = None) -> Generator[Path]:
    """Yield a temporary path for a ``with`` block that writes a file; then rename the file to ``path``.

    After an error, the old file remains. A folder at ``path`` is quarantined. If the folder of ``path`` is a copy of a
    remote store, the file is first uploaded to that store; ``record`` overrides the upload hooks.
    """
    temporary = temporary_of(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        if path.is_dir():
            quarantine(path, _IS_A_FOLDER)
        with (record or _record_of(path)).replacing(path, temporary):
            temporary.replace(path)
        _sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk, because a power failure could undo a rename."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete(path: Path) -> None:
    """Delete a file if it exists."""
    with _record_of(path).removing([path]):
        path.unlink(missing_ok=True)


def delete_folder(folder: Path) -> None:
    """Delete a folder and its content if it exists."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    with _record_of(folder).removing(files):
        shutil.rmtree(folder, ignore_errors=True)


def folder_of(root: Path, kind: str, name: str) -> Path:
    """Return the folder of one judge or test set below ``root``, such as ``testset=NAME``."""
    return root / f"{kind}={quote(name, safe='')}"


def names_in(root: Path, kind: str) -> list[str]:
    """Return the names of the judges or test sets that have a folder (``folder_of``) below ``root``."""
    return [unquote(folder.name.removeprefix(f"{kind}=")) for folder in sorted(root.glob(f"{kind}=*"))]


def temporary_of(path: Path) -> Path:
    """Return the temporary path to which this process writes a file before renaming the file."""
    return path.with_name(f".{path.name}.{os.getpid()}{_TEMPORARY}")


def leftovers(folder: Path, *, deep: bool = True) -> list[tuple[Path, int]]:
    """Return the temporary files in a folder, each with the id of the process that wrote it."""
    pattern = f".*{_TEMPORARY}"
    files = folder.rglob(pattern) if deep else folder.glob(pattern)
    numbers = [(path, path.name.removesuffix(_TEMPORARY).rpartition(".")[2]) for path in files]
    return [(path, int(number)) for path, number in numbers if number.isdigit()]


def file_state(path: Path) -> list[int] | None:
    """Return the size, modification time and change time of a file, or None if the file does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def is_settled(state: Sequence[int]) -> bool:
    """Return whether the last change to a file is so old that any new change must alter the file's timestamps."""
    return time.time_ns() - max(state[1:]) > _SETTLED_S * 1e9


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader sees either the old content or the complete new content."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_table(path: Path, table: pa.Table, rows_per_group: int = _ROWS_PER_GROUP) -> None:
    """Write a Parquet file with checksums for its pages and its metadata."""
    metadata = {key: text for key, text in (table.schema.metadata or {}).items() if key != _SEAL.encode()}
    metadata[_SEAL.encode()] = _seal_of_table(table.schema, table.num_rows, metadata).encode()
    with replacing(path) as temporary:
        pq.write_table(
            table.replace_schema_metadata(metadata),
            temporary,
            row_group_size=rows_per_group,
            write_page_checksum=True,
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
        )


def read_table(path: Path, schema: pa.Schema | None = None) -> pa.Table:
    """Read all columns of a Parquet file, or only the columns of ``schema``, and verify the checksums.

    Raises ``FileNotFoundError`` if the file does not exist, ``DamagedError`` if the file was changed or lacks a column,
    and ``WarehouseError`` if the operating system does not allow the process to read it.
    """
    with _as_damage(path, _UNREADABLE_TABLE):
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            metadata = _metadata_of(file)
            wanted = None if schema is None else _present(file, schema)
            # For a file of one row group, pyarrow's threads cost more than they save.
            table = file.read(columns=wanted, use_threads=file.metadata.num_row_groups > 1)
            if table.num_rows != file.metadata.num_rows:
                raise ValueError(f"only {table.num_rows} of {file.metadata.num_rows} rows can be read")
        table.validate(full=True)
        return table.replace_schema_metadata(metadata or None) if schema is None else _with_schema(table, schema)


def read_metadata(path: Path) -> tuple[int, dict[bytes, bytes]]:
    """Read the number of rows and the metadata of a Parquet file; raise the same errors as ``read_table``."""
    with _as_damage(path, _UNREADABLE_TABLE), pq.ParquetFile(path) as file:
        return file.metadata.num_rows, _metadata_of(file)


def scan_table(path: Path, schema: pa.Schema, since: int = 0) -> Generator[tuple[int, pa.Table]]:
    """Read a Parquet file with checksums, one row group at a time; raise the same errors as ``read_table``.

    Yields the number of each group's first row, and the group's rows. Groups that end before the row ``since`` are
    skipped without a check.
    """
    with _as_damage(path, _UNREADABLE_TABLE), pq.ParquetFile(path, page_checksum_verification=True) as file:
        _metadata_of(file)
        names, first = _present(file, schema), 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if first + rows > since:
                table = file.read_row_group(group, columns=names)
                table.validate(full=True)
                if table.num_rows != rows:
                    raise ValueError(f"only {table.num_rows} of {rows} rows of a row group can be read")
                yield first, _with_schema(table, schema)
            first += rows


def _present(file: pq.ParquetFile, schema: pa.Schema) -> list[str]:
    if missing := sorted(set(schema.names) - set(file.schema_arrow.names)):
        raise ValueError(f"the file has no column {', '.join(missing)}")
    return schema.names


def _metadata_of(file: pq.ParquetFile) -> dict[bytes, bytes]:
    """Return the metadata of a Parquet file; raise ``ValueError`` if the metadata's checksum does not match."""
    metadata = dict(file.metadata.metadata or {})
    has_schema = metadata.pop(b"ARROW:schema", None) is not None
    seal = metadata.pop(_SEAL.encode(), b"").decode(errors="replace")
    if not has_schema or seal != _seal_of_table(file.schema_arrow, file.metadata.num_rows, metadata):
        raise ValueError("the columns, metadata or number of rows changed after the file was written")
    return metadata


def _with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.select(schema.names).cast(schema)


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document with the hash of its content."""
    write_bytes(path, json.dumps(sealed(document), indent=1).encode())


def read_document(path: Path) -> dict[str, Any]:
    """Read a JSON document and check the hash of its content; raise the same errors as ``read_table``."""
    with _as_damage(path, (OSError, ValueError)):
        return unsealed(path.read_text(encoding="utf-8"))


def write_lines(path: Path, documents: Sequence[Mapping[str, Any]]) -> None:
    """Write JSON documents, one per line, each with the hash of its content."""
    write_bytes(path, "".join(json.dumps(sealed(document)) + "\n" for document in documents).encode())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines and check their hashes; raise the same errors as ``read_table``; an empty file is damaged."""
    with _as_damage(path, (OSError, ValueError)):
        documents = [unsealed(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if not documents:
            raise ValueError("the file is empty")
        return documents


def readable_lines(path: Path) -> list[dict[str, Any]]:
    """Return the undamaged documents in a file with damaged lines."""
    documents: list[dict[str, Any]] = []
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            documents.append(unsealed(line.decode()))
        except ValueError:
            _log.info("%s: CARE omits a damaged line.", path)
    return documents


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a JSON document with the hash of its content."""
    return {**document, _SEAL: digest(json.loads(json.dumps(document)))}


def unsealed(text: str) -> dict[str, Any]:
    """Parse a JSON document and remove its hash; raise ``ValueError`` if the hash does not match the content."""
    try:
        document: Any = json.loads(text)
    except RecursionError:
        raise ValueError("the document is nested too deeply to be read") from None
    if not isinstance(document, dict):
        raise ValueError("the document is not a JSON object")
    content: dict[str, Any] = document
    if content.pop(_SEAL, None) != digest(content):
        raise ValueError("the content changed after the file was written")
    return content


_IS_A_FOLDER = "there is a folder in place of the file"


@contextmanager
def _as_damage(path: Path, unreadable: tuple[type[Exception], ...]) -> Generator[None]:
    """Convert read errors to ``DamagedError``, or to ``WarehouseError`` for an error of the operating system."""
    try:
        yield
    except FileNotFoundError:
        raise
    except unreadable as error:
        if path.is_dir():
            raise DamagedError(f"{path}: {_IS_A_FOLDER}") from None
        if isinstance(error, OSError) and error.errno is not None:
            raise WarehouseError(f"{path}: cannot be read ({error.strerror}); correct this, then retry") from None
        reason = sentence((str(error).strip() or type(error).__name__).splitlines()[0].rstrip("."))
        raise DamagedError(f"{path}: the file is damaged ({reason})") from None


def quarantine(path: Path, why: str) -> Path:
    """Quarantine a file: move it to the folder ``damaged``, write a note with the reason, and return the new path."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    target = path.parent / DAMAGED / f"{path.name}.{stamp}"
    try:
        target.parent.mkdir(exist_ok=True)
        path.rename(target)
        note = target.with_name(target.name + _NOTE)
        note.write_text(f"{why}\n", encoding="utf-8")
    except FileNotFoundError:  # another process has already moved it
        return target
    except OSError as error:
        raise WarehouseError(
            f"{why}, but CARE cannot move it to {target} ({error.strerror}); move it away, then run `care run`"
        ) from None
    _log.warning("%s. CARE quarantined it as %s", why, target)
    return target


def read_sound(path: Path, read: Callable[[Path], T], then: str, missing: str = "") -> T:
    """Read a file with the function ``read``; quarantine the file if it is damaged.

    ``read`` must raise the same errors as ``read_table``. The error message about a damaged file ends with ``then``. If
    the file does not exist, ``missing`` is the error message; without ``missing``, ``FileNotFoundError`` is raised.
    """
    try:
        return read(path)
    except FileNotFoundError:
        if not missing:
            raise
        raise WarehouseError(f"{path}: {missing}") from None
    except DamagedError as error:
        target = quarantine(path, str(error))
        raise DamagedError(f"{error}. CARE quarantined it as {target}{then}") from None


def find_sound(path: Path, read: Callable[[Path], T]) -> T | None:
    """Read a file; return None if it does not exist or is damaged, and quarantine a damaged file."""
    try:
        return read_sound(path, read, "")
    except (FileNotFoundError, DamagedError):
        return None


def notes_in(folder: Path) -> list[Path]:
    """Return the paths of the notes on the quarantined files of a folder, oldest first."""
    return sorted((folder / DAMAGED).glob(f"*{_NOTE}"), key=lambda note: note.name.removesuffix(_NOTE)[-21:])


def notes_below(folder: Path) -> Iterator[Path]:
    """Yield the paths of the notes on the quarantined files of a folder and its subfolders."""
    for damaged in sorted(folder.rglob(DAMAGED)):
        yield from notes_in(damaged.parent)


def noted(note: Path) -> Path:
    """Return the path of the quarantined file that a note describes."""
    return note.with_name(note.name.removesuffix(_NOTE))


def _seal_of_table(schema: pa.Schema, rows: int, metadata: Mapping[bytes, bytes]) -> str:
    pairs = sorted((key.hex(), text.hex()) for key, text in metadata.items())
    return digest([[(field.name, str(field.type)) for field in schema], rows, pairs])


def digest(value: object) -> str:
    """Return a hash of JSON values (32 hexadecimal digits)."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]
