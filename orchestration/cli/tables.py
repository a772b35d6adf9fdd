"""What commands that read tables share: the options that name columns and formats, and printing what was read.

Belongs here: options, and what they mean together. Does not: reading (``warehouse.sources``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import errors

if TYPE_CHECKING:
    from warehouse.sources.reading import Reading
    from warehouse.testsets import ReadingOptions, ScoreColumns

Scores = Annotated[
    Path,
    typer.Argument(
        help="Table of scores: a row for each score (item_id, judge, score), or a row for each item and a column for "
        "each judge. CSV, JSON lines, Parquet, Excel and more."
    ),
]
Judges = Annotated[Path | None, typer.Option(help="judge, family.")]
Item = Annotated[str | None, typer.Option("--item", help="Column of item ids; by default found by its name.")]
Judge = Annotated[
    list[str] | None,
    typer.Option("--judge", help="Column that names the judge of each row; or, repeated, the column of each judge."),
]
Score = Annotated[str | None, typer.Option("--score", help="Column of scores, in a table with one row for each score.")]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", help="Column that is no judge, in a table with a column for each judge; repeatable."),
]
Separator = Annotated[
    str | None, typer.Option("--separator", help="Character between the columns of a text file; by default found.")
]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Encoding of a text file; by default UTF-8.")]
Decimal = Annotated[str | None, typer.Option("--decimal", help="Decimal mark of numbers in a text file: '.' or ','.")]
Sheet = Annotated[str | None, typer.Option("--sheet", help="Sheet to read of a workbook that has several.")]


def score_columns(
    item: str | None, judge: Sequence[str] | None, score: str | None, drop: Sequence[str] | None
) -> ScoreColumns:
    """The columns that were named; several judges are the columns of a table with a column for each judge.

    Raises
    ------
    InputError
        Two of the options contradict each other.
    """
    from care_ops.errors import InputError
    from warehouse.testsets import ScoreColumns

    several = judge is not None and len(judge) > 1
    if several and score is not None:
        raise InputError(
            "--score is for a table with a row for each score, several --judge for one with a column for each judge; "
            "give only one of the two options"
        )
    if drop and several:
        raise InputError("several --judge already name every column that is a judge; leave --drop out")
    given = {
        "item_id": item,
        "judge": judge[0] if judge and not several else None,
        "score": score,
        "judge_columns": tuple(judge) if judge and several else None,
        "drop": tuple(drop) if drop else None,
    }
    return ScoreColumns.model_validate({name: value for name, value in given.items() if value is not None})


def reading_options(
    separator: str | None, encoding: str | None, decimal: str | None, sheet: str | None
) -> ReadingOptions:
    r"""How to read the files; ``\t`` is a tab.

    Raises
    ------
    InputError
        The separator has several characters, or the decimal mark is none.
    """
    from care_ops.errors import InputError
    from warehouse.testsets import ReadingOptions

    separator = "\t" if separator == "\\t" else separator
    if separator is not None and len(separator) != 1:
        raise InputError(f"--separator is {separator!r}; give one character, or \\t for a tab")
    if decimal not in (None, ".", ","):
        raise InputError(f"--decimal is {decimal!r}; use '.' or ','")
    given = {"separator": separator, "encoding": encoding, "decimal": decimal, "sheet": sheet}
    return ReadingOptions.model_validate(given)


def tell(reading: Reading) -> None:
    """Print on standard error how a file was read, before anything is computed from it."""
    first, *more = reading.sentences()
    errors.print(f"read {first}", markup=False, highlight=False, soft_wrap=True)
    for sentence in more:
        errors.print(f"  {sentence}", markup=False, highlight=False, soft_wrap=True)
