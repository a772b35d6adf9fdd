"""Command ``care fit``, which aggregates a table of scores without a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from care_ops.errors import counted
from orchestration.cli import tables
from orchestration.cli.output import (
    Why,
    console,
    errors,
    print_json,
    print_verdict,
    show,
    show_systems,
    typed_again,
    watching,
)

if TYPE_CHECKING:
    from assets.report.data import ReportData
    from assets.table.fitting import ScoreTable, TableConfig, TableFit
    from assets.table.label_effect import LabelEffect
    from care_ops.results.verdict import Remedies


Out = Annotated[
    Path | None,
    typer.Option(help="Output folder; by default named after the table of scores: scores-fit for scores.csv."),
]
Items = Annotated[Path | None, typer.Option(help="Table with item_id and, optionally, response, gold and split_unit.")]
Labels = Annotated[Path | None, typer.Option(help="Table of human labels (item_id and label) that the fit uses.")]
Aggregators = Annotated[
    list[str] | None, typer.Option(help="Aggregator to run; repeatable. By default, the recommended aggregators.")
]
Calibrate = Annotated[str, typer.Option(help="Scale of estimates: own (scale of scores), anchors (scale of labels).")]
Resamples = Annotated[int, typer.Option(help="Number of bootstrap resamples for weight intervals (0, or 20 or more).")]
Features = Annotated[
    list[str] | None,
    typer.Option("--feature", help="Column of --items with numbers that may bias judges, such as length; repeatable."),
]
Shuffled = Annotated[
    bool, typer.Option("--shuffled", help="Declare that rows are in random order; remove score trends across rows.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the verdict and the aggregates as JSON.")]

_WEIGHTS_SHOWN = 12

_OF_A_REPORT = {"scores", "items", "judges", "scale", *tables.OF_FILES}
"""Parameters that ``care fit`` and ``care judges report`` share."""


@tables.with_settings
@tables.with_form
def fit(
    context: typer.Context,
    scores: tables.Scores,
    items: Items = None,
    judges: tables.Judges = None,
    labels: Labels = None,
    out: Out = None,
    aggregator: Aggregators = None,
    scale: tables.Scale = None,
    calibrate: Calibrate = "own",
    intervals: Resamples = 60,
    system: tables.System = None,
    features: Features = None,
    shuffled: Shuffled = False,
    json: Json = False,
    why: Why = False,
    *,
    form: tables.Form,
    settings: tables.Settings,
) -> None:
    """Aggregate scores; write tables of estimates and judges, fit.json and a report page; print the verdict."""
    from assets.report.to_label import FILE as TO_LABEL
    from assets.table.files import write_files
    from assets.table.fitting import fit_table, unnamed_systems
    from assets.table.label_effect import label_effect
    from assets.table.options import FitOptions, table_config

    folder = tables.output_folder(out, scores, "fit")
    inputs = tables.TableInputs(scores, items, judges, labels, *tables.declared_scales(scale or ()))
    given: Any = {"scale": inputs.scale, "scales": inputs.scales, "calibrate": calibrate, "intervals": intervals}
    given |= {"aggregators": aggregator, "system": system, "features": features, "shuffled": shuffled}
    config = table_config(FitOptions(**given, **settings))
    table = tables.read_table(inputs, form)
    if labels is not None and not len(table.labels):
        errors.print(f"{labels} contains no labels yet; fill in its column `label`", style="yellow")
    if any(record.response_2 for record in table.records) and (hint := unnamed_systems(table, config)):
        errors.print(hint)
    with watching("fitting") as watch:
        result = fit_table(table, config, _remedies(context, folder, table, config), watch)
    other, added = write_files(result, folder)
    if added:
        errors.print(f"CARE added {added} unlabelled items to {folder / TO_LABEL} and changed no label there")
    if other:
        found = f"different labels for {counted(len(other), 'item')} (such as {other[0]!r}); correct one of the files"
        errors.print(f"{folder / TO_LABEL} and {labels} have {found}", style="yellow")
    effect = None if labels is None or json else label_effect(result.fit.scores, config.fit, table.labels)
    _print(result, folder, effect, as_json=json, everything=why)
    if result.verdict.state == "failed":
        raise typer.Exit(1)


def _remedies(context: typer.Context, out: Path, table: ScoreTable, config: TableConfig) -> Remedies:
    from assets.report.to_label import FILE
    from assets.table.fitting import has_pairs
    from assets.table.judge_reports import cut_of
    from care_ops.results.verdict import OF_ONE_JUDGE, PASS_MARK, Remedies, Step, label_values
    from care_ops.sparsity import scales_are_unlike

    to_label, answer = out / FILE, out / "aggregates.parquet"
    others = {str(each.name): None for each in context.command.params if each.name not in _OF_A_REPORT}
    cut = "VALUE" if None in map(cut_of, table.scores.values.T) else None
    changed = others | {"labels": context.params["labels"] or to_label, "cut": cut}
    report = f"run `{typed_again(context, ['judges', 'report'], **changed)}`"
    explained = f"; {PASS_MARK}" if cut else ""
    if cut and scales_are_unlike(table.scores.values):
        report, explained = f"{report[:-1]} --of JUDGE`", f"; {OF_ONE_JUDGE}"
    meaning = label_values("1 is good, 0 is bad; or a grade", pairs=has_pairs(table, config))
    again = Step("Fit again.", typed_again(context))
    more = "" if context.params["labels"] is None else "more "
    return Remedies(
        label=Step(
            f"Fill in the column `label` of {to_label} for about twenty {more}items ({meaning}), "
            "then fit again with the labels.",
            typed_again(context, labels=to_label),
        ),
        use=Step(f"Use the scores: the column `estimate` of {answer}, where `aggregator` is `care`."),
        again=again,
        decide=again,
        report=report + explained,
        cut=f"`{typed_again(context, cut='VALUE')}`; {PASS_MARK}",
    )


def _print(result: TableFit, out: Path, effect: LabelEffect | None, *, as_json: bool, everything: bool) -> None:
    from assets.table.files import PAGE, fit_document
    from assets.table.rows import aggregate_rows, agreement_with_gold, in_words

    page = result.page
    rows = aggregate_rows(page)
    if as_json:
        print_json({"verdict": fit_document(result)["verdict"], "aggregates": rows})
    elif everything:
        show(in_words(rows), page.title, as_json=False)
    if page.systems.systems and not as_json:
        show_systems(page, f"systems, by estimates of {page.systems.aggregator}")
    for name, why in page.failures.items():
        errors.print(f"no estimate from aggregator {name}: {why.removeprefix(f'{name}: ')}", style="yellow")
    print_verdict(result.verdict, errors if as_json else console, everything=everything)
    if as_json:
        return
    if everything:
        _print_weights(page)
    for line in agreement_with_gold(page, (page.lead, "avg")):
        console.print(line)
    if effect is not None:
        console.print(effect.sentence())
    console.print(f"report: {out / PAGE}")


def _print_weights(page: ReportData) -> None:
    from assets.table.rows import judge_rows

    weighted = [row for row in judge_rows(page) if row["weight"] is not None]
    weighted.sort(key=lambda row: -abs(row["weight"]))
    has_intervals = any(row["lo"] is not None for row in weighted)
    headings = {"judge": "judge", "weight": "weight"} | ({"lo": "from", "hi": "to"} if has_intervals else {})
    rows = [{heading: row[name] for name, heading in headings.items()} for row in weighted]
    if not rows:
        return
    rest = len(rows) - _WEIGHTS_SHOWN
    more = f"; {rest} more judges in judges.parquet" if rest > 0 else ""
    show(rows[:_WEIGHTS_SHOWN], f"weights in {page.lead}{more}", as_json=False)
