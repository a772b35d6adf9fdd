"""``care criteria``: several criteria of the same items, a fit of each, and one page that shows them side by side.

Belongs here: the options, and what is printed. Belongs elsewhere: the work (``assets.table.criteria``), one criterion
(``fit``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestration.cli import tables
from orchestration.cli.output import console, errors, show, speaking_errors


@speaking_errors
@tables.with_settings
def criteria(
    scores: tables.Scores,
    by: Annotated[str, typer.Option(help="Column of the scores that names the criterion of each row.")],
    out: Annotated[Path, typer.Option(help="Folder to write to: a folder for each criterion, and criteria.html.")],
    items: Annotated[
        Path | None, typer.Option(help="item_id and any of response, gold; a column named as --by where gold differs.")
    ] = None,
    judges: tables.Judges = None,
    aggregator: Annotated[list[str] | None, typer.Option(help="Which aggregators, in order; repeat it.")] = None,
    scale: Annotated[tuple[float, float] | None, typer.Option(help="Lowest and highest score.")] = None,
    admit: Annotated[str, typer.Option(help="'rule' or 'all'.")] = "rule",
    intervals: Annotated[int, typer.Option(help="Resamples for intervals of weights; 0 for none.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
    item: tables.Item = None,
    judge: tables.Judge = None,
    score: tables.Score = None,
    *,
    settings: tables.Settings,
) -> None:
    """Fit each of several criteria by itself, and say what they share: which judges carry a halo."""
    from assets.table.criteria import fit_criteria, write_criteria
    from assets.table.options import FitOptions, table_config
    from assets.table.reading import TableInputs, read_criteria
    from care_ops.errors import InputError

    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; give a folder to write to")
    given: dict[str, Any] = {"aggregators": aggregator, "scale": scale, "admit": admit, "intervals": intervals}
    config = table_config(FitOptions(**given, **settings))
    columns = tables.score_columns(item, judge, score, None)
    options = tables.reading_options(None, None, None, None)
    result = fit_criteria(read_criteria(TableInputs(scores, items, judges), by, columns, options, tables.tell), config)
    write_criteria(result, out)
    show(result.rows(), f"{len(result.criteria)} criteria", as_json=json)
    for sentence in result.sentences():
        errors.print(sentence, style="yellow", markup=False, highlight=False, soft_wrap=True)
    if not json:
        console.print(f"written to {out}; see {out / 'criteria.html'}", highlight=False, soft_wrap=True)
