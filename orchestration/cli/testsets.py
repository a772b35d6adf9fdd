"""``care testsets``: the catalog of benchmarks, and adding one to a workspace."""

from pathlib import Path
from typing import Annotated

import typer

from care_ops.errors import InputError
from orchestration.cli.commands import Commands
from orchestration.cli.output import Json, Root, console, show

testsets = Commands(help="The catalog of benchmarks, and adding one to a workspace.", no_args_is_help=True)


@testsets.command("list")
def list_testsets(json: Json = False) -> None:
    """Show the catalog; `verified` says whether the column names have been compared with the data."""
    import yaml

    from warehouse import catalog
    from warehouse.testsets import TestsetSpec

    rows = []
    for name in catalog.names():
        spec = TestsetSpec.model_validate({"name": name, **yaml.safe_load(catalog.text(name))})
        source = spec.source.model_dump()
        rows.append(
            {
                "test set": name,
                "data set": source["dataset"],
                "split": source["split"],
                "license": source["license"],
                "prompt": spec.prompt,
                "verified": "yes" if source["verified"] else "no",
            }
        )
    show(rows, "catalog", as_json=json)


@testsets.command("add")
def add_testset(
    name: Annotated[str, typer.Argument(help="Name in the catalog.")],
    workspace: Root = Path(),
    revision: Annotated[str | None, typer.Option(help="Commit of the data set, 40 hexadecimal digits.")] = None,
) -> None:
    """Copy a catalog entry into the workspace, where it can be edited."""
    from orchestration.workspace import testsets_folder
    from warehouse import catalog

    text = catalog.text(name)
    if revision is not None:
        text = text.replace("source:\n", f"source:\n  revision: {revision}\n", 1)
    path = testsets_folder(workspace) / f"{name}.yaml"
    if path.exists():
        raise InputError(f"{path}: there is such a test set already; delete it first")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    console.print(f"wrote {path}")
    if revision is None:
        console.print("give its source a revision (a commit of the data set) before a run", style="yellow")
