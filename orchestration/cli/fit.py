"""``care fit``: aggregate a file of scores; no workspace needed.

Belongs here: the options, and what is printed. Does not: the work (``assets.table``), reading files (``inputs``).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli import tables
from orchestration.cli.inputs import read_table
from orchestration.cli.output import console, errors, show, speaking_errors, system_table

if TYPE_CHECKING:
    from assets.report.data import ReportData


Out = Annotated[Path, typer.Option(help="Folder to write to.")]
Items = Annotated[Path | None, typer.Option(help="item_id and any of response, gold, split_unit.")]
AnchorFile = Annotated[Path | None, typer.Option(help="item_id, label: what the fit may see.")]
Aggregators = Annotated[
    list[str] | None, typer.Option(help="Which aggregators, in order; repeat it. By default the recommended ones.")
]
Cut = Annotated[float | None, typer.Option(help="A score above it is a vote for Q = 1.")]
Admit = Annotated[str, typer.Option(help="'rule' or 'all'.")]
Scale = Annotated[tuple[float, float] | None, typer.Option(help="Lowest and highest score; others are missing.")]
Calibrate = Annotated[
    str, typer.Option(help="Declared scale of quality: own, uniform (needs --scale), judge:NAME, anchors.")
]
Prevalence = Annotated[float | None, typer.Option(help="Declared share of items with Q = 1.")]
Resamples = Annotated[int, typer.Option(help="Resamples for intervals of weights, 20 or more; 0 for none.")]
Systems = Annotated[
    list[str] | None,
    typer.Option(help="Column of --items that names the item's system; twice for pairs, left and right."),
]
Seed = Annotated[int, typer.Option(help="Seed of random starts.")]
Json = Annotated[bool, typer.Option("--json", help="Print the table as JSON.")]


@speaking_errors
@tables.with_settings
def fit(
    scores: tables.Scores,
    out: Out,
    items: Items = None,
    judges: tables.Judges = None,
    anchors: AnchorFile = None,
    aggregator: Aggregators = None,
    cut: Cut = None,
    admit: Admit = "rule",
    scale: Scale = None,
    calibrate: Calibrate = "own",
    prevalence: Prevalence = None,
    intervals: Resamples = 60,
    systems: Systems = None,
    seed: Seed = 0,
    json: Json = False,
    item: tables.Item = None,
    judge: tables.Judge = None,
    score: tables.Score = None,
    drop: tables.Drop = None,
    separator: tables.Separator = None,
    encoding: tables.Encoding = None,
    decimal: tables.Decimal = None,
    sheet: tables.Sheet = None,
    *,
    settings: tables.Settings,
) -> None:
    """Aggregate recorded scores and write aggregates, judges, fit.json and a report page."""
    from assets.table.files import write_files
    from assets.table.fitting import fit_table
    from assets.table.options import FitOptions, table_config
    from care_ops.errors import InputError

    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; give a folder to write to")
    columns = tables.score_columns(item, judge, score, drop)
    reading = tables.reading_options(separator, encoding, decimal, sheet)
    given: dict[str, Any] = {
        "cut": cut,
        "admit": admit,
        "scale": scale,
        "calibrate": calibrate,
        "prevalence": prevalence,
        "seed": seed,
    }
    several: dict[str, Any] = {"aggregators": aggregator, "systems": systems, "intervals": intervals}
    config = table_config(FitOptions(**given, **several, **settings))
    result = fit_table(read_table(scores, items, judges, anchors, columns, reading), config)
    write_files(result, out)
    _print(result.page, out, as_json=json)


def _print(page: ReportData, out: Path, *, as_json: bool) -> None:
    """The aggregates and systems on standard output; what a person should know of them on standard error."""
    from assets.table.rows import aggregate_rows

    show(aggregate_rows(page), page.title, as_json=as_json)
    if page.systems.systems and not as_json:
        show(system_table(page.system_rows()), f"systems, by {page.systems.aggregator}", as_json=False)
    for check in page.checks:
        if not check.admitted:
            errors.print(f"not admitted: {check.judge}: {check.reason}", markup=False, highlight=False)
    for warning in page.warnings():
        errors.print(f"warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    for name, why in page.failures.items():
        errors.print(f"could not answer: {name}: {why}", style="yellow", markup=False, highlight=False)
    if not as_json:
        console.print(f"written to {out}", highlight=False, soft_wrap=True)
