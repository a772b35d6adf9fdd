"""``care select``: penalties chosen by the labels of some split units, or by held-out likelihood.

Belongs here: reading the command's tables, printing the choice. Does not: choosing (``care_ops.selection``).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from orchestration.cli import tables
from orchestration.cli.output import console, show, speaking_errors, watching

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from care_ops.config import FitConfig
    from care_ops.fit import Watch
    from care_ops.scores import ScoreMatrix
    from care_ops.selection import Selection
    from warehouse.items import ItemRecord
    from warehouse.sources.reading import Reading
    from warehouse.testsets import ReadingOptions


@speaking_errors
def select(
    scores: tables.Scores,
    items: Annotated[
        Path, typer.Option(help="Table with item_id, and for labels gold; split_unit keeps items together.")
    ],
    aggregator: Annotated[str, typer.Option(help="care_svd or care_tensor.")] = "care_svd",
    criterion: Annotated[str, typer.Option(help="order, error, or likelihood, which needs no labels.")] = "order",
    share: Annotated[float, typer.Option(help="Share of the items whose gold may choose the penalties.")] = 0.15,
    split: Annotated[
        str | None,
        typer.Option(help="Column of --items whose equal values keep items together; by default split_unit."),
    ] = None,
    cut: Annotated[float | None, typer.Option(help="A score above it is a vote for Q = 1.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    item: tables.Item = None,
    judge: tables.Judge = None,
    score: tables.Score = None,
    drop: tables.Drop = None,
    separator: tables.Separator = None,
    encoding: tables.Encoding = None,
    decimal: tables.Decimal = None,
    sheet: tables.Sheet = None,
) -> None:
    """Search the paper's grid of penalties; with labels, measure the choice on the other items."""
    from care_ops.admission import check_panel
    from care_ops.config import AdmissionRule, FitConfig
    from care_ops.errors import InputError
    from care_ops.selection import select_without_labels
    from warehouse.sources.files import read_scores

    if aggregator not in ("care_svd", "care_tensor"):
        raise InputError(f"--aggregator is {aggregator!r}; penalties belong to care_svd and care_tensor")
    if criterion not in ("order", "error", "likelihood"):
        raise InputError(f"--criterion is {criterion!r}; use order, error or likelihood")
    columns = tables.score_columns(item, judge, score, drop)
    options = tables.reading_options(separator, encoding, decimal, sheet)
    matrix = read_scores(scores, columns, options=options, tell=tables.tell).scores
    matrix = matrix.select_judges([check.judge for check in check_panel(matrix, AdmissionRule()) if check.admitted])
    gold, units = _gold_and_units(items, matrix.item_ids, split, columns.item_id, options)
    config = FitConfig(cut=cut, seed=seed)
    if criterion == "likelihood":
        with watching("trying penalties") as watch:
            chosen = select_without_labels(matrix, config, units, watch=watch)
        _print(chosen, [], as_json=json)
        return
    with watching("trying penalties") as watch:
        selection, rest = _by_labels(
            matrix,
            config,
            gold,
            units,
            share,
            aggregator="care_svd" if aggregator == "care_svd" else "care_tensor",
            criterion="order" if criterion == "order" else "error",
            items=items,
            watch=watch,
        )
        measured = _on_the_rest(matrix, config, selection, rest, watch)
    _print(selection, measured, as_json=json)


def _gold_and_units(
    path: Path, item_ids: Sequence[str], split: str | None, item_column: str, options: ReadingOptions
) -> tuple[NDArray[np.float64], list[str]]:
    """The gold of each scored item, NaN where there is none, and its split unit; an item without one is its own."""
    import numpy as np

    from warehouse.sources.files import read_items

    readings: list[Reading] = []

    def tell(reading: Reading) -> None:
        readings.append(reading)
        tables.tell(reading)

    records = {record.item_id: record for record in read_items(path, options=options, item=item_column, tell=tell)}
    labels = [records[item_id].gold if item_id in records else None for item_id in item_ids]
    gold = np.array([np.nan if label is None else label for label in labels], dtype=np.float64)
    units = _split_units(path, records, readings[0], split)
    return gold, [units.get(item_id, item_id) for item_id in item_ids]


def _split_units(path: Path, records: Mapping[str, ItemRecord], reading: Reading, split: str | None) -> dict[str, str]:
    """The split units of items that have one.

    Raises
    ------
    InputError
        There is no column of the name that ``--split`` gives.
    """
    from care_ops.errors import InputError
    from warehouse.sources.reading import listed

    field_of = {column: field for field, column in reading.columns.items() if field != "item"}
    every_column = [reading.columns["item"], *field_of, *next(iter(records.values())).metadata]
    if split is not None and split not in every_column:
        columns = listed([repr(column) for column in every_column], 40)
        raise InputError(f"{path}: there is no column {split!r}, which --split names; the columns are {columns}")
    column = split or "split_unit"
    values = {
        item_id: getattr(record, field_of[column]) if column in field_of else record.metadata.get(column)
        for item_id, record in records.items()
    }
    return {item_id: str(value) for item_id, value in values.items() if value is not None}


def _by_labels(
    matrix: ScoreMatrix,
    config: FitConfig,
    gold: NDArray[np.float64],
    units: list[str],
    share: float,
    *,
    aggregator: Literal["care_svd", "care_tensor"],
    criterion: Literal["order", "error"],
    items: Path,
    watch: Watch,
) -> tuple[Selection, NDArray[np.float64]]:
    """The choice by the gold of a share of the split units, and the gold of the others."""
    import numpy as np

    from care_ops.errors import InputError
    from care_ops.selection import select_with_labels, validation_items

    if np.isnan(gold).all():
        raise InputError(f"{items}: no item has gold; use --criterion likelihood, which needs none")
    may_choose = validation_items(units, share, np.random.default_rng(config.seed))
    labels = np.where(may_choose, gold, np.nan)
    selection = select_with_labels(matrix, config, labels, aggregator=aggregator, criterion=criterion, watch=watch)
    return selection, np.where(may_choose, np.nan, gold)


def _on_the_rest(
    scores: ScoreMatrix, config: FitConfig, selection: Selection, gold: NDArray[np.float64], watch: Watch
) -> list[dict[str, Any]]:
    """The choice, the default and the mean on the items whose gold chose nothing."""
    from dataclasses import replace

    from care_ops.fit import fit_panel
    from care_ops.metrics import evaluate

    rows: list[dict[str, Any]] = []
    tried = (
        (f"{selection.aggregator}, chosen", selection.best.config, selection.aggregator),
        (f"{selection.aggregator}, default", config.structure, selection.aggregator),
        ("avg", config.structure, "avg"),
    )
    for done, (label, at, name) in enumerate(tried):
        watch("measuring the choice", done, len(tried))
        aggregate = fit_panel(scores, replace(config, aggregators=(name,), structure=at)).aggregates[name]
        measured = evaluate(aggregate.estimate, gold, threshold=aggregate.threshold, scale=None).as_dict()
        used = selection.labels_used if label.endswith("chosen") else 0
        rows.append({"aggregate": label, "labels": used, **{k: v for k, v in measured.items() if v is not None}})
    return rows


def _print(selection: Selection, measured: list[dict[str, Any]], *, as_json: bool) -> None:
    grid = [
        {
            "gamma": c.gamma,
            "tau": c.tau,
            selection.criterion: c.value,
            "chosen": "<" if c is selection.best else "",
            "could not answer": c.why_not or "",
        }
        for c in selection.candidates
    ]
    settings = {"gamma": selection.best.config.gamma, "tau": selection.best.config.tau}
    if as_json:
        import json

        document = {
            "aggregator": selection.aggregator,
            "criterion": selection.criterion,
            "labels_used": selection.labels_used,
            "fit": settings,
            "grid": grid,
            "measured_on_the_rest": measured,
        }
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
        return
    show(grid, f"{selection.aggregator} by {selection.criterion}, {selection.labels_used} labels", as_json=False)
    if measured:
        show(measured, "on the items whose labels chose nothing", as_json=False)
    gamma, tau = f"{settings['gamma']:.6g}", f"{settings['tau']:.6g}"
    console.print(f"of a file:     care fit --gamma {gamma} --tau {tau}", highlight=False)
    console.print(f"in care.yaml:  fit: {{gamma: {gamma}, tau: {tau}}}", highlight=False)
