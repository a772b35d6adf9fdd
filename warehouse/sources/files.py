"""Files that people already have: CSV, Parquet and JSONL, long or wide.

Belongs here: reading tables into items, scores, labels and families, with errors that say what is wrong
and in which row. Does not: judging (``judges.engines.recorded``), or anything about where a workspace is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from care_ops.errors import InputError
from care_ops.scores import ScoreMatrix
from warehouse.items import ItemRecord
from warehouse.testsets import ItemColumns, ScoreColumns

_TEXT_FIELDS = ("prompt", "response", "response_2", "reference", "aspect")


@dataclass(frozen=True)
class RecordedTable:
    """Scores as a file holds them.

    Attributes
    ----------
    scores : ScoreMatrix
        Items in the order of their first row.
    responses : mapping judge -> {item_id: text}
        The texts that were scored, where the file has them.
    """

    scores: ScoreMatrix
    responses: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])


def read_table(path: Path, text_columns: Sequence[str] = ()) -> pa.Table:
    """A table from a CSV, Parquet or JSONL file, told apart by its suffix.

    Parameters
    ----------
    path : Path
    text_columns : sequence of str
        Read as text whatever they look like, so that the id ``007`` stays one.

    Raises
    ------
    InputError
        No such file, an unknown suffix, an unreadable or empty table.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if not path.is_file():
        raise InputError(f"{path}: not a file")
    suffix = path.suffix.lower()
    try:
        if suffix in (".parquet", ".pq"):
            import pyarrow.parquet as pq

            table = pq.read_table(path)
        elif suffix == ".csv":
            import pyarrow.csv as pc

            options = pc.ConvertOptions(column_types={name: pa.string() for name in text_columns})
            table = pc.read_csv(path, convert_options=options)
        elif suffix in (".jsonl", ".ndjson"):
            import pyarrow.json as pj

            table = pj.read_json(path)
        else:
            raise InputError(f"{path}: unknown kind of file {suffix!r}; use .csv, .parquet or .jsonl")
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError) as error:
        raise InputError(f"{path}: cannot be read as {suffix[1:]}: {str(error).splitlines()[0]}") from error
    if table.num_rows == 0:
        raise InputError(f"{path}: the table is empty; it needs at least one row")
    return table


def read_scores(
    path: Path, columns: ScoreColumns | None = None, layout: Literal["auto", "long", "wide"] = "auto"
) -> RecordedTable:
    """Recorded scores, long (item, judge, score) or wide (item and a column a judge).

    Raises
    ------
    InputError
        No id column, a null id, a score that is no number or infinite, two rows for one item and judge,
        or no score at all. The message names column and row.
    """
    columns = columns or ScoreColumns()
    table = read_table(path, (columns.item_id, columns.judge))
    names = table.column_names
    if columns.item_id not in names:
        raise InputError(f"{path}: no id column {columns.item_id!r}; the columns are {', '.join(names)}")
    item_ids = _identifiers(path, table, columns.item_id)
    read = _long if _layout(table, columns, layout) == "long" else _wide
    recorded = read(path, table, item_ids, columns)
    if np.isnan(recorded.scores.values).all():
        raise InputError(f"{path}: every score is missing; nothing can be aggregated")
    return recorded


def recorded_judges(
    path: Path, columns: ScoreColumns | None = None, layout: Literal["auto", "long", "wide"] = "auto"
) -> list[str]:
    """Names of the judges in a score file, in the order of their first row, without checking the scores.

    Raises
    ------
    InputError
        The file cannot be read, or a judge's name is empty.
    """
    columns = columns or ScoreColumns()
    table = read_table(path, (columns.item_id, columns.judge))
    if _layout(table, columns, layout) == "wide":
        return [name for name in table.column_names if name != columns.item_id]
    if columns.judge not in table.column_names:
        raise InputError(f"{path}: no column {columns.judge!r}; the columns are {', '.join(table.column_names)}")
    judges = table.select([columns.judge]).column(0).unique()
    return _identifiers(path, pa.table({columns.judge: judges}), columns.judge)


def read_items(
    path: Path, columns: ItemColumns, where: Mapping[str, Any] | None = None, drop: Sequence[str] = ()
) -> list[ItemRecord]:
    """Items in the order of the file.

    Parameters
    ----------
    path : Path
    columns : ItemColumns
    where : mapping column -> value, optional
        Only rows where every column has its value.
    drop : sequence of str
        Columns that are not read at all.

    Raises
    ------
    InputError
        A named column is missing, an id is null or occurs twice, gold is not a number.
    """
    table = read_table(path, (columns.item_id,))
    named = {f: c for f, c in columns.model_dump().items() if c is not None}
    for column in [*named.values(), *(where or {})]:
        if column not in table.column_names:
            raise InputError(f"{path}: no column {column!r}; the columns are {', '.join(table.column_names)}")
    rows = table.drop_columns([c for c in drop if c in table.column_names]).to_pylist()
    ids = _identifiers(path, table, columns.item_id)
    gold = None
    if columns.gold is not None:
        gold = _numbers(path, table.column(columns.gold), columns.gold)
    records: list[ItemRecord] = []
    seen: set[str] = set()
    for number, (item_id, row) in enumerate(zip(ids, rows, strict=True)):
        if any(row.get(column) != value for column, value in (where or {}).items()):
            continue
        if item_id in seen:
            raise InputError(f"{path}: item {item_id!r} occurs twice, again in row {number + 1}; keep one")
        seen.add(item_id)
        texts = {f: _text(row.get(named[f])) for f in _TEXT_FIELDS if f in named}
        label = None if gold is None or np.isnan(gold[number]) else float(gold[number])
        unit = _text(row.get(named["split_unit"])) if "split_unit" in named else None
        rest = {c: v for c, v in row.items() if c not in named.values()}
        records.append(ItemRecord(item_id, **texts, gold=label, split_unit=unit, metadata=rest))
    if not records:
        raise InputError(f"{path}: no row where {dict(where or {})}; correct `where`")
    return records


def read_labels(path: Path) -> dict[str, float]:
    """Labels as {item_id: label} from columns ``item_id`` and ``label``; empty labels are left out."""
    table = read_table(path, ("item_id",))
    for column in ("item_id", "label"):
        if column not in table.column_names:
            raise InputError(f"{path}: no column {column!r}; labels are a table of item_id, label")
    ids = _identifiers(path, table, "item_id")
    values = _numbers(path, table.column("label"), "label")
    _no_infinity(path, values, "label")
    labels: dict[str, float] = {}
    for row, (item_id, value) in enumerate(zip(ids, values, strict=True)):
        if item_id in labels:
            raise InputError(f"{path}: item {item_id!r} is labelled twice, again in row {row + 1}; keep one")
        if not np.isnan(value):
            labels[item_id] = float(value)
    return labels


def read_families(path: Path) -> dict[str, str]:
    """Families as {judge: family} from columns ``judge`` and ``family``; empty ones are left out."""
    table = read_table(path, ("judge", "family"))
    for column in ("judge", "family"):
        if column not in table.column_names:
            raise InputError(f"{path}: no column {column!r}; judges are a table of judge, family")
    judges = _identifiers(path, table, "judge")
    families = [_text(value) for value in table.column("family").to_pylist()]
    return {judge: family for judge, family in zip(judges, families, strict=True) if family}


def _layout(table: pa.Table, columns: ScoreColumns, layout: str) -> str:
    if layout != "auto":
        return layout
    return "long" if {columns.judge, columns.score} <= set(table.column_names) else "wide"


def _long(path: Path, table: pa.Table, item_ids: list[str], columns: ScoreColumns) -> RecordedTable:
    judges = _identifiers(path, table, columns.judge)
    if columns.score not in table.column_names:
        raise InputError(f"{path}: no column {columns.score!r}; the columns are {', '.join(table.column_names)}")
    values = _numbers(path, table.column(columns.score), columns.score)
    _no_infinity(path, values, columns.score)
    rows, columns_of = _ordinals(item_ids), _ordinals(judges)
    matrix = np.full((len(rows), len(columns_of)), np.nan)
    at_row = np.array([rows[i] for i in item_ids])
    at_column = np.array([columns_of[j] for j in judges])
    flat = at_row * len(columns_of) + at_column
    _, first = np.unique(flat, return_index=True)
    if len(first) < len(flat):
        again = int(np.setdiff1d(np.arange(len(flat)), first)[0])
        raise InputError(
            f"{path}: two rows for item {item_ids[again]!r} and judge {judges[again]!r}, "
            f"again in row {again + 1}; keep one"
        )
    matrix[at_row, at_column] = values
    responses: dict[str, dict[str, str]] = {}
    if columns.response is not None:
        if columns.response not in table.column_names:
            raise InputError(f"{path}: no column {columns.response!r} with the text that was scored")
        for item_id, judge, text in zip(item_ids, judges, table.column(columns.response).to_pylist(), strict=True):
            if text:
                responses.setdefault(judge, {})[item_id] = str(text)
    return RecordedTable(ScoreMatrix(matrix, tuple(rows), tuple(columns_of)), responses)


def _wide(path: Path, table: pa.Table, item_ids: list[str], columns: ScoreColumns) -> RecordedTable:
    judges = [name for name in table.column_names if name != columns.item_id]
    if not judges:
        raise InputError(
            f"{path}: no judge; give long columns {columns.item_id}, {columns.judge}, {columns.score}, "
            f"or {columns.item_id} and a column a judge"
        )
    rows = _ordinals(item_ids)
    if len(rows) < len(item_ids):
        seen: set[str] = set()
        for number, item_id in enumerate(item_ids):
            if item_id in seen:
                raise InputError(f"{path}: item {item_id!r} occurs twice, again in row {number + 1}; keep one")
            seen.add(item_id)
    values: list[NDArray[np.float64]] = []
    for judge in judges:
        column = _numbers(path, table.column(judge), judge)
        _no_infinity(path, column, judge)
        values.append(column)
    return RecordedTable(ScoreMatrix(np.column_stack(values), tuple(item_ids), tuple(judges)))


def _identifiers(path: Path, table: pa.Table, column: str) -> list[str]:
    """A column as text ids; a null or empty one is an error."""
    if column not in table.column_names:
        raise InputError(f"{path}: no column {column!r}; the columns are {', '.join(table.column_names)}")
    values = table.column(column).to_pylist()
    for row, value in enumerate(values):
        if value is None or value == "" or value != value:
            raise InputError(f"{path}: {column} is empty in row {row + 1}; every row needs one")
    return [str(value) for value in values]


def _numbers(path: Path, column: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
    """A column as float64 with NaN for null; text that is no number is an error."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        return column.cast(pa.float64()).to_numpy().astype(np.float64)
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    out = np.full(len(column), np.nan)
    for row, value in enumerate(column.to_pylist()):
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        try:
            out[row] = float(value)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{path}: column {name!r} holds {value!r} in row {row + 1}, which is no number; "
                "correct it, or leave it empty if the score is missing"
            ) from error
    return out


def _no_infinity(path: Path, values: NDArray[np.float64], name: str) -> None:
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise InputError(
            f"{path}: column {name!r} is infinite in row {row + 1}; correct it, or leave it empty if it is missing"
        )


def _ordinals(names: Sequence[str]) -> dict[str, int]:
    """First-seen order of distinct names."""
    return {name: k for k, name in enumerate(dict.fromkeys(names))}


def _text(value: object) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value) if isinstance(value, (dict, list)) else str(value)
