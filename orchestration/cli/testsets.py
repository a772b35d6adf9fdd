"""Commands of ``care testsets``, which list the catalog of benchmarks and add test sets to a workspace."""

from pathlib import Path
from typing import Annotated

import typer

from care_ops.errors import InputError
from orchestration.cli import setup, tables
from orchestration.cli.commands import Commands
from orchestration.cli.output import Json, Root, console, show
from orchestration.cli.pin import pin_testsets
from warehouse import catalog
from warehouse.released import add_released
from warehouse.testsets import TestsetSpec

testsets = Commands(help="List the catalog of benchmarks, and add test sets to a workspace.", no_args_is_help=True)


@testsets.command("list")
def list_testsets(json: Json = False) -> None:
    """List the test sets in the catalog; `verified` means that column names were compared with the data."""
    import yaml

    rows = []
    for name in catalog.names():
        spec = TestsetSpec.model_validate({"name": name, **yaml.safe_load(catalog.text(name))})
        source = spec.source.model_dump()
        rows.append(
            {
                "test set": name,
                "data set": source.get("dataset") or f"versions of {source['of']}",
                "split": source.get("split", ""),
                "license": source.get("license", ""),
                "prompt": spec.prompt,
                "verified": "yes" if source.get("verified") else "no",
            }
        )
    show(rows, "catalog", as_json=json)


@testsets.command("add")
@tables.with_form
def add_testset(
    name: Annotated[str | None, typer.Argument(help="Name in the catalog; with --from, name of the test set.")] = None,
    workspace: Root = Path(),
    every: Annotated[bool, typer.Option("--all", help="Add every catalog entry that the workspace lacks.")] = False,
    released: Annotated[
        Path | None, typer.Option(help="Local clone of the paper's repository, which holds the published scores.")
    ] = None,
    scores: setup.From = None,
    items: setup.Items = None,
    judges: tables.Judges = None,
    system: tables.System = None,
    scale: tables.Scale = None,
    *,
    form: tables.Form,
) -> None:
    """Copy a catalog entry into the workspace, or add a table of scores."""
    from orchestration.workspace import folder_of

    folder = folder_of(workspace, "testsets")
    folder.mkdir(parents=True, exist_ok=True)
    if released is not None:
        if name is not None or every or scores is not None:
            raise InputError(
                "--released cannot be combined with a name, --all or --from, because it adds all published test sets; "
                "leave out one of the options"
            )
        for path in add_released(released, workspace, folder) or [folder]:
            console.print(f"wrote {path}" if path != folder else "nothing was added: these test sets exist already")
        return
    if scores is not None and not every:
        setup.testset_of(workspace, scores, items, judges, system or (), scale or (), form, name)
        return
    if every == (name is not None) or scores is not None:
        raise InputError("nothing was added: give a name from the catalog, --all, or your own table with --from")
    tables.refuse_given(setup.ONLY_FROM, form, items=items, judges=judges, system=system, scale=scale)
    for each in catalog.names() if name is None else [name]:
        text, path = catalog.text(each), folder / f"{each}.yaml"
        if path.exists() and not every:
            raise InputError(f"{path} exists already; delete it to add the catalog entry again")
        if not path.exists():
            path.write_text(text, encoding="utf-8")
            console.print(f"wrote {path}")
    console.print("next: run `care testsets pin`, because a run needs the commit of each data set", style="yellow")


testsets.command("pin")(pin_testsets)
