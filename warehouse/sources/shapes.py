"""Identification of items by several columns of a table.

A table of answers has a column for the question and a column for the system that answered; a table of pairs has two
columns of systems. Together these columns identify an item, such as ``q7 / gpt-4o``.
"""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from warehouse.compute import pc
from warehouse.sources.columns import is_called, is_score, split_item
from warehouse.sources.input_table import InputTable

_SYSTEM = (
    *("system", "system_id", "system_name", "model", "model_id", "model_name", "candidate", "generator", "turn"),
    *("model_a", "model_b", "system_a", "system_b", "model_1", "model_2", "system_1", "system_2"),
)


def system_columns(names: Sequence[str]) -> list[str]:
    """Return the columns whose names suggest systems, such as ``model``; they may be part of an item's id."""
    return [name for name in names if is_called(name, _SYSTEM)]


def whole_items(input_table: InputTable, item: str, judge: str | None = None) -> tuple[InputTable, str]:
    """Give a table a single column that identifies items; return the table and the name of the column.

    ``item`` is one column, or several columns separated by commas, such as ``question_id,model``. If the columns of
    systems help to distinguish rows with the same item (and the same ``judge``, if given), they become part of the
    item's id. This does not apply to scores without a judge column, because the systems may be the judges.
    """
    own = [item] if judge is None else [item, judge]
    parts = split_item(input_table.names, item)
    systems = [name for name in system_columns(input_table.names) if name not in (*parts, *own)]
    if len(parts) == 1 and systems and (judge is not None or not any(map(is_score, input_table.names))):
        separate, joined = (round(_distinct(input_table, columns), 1) for columns in (own, [*own, *systems]))
        parts = (item, *systems) if joined > separate else parts
    if len(parts) == 1:
        return input_table, item
    texts = [input_table.table.column(name).cast(pa.string()) for name in parts]
    table = input_table.table.append_column(",".join(parts), pc.binary_join_element_wise(*texts, " / "))
    return replace(input_table, table=table), ",".join(parts)


def values_of_items(input_table: InputTable, item: str, judge: str | None = None) -> dict[str, dict[str, str]]:
    """Return each item's values in the item and system columns, or {} if an item has several values in a column."""
    parts = [name for name in item.split(",") if name in input_table.names]
    systems = [name for name in system_columns(input_table.names) if name not in (*parts, item, judge)]
    columns = [item, *(parts if len(parts) > 1 else []), *systems]
    if len(columns) < 2:
        return {}
    rows = input_table.table.select(columns).group_by(columns).aggregate([]).to_pylist()
    values = {str(row.pop(item)): {name: str(value) for name, value in row.items()} for row in rows}
    return values if len(values) == len(rows) else {}


def _distinct(input_table: InputTable, columns: Sequence[str]) -> float:
    chosen = input_table.table.select(list(columns))
    if any(pa.types.is_nested(field.type) for field in chosen.schema):
        return 0.0
    return chosen.group_by(chosen.column_names).aggregate([]).num_rows / chosen.num_rows
