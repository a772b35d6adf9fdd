"""Command ``care import``, which converts other tools' files into tables of scores and items."""

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.output import console, errors, watching

Kind = Annotated[
    str,
    typer.Argument(
        help="Tool: inspect_ai, lm_eval, alpaca_eval, promptfoo, deepeval, phoenix, langfuse, or care_release (judge "
        "outputs of the paper's released code)."
    ),
]
Out = Annotated[Path, typer.Option(help="Parquet or CSV file to write: the table of scores (item_id, judge, score).")]
Items = Annotated[
    Path | None, typer.Option(help="Parquet or CSV file to write: texts, gold and systems, for `care fit --items`.")
]


def import_(
    kind: Kind,
    path: Annotated[Path, typer.Argument(help="File that the tool wrote, or a folder of such files.")],
    out: Out,
    items: Items = None,
) -> None:
    """Convert another tool's files into a table of scores and, with --items, a table of items."""
    from warehouse.importers.registry import read_import
    from warehouse.spreadsheets import write_file

    with watching(f"reading {path.name}"):
        imported = read_import(kind, path)
    for sentence in imported.sentences():
        errors.print(sentence)
    write_file(imported.score_table(), out)
    written, also = f"{out}", ""
    if items is not None:
        write_file(imported.item_table(), items)
        written, also = f"{out} and {items}", f" --items {items}"
    console.print(f"written to {written}; next: care fit {out}{also} --out out")
