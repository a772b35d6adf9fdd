"""Command ``care select``, which chooses penalties with the gold labels of some items."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from care_ops.config import DEFAULT_AGGREGATORS, FitConfig
from orchestration.cli import tables
from orchestration.cli.output import Json, console, print_json, show, typed_again, watching

if TYPE_CHECKING:
    from assets.table.selecting import Choice

_NOT_OF_FIT = ("criterion", "share", "seed")
"""Options that ``care fit`` does not have, or that have another meaning in ``care fit``."""


@tables.with_form
def select(
    context: typer.Context,
    scores: tables.Scores,
    items: Annotated[Path, typer.Option(help="Table of items: item_id, gold and, optionally, split_unit.")],
    aggregator: Annotated[str, typer.Option(help="Aggregator: care_svd, care_tensor, care_tensor_paper.")] = "care_svd",
    criterion: Annotated[str, typer.Option(help="Criterion: order (AUC, tau-b) or error (accuracy, MAE).")] = "order",
    share: Annotated[float, typer.Option(help="Share of items, from 0 to 1, used to choose gamma and tau.")] = 0.15,
    cut: Annotated[float | None, typer.Option(help="Scores above this value are votes for 'good'.")] = None,
    scale: tables.Scale = None,
    seed: Annotated[int, typer.Option(help="Seed of the random split of items.")] = 0,
    json: Json = False,
    *,
    form: tables.Form,
) -> None:
    """Choose the penalties gamma and tau from the paper's grid, and evaluate the choice on held-out items."""
    from assets.table.selecting import Search, select_table

    search = Search(aggregator, criterion, share)
    inputs = tables.TableInputs(scores, items, None, None, *tables.declared_scales(scale or ()))
    table = tables.read_table(inputs, form)
    with watching("trying penalties") as watch:
        choice = select_table(table, search, FitConfig(cut=cut, seed=seed, scale=inputs.scale), watch)
    fit = typed_again(context, ["fit"], **dict.fromkeys(_NOT_OF_FIT))
    _print(choice, fit, as_json=json)


def _print(choice: Choice, fit: str, *, as_json: bool) -> None:
    selection, measured = choice.selection, choice.measured
    grid = [
        {
            "gamma": c.gamma,
            "tau": c.tau,
            selection.criterion: c.value,
            "chosen": "<" if c is selection.best else "",
            "failed because": c.why_not or "",
        }
        for c in selection.candidates
    ]
    if as_json:
        document = {
            "aggregator": selection.aggregator,
            "criterion": selection.criterion,
            "labels_used": selection.labels_used,
            "fit": {"gamma": choice.gamma, "tau": choice.tau},
            "grid": grid,
            "measured_on_the_rest": measured,
        }
        print_json(document)
        return
    show(grid, f"penalties by {selection.criterion}, with {selection.labels_used} labels", as_json=False)
    from assets.table.rows import in_words

    show(in_words(measured), "evaluation on the held-out items", as_json=False)
    gamma, tau = f"{choice.gamma:.6g}", f"{choice.tau:.6g}"
    console.print(f"to fit this table with these penalties: {fit} --gamma {gamma} --tau {tau}")
    added = "" if selection.aggregator in DEFAULT_AGGREGATORS else f"aggregators: [care, {selection.aggregator}], "
    console.print(f"in care.yaml, write: fit: {{{added}gamma: {gamma}, tau: {tau}}}", markup=False)
    console.print("gamma and tau affect only the aggregators care_svd, care_tensor and care_tensor_paper.")
