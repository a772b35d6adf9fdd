"""``care judges report``: each judge against a few labels by people, in plain sentences."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli import tables
from orchestration.cli.output import Json, console, errors, show
from orchestration.cli.rate import Anchors, Drawn, Labels, Level, read_with_labels


@tables.with_form
def judge_report(
    scores: tables.Scores,
    labels: Labels,
    drawn: Drawn = None,
    of: Annotated[str | None, typer.Option(help="Name of one judge; by default all are reported.")] = None,
    items: Annotated[Path | None, typer.Option(help="item_id and texts, for the effect of length; split_unit.")] = None,
    cut: Annotated[
        float | None, typer.Option(help="A score above it passes; needed unless scores have two values.")
    ] = None,
    orders: Annotated[
        Path | None,
        typer.Option(help="item_id, judge, order, score of pairs in both orders, for the effect of position."),
    ] = None,
    judges: tables.Judges = None,
    anchors: Anchors = None,
    level: Level = 0.9,
    json: Json = False,
    *,
    form: tables.Form,
) -> None:
    """Say of each judge what it passes of what people pass, how sure that is, and what else it follows."""
    from assets.table.judge_reports import judge_reports, position_sentence, sentences, with_cut
    from warehouse.sources.files import read_orders

    table, given, config = read_with_labels(scores, labels, drawn, items, None, judges, anchors, form)
    found = judge_reports(table, given, with_cut(config, cut), only=of, level=level)
    if found.ties:
        errors.print(f"{found.ties} ties are left out: a judge is reported on what people decide")
    if json:
        rows = [
            {**asdict(report), "misses": [found.item_ids[row] for row in report.misses]} for report in found.reports
        ]
        show(rows, "", as_json=True)
    shown = None if orders is None else read_orders(orders, tell=tables.tell)
    pairs = any(record.response_2 for record in table.items.values())
    for report in () if json else found.reports:
        console.print(f"{report.judge}:", style="bold")
        for sentence in sentences(report, found.item_ids, pairs=pairs):
            console.print(f"  {sentence}")
        position = None if shown is None else position_sentence(shown, report.judge, report.cut)
        if position is not None:
            console.print(f"  {position}")
    for name, why in found.left_out.items():
        errors.print(f"no report of {name}: {why}", style="yellow")
