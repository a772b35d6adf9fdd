"""Tables whose rows are not one score or one item each: items by several columns, repeated scores, nested scores.

A table of answers names the question and the system that answered, one of pairs the question and both systems. All of
these together name the item: ``q7 / gpt-4o``.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warehouse.compute import pc
from warehouse.sources.columns import ITEM, JUDGE, is_called, is_score, split_item
from warehouse.sources.input_table import InputTable

_SYSTEM = (
    *("system", "system_id", "system_name", "model", "model_id", "model_name", "candidate", "generator", "turn"),
    *("model_a", "model_b", "system_a", "system_b", "model_1", "model_2", "system_1", "system_2"),
)
_CRITERION = ("criterion", "criteria", "aspect", "dimension", "metric", "attribute")
_ORDER = ("order", "position", "swapped", "swap", "is_swapped", "flipped")
_REPEAT = ("run", "run_id", "repeat", "repetition", "trial", "attempt", "replicate", "iteration", "seed")


def item_or_repeat_columns(names: Sequence[str]) -> list[str]:
    """Return the columns that may name an item together with another one, or count its repeated scores."""
    return [name for name in names if is_called(name, (*_SYSTEM, *_REPEAT))]


def whole_items(input_table: InputTable, item: str, judge: str | None = None) -> tuple[InputTable, str]:
    """Return the table with one column that names its items, and that column's name, such as ``question_id,model``.

    ``item`` is one column, or several separated by commas. A column with several rows for an item (and ``judge``) is
    joined with columns of systems if that separates more rows; but not in a table of scores without judges, where such
    a column may hold the judges.
    """
    own = [item] if judge is None else [item, judge]
    parts = split_item(input_table.names, item)
    more_columns = [name for name in item_or_repeat_columns(input_table.names) if name not in (*parts, *own)]
    systems = [name for name in more_columns if is_called(name, _SYSTEM)]
    if len(parts) == 1 and systems and (judge is not None or not any(map(is_score, input_table.names))):
        repeats = [name for name in more_columns if name not in systems]
        tried = ([], repeats, systems, more_columns)
        enough = max(tried, key=lambda more: (round(_distinct(input_table, [*own, *more]), 1), -len(more)))
        parts = (item, *(name for name in systems if name in enough))
    if len(parts) == 1:
        return input_table, item
    texts = [input_table.table.column(name).cast(pa.string()) for name in parts]
    table = input_table.table.append_column(",".join(parts), pc.binary_join_element_wise(*texts, " / "))
    return replace(input_table, table=table), ",".join(parts)


def values_of_items(input_table: InputTable, item: str, judge: str | None = None) -> dict[str, dict[str, str]]:
    """Return, by item, the values of the columns that name it and of systems; nothing where an item has several."""
    parts = [name for name in item.split(",") if name in input_table.names]
    systems = [name for name in input_table.names if is_called(name, _SYSTEM) and name not in (*parts, item, judge)]
    columns = [item, *(parts if len(parts) > 1 else []), *systems]
    if len(columns) < 2:
        return {}
    rows = input_table.table.select(columns).group_by(columns).aggregate([]).to_pylist()
    values = {str(row.pop(item)): {name: str(value) for name, value in row.items()} for row in rows}
    return values if len(values) == len(rows) else {}


def how_to_part(input_table: InputTable, item: str) -> str:
    """Return what to do about a judge's several rows for an item that no known column separates."""
    by = next((name for name in input_table.names if is_called(name, _CRITERION)), None)
    if by is not None:
        return f"{by!r} seems to name the criterion of each row: write each criterion's rows to a file and fit each"
    order = next((name for name in input_table.names if is_called(name, _ORDER)), None)
    if order is not None and order not in item.split(","):
        return f"{order!r} seems to name the first answer of a pair: turn the scores of one order, then average"
    return f"keep one of each, or their mean; where more columns name an item, name them all: --item {item},COLUMN"


def repeated_by(input_table: InputTable, own: Sequence[str]) -> str | None:
    """Return the column that counts repeated rows of these columns; None where nothing is repeated or counts."""
    counts = [name for name in input_table.names if is_called(name, _REPEAT) and name not in own]
    if not counts or _distinct(input_table, own) == 1.0:
        return None
    return next((name for name in counts if _distinct(input_table, [*own, name]) == 1.0), None)


def _distinct(input_table: InputTable, columns: Sequence[str]) -> float:
    """Return the share of the rows that differ in these columns from all rows before."""
    chosen = input_table.table.select(list(columns))
    if any(pa.types.is_nested(field.type) for field in chosen.schema):
        return 0.0
    return chosen.group_by(chosen.column_names).aggregate([]).num_rows / chosen.num_rows


def means(values: NDArray[np.float64], cells: NDArray[np.intp], size: int) -> NDArray[np.float64]:
    """Return the mean of the values (n,) of each of ``size`` cells; NaN where a cell has none."""
    known = ~np.isnan(values)
    count = np.bincount(cells[known], minlength=size)
    total = np.bincount(cells[known], values[known], minlength=size)
    return np.divide(total, count, out=np.full(size, np.nan), where=count > 0)


def unnested(input_table: InputTable) -> InputTable:
    """Return the table with nested scores in rows and columns of their own.

    A list of objects with a judge and a score, ``[{"judge": "gpt", "score": 7}, ...]``, becomes a row each; an object
    of numbers, ``{"gpt": 7, "claude": 8}``, a column each; a judge's name that is a list of words, one text.
    """
    for field in input_table.table.schema:
        if field.type == pa.list_(pa.string()) and is_called(field.name, JUDGE):
            column, k = pc.binary_join(input_table.table.column(field.name), " "), input_table.names.index(field.name)
            input_table = replace(input_table, table=input_table.table.set_column(k, field.name, column))
        elif pa.types.is_list(field.type) and _holds_scores(field.type.value_type):
            input_table = _in_rows(input_table, field.name)
        elif pa.types.is_struct(field.type) and _holds_judges(field, input_table.names):
            input_table = _in_columns(input_table, field.name, input_table.table.column(field.name).flatten())
    return input_table


def _holds_scores(kind: pa.DataType) -> bool:
    names = [field.name for field in kind] if pa.types.is_struct(kind) else []
    return any(is_called(name, JUDGE) for name in names) and any(map(is_score, names))


def _holds_judges(field: pa.Field, names: Sequence[str]) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    numbers = all(any(is_kind(inner.type) for is_kind in kinds) for inner in field.type)
    return numbers and not is_called(field.name, ITEM) and not {inner.name for inner in field.type} & set(names)


def _in_rows(input_table: InputTable, name: str) -> InputTable:
    lists = input_table.table.column(name).combine_chunks()
    rows = pc.list_parent_indices(lists)
    parents, table = rows.to_pylist(), input_table.table.take(rows)
    repeated = replace(
        input_table, table=table, locate=lambda found: input_table.locate([parents[row] for row in found])
    )
    return _in_columns(repeated, name, pa.chunked_array([pc.list_flatten(lists)]).flatten())


def _in_columns(input_table: InputTable, name: str, columns: Sequence[pa.ChunkedArray]) -> InputTable:
    """Return the table with the fields of a nested column in its place, under their own names where these are free."""
    kind = input_table.table.schema.field(name).type
    fields = kind.value_type if pa.types.is_list(kind) else kind
    table = input_table.table.drop_columns([name])
    for field, column in zip(fields, columns, strict=True):
        own = field.name if field.name.strip() and field.name not in table.column_names else f"{name}.{field.name}"
        table = table.append_column(own, column)
    return replace(input_table, table=table, notes=(*input_table.notes, f"{name!r} is read as its fields"))
