"""What commands that read tables share: the options that name columns, and telling what was read.

Belongs here: options and sentences. Does not: reading (``warehouse.sources``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import errors

if TYPE_CHECKING:
    from warehouse.sources.reading import Reading
    from warehouse.testsets import ReadingOptions, ScoreColumns

SCORES = "Long (item_id, judge, score) or wide; CSV, JSON lines, Parquet, Excel and more."

Item = Annotated[str | None, typer.Option("--item", help="Column of item ids; by default looked for by its name.")]
Judge = Annotated[
    list[str] | None,
    typer.Option("--judge", help="Column that names the judge; of a wide table the judges' columns, repeat it."),
]
Score = Annotated[str | None, typer.Option("--score", help="Column of scores, where each row is one judge's.")]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="Column of a wide table that is no judge; repeat it.")]
Separator = Annotated[str | None, typer.Option("--separator", help="Of text files; by default looked for.")]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Of text files; UTF-8 by default.")]
Decimal = Annotated[str | None, typer.Option("--decimal", help="'.' or ',': what stands before decimals.")]
Sheet = Annotated[str | None, typer.Option("--sheet", help="Of a workbook with several.")]


def score_columns(
    item: str | None, judge: Sequence[str] | None, score: str | None, drop: Sequence[str] | None
) -> ScoreColumns:
    """The columns that were named; several judges are columns of a wide table.

    Raises
    ------
    InputError
        Options that do not go together.
    """
    from care_ops.errors import InputError
    from warehouse.testsets import ScoreColumns

    several = judge is not None and len(judge) > 1
    if several and score is not None:
        raise InputError("--score is of a table with a row a score, several --judge of one with a column a judge")
    if drop and several:
        raise InputError("--drop leaves columns out of all, several --judge are all there are; give one of them")
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
    r"""What was said of the files; ``\t`` is a tab.

    Raises
    ------
    InputError
        A separator of several characters, a decimal sign that is none.
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
    """Print what was taken for what, before anything is made of it; on standard error, beside warnings."""
    first, *more = reading.sentences()
    errors.print(f"read {first}", markup=False, highlight=False, soft_wrap=True)
    for sentence in more:
        errors.print(f"  {sentence}", markup=False, highlight=False, soft_wrap=True)
