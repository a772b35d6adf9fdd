"""Functions that read the tables of a fit: scores, items, families and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from care_ops.errors import InputError, counted, guarded, listed
from care_ops.minimum_sizes import MIN_COLUMNS
from warehouse.items import ItemRecord, refuse_strangers
from warehouse.testsets import ReadingOptions, ScoreColumns

if TYPE_CHECKING:
    from assets.table.fitting import ScoreTable
    from care_ops.fit_labels import FitLabels
    from care_ops.scales import Scale
    from care_ops.scores import ScoreMatrix
    from warehouse.sources.reading import Reading
    from warehouse.sources.tables import TableSource


@dataclass(frozen=True)
class TableInputs:
    """Input tables of a fit, as paths or data frames, and scales of the scores.

    Attributes
    ----------
    items : path or frame, optional
        Table with ``item_id`` and any other fields of ``ItemRecord``; other columns become the item's metadata.
    judges : path or frame, or mapping judge -> family, optional
        Declared family of each judge.
    labels : path or frame, or mapping item -> label, optional
        Labels that the fit may use.
    scale : (low, high), optional
        Scale of the panel; scores on other scales are rescaled to this scale (``care_ops.scales``).
    scales : mapping judge -> (low, high), optional
        Scales of individual judges.
    """

    scores: TableSource
    items: TableSource | None = None
    judges: TableSource | Mapping[str, str] | None = None
    labels: TableSource | Mapping[str, float] | None = None
    scale: Scale | None = None
    scales: Mapping[str, Scale] | None = None


@guarded("save the table again, as CSV in UTF-8 or as Parquet", "the tables")
def read_table(
    inputs: TableInputs, columns: ScoreColumns, options: ReadingOptions, report: Callable[[Reading], object]
) -> ScoreTable:
    """Read the tables of a fit; call ``report`` with a record of how each table was read.

    Raises ``InputError`` if a table cannot be read or contradicts the scores, or if there is only one judge.
    """
    from assets.table.fitting import ScoreTable
    from care_ops.outliers import on_one_scale
    from warehouse.sources.files import items_named, read_scores, texts_in_scores

    readings: list[Reading] = []

    def keep(reading: Reading) -> None:
        readings.append(reading)
        report(reading)

    of_scores: list[Reading] = []
    recorded = read_scores(inputs.scores, columns, options=options, report=of_scores.append)
    source = of_scores[0].source
    try:
        scores, rescaled, done = on_one_scale(recorded.scores, inputs.scale, inputs.scales or {})
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    described, read = [], of_scores[0]
    if inputs.items is None:
        described, read = texts_in_scores(inputs.scores, read, options)
    keep(read.noting(done))
    matrix = _with_families(scores, inputs.judges, options, keep)
    if matrix.shape[1] < MIN_COLUMNS:
        raise InputError(f"{source}: there is only one judge, {matrix.judges[0]!r}; give the scores of at least three")
    item = usual_item(of_scores[0], columns)
    records = items_named(recorded, of_scores[0].columns["item"]) | {record.item_id: record for record in described}
    if inputs.items is not None:
        records = _read_items(inputs.items, matrix, item, options, keep)
    labels = _read_labels(inputs.labels, item, options, keep)
    try:
        labels.rows(matrix.item_ids)
    except InputError as error:
        raise InputError(f"{readings[-1].source}: {error}") from None
    return ScoreTable(source, matrix, records, labels, readings, rescaled=rescaled)


def usual_item(of_scores: Reading, columns: ScoreColumns) -> str:
    """Return the id column of the tables of items and labels; several id columns are separated by commas."""
    found = of_scores.columns["item"]
    return found if "," in found else columns.item_id


def _read_labels(
    source: TableSource | Mapping[str, float] | None,
    item: str,
    options: ReadingOptions,
    report: Callable[[Reading], object],
) -> FitLabels:
    from assets.labels import read_labels
    from care_ops.fit_labels import NO_LABELS, FitLabels

    if source is None or (isinstance(source, Mapping) and not source):
        return NO_LABELS
    return FitLabels.of(read_labels(source, item, options, report))


def _with_families(
    matrix: ScoreMatrix,
    source: TableSource | Mapping[str, str] | None,
    options: ReadingOptions,
    report: Callable[[Reading], object],
) -> ScoreMatrix:
    from care_ops.scores import ScoreMatrix
    from warehouse.sources.files import read_families

    if source is None or (isinstance(source, Mapping) and not source):
        return matrix
    families = read_families(source, options, report)
    if unknown := [judge for judge in families if judge not in matrix.judges]:
        where = _place(source, "families")
        raise InputError(
            f"{where}: judge {unknown[0]!r} has no scores; remove the row, or use one of {listed(matrix.judges)}"
        )
    return ScoreMatrix(matrix.values, matrix.item_ids, matrix.judges, families)


def _read_items(
    source: TableSource, matrix: ScoreMatrix, item: str, options: ReadingOptions, report: Callable[[Reading], object]
) -> dict[str, ItemRecord]:
    from warehouse.sources.files import read_items

    taken: list[Reading] = []
    records = {record.item_id: record for record in read_items(source, options=options, item=item, report=taken.append)}
    scored = {matrix.item_ids[k] for k in (matrix.values == matrix.values).any(axis=1).nonzero()[0]}
    unscored = [item for item in records if item not in scored]
    lacking = f"no score, and thus no estimate: {len(unscored):,} of {counted(len(records), 'item')}"
    report(taken[0].noting(f"{lacking}, such as {first!r}" for first in unscored[:1]))
    refuse_strangers(matrix.item_ids, records, _place(source, "items"))
    return records


def _place(source: object, what: str) -> str:
    return str(source) if isinstance(source, (str, Path)) else what


def score_columns(
    item: str | None, judge: Sequence[str] | None, score: str | None, drop: Sequence[str] | None
) -> ScoreColumns:
    """Collect the column names of a table of scores; if ``judge`` has several names, each judge has its own column.

    Raises ``InputError`` if two options contradict each other.
    """
    several = len(judge or ()) > 1
    if several and score is not None:
        raise InputError(
            "--score is for a table with a row for each score, but several --judge options are for a table with a "
            "column for each judge; remove --score, or give --judge only once, with the column that names the judges"
        )
    if drop and several:
        raise InputError("the --judge options already name all judge columns, so --drop has no effect; remove --drop")
    given = {
        "item_id": item,
        "judge": judge[0] if judge and not several else None,
        "score": score,
        "judge_columns": tuple(judge) if judge and several else None,
        "drop": tuple(drop) if drop else None,
    }
    return ScoreColumns.model_validate({name: value for name, value in given.items() if value is not None})


def declared_scales(words: Sequence[str]) -> tuple[Scale | None, dict[str, Scale]]:
    """Parse ``--scale`` (``1:10`` or ``JUDGE=0:100``) into the panel's and the judges' scales.

    Raises ``InputError`` if a scale has another form, or is given twice.
    """
    of_judge: dict[str | None, Scale] = {}
    for word in words:
        judge, _, ends = word.rpartition("=")
        try:
            low, high = map(float, ends.split(":"))
        except ValueError:
            raise InputError(
                f"--scale {word!r} is not a scale; give the lowest and the highest score (such as 1 10), or the scale "
                "of one judge (such as JUDGE=0:100)"
            ) from None
        if (judge or None) in of_judge:
            raise InputError(f"--scale is given twice{f' for {judge}' if judge else ''}; give it once")
        of_judge[judge or None] = (low, high)
    return of_judge.pop(None, None), {judge: scale for judge, scale in of_judge.items() if judge is not None}


def reading_options(
    separator: str | None,
    encoding: str | None,
    decimal: str | None,
    sheet: str | None,
    grades: str | Sequence[str] | None = None,
) -> ReadingOptions:
    r"""Build the options for reading the files; raise ``InputError`` if a value is not permitted.

    The separator ``\t`` means a tab. ``grades`` are words, lowest first: a list, or a string with commas.
    """
    separator = "\t" if separator == "\\t" else separator
    if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in '\0\n\r"'):
        raise InputError(f"--separator is {separator!r}; give one ASCII character, or \\t for a tab")
    if decimal not in (None, ".", ","):
        raise InputError(f"--decimal is {decimal!r}; use '.' or ','")
    words = tuple(word.strip() for word in (grades.split(",") if isinstance(grades, str) else grades or ()))
    if len({word.casefold() for word in words if word}) < len(words):
        wrong = "an empty word" if "" in words else "a repeated word"
        raise InputError(
            f"--grades {', '.join(words)!r} has {wrong}; give each word once, lowest first, such as poor,fair,good"
        )
    given = {"separator": separator, "encoding": encoding, "decimal": decimal, "sheet": sheet, "grades": words}
    return ReadingOptions.model_validate(given)
