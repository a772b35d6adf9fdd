"""``care label``: people label items in the terminal, or in a spreadsheet that goes out and comes back.

Who labels sees the texts of an item and nothing that judges or systems have to do with it, in random order.

Belongs here: options, the screen, the keys. Belongs elsewhere: which items (``assets.table.labelling``), the file of
labels (``warehouse.sources.label_file``).
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import typer

from orchestration.cli.output import console, speaking_errors

if TYPE_CHECKING:
    from assets.table.label_file import LabelFile
    from care_ops.config import FitConfig
    from care_ops.scores import ScoreMatrix
    from warehouse.items import ItemRecord

UNDO, SKIP, QUIT = "u", "s", "q"
_COUNT = 20


@dataclass(frozen=True)
class _Subject:
    """What is labelled: items, their scores where there are any, and the scale of a label."""

    items: Mapping[str, ItemRecord]
    panel: ScoreMatrix | None
    config: FitConfig
    scale: tuple[float, float] | None
    output: Path


@speaking_errors
def label(
    testset: Annotated[str | None, typer.Argument(help="Test set of the workspace; or give --items.")] = None,
    workspace: Annotated[Path, typer.Option(help="Folder of care.yaml.")] = Path(),
    items: Annotated[Path | None, typer.Option(help="Table of items, where there is no workspace.")] = None,
    scores: Annotated[Path | None, typer.Option(help="Table of their scores, for --chosen and --width.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="File of labels; by default labels/TESTSET.csv, or labels.csv.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Items that the file is to have.")] = _COUNT,
    chosen: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share that is drawn by what a label would tell; the rest at random.")
    ] = 0.0,
    repeat: Annotated[int, typer.Option(min=0, help="Labelled items to ask about again; shows how people err.")] = 0,
    answers: Annotated[
        str | None, typer.Option(help="Keys and labels, as y=1,n=0, or a range, as 1-5; by default the scale's.")
    ] = None,
    rater: Annotated[str | None, typer.Option(help="Who labels; by default the user's name.")] = None,
    width: Annotated[
        float | None, typer.Option(help="Say how many labels an interval of +- this needs, and end.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write the items that wait to this .csv or .xlsx, and end.")
    ] = None,
    imported: Annotated[Path | None, typer.Option("--import", help="Take the labels of this table, and end.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
) -> None:
    """Draw items and ask a person about each, one key an answer; goes on where it was stopped."""
    from assets.table.label_file import LabelFile

    subject = _subject(testset, workspace, items, scores, output)
    file = LabelFile.read(subject.output)
    rater = rater or getpass.getuser()
    if width is not None:
        _say_how_many(subject, file, width)
    elif imported is not None:
        _take(file, imported, rater)
    else:
        _draw(subject, file, count=count, chosen=chosen, repeat=repeat, seed=seed)
        if export is not None:
            _write_out(subject, file, export)
        else:
            _ask(subject, file, _keys(answers, subject.scale), rater)
        if testset is not None:
            _say_where_it_goes(testset, subject.output, workspace)


def _subject(testset: str | None, root: Path, items: Path | None, scores: Path | None, output: Path | None) -> _Subject:
    from assets.table.fitting import TableConfig
    from care_ops.errors import InputError
    from orchestration.cli import tables
    from orchestration.stores import workspace_to_look_at
    from warehouse.sources.files import read_items, read_scores

    if (testset is None) == (items is None):
        raise InputError("name a test set of the workspace, or give --items, the table of items to label")
    if testset is None and items is not None:
        records = {record.item_id: record for record in read_items(items, tell=tables.tell)}
        panel = None if scores is None else read_scores(scores, tell=tables.tell).scores
        if panel is not None:
            _refuse_unscored(records, panel, items)
        return _Subject(records, panel, TableConfig().fit, None, output or Path("labels.csv"))
    if scores is not None:
        raise InputError("--scores goes with --items; a workspace has its own scores")
    loaded = workspace_to_look_at(root)
    spec = loaded.testset(str(testset))
    folder = loaded.fit_folder(spec.name)
    records = {record.item_id: record for record in loaded.parts.read_items(spec.name)}
    panel = folder.read_panel() if folder.panel_file.exists() else None
    return _Subject(
        records, panel, loaded.fit_config(spec.name), spec.scale, output or loaded.root / "labels" / f"{spec.name}.csv"
    )


def _refuse_unscored(records: Mapping[str, ItemRecord], panel: ScoreMatrix, items: Path) -> None:
    from care_ops.errors import InputError

    strange = [item for item in panel.item_ids if item not in records]
    if strange:
        raise InputError(f"{items}: {len(strange)} scored item(s) are not in it, the first is {strange[0]!r}")


def _draw(subject: _Subject, file: LabelFile, *, count: int, chosen: float, repeat: int, seed: int) -> None:
    """Add the rows that are still lacking, and keep them before anybody is asked."""
    from assets.table.labelling import rows_to_label, second_labels

    item_ids = list(subject.items)
    added = rows_to_label(file.rows, item_ids, subject.panel, subject.config, count=count, chosen=chosen, seed=seed)
    again = second_labels(file.rows, repeat, seed) if repeat else []
    if added or again:
        file.rows.extend([*added, *again])
        file.write()


def _say_how_many(subject: _Subject, file: LabelFile, width: float) -> None:
    from assets.labels import read_labels
    from assets.table.labelling import labels_for_width
    from care_ops.labels import Labels

    labels = read_labels(file.path) if file.rows else Labels()
    needed, why = labels_for_width(labels, subject.panel, len(subject.items), subject.config, width)
    console.print(
        f"{needed} labels give the mean label of {len(subject.items)} items a 90 % interval of +- {width:g}, by {why}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _take(file: LabelFile, table: Path, rater: str) -> None:
    from assets.labels import read_labels
    from orchestration.cli import tables

    labels = read_labels(table, tell=tables.tell)
    filled, repeated = file.merge(labels.values, rater, _now())
    console.print(f"{filled} labels taken, and {repeated} second labels; {_standing(file)}", highlight=False)


def _write_out(subject: _Subject, file: LabelFile, path: Path) -> None:
    from assets.table.label_file import export

    waiting = [row for row in file.rows if not row.label]
    export(path, waiting, subject.items)
    console.print(
        f"{len(waiting)} items written to {path}; fill in `label`, and take it back with --import {path}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _keys(answers: str | None, scale: tuple[float, float] | None) -> dict[str, float]:
    """Key -> label. By default the whole numbers of a scale that ends at 9 or below, else y and n for 1 and 0."""
    from care_ops.errors import InputError

    if answers is None:
        whole = scale is not None and all(end == int(end) and 0 <= end <= 9 for end in scale)
        if scale is not None and not whole and scale != (0.0, 1.0):
            raise InputError(
                f"the scale {scale[0]:g} to {scale[1]:g} has no key for each label; give --answers, such as y=1,n=0, "
                "or use --export"
            )
        binary = scale is None or scale == (0.0, 1.0)
        return {"y": 1.0, "n": 0.0} if binary or scale is None else _digits(int(scale[0]), int(scale[1]))
    try:
        if "=" not in answers:
            first, last = answers.split("-")
            return _digits(int(first), int(last))
        keys = {key.strip(): float(value) for key, value in (pair.split("=") for pair in answers.split(","))}
    except ValueError:
        keys = {}
    wrong = [key for key in keys if len(key) != 1 or key in (UNDO, SKIP, QUIT)]
    if wrong or len(keys) < 2:
        raise InputError(
            f"--answers is {answers!r}; give single keys and their labels, as y=1,n=0 (not {UNDO}, {SKIP} or {QUIT}, "
            "which undo, skip and end), or a range of digits, as 1-5"
        )
    return keys


def _digits(first: int, last: int) -> dict[str, float]:
    if not 0 <= first < last <= 9:
        raise ValueError
    return {str(digit): float(digit) for digit in range(first, last + 1)}


def _ask(subject: _Subject, file: LabelFile, keys: Mapping[str, float], rater: str) -> None:
    """One item after another until none waits; those that were skipped come again at the end, once a session."""
    from care_ops.errors import InputError

    strange = next((row.item_id for row in file.rows if row.item_id not in subject.items), None)
    if strange is not None:
        raise InputError(f"{file.path}: item {strange!r} is not among the items; name another file with --output")
    passed: list[int] = []
    while (k := _next(file, passed)) is not None:
        row = file.rows[k]
        _show(subject.items[row.item_id], _standing(file), keys)
        pressed = click.getchar()
        if pressed == QUIT:
            break
        if pressed == UNDO:
            before = max((j for j, r in enumerate(file.rows) if r.labelled_at), key=_moment(file), default=None)
            if before is not None:
                file.change(before, replace(file.rows[before], label="", rater="", labelled_at=""))
                passed = [j for j in passed if j != before]
        elif pressed == SKIP:
            file.change(k, replace(row, rater=rater, labelled_at=_now()))
            passed.append(k)
        elif pressed in keys:
            file.change(k, replace(row, label=f"{keys[pressed]:g}", rater=rater, labelled_at=_now()))
    console.print(f"{_standing(file)}, in {file.path}", markup=False, highlight=False, soft_wrap=True)


def _moment(file: LabelFile) -> Callable[[int], str]:
    return lambda k: file.rows[k].labelled_at


def _next(file: LabelFile, passed: Sequence[int]) -> int | None:
    """The next row to ask about: one that waits, or else one that was skipped before this session."""
    waiting = (k for k, row in enumerate(file.rows) if row.waits)
    skipped = (k for k, row in enumerate(file.rows) if row.skipped and k not in passed)
    return next(waiting, next(skipped, None))


def _show(item: ItemRecord, standing: str, keys: Mapping[str, float]) -> None:
    from assets.table.label_file import TEXTS

    console.rule(standing)
    for name in TEXTS:
        text = getattr(item, name)
        if text:
            console.print(f"{name}:", style="bold")
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    offered = ", ".join(f"{key} = {value:g}" for key, value in keys.items())
    console.print(f"[{offered}; {UNDO} undoes, {SKIP} skips, {QUIT} ends]", markup=False, highlight=False)


def _standing(file: LabelFile) -> str:
    labelled, skipped = sum(bool(row.label) for row in file.rows), sum(row.skipped for row in file.rows)
    return f"{labelled} of {len(file.rows)} labelled" + (f", {skipped} skipped" if skipped else "")


def _say_where_it_goes(testset: str, path: Path, root: Path) -> None:
    from orchestration.workspace import read_settings

    root = root.absolute()
    shown = path.absolute().relative_to(root) if path.absolute().is_relative_to(root) else path.absolute()
    if testset not in read_settings(root).anchors:
        console.print(
            f"a fit sees these labels once care.yaml says so: anchors: {{{testset}: {shown}}}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def _now() -> str:
    return datetime.now(UTC).isoformat()
