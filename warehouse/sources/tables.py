"""Reader that converts a file, a query result or a data frame to one Arrow table.

The extension of the file name determines the parser; the first bytes of the file must agree with the extension.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from care_ops.errors import InputError, guard
from warehouse.sources.bounds import refuse_bomb, refuse_size, within_memory
from warehouse.sources.delimited import read_delimited
from warehouse.sources.input_table import COMPRESSED, InputTable, Plan, WantedColumns, unique_names
from warehouse.sources.query import read_query
from warehouse.sources.records import read_json, read_workbook
from warehouse.sources.values import is_text
from warehouse.testsets import AS_FOUND, ReadingOptions

_DELIMITED = (".csv", ".tsv", ".tab", ".txt")
_JSON = (".json", ".jsonl", ".ndjson")
_PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_FIRST_BYTES = {
    b"PAR1": ("a Parquet file", _PARQUET),
    b"PK\x03\x04": ("an Excel workbook or another zip archive", EXCEL),
    b"\x1f\x8b": ("compressed with gzip", (".gz",)),
}
_REMEDY = "save the file in UTF-8, name its encoding with --encoding, or save the table as Parquet"
_MIN_CELL_BYTES = 4
_OF_FRAMES = "convert each column to one type, numbers (pandas.to_numeric) or text"


@runtime_checkable
class ArrowStream(Protocol):
    """Data frame with Arrow's PyCapsule interface, such as a frame of pandas, polars, pyarrow or DuckDB."""

    def __arrow_c_stream__(self, _requested_schema: object | None = None, /) -> object: ...


TableSource = str | Path | ArrowStream | InputTable

P = ParamSpec("P")
R = TypeVar("R")


def guarded_reader(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a reader of tables: limit its memory, and convert its unexpected errors to ``InputError``."""

    @wraps(function)
    def bounded(*args: P.args, **kwargs: P.kwargs) -> R:
        first = next(iter([*args, *kwargs.values()]), None)
        where, remedy = (first, _REMEDY) if isinstance(first, (str, Path)) else ("the table", _OF_FRAMES)
        with guard(where, remedy), within_memory(where):
            return function(*args, **kwargs)

    return bounded


@guarded_reader
def read_input_table(
    source: TableSource, plan: Plan = lambda _: WantedColumns(), options: ReadingOptions = AS_FOUND
) -> InputTable:
    """Read a table from a file or a data frame.

    A file may be CSV or similar text, JSON, JSON lines, Parquet, a workbook, or a ``.sql`` file with a query for
    DuckDB; text and JSON may be compressed. A frame is any object with ``__arrow_c_stream__``. ``plan`` receives the
    column names before values are parsed, and returns the columns to read. ``options`` override what CARE
    detects. Raises ``InputError`` if the file is missing, unreadable, empty or of unknown format, or two columns have
    the same name.
    """
    input_table = _from_file(Path(source), plan, options) if isinstance(source, (str, Path)) else _from_frame(source)
    names = unique_names(input_table.name, input_table.names)
    if input_table.table.num_rows == 0:
        raise InputError(f"{input_table.name}: the table is empty; give a table with at least one row")
    return replace(input_table, table=pa.table([*map(_of_usual_type, input_table.table.columns)], names))


def _of_usual_type(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Simplify a column's type: decode dictionaries of non-text values; convert string views and bytes to text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        inner, chunks = kind.value_type, column.chunks
        if not (is_text(inner) or pa.types.is_string_view(inner)):
            return pa.chunked_array([chunk.dictionary_decode() for chunk in chunks], inner)
        texts = [pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(pa.large_string())) for c in chunks]
        return pa.chunked_array(texts, pa.dictionary(kind.index_type, pa.large_string()))
    if pa.types.is_string_view(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        with suppress(pa.ArrowInvalid):  # the bytes are not UTF-8
            return column.cast(pa.large_string())
    return column


def _from_file(path: Path, plan: Plan, options: ReadingOptions) -> InputTable:
    if not path.exists():
        raise InputError(f"{path}: no such file; correct the path")
    if not path.is_file():
        raise InputError(f"{path}: the path is not a file; give the path of a file")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = bool(suffixes) and suffixes[-1] in COMPRESSED
    kind = (suffixes[-2] if len(suffixes) > 1 else "") if compressed else (suffixes or [""])[-1]
    if kind not in _PARSERS or (compressed and kind not in (*_DELIMITED, *_JSON)):
        raise InputError(
            f"{path}: unknown kind of file {''.join(suffixes[-2:]) if compressed else kind!r}; use "
            f"{', '.join(_PARSERS)} ({', '.join(COMPRESSED)} only after {', '.join((*_DELIMITED, *_JSON))})"
        )
    _refuse_another_kind(path, suffixes[-1])
    try:
        if compressed:
            refuse_bomb(path, COMPRESSED[suffixes[-1]])
        return _PARSERS[kind](path, plan, options)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: cannot be read as {kind[1:]} ({first}); correct the file or its name") from error


def _refuse_another_kind(path: Path, suffix: str) -> None:
    """Raise ``InputError`` if the first bytes of a file contradict the extension of its name."""
    with path.open("rb") as file:
        start = file.read(8)
    for first, (what, suffixes) in _FIRST_BYTES.items():
        if start.startswith(first) and suffix not in suffixes:
            raise InputError(f"{path} is {what}, but its name ends in {suffix}; change the extension to {suffixes[0]}")


def _from_parquet(path: Path, plan: Plan, options: ReadingOptions) -> InputTable:
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    names = schema.names
    unique_names(path, names)
    wanted = plan(names)
    only = wanted.only
    input_table = names if only is None else [name for name in names if name in only]
    # repeated names of a long table stay dictionary-encoded
    encoded = [name for name in input_table if only and name in wanted.as_text and is_text(schema.field(name).type)]
    file = pq.ParquetFile(path, read_dictionary=encoded)
    refuse_size(path, file.metadata.num_rows * len(input_table) * _MIN_CELL_BYTES)  # before a value is unpacked
    groups, unpacked = list[pa.Table](), 0
    for k in range(file.num_row_groups):
        groups.append(file.read_row_group(k, columns=input_table))
        unpacked += groups[-1].nbytes
        refuse_size(path, unpacked)
    table = pa.concat_tables(groups) if groups else file.read(columns=input_table)
    unread = tuple(name for name in names if name not in input_table)
    return InputTable(str(path), table, f"pyarrow {pa.__version__} as Parquet", unread=unread)


_PARSERS: dict[str, Callable[[Path, Plan, ReadingOptions], InputTable]] = {
    **{kind: partial(read_delimited, kind=kind) for kind in _DELIMITED},
    **dict.fromkeys(_JSON, read_json),
    **dict.fromkeys(_PARQUET, _from_parquet),
    **dict.fromkeys(EXCEL, read_workbook),
    ".sql": read_query,
}
"""Parser for each extension of a file name."""


def of_mapping(source: TableSource | Mapping[str, Any], what: str, index: str, values: str) -> TableSource:
    """Convert a mapping or pandas series to a table of two columns; return any other source unchanged.

    The keys become text, like all ids. ``what`` is the name of the table in messages.
    """
    given: Any = source
    if isinstance(source, Mapping):
        names, held = list(source), list(source.values())
    elif getattr(source, "ndim", 2) == 1 and hasattr(source, "index"):
        names, held = given.index, given.tolist()
    else:
        return source
    return InputTable(what, pa.table({index: [str(name) for name in names], values: held}), "names and values")


def _table_of_pandas(frame: Any) -> pa.Table:
    """Convert a pandas data frame to an Arrow table; lists that Arrow cannot convert become JSON text."""
    try:
        return pa.table(frame)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        lists = [name for name in frame.columns if frame[name].map(type).eq(list).any()]
        return pa.table(frame.assign(**{name: frame[name].map(json.dumps) for name in lists}))


def _from_frame(frame: object) -> InputTable:
    if isinstance(frame, InputTable):
        return frame
    kind = type(frame)
    package = kind.__module__.partition(".")[0].lstrip("_")
    if not isinstance(frame, ArrowStream) or len(getattr(frame, "shape", "of two")) == 1:
        raise InputError(
            f"CARE cannot read a {package} {kind.__name__}; give the path of a file, or a frame with "
            "__arrow_c_stream__, such as a frame of pandas, polars, pyarrow or DuckDB"
        )
    name = f"{package} {kind.__name__}"
    try:
        if isinstance(frame, pa.Table):  # the buffers of other libraries have no known size
            pa.Table.validate(frame, full=True)  # inconsistent buffers would crash the process
        table = frame if isinstance(frame, pa.Table) else _table_of_pandas(frame)
    except (ValueError, TypeError, NotImplementedError) as error:  # errors of Arrow and of pandas
        unique_names(name, [*map(str, getattr(frame, "columns", ()))] if package == "pandas" else ())
        raise InputError(f"{name}: {error}; {_OF_FRAMES}") from error
    return InputTable(name, table, f"pyarrow {pa.__version__} by Arrow's PyCapsule interface")
