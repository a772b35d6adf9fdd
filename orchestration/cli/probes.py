"""``care probes``: versions of items whose quality is known to be kept or spoilt, for any tool to judge."""

from pathlib import Path
from typing import Annotated

import typer

from care_ops.errors import InputError
from orchestration.cli import tables
from orchestration.cli.commands import Commands
from orchestration.cli.output import Json, console, show
from warehouse.probes import KINDS, plan_of

probes = Commands(help="Versions of items that tell quality from style without a label.", no_args_is_help=True)


@probes.command("kinds")
def kinds(json: Json = False) -> None:
    """Show the kinds of versions there are, and what each does to quality where it is true of the items."""
    rows = [{"kind": kind.name, "quality": kind.effect, "an answer": kind.changed} for kind in KINDS.values()]
    show(rows, "kinds", as_json=json)


@probes.command("make")
def make(
    items: Annotated[Path, typer.Argument(help="item_id, response, and any of prompt, response_2, reference, aspect.")],
    out: Annotated[Path, typer.Option(help="CSV file to write.")],
    kind: Annotated[
        list[str] | None, typer.Option(help="A kind that is true of these items; repeat it. `care probes kinds`.")
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="Items of which versions are made.")] = 60,
    seed: Annotated[int, typer.Option(help="Of the sample and of the versions.")] = 0,
) -> None:
    """Write versions of a sample of items; have your judges score them and give the scores to `care fit --probes`."""
    from assets.table.probing import write_versions
    from warehouse.sources.files import read_items

    if not kind:
        raise InputError(
            "name the kinds that are true of these items with --kind: nothing can know whether another prompt's answer "
            f"is worse here, or whether padding keeps quality. There are {', '.join(KINDS)}"
        )
    count = write_versions(read_items(items, tell=tables.tell), plan_of(kind, items=sample, seed=seed), out)
    console.print(
        f"wrote {count:,} versions to {out}; next: have each judge score them, keep item_id, of and kind beside judge "
        "and score, and give that table to `care fit --probes`"
    )
