"""Tables as items, scores, labels and families.

Every reader takes a file of any kind or a frame (``tables.read_table``), finds its columns by their names
(``columns``), and tells what it took for what: ``tell`` is called with the record of the reading.

Belongs here: what the rows of such tables must be, with errors that say what is wrong and where. Does not: parsing
(``tables``), judging (``judges.engines.recorded``), where a workspace is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from care_ops.errors import InputError
from care_ops.scores import ScoreMatrix
from warehouse.items import ItemRecord
from warehouse.sources.columns import (
    JUDGE,
    LABEL,
    SCORE,
    Layout,
    ScoreLayout,
    find,
    is_called,
    is_index,
    item_column,
    item_or_index,
    judge_columns,
    named,
    score_layout,
)
from warehouse.sources.input_table import InputTable, Wanted
from warehouse.sources.reading import LeftOut, Reading, listed
from warehouse.sources.tables import TableSource, read_table
from warehouse.sources.values import Identifiers, as_texts, identifiers, numbers, refuse_repeated, refuse_spaces
from warehouse.testsets import ItemColumns, ReadingOptions, ScoreColumns

_TEXT_FIELDS = ("prompt", "response", "response_2", "reference", "aspect")
_FAMILY = ("family", "base_model", "vendor", "provider")

Tell = Callable[[Reading], object]


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


def tell_nobody(reading: Reading) -> None:
    """For callers that need the content alone."""


def read_scores(
    source: TableSource,
    columns: ScoreColumns | None = None,
    layout: Layout = "auto",
    options: ReadingOptions | None = None,
    tell: Tell = tell_nobody,
) -> RecordedTable:
    """Recorded scores, long (item, judge, score) or wide (item and a column a judge).

    Parameters
    ----------
    source : path or frame
    columns : ScoreColumns, optional
        What is not named there is looked for.
    layout : {"auto", "long", "wide"}
    options : ReadingOptions, optional
    tell : callable
        Called with what was taken for what, before anything is made of it.

    Raises
    ------
    InputError
        No item column, an empty id, scores that are no finite numbers, two rows for one item and judge, or no score at
        all. The message names the columns and the lines.
    """
    columns, options = columns or ScoreColumns(), options or ReadingOptions()
    read, chosen = _open_scores(source, columns, layout, options)
    item = item_or_index(read, chosen.item)
    if chosen.judge is not None and chosen.score is not None:
        recorded, reading = _long(read, item, chosen.judge, chosen.score, columns, options)
    else:
        recorded, reading = _wide(read, item, columns, options)
    tell(reading)
    return recorded


def recorded_judges(
    source: TableSource,
    columns: ScoreColumns | None = None,
    layout: Layout = "auto",
    options: ReadingOptions | None = None,
) -> list[str]:
    """Names of the judges in a score file, in the order of their first row, without checking the scores.

    Raises
    ------
    InputError
        The file cannot be read, or a judge's name is empty.
    """
    columns = columns or ScoreColumns()
    read, chosen = _open_scores(source, columns, layout, options)
    if chosen.judge is not None:
        return identifiers(read, chosen.judge).names
    return judge_columns(read, item_or_index(read, chosen.item), columns)[0]


def read_items(
    source: TableSource,
    columns: ItemColumns | None = None,
    where: Mapping[str, Any] | None = None,
    drop: Sequence[str] = (),
    options: ReadingOptions | None = None,
    item: str | None = None,
    tell: Tell = tell_nobody,
) -> list[ItemRecord]:
    """Items in the order of the file.

    Parameters
    ----------
    source : path or frame
    columns : ItemColumns, optional
        By default every column that is called as the field of an item is.
    where : mapping column -> value, optional
        Only rows where every column has its value.
    drop : sequence of str
        Columns that are not read at all.
    options : ReadingOptions, optional
    item : str, optional
        Another usual name for the item column, as the scores may have it.
    tell : callable

    Raises
    ------
    InputError
        A column that is named, also in ``drop``, is missing; an id is empty or occurs twice, gold is no finite number.
    """
    options = options or ReadingOptions()
    wanted = columns.item_id if columns is not None and "item_id" in columns.model_fields_set else None
    read, item = _open_items(source, wanted, item, options)
    fields = _item_fields(read, item, columns)
    for column in where or {}:
        named(read.name, read.names, column)
    for column in drop:
        if column not in read.names:
            columns_there = listed([repr(name) for name in read.names], 40)
            raise InputError(f"{read.name}: there is no column {column!r} to `drop`; the columns are {columns_there}")
    table = read.table.drop_columns(list(dict.fromkeys(drop)))
    rows = table.to_pylist()
    ids = identifiers(read, item)
    gold, notes = numbers(read, [fields["gold"]], options.decimal) if "gold" in fields else (None, [])
    chosen = [k for k, row in enumerate(rows) if all(row.get(c) == value for c, value in (where or {}).items())]
    if not chosen:
        raise InputError(f"{read.name}: no row where {dict(where or {})}; correct `where`")
    refuse_repeated(read, item, ids, np.array(chosen, dtype=np.intp))
    dropped = [LeftOut(column, "as you asked") for column in drop]
    metadata = [c for c in table.column_names if c != item and c not in fields.values()]
    if metadata:
        notes = [*notes, f"kept beside them: {listed([repr(c) for c in metadata], 40)}"]
    tell(_reading(read, {"item": item, **fields}, left_out=dropped, notes=notes))
    return [
        ItemRecord(
            ids.names[ids.codes[k]],
            **{f: _text(rows[k].get(fields[f])) for f in _TEXT_FIELDS if f in fields},
            gold=None if gold is None or np.isnan(gold[k, 0]) else float(gold[k, 0]),
            split_unit=_text(rows[k].get(fields["split_unit"])) if "split_unit" in fields else None,
            metadata={c: rows[k][c] for c in metadata},
        )
        for k in chosen
    ]


def read_labels(
    source: TableSource, item: str | None = None, options: ReadingOptions | None = None, tell: Tell = tell_nobody
) -> dict[str, float]:
    """Labels as {item_id: label} from a column of items and one of labels; empty labels are left out.

    Parameters
    ----------
    source : path or frame
    item : str, optional
        Another usual name for the item column, as the scores may have it.
    options : ReadingOptions, optional
    tell : callable

    Raises
    ------
    InputError
        A column is missing, an item is labelled twice, a label is no finite number.
    """
    options = options or ReadingOptions()
    read, item = _open_items(source, None, item, options)
    label = _needed(read, LABEL, "labels are a table of item_id, label")
    ids = identifiers(read, item)
    refuse_repeated(read, item, ids)
    values, notes = numbers(read, [label], options.decimal)
    tell(_reading(read, {"item": item, "label": label}, notes=notes))
    return {i: float(v) for i, v in zip(as_texts(ids), values[:, 0], strict=True) if not np.isnan(v)}


def read_families(
    source: TableSource, options: ReadingOptions | None = None, tell: Tell = tell_nobody
) -> dict[str, str]:
    """Families as {judge: family} from a column of judges and one of families; empty ones are left out.

    Raises
    ------
    InputError
        A column is missing, or a judge stands twice.
    """

    def plan(names: Sequence[str]) -> Wanted:
        return Wanted(frozenset(names))

    read = read_table(source, plan, options)
    shape = "judges are a table of judge, family"
    judge, family = _needed(read, JUDGE, shape), _needed(read, _FAMILY, shape)
    judges = identifiers(read, judge)
    refuse_repeated(read, judge, judges)
    tell(_reading(read, {"judge": judge, "family": family}))
    families = [_text(value) for value in read.table.column(family).to_pylist()]
    return {name: value for name, value in zip(as_texts(judges), families, strict=True) if value}


def _needed(read: InputTable, synonyms: Sequence[str], shape: str) -> str:
    column = find(read.name, read.names, synonyms, "its usual name")
    if column is None:
        raise InputError(
            f"{read.name}: no column {synonyms[0]!r}; {shape}, and here are {listed([repr(n) for n in read.names], 40)}"
        )
    return column


def _open_items(
    source: TableSource, wanted: str | None, usual: str | None, options: ReadingOptions
) -> tuple[InputTable, str]:
    """A table and its item column: the one wanted, or else the one called ``usual``, or else by its name."""

    def column(where: str, names: Sequence[str]) -> str | None:
        return item_column(where, names, usual if wanted is None and usual in names else wanted)

    read = read_table(source, lambda names: Wanted(_as_text(names, column(str(source), names))), options)
    return read, item_or_index(read, column(read.name, read.names))


def _as_text(names: Sequence[str], item: str | None) -> frozenset[str]:
    """What may be the item column: where no name says so, an index."""
    return frozenset([item] if item is not None else [name for name in names if is_index(name)])


def _item_fields(read: InputTable, item: str, columns: ItemColumns | None) -> dict[str, str]:
    """Columns by the field of an item that they hold, the id apart."""
    if columns is None:
        every = [name for name in ItemColumns.model_fields if name != "item_id"]
        return {name: name for name in every if name in read.names and name != item}
    fields = {f: c for f, c in columns.model_dump().items() if c is not None and f != "item_id"}
    return {f: named(read.name, read.names, c) for f, c in fields.items()}


def _open_scores(
    source: TableSource, columns: ScoreColumns, layout: Layout, options: ReadingOptions | None
) -> tuple[InputTable, ScoreLayout]:
    def plan(names: Sequence[str]) -> Wanted:
        chosen = score_layout(str(source), names, columns, layout)
        as_text = _as_text(names, chosen.item)
        if chosen.judge is None or chosen.score is None:
            return Wanted(as_text)
        response = [named(str(source), names, columns.response)] if columns.response is not None else []
        return Wanted(as_text | {chosen.judge}, as_text | {chosen.judge, chosen.score, *response})

    read = read_table(source, plan, options)
    return read, score_layout(read.name, read.names, columns, layout)


def _long(
    read: InputTable, item: str, judge: str, score: str, columns: ScoreColumns, options: ReadingOptions
) -> tuple[RecordedTable, Reading]:
    items, judges = identifiers(read, item), identifiers(read, judge)
    values, notes = numbers(read, [score], options.decimal)
    cells = items.codes * len(judges.names) + judges.codes
    _refuse_repeated_cells(read, items, judges, cells)
    matrix = np.full(len(items.names) * len(judges.names), np.nan)
    matrix[cells] = values[:, 0]
    scores = ScoreMatrix(matrix.reshape(len(items.names), len(judges.names)), tuple(items.names), tuple(judges.names))
    taken = {"item": item, "judge": judge, "score": score}
    responses: dict[str, dict[str, str]] = {}
    if columns.response is not None:
        taken["response"] = named(read.name, read.names, columns.response)
        texts = read.table.column(columns.response).to_pylist()
        for item_id, name, text in zip(as_texts(items), as_texts(judges), texts, strict=True):
            if text:
                responses.setdefault(name, {})[item_id] = str(text)
    unused = [name for name in (*read.names, *read.unread) if name not in taken.values()]
    left_out = [LeftOut(name, "not needed") for name in unused]
    size = f"items: {len(items.names):,}, judges: {len(judges.names):,} ({listed([repr(j) for j in judges.names])})"
    notes = [*notes, size, _missing_scores(read, matrix)]
    reading = _reading(read, taken, "long", tuple(judges.names), left_out, notes)
    return RecordedTable(scores, responses), reading


def _missing_scores(read: InputTable, values: NDArray[np.float64]) -> str:
    """How many scores are missing, in words; ``InputError`` where all are."""
    missing = int(np.isnan(values).sum())
    if missing == values.size:
        raise InputError(f"{read.name}: every score is missing; nothing can be aggregated")
    return f"missing scores: {missing:,} of {values.size:,}"


def _refuse_repeated_cells(read: InputTable, items: Identifiers, judges: Identifiers, cells: NDArray[np.intp]) -> None:
    """``InputError`` naming the items that a judge scored more than once."""
    order = np.argsort(cells, kind="stable")
    again = np.flatnonzero(np.diff(cells[order]) == 0)
    if not len(again):
        return
    examples = [
        f"item {items.names[items.codes[second]]!r} and judge {judges.names[judges.codes[second]]!r} "
        f"({', '.join(read.locate([first, second]))})"
        for first, second in zip(order[again[:5]].tolist(), order[again[:5] + 1].tolist(), strict=True)
    ]
    more = f" and {len(again) - 5:,} more" if len(again) > 5 else ""
    raise InputError(f"{read.name}: several rows for {', '.join(examples)}{more}; keep one of each, or their mean")


def _wide(read: InputTable, item: str, columns: ScoreColumns, options: ReadingOptions) -> tuple[RecordedTable, Reading]:
    judges, left_out = judge_columns(read, item, columns)
    items = identifiers(read, item)
    refuse_repeated(read, item, items, remedy=_remedy_of_repeated(read))
    refuse_spaces(read, "the name of a judge", judges)
    values, notes = numbers(read, judges, options.decimal, "; leave a column that is no judge out with --drop")
    notes = [*notes, _missing_scores(read, values)]
    reading = _reading(read, {"item": item}, "wide", tuple(judges), left_out, notes)
    return RecordedTable(ScoreMatrix(values, tuple(items.names), tuple(judges))), reading


def _remedy_of_repeated(read: InputTable) -> str:
    """What to do about items with several rows in a table that is taken to be wide."""
    judge, score = (next((n for n in read.names if is_called(n, synonyms)), None) for synonyms in (JUDGE, SCORE))
    if judge is None and score is None:
        return "a wide table has one row an item; keep one, or name a long table's columns with --judge and --score"
    lacking, option = ("score", "--score") if score is None else ("judge", "--judge")
    return (
        f"with its column {(judge or score)!r} it looks like a long table without a {lacking}'s column; name that "
        f"with {option} (columns.{lacking} in a workspace)"
    )


def _reading(
    read: InputTable,
    taken: Mapping[str, str],
    layout: Any = None,
    judges: tuple[str, ...] = (),
    left_out: Sequence[LeftOut] = (),
    notes: Sequence[str] = (),
) -> Reading:
    rows = read.table.num_rows
    return Reading(read.name, read.parser, rows, layout, taken, judges, tuple(left_out), (*read.notes, *notes))


def _text(value: object) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value) if isinstance(value, (dict, list)) else str(value)
