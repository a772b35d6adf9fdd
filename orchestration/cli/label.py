"""Command ``care label``, which collects labels in the terminal, on a web page or in a spreadsheet.

Raters see the items in random order, without scores and system names.
"""

from __future__ import annotations

import getpass
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from care_ops.errors import InputError, counted
from orchestration.cli import tables
from orchestration.cli.asking import Answers, answers_for, ask, labelling_progress, refuse_without_terminal
from orchestration.cli.output import Root, console, typed_again

if TYPE_CHECKING:
    from assets.table.label_file import LabelFile
    from care_ops.config import FitConfig
    from care_ops.scores import ScoreMatrix
    from warehouse.items import ItemRecord

_COUNT = 10
_TABLE = Path("to_fill_in.csv")


@dataclass(frozen=True)
class _Subject:
    items: Mapping[str, ItemRecord]
    panel: ScoreMatrix | None
    config: FitConfig
    scale: tuple[float, float] | None
    output: Path
    to_fit: str  # message with the command that fits with the labels
    higher_is_right: bool = False  # whether a high score of a pair means that the right answer is better

    def answers(self, wanted: str | None) -> Answers:
        pairs = any(item.response_2 for item in self.items.values())
        return answers_for(wanted, self.scale, pairs=pairs, higher_is_right=self.higher_is_right)


@tables.with_form
def label(
    context: typer.Context,
    testset: Annotated[str | None, typer.Argument(help="Name of a test set; omit it with --items or --scores.")] = None,
    workspace: Root = Path(),
    items: Annotated[Path | None, typer.Option(help="Table of items; not needed if --scores has the texts.")] = None,
    scores: Annotated[Path | None, typer.Option(help="Table of scores; labels are on the same scale.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Label file; by default, the test set's label file or, for tables, labels.csv.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Draw items until the file has this many (default: ten more than before).")
    ] = None,
    repeat: Annotated[int, typer.Option(min=0, help="Number of labelled items that another person labels again.")] = 0,
    answers: Annotated[
        str | None,
        typer.Option(help="Keys and their labels (y=1,n=0), or a range of labels (1-5); by default the scores' scale."),
    ] = None,
    rater: Annotated[
        str | None, typer.Option(help="Name of the rater, if the imported table has none; by default, your user name.")
    ] = None,
    export: Annotated[Path | None, typer.Option(help="Write the unlabelled items to this CSV file, and exit.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a web page for labelling on a computer without CARE, and exit.")
    ] = None,
    imported: Annotated[Path | None, typer.Option("--import", help="Import labels from this table, and exit.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random draw of items.")] = 0,
    *,
    form: tables.Form,
) -> None:
    """Ask a person to label ten randomly drawn items, or the items that an earlier call left unlabelled."""
    from assets.table.label_file import LabelFile

    if testset is None:
        subject = _of_tables(context, items, scores, out or Path("labels.csv"), form)
    else:
        tables.refuse_given("is for tables; leave out this option or the test set", form, items=items, scores=scores)
        subject = _of_workspace(testset, workspace, out)
    possible = subject.answers(answers)
    file = LabelFile(subject.output, [])
    rater = rater or getpass.getuser()
    with file.locked():
        if imported is not None:
            return _take(subject, file, imported, possible, rater)
        _draw(subject, file, count=count, repeat=repeat, seed=seed)
        file.refuse_unknown(subject.items)
        for path in filter(None, (export, html)):
            _write_out(subject, file, path, possible, context, page=path is html)
        if not (export or html):
            refuse_without_terminal(_typed_with(context, export=_TABLE), _typed_with(context, imported=_TABLE))
            file.write()  # other sessions must see the drawn items before this one asks
    if export is html is None:
        ask(file, subject.items, possible, rater)
        _print_effect(subject, file)
    return None


def _of_tables(
    context: typer.Context, items: Path | None, scores: Path | None, output: Path, form: tables.Form
) -> _Subject:
    from assets.table.fitting import TableConfig
    from assets.table.reading import usual_item
    from care_ops.scales import scale_of_grades
    from warehouse.items import refuse_strangers
    from warehouse.sources.files import read_items

    if items is scores is None:
        raise InputError("`care label` takes either a test set of the workspace or --items (or --scores with texts)")
    table = None if scores is None else tables.read_table(tables.TableInputs(scores), form)
    records, panel = ({}, None) if table is None else (table.items, table.scores)
    if items is not None and items != scores:
        item = form.columns.item_id if table is None else usual_item(table.readings[0], form.columns)
        rows = read_items(items, options=form.reading, item=item, report=tables.print_reading)
        records = {record.item_id: record for record in rows}
    scored = set() if panel is None else {*panel.item_ids}
    if panel is not None and not records.keys() <= scored:
        refuse_strangers(panel.item_ids, records, items)
    for_fit = {*tables.OF_FILES, *(["items"] if scored and items != scores and records.keys() >= scored else [])}
    command = ["fit", "SCORES" if scores is None else str(scores)]
    typed = typed_again(context, command, **dict.fromkeys(context.params.keys() - for_fit))
    to_fit = f"to fit with these labels: {typed} --labels {shlex.quote(str(output))}"
    scale = None if panel is None else scale_of_grades(panel)
    return _Subject(records, panel, TableConfig().fit, scale, output, to_fit)


def _of_workspace(testset: str, root: Path, output: Path | None) -> _Subject:
    from orchestration.stores import read_workspace

    loaded = read_workspace(root)
    name = loaded.testset(testset).name
    folder, used = loaded.fit_folder(name), loaded.labels_file(name)
    records = {record.item_id: record for record in loaded.parts.read_items(name)}
    panel = folder.read_panel() if folder.panel_file.exists() else None
    output = output or used or loaded.root / "labels" / f"{name}.csv"
    to_fit, path, base = f"care run{loaded.option}", output.resolve(), loaded.root.resolve()
    if used is None or used.resolve() != path:
        shown = path.relative_to(base) if path.is_relative_to(base) else path
        named = ", ".join(f"{each}: {file}" for each, file in {**loaded.labels, name: shown}.items())
        to_fit = f"set `labels: {{{named}}}` in care.yaml, then: {to_fit}"
    to_fit, turned = f"to fit with these labels: {to_fit}", loaded.higher_is_right(name)
    return _Subject(records, panel, loaded.fit_config(name), loaded.testset(name).scale, output, to_fit, turned)


def _draw(subject: _Subject, file: LabelFile, *, count: int | None, repeat: int, seed: int) -> None:
    from assets.table.label_file import texts_of
    from assets.table.labelling import rows_to_label, second_labels

    item_ids = list(subject.items)
    if not any(map(texts_of, subject.items.values())):
        raise InputError(
            "no item has a text to show; give --items, a table with the columns prompt and response (for pairs: "
            "prompt, response_a and response_b)"
        )
    if count is None:
        drawn = len({row.item_id for row in file.rows})
        count = drawn if repeat or any(row.waits for row in file.rows) else min(drawn + _COUNT, len(item_ids))
    added = rows_to_label(file.rows, item_ids, count=count, seed=seed)
    again = second_labels(file.rows, repeat, seed) if repeat else []
    file.rows.extend([*added, *again])


def _take(subject: _Subject, file: LabelFile, table: Path, answers: Answers, rater: str) -> None:
    from assets.labels import read_labels
    from warehouse.fits import now

    # The file of labels has the sampling of the items, so the table's notes on sampling are not printed.
    labels = read_labels(table, report=lambda reading: tables.print_reading(replace(reading, notes=())))
    wrong = next((label for label in labels.given if not answers.permits(label.value)), None)
    if wrong is not None:
        raise InputError(
            f"{table}: item {wrong.item_id!r} has the label {wrong.value:g}, which is not permitted; correct it "
            f"({answers.written()}), or give other --answers"
        )
    filled, repeated = file.merge(labels.given, rater, now())
    done = f"{counted(filled, 'label')} and {counted(repeated, 'second label')} imported"
    console.print(f"{done}; {labelling_progress(file)}")
    _print_effect(subject, file)


def _print_effect(subject: _Subject, file: LabelFile) -> None:
    from assets.labels import read_labels
    from assets.table.label_effect import label_effect
    from care_ops.fit_labels import FitLabels

    if not any(row.label for row in file.rows):
        return
    labels = FitLabels.of(read_labels(file.path))
    effect = None if subject.panel is None else label_effect(subject.panel, subject.config, labels)
    if effect is not None:
        console.print(effect.sentence())
    console.print(subject.to_fit)


def _write_out(
    subject: _Subject, file: LabelFile, path: Path, answers: Answers, context: typer.Context, *, page: bool
) -> None:
    from assets.report.label_page import returned, write_label_page
    from assets.table.label_file import COLUMNS, blinded, exported, texts_of
    from warehouse.storage import write_bytes

    waiting = [row for row in file.rows if not row.label]
    if not waiting:
        raise InputError(
            f"{file.path}: every item has a label; draw more items with --count, or ask for second labels with --repeat"
        )
    if page:
        texts = [texts_of(subject.items[row.item_id]) for row in waiting]
        rows = [(blinded(row.item_id), row.drawn, row.probability, t) for row, t in zip(waiting, texts, strict=True)]
        write_label_page(path, rows, COLUMNS, answers.question, answers.buttons(), answers.scale)
        todo = "open the page in a browser, label the items and download a table; import the table with: "
    else:
        write_bytes(path, exported(path, waiting, subject.items))
        graded = context.params["answers"] is None and answers.scale is not None
        as_pass = "; for 1 (good) and 0 (bad), give --answers y=1,n=0 to both commands" if graded else ""
        todo = f"fill in `label` ({answers.written()}{as_pass}), and import the table with: "
    file.write()
    take_back = _typed_with(context, imported=returned(path) if page else path)
    console.print(f"{counted(len(waiting), 'item')} written to {path}; {todo}{take_back}")


def _typed_with(context: typer.Context, *, export: Path | None = None, imported: Path | None = None) -> str:
    return typed_again(context, export=export, html=None, imported=imported)
