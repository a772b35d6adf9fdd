"""``care criteria``: several criteria of the same items, a fit of each, and one page that shows them side by side."""

from pathlib import Path
from typing import Annotated, Any

import typer

from assets.table.reading import TableInputs, read_criteria
from orchestration.cli import tables
from orchestration.cli.output import Json, console, errors, show


@tables.with_settings
@tables.with_form
def criteria(
    scores: tables.Scores,
    by: Annotated[str, typer.Option(help="Column of the scores that names the criterion of each row.")],
    items: Annotated[
        Path | None, typer.Option(help="item_id and any of response, gold; a column named as --by where gold differs.")
    ] = None,
    judges: tables.Judges = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to: a folder for each criterion, and criteria.html. By default scores-criteria."
        ),
    ] = None,
    aggregator: Annotated[list[str] | None, typer.Option(help="Which aggregators, in order; repeat it.")] = None,
    scale: tables.Scale = None,
    intervals: Annotated[int, typer.Option(help="Resamples for intervals of weights; 0 for none.")] = 0,
    json: Json = False,
    *,
    form: tables.Form,
    settings: tables.Settings,
) -> None:
    """Fit each of several criteria by itself, and say what they share: which judges carry a halo."""
    from assets.report.names import refuse_alike
    from assets.table.criteria import fit_criteria, write_criteria
    from assets.table.options import FitOptions, table_config

    folder = tables.output_folder(out, scores, "criteria")
    scales = tables.declared_scales(scale or ())
    given: dict[str, Any] = {"aggregators": aggregator, "scale": scales[0], "intervals": intervals}
    config = table_config(FitOptions(**given, **settings))
    read = read_criteria(TableInputs(scores, items, judges, None, *scales), by, form.columns, form.reading, tables.tell)
    refuse_alike("criterion", read, scores)
    result = fit_criteria(read, config)
    write_criteria(result, folder)
    show(result.rows(), f"{len(read)} criteria", as_json=json)
    for sentence in result.sentences():
        errors.print(sentence, style="yellow")
    if not json:
        console.print(f"written to {folder}; see {folder / 'criteria.html'}")
