"""``care judges pin``: write the present revision of their model into judges' files."""

import re
from pathlib import Path
from typing import Annotated

import typer

from care_ops.errors import CareError, InputError
from orchestration.cli.output import Root, console, errors

_MODEL = re.compile(
    r"^(?P<before>[ \t]*(?:engine:[ \t]*)?(?:\{.*?)?)(?P<key>model:[ \t]*(?P<value>[^,}\s#]+))", re.MULTILINE
)


def pin(
    names: Annotated[list[str] | None, typer.Argument(help="Judges; by default all without a revision.")] = None,
    workspace: Root = Path(),
) -> None:
    """Ask the hub for the present commit of each judge's model, and write it into the judge's file."""
    from judges.hub import look_up
    from judges.spec import LocalModel, load_spec
    from orchestration.workspace import judges_folder

    folder = judges_folder(workspace)
    failed = pinned = 0
    for path in sorted(folder.glob("*.yaml")):
        if names and path.stem not in names:
            continue
        engine = load_spec(path).engine
        if not isinstance(engine, LocalModel) or engine.revision is not None or Path(engine.model).is_dir():
            continue
        try:
            revision, gated = look_up(engine.model)
        except CareError as error:
            errors.print(f"{path.stem}: {error}", style="red")
            failed += 1
            continue
        path.write_text(with_revision(path.read_text(encoding="utf-8"), revision), encoding="utf-8")
        load_spec(path)
        pinned += 1
        console.print(f"{path.stem}: {engine.model} at {revision}")
        if gated:
            console.print(
                f"  its terms must be accepted: open the page of {engine.model} on the hub with your account, accept "
                "them, and give that account's token in HF_TOKEN to whatever runs the judge"
            )
    unknown = sorted(set(names or ()) - {path.stem for path in folder.glob("*.yaml")})
    if unknown:
        raise InputError(f"no judge {', '.join(map(repr, unknown))} in {folder}")
    console.print(f"{pinned} judge file(s) pinned")
    if failed:
        raise typer.Exit(1)


def with_revision(text: str, revision: str) -> str:
    """The YAML text of a judge's file with a revision beside its model; the rest stays as it is, comments too."""
    found = _MODEL.search(text)
    if found is None:
        raise ValueError("no line names the model")
    flow = "{" in text[: found.start("key")].rpartition("\n")[2]
    indent = re.match(r"[ \t]*", found["before"])
    after = f", revision: {revision}" if flow else f"\n{indent[0] if indent else ''}revision: {revision}"
    return text[: found.end()] + after + text[found.end() :]
