"""Readers of items, scores, labels and families from tables.

Every reader accepts a file or a frame (``tables.read_input_table``), determines the role of each column (``columns``),
and calls ``report`` with a record of the roles.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from care_ops.errors import InputError, misspelt
from care_ops.scores import ScoreMatrix
from warehouse.conversations import messages_of, split_answer, transcript
from warehouse.items import ITEM_TEXTS, ItemRecord, unnamed_text
from warehouse.sources.columns import (
    FAMILY,
    HOLDS_TEXT,
    JUDGE,
    LABEL,
    LABEL_COLUMNS,
    ScoreLayout,
    find,
    is_index,
    item_column,
    item_fields,
    item_or_index,
    judge_columns,
    more_texts,
    named,
    names_text,
    needed,
    score_layout,
    split_item,
)
from warehouse.sources.input_table import InputTable, WantedColumns
from warehouse.sources.numbers import numbers
from warehouse.sources.reading import LeftOut, Reading, listed
from warehouse.sources.shapes import system_columns, values_of_items, whole_items
from warehouse.sources.tables import TableSource, guarded_reader, of_mapping, read_input_table
from warehouse.sources.values import as_texts, identifiers, refuse_repeated, refuse_repeated_items
from warehouse.testsets import AS_FOUND, ItemColumns, ReadingOptions, ScoreColumns

Report = Callable[[Reading], object]
"""Function that receives the record of how a table was read."""


@dataclass(frozen=True)
class RecordedTable:
    """Scores from a file, with items in the order of their first rows.

    ``responses`` maps a judge and an item to the scored text, if the file has the text. ``item_values`` maps an item to
    its values in the columns that identify items and systems.
    """

    scores: ScoreMatrix
    responses: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    item_values: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """Row number of each item in ``scores``."""
        return {item_id: row for row, item_id in enumerate(self.scores.item_ids)}

    def scores_of(self, judge: str, item_ids: Sequence[str]) -> NDArray[np.float64]:
        """Return a judge's scores of the items ``item_ids``, with NaN for a missing score; array of shape (m,)."""
        if judge not in self.scores.judges:
            return np.full(len(item_ids), np.nan)
        row = np.fromiter((self.rows.get(item_id, -1) for item_id in item_ids), np.int64, len(item_ids))
        return np.append(self.scores.values[:, self.scores.judges.index(judge)], np.nan)[row]


def ignore_reading(reading: Reading) -> None:
    """Ignore the record of how a table was read; this is the default of ``report``."""


@guarded_reader
def read_scores(
    source: TableSource,
    columns: ScoreColumns | None = None,
    options: ReadingOptions = AS_FOUND,
    report: Report = ignore_reading,
) -> RecordedTable:
    """Read scores from a long table (item, judge, score) or a wide table (item, and one column per judge).

    Columns that ``columns`` does not name are recognized by name or synonym. Raises ``InputError``, which names columns
    and lines, if there is no item column, an id is empty, a score is not a finite number, several rows have the same
    item and judge, or all scores are missing.
    """
    columns = columns or ScoreColumns()
    input_table, (item, judge, score) = _open_scores(source, columns, options)
    input_table, item = whole_items(input_table, item_or_index(input_table, item), judge)
    if judge is not None and score is not None:
        recorded, reading = _long(input_table, item, judge, score, columns, options)
    else:
        recorded, reading = _wide(input_table, item, columns, options)
    item_values = values_of_items(input_table, item, judge)
    if kept := next(iter(item_values.values()), {}):
        left_out = tuple(left for left in reading.left_out if left.column not in kept)
        reading = replace(reading, left_out=left_out).noting([f"kept as metadata: {listed([*map(repr, kept)])}"])
    report(reading)
    return replace(recorded, item_values=item_values)


@guarded_reader
def recorded_judges(
    source: TableSource, columns: ScoreColumns | None = None, options: ReadingOptions = AS_FOUND
) -> list[str]:
    """Return the names of the judges in a score file, without checking the scores."""
    columns = columns or ScoreColumns()
    input_table, (item, judge, _) = _open_scores(source, columns, options)
    if judge is not None:
        return [name for name in identifiers(input_table, judge).names if name not in columns.drop]
    return judge_columns(input_table, item_or_index(input_table, item), columns, options.grades)[0]


@guarded_reader
def read_items(
    source: TableSource,
    columns: ItemColumns | None = None,
    where: Mapping[str, Any] | None = None,
    drop: Sequence[str] = (),
    options: ReadingOptions = AS_FOUND,
    item: str | None = None,
    report: Report = ignore_reading,
) -> list[ItemRecord]:
    """Read items from a table, in the order of the rows.

    A field that ``columns`` does not name is read from the column of the same name, if it exists. ``item`` names the
    default id column, which need not exist. CARE reads only rows with the values in ``where``, and ignores columns in
    ``drop``. Raises ``InputError`` if a named column is missing, an id is empty or repeated, or a label is not finite.
    """
    wanted = columns.item_id if columns is not None and "item_id" in columns.model_fields_set else None

    def plan(names: Sequence[str]) -> WantedColumns:
        found = _item_column(str(source), names, wanted, item)
        texts = [c for f, c in item_fields(str(source), names, found or "", columns, drop).items() if f != "gold"]
        return WantedColumns(_as_text(names, found).union(texts))

    input_table = read_input_table(source, plan, options)
    item = _item_column(input_table.name, input_table.names, wanted, item)
    input_table, item = whole_items(input_table, item_or_index(input_table, item))
    fields = item_fields(input_table.name, input_table.names, item, columns, drop)
    if (first := item.split(",")[0]) != item and first in input_table.names:  # several columns name an item
        fields.setdefault("split_unit", first)
    for column in (*(where or {}), *drop):
        named(input_table.name, input_table.names, column)
    table = input_table.table.drop_columns(list(dict.fromkeys(drop)))
    ids = identifiers(input_table, item)
    gold, notes = np.full((len(ids.codes), 1), np.nan), list[str]()
    if "gold" in fields:
        gold, notes = numbers(input_table, [fields["gold"]], options.decimal, order=options.grades)
    matches = np.ones(len(ids.codes), dtype=np.bool_)
    for column, value in (where or {}).items():  # a column of digits may be read as text
        matches &= np.array([cell in (value, str(value)) for cell in input_table.table.column(column).to_pylist()])
    chosen = np.flatnonzero(matches)
    if not len(chosen):
        raise InputError(f"{input_table.name}: no row matches `where` ({where}); correct its columns or values")
    refuse_repeated_items(input_table, item, ids, rows=chosen)
    fields |= more_texts(table, [c for c in table.column_names if c not in (item, *fields.values())], fields)
    metadata = [c for c in table.column_names if c not in (item, *fields.values())]
    records = [
        ItemRecord(
            ids.names[ids.codes[k]],
            **_item_texts({f: row.get(fields[f]) for f in ITEM_TEXTS if f in fields}),
            gold=None if np.isnan(gold[k, 0]) else float(gold[k, 0]),
            split_unit=_text(row.get(fields["split_unit"])) if "split_unit" in fields else None,
            metadata={c: row[c] for c in metadata},
        )
        for k, row in zip(chosen.tolist(), table.filter(pa.array(matches)).to_pylist(), strict=True)
    ]
    kept = f"kept as metadata: {listed([repr(c) for c in metadata], 40)}"
    notes += ["; ".join(filter(None, [kept, unnamed_text(records)]))] if metadata else []
    notes += misspelt(metadata, [f for f in ("prompt", "response", "gold", "split_unit") if f not in fields])
    left_out = [LeftOut(column, "as you asked") for column in drop]
    report(_reading(input_table, {"item": item, **fields}, left_out=left_out, notes=notes))
    return records


def _item_texts(texts: dict[str, Any]) -> dict[str, str | None]:
    """Convert texts to strings; if a response is a conversation, keep its answer, and take a missing prompt from it."""
    talks = {name: messages for name, value in texts.items() if (messages := messages_of(value))}
    read = {name: transcript(talks[name]) if name in talks else _text(value) for name, value in texts.items()}
    for name in talks.keys() & {"response", "response_2"}:
        before, read[name] = split_answer(talks[name])
        read["prompt"] = read.get("prompt") or before
    return read


def items_named(recorded: RecordedTable, item: str) -> dict[str, ItemRecord]:
    """Build a score table's items, without texts; the first column that ``item`` names contains the split units."""
    return {
        item_id: ItemRecord(item_id, split_unit=values.get(item.split(",")[0]), metadata=dict(values))
        for item_id, values in recorded.item_values.items()
    }


def texts_in_scores(
    source: TableSource, reading: Reading, options: ReadingOptions = AS_FOUND
) -> tuple[list[ItemRecord], Reading]:
    """Read items from the text columns of a score table; return the items and an updated copy of ``reading``."""
    is_long, drop = reading.layout == "long", list[str]()
    texts = frozenset(x.column for x in reading.left_out if (names_text(x.column) if is_long else x.why == HOLDS_TEXT))
    if not texts:
        return [], reading
    if is_long:
        source = _row_per_item(source, reading.columns["item"], texts, options)
    else:
        drop = [*reading.judges, *(left.column for left in reading.left_out if left.column not in texts)]
    columns, taken = ItemColumns(item_id=reading.columns["item"]), list[Reading]()
    records = read_items(source, columns, drop=drop, options=options, report=taken.append)
    found = {field: column for field, column in taken[0].columns.items() if field in ITEM_TEXTS}
    if not found:
        return (records, reading.noting([remedy])) if (remedy := unnamed_text(records)) else ([], reading)
    left_out = tuple(left for left in reading.left_out if left.column not in found.values())
    return records, replace(reading, columns={**reading.columns, **found}, left_out=left_out)


def _row_per_item(source: TableSource, item: str, texts: frozenset[str], options: ReadingOptions) -> InputTable:
    """Read one row per item from a long score table, with the text columns that are constant within each item."""
    parts = item.split(",")
    wanted = WantedColumns(frozenset(parts), texts.union(parts))
    input_table = read_input_table(source, lambda _: wanted, options)
    table = input_table.table

    def rows(*columns: str) -> pa.Table:
        return table.group_by([*parts, *columns], use_threads=False).aggregate([])

    flat = [x for x in table.column_names if x in texts and not pa.types.is_nested(table.field(x).type)]
    items = len(rows())
    return replace(input_table, table=rows(*(text for text in flat if len(rows(text)) == items)))


class LabelCells(NamedTuple):
    """Cells of one row in a table of labels; None means an empty cell or a missing column."""

    item_id: str
    value: float
    drawn: str | None
    probability: float | None
    rater: str | None
    labelled_at: str | None


def read_label_cells(
    source: TableSource | Mapping[str, Any], item: str | None = None, options: ReadingOptions = AS_FOUND
) -> tuple[list[LabelCells], Reading]:
    """Read all rows with a label from a table of labels.

    An item may have several rows. ``item`` names the default id column, which need not exist. Raises ``InputError`` if
    a column is missing, or a label or probability is not a number.
    """
    table = of_mapping(source, "labels", "item_id", "label")
    input_table = read_input_table(table, lambda names: WantedColumns(frozenset(names)), options)
    where, names = input_table.name, input_table.names
    item = item_or_index(input_table, _item_column(where, names, None, item))
    if item not in names:  # several columns name it together
        input_table, item = whole_items(input_table, item)
    columns = {"item": item, "label": needed(input_table, LABEL, "labels need the columns item_id and label")}
    for role, usual in LABEL_COLUMNS.items():
        if (column := find(where, names, usual)) is not None:
            columns[role] = column
    ids = as_texts(identifiers(input_table, item))
    values, notes = numbers(input_table, [columns["label"]], options.decimal, order=options.grades)
    chances: list[float | None] = [None] * len(ids)
    if "probability" in columns:
        read = numbers(input_table, [columns["probability"]], options.decimal)[0][:, 0].tolist()
        chances = [None if chance != chance else chance for chance in read]
    drawn, rater, moment = (_texts_of(input_table, columns.get(role)) for role in ("drawn", "rater", "labelled_at"))
    rows = zip(ids, values[:, 0].tolist(), drawn, chances, rater, moment, strict=True)
    labelled = [cells for cells in map(LabelCells._make, rows) if cells.value == cells.value]
    notes += misspelt(names, [role for role in LABEL_COLUMNS if role not in columns])
    return labelled, _reading(input_table, columns, notes=notes)


def _texts_of(input_table: InputTable, column: str | None) -> list[str | None]:
    """Return a column as strings without surrounding spaces; None means an empty cell or a missing column."""
    if column is None:
        return [None] * input_table.table.num_rows
    values = input_table.table.column(column).to_pylist()
    texts = [_text(value.isoformat() if isinstance(value, date) else value) for value in values]
    return [text.strip() or None if text else None for text in texts]


@guarded_reader
def read_families(
    source: TableSource | Mapping[str, str], options: ReadingOptions = AS_FOUND, report: Report = ignore_reading
) -> dict[str, str]:
    """Read the family of each judge from a table of judges and families; omit judges without a family."""
    table = of_mapping(source, "families", "judge", "family")
    input_table = read_input_table(table, lambda names: WantedColumns(frozenset(names)), options)
    shape = "a table of families needs the columns judge and family"
    judge, family = needed(input_table, JUDGE, shape), needed(input_table, FAMILY, shape)
    judges = identifiers(input_table, judge)
    refuse_repeated_items(input_table, judge, judges)
    report(_reading(input_table, {"judge": judge, "family": family}))
    families = map(_text, input_table.table.column(family).to_pylist())
    return {name: value for name, value in zip(as_texts(judges), families, strict=True) if value}


def _item_column(where: str, names: Sequence[str], wanted: str | None, usual: str | None) -> str | None:
    is_usual = wanted is None and usual is not None and set(split_item(names, usual)).issubset(names)
    return item_column(where, names, usual if is_usual else wanted)


def _as_text(names: Sequence[str], item: str | None) -> frozenset[str]:
    """Return the columns to read as text: the item columns, or all index columns if no item column is given."""
    return frozenset([name for name in names if is_index(name)] if item is None else split_item(names, item))


def _open_scores(source: TableSource, columns: ScoreColumns, options: ReadingOptions) -> tuple[InputTable, ScoreLayout]:
    def plan(names: Sequence[str]) -> WantedColumns:
        item, judge, score = score_layout(str(source), names, columns)
        as_text = _as_text(names, item)
        if judge is None or score is None:
            return WantedColumns(as_text)
        response = [named(str(source), names, columns.response)] if columns.response is not None else []
        used = {judge, score, *response, *system_columns(names)}
        return WantedColumns(as_text | {judge, *response}, as_text | used)

    input_table = read_input_table(source, plan, options)
    return input_table, score_layout(input_table.name, input_table.names, columns)


def _long(
    input_table: InputTable, item: str, judge: str, score: str, columns: ScoreColumns, options: ReadingOptions
) -> tuple[RecordedTable, Reading]:
    items, judges = identifiers(input_table, item), identifiers(input_table, judge)
    values, notes = numbers(input_table, [score], options.decimal, judges=judges, order=options.grades)
    shape = len(items.names), len(judges.names)
    cells = items.codes * np.intp(shape[1]) + judges.codes
    refuse_repeated(
        input_table,
        "several rows",
        cells,
        lambda row: f"item {items.names[items.codes[row]]!r} and judge {judges.names[judges.codes[row]]!r}",
        "keep one row or the mean of the rows. If the rows score different criteria, fit each criterion separately. If "
        f"several columns identify an item, name all of them: --item {item},COLUMN",
    )
    matrix = np.full(shape, np.nan)
    matrix[items.codes, judges.codes] = values[:, 0]
    taken, responses = {"item": item, "judge": judge, "score": score}, dict[str, dict[str, str]]()
    if columns.response is not None:
        taken["response"] = named(input_table.name, input_table.names, columns.response)
        texts = input_table.table.column(columns.response).to_pylist()
        for item_id, name, text in zip(as_texts(items), as_texts(judges), texts, strict=True):
            if text:
                responses.setdefault(name, {})[item_id] = str(text)
    used = {*taken.values(), *item.split(",")}
    others = [name for name in (*input_table.names, *input_table.unread) if name not in used]
    for name in columns.drop:
        if name not in (*judges.names, *others):
            choices = listed([repr(judge) for judge in judges.names], 40)
            raise InputError(
                f"{input_table.name}: there is no judge or column {name!r} to drop; the judges are {choices}"
            )
    left_out = [LeftOut(name, "not needed") for name in others if name not in columns.drop]
    left_out += [LeftOut(name, "as you asked") for name in columns.drop]
    kept = [name for name in judges.names if name not in columns.drop]
    scores = ScoreMatrix(matrix, tuple(items.names), tuple(judges.names)).select_judges(kept)
    size = f"items: {shape[0]:,}, judges: {len(kept):,} ({listed([repr(name) for name in kept])})"
    notes += [size, _missing_scores(input_table, scores.values)]
    return RecordedTable(scores, responses), _reading(input_table, taken, "long", scores.judges, left_out, notes)


def _wide(
    input_table: InputTable, item: str, columns: ScoreColumns, options: ReadingOptions
) -> tuple[RecordedTable, Reading]:
    judges, left_out = judge_columns(input_table, item, columns, options.grades)
    items = identifiers(input_table, item)
    refuse_repeated_items(
        input_table,
        item,
        items,
        "a wide table has one row per item: keep one row, or name all columns that identify an item (--item "
        "id,COLUMN). If the table is long, set --judge and --score to its columns of judges and scores"
        + "".join(f"; {question}" for question in misspelt(input_table.names, ("judge", "score"))),
    )
    no_judge = "; use --drop to exclude a column without scores of a judge"
    values, notes = numbers(input_table, judges, options.decimal, no_judge, order=options.grades)
    notes.append(_missing_scores(input_table, values))
    scores = ScoreMatrix(values, tuple(items.names), tuple(judges))
    return RecordedTable(scores), _reading(input_table, {"item": item}, "wide", scores.judges, left_out, notes)


def _missing_scores(input_table: InputTable, values: NDArray[np.float64]) -> str:
    missing = int(np.isnan(values).sum())
    if missing == values.size:
        raise InputError(f"{input_table.name}: every score is missing; give a table with scores")
    return f"missing scores: {missing:,} of {values.size:,}"


def _reading(
    input_table: InputTable,
    taken: Mapping[str, str],
    layout: Any = None,
    judges: tuple[str, ...] = (),
    left_out: Sequence[LeftOut] = (),
    notes: Sequence[str] = (),
) -> Reading:
    rows, decisions = input_table.table.num_rows, (*input_table.notes, *notes)
    return Reading(input_table.name, input_table.parser, rows, layout, taken, judges, tuple(left_out), decisions)


def _text(value: object) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value) if isinstance(value, (dict, list)) else str(value)
