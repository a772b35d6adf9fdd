"""Command ``care judges report``, which measures how well each judge and the panel agree with people."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from care_ops.errors import InputError, counted
from orchestration.cli import rate, tables
from orchestration.cli.output import Json, console, errors, show

if TYPE_CHECKING:
    from assets.table.judge_reports import Reports

_HEADINGS = (
    "kappa: agreement with people on which answers pass (1 is full agreement, 0 is chance). AUC: probability that an "
    "answer that people passed scores higher than an answer that they failed. bias: the judge's pass rate (or mean "
    "grade) minus that of people. Parentheses contain confidence intervals."
)


Cut = Annotated[
    float | None,
    typer.Option(
        help="Scores and labels above this value pass; labels of 0 and 1 already mean fail and pass. Required if "
        "scores have more than two values."
    ),
]
Bar = Annotated[
    float | None, typer.Option(help="Minimum agreement with labels for a judge to approve releases; default: kappa .6.")
]


@tables.with_form
def judge_report(
    scores: rate.ScoresOrName,
    labels: rate.Labels = None,
    drawn: rate.Drawn = None,
    of: Annotated[str | None, typer.Option(help="Judge to report on; by default, all judges.")] = None,
    items: Annotated[Path | None, typer.Option(help="Table of items: item_id and split_unit.")] = None,
    cut: Cut = None,
    workspace: rate.Folder = None,
    judges: tables.Judges = None,
    scale: tables.Scale = None,
    fit_labels: rate.FitLabels = None,
    bar: Bar = None,
    by: Annotated[str, typer.Option(help="Measure of agreement for --bar: kappa, weighted_kappa or auc.")] = "kappa",
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit with 3 if agreement is below --bar, 4 if there are too few labels.")
    ] = False,
    level: rate.Level = 0.9,
    json: Json = False,
    *,
    form: tables.Form,
) -> None:
    """Compare the judges and the panel with human labels; report agreement, bias and who may approve releases."""
    from assets.table.judge_reports import PANEL, judge_reports
    from care_ops.results.judge_gate import DEFAULT_BAR, MEASURES, gate_sentence, may_gate

    if by not in MEASURES:
        raise InputError(f"--by {by!r} is not a measure; choose {', '.join(MEASURES)}")
    if by == "auc" and bar is None:
        raise InputError(
            "--by auc needs --bar, because the default of .6 is for kappas; give a minimum AUC, such as --bar 0.9"
        )
    bar = DEFAULT_BAR if bar is None else bar
    inputs = tables.TableInputs(scores, items, judges, fit_labels, *tables.declared_scales(scale or ()))
    table, given, config = rate.read_sample(inputs, labels, drawn, None, workspace, form, cut=cut, rates=False)
    found = judge_reports(table, given, config, only=of, level=level)
    if found.ties:
        errors.print(f"{counted(found.ties, 'tie')} left out: the report uses only labels that prefer one answer")
    people = [*([] if found.panel is None else [found.panel]), *(report.people for report in found.reports)]
    advice = {each.judge: may_gate(each, bar, by) for each in people}
    if json:
        rows = {report.judge: asdict(report) for report in found.reports}
        if found.panel is not None:
            rows = {PANEL: {"judge": PANEL, "people": asdict(found.panel)}, **rows}
        gates = {judge: {**asdict(each), "remedy": each.remedy} for judge, each in advice.items()}
        show([{**row, "gate": gates[judge]} for judge, row in rows.items()], "", as_json=True)
    else:
        for each in people:
            console.print(gate_sentence(advice[each.judge], each))
        _print_reports(found)
    for name, why in found.left_out.items():
        errors.print(f"no report on {name if name == PANEL else f'judge {name}'}: {why}", style="yellow")
    if gate:
        decided = advice.get(of or PANEL)
        if decided is None or decided.outcome != "yes":
            raise typer.Exit(rate.REGRESSION if decided is not None and decided.outcome == "no" else rate.NOT_ENOUGH)


def _print_reports(found: Reports) -> None:
    from assets.table.judge_reports import PANEL, sentences
    from care_ops.results.judge_gate import people_sentences

    console.print(_HEADINGS)
    of_panel = [] if found.panel is None else [(PANEL, people_sentences(found.panel))]
    for name, lines in [*of_panel, *((report.judge, sentences(report)) for report in found.reports)]:
        console.print(f"{name}:", style="bold")
        for line in lines:
            console.print(f"  {line}")
