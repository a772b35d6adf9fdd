"""``care select``: penalties by the labels of some split units, or by held-out likelihood."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli import tables
from orchestration.cli.output import console, show, speaking_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from care_ops.config import FitConfig
    from care_ops.scores import ScoreMatrix
    from care_ops.selection import Selection
    from warehouse.items import ItemRecord


@speaking_errors
def select(
    scores: Annotated[Path, typer.Argument(help=tables.SCORES)],
    items: Annotated[Path, typer.Option(help="item_id, and for labels gold; split_unit keeps items together.")],
    aggregator: Annotated[str, typer.Option(help="care_svd or care_tensor.")] = "care_svd",
    criterion: Annotated[str, typer.Option(help="order, error, or likelihood (no labels).")] = "order",
    share: Annotated[float, typer.Option(help="Share of the items whose gold may choose.")] = 0.15,
    split: Annotated[str, typer.Option(help="Column of --items that must not be parted.")] = "split_unit",
    cut: Annotated[float | None, typer.Option(help="A score above it is a vote for Q = 1.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Search the paper's grid of penalties; with labels, measure the choice on the other items."""
    import numpy as np

    from care_ops.admission import check_panel
    from care_ops.config import AdmissionRule, FitConfig
    from care_ops.errors import InputError
    from care_ops.selection import select_with_labels, select_without_labels, validation_items
    from warehouse.sources.files import read_items, read_scores

    if aggregator not in ("care_svd", "care_tensor"):
        raise InputError(f"--aggregator is {aggregator!r}; penalties belong to care_svd and care_tensor")
    if criterion not in ("order", "error", "likelihood"):
        raise InputError(f"--criterion is {criterion!r}; use order, error or likelihood")
    matrix = read_scores(scores, tell=tables.tell).scores
    matrix = matrix.select_judges([c.judge for c in check_panel(matrix, AdmissionRule()) if c.admitted])
    records = {r.item_id: r for r in read_items(items, tell=tables.tell)}
    known = [records.get(item) for item in matrix.item_ids]
    units = [_unit(record, split) or item for record, item in zip(known, matrix.item_ids, strict=True)]
    config = FitConfig(cut=cut, seed=seed)
    if criterion == "likelihood":
        _print(select_without_labels(matrix, config, units), [], as_json=json)
        return
    gold = np.array([np.nan if r is None or r.gold is None else r.gold for r in known], dtype=np.float64)
    if np.isnan(gold).all():
        raise InputError(f"{items}: no item has gold; use --criterion likelihood, which needs none")
    chosen_by = validation_items(units, share, np.random.default_rng(seed))
    labels = np.where(chosen_by, gold, np.nan)
    found = select_with_labels(
        matrix,
        config,
        labels,
        aggregator="care_svd" if aggregator == "care_svd" else "care_tensor",
        criterion="order" if criterion == "order" else "error",
    )
    _print(found, _on_the_rest(matrix, config, found, np.where(chosen_by, np.nan, gold)), as_json=json)


def _unit(record: ItemRecord | None, column: str) -> str | None:
    """What an item's row says in the column that must not be parted."""
    if record is None:
        return None
    unit = record.split_unit if column == "split_unit" else record.metadata.get(column)
    return None if unit is None else str(unit)


def _on_the_rest(
    scores: ScoreMatrix, config: FitConfig, found: Selection, gold: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """The choice, the default and the mean on the items whose gold chose nothing."""
    from dataclasses import replace

    from care_ops.fit import fit_panel
    from care_ops.metrics import evaluate

    rows: list[dict[str, Any]] = []
    for label, at, name in (
        (f"{found.aggregator}, chosen", found.best.config, found.aggregator),
        (f"{found.aggregator}, default", config.structure, found.aggregator),
        ("avg", config.structure, "avg"),
    ):
        aggregate = fit_panel(scores, replace(config, aggregators=(name,), structure=at)).aggregates[name]
        measured = evaluate(aggregate.estimate, gold, threshold=aggregate.threshold, scale=None).as_dict()
        used = found.labels_used if label.endswith("chosen") else 0
        rows.append({"aggregate": label, "labels": used, **{k: v for k, v in measured.items() if v is not None}})
    return rows


def _print(found: Selection, measured: list[dict[str, Any]], *, as_json: bool) -> None:
    grid = [
        {
            "gamma": c.gamma,
            "tau": c.tau,
            found.criterion: c.value,
            "chosen": "<" if c is found.best else "",
            "could not answer": c.why_not or "",
        }
        for c in found.candidates
    ]
    settings = {"gamma": found.best.config.gamma, "tau": found.best.config.tau}
    if as_json:
        import json

        document = {
            "aggregator": found.aggregator,
            "criterion": found.criterion,
            "labels_used": found.labels_used,
            "fit": settings,
            "grid": grid,
            "measured_on_the_rest": measured,
        }
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
        return
    show(grid, f"{found.aggregator} by {found.criterion}, {found.labels_used} labels", as_json=False)
    if measured:
        show(measured, "on the items whose labels chose nothing", as_json=False)
    line = f"in care.yaml:  fit: {{gamma: {settings['gamma']:.6g}, tau: {settings['tau']:.6g}}}"
    console.print(line, highlight=False)
