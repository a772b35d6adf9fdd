"""Commands ``care judges pin`` and ``care testsets pin``, which write Hugging Face commits into YAML files."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from care_ops.errors import CareError, InputError, counted
from orchestration.cli.output import Root, console, errors

_OF = {"model": "judge", "dataset": "test set"}
"""Word for messages: a model belongs to a judge, and a data set to a test set."""


def pin(
    names: Annotated[list[str] | None, typer.Argument(help="Judges to pin; default: all unpinned judges.")] = None,
    workspace: Root = Path(),
) -> None:
    """Get the current commit of each judge's model from Hugging Face, and write it into the judge's file."""
    from judges.settings_files import read_model
    from judges.spec import JudgeSpec, LocalModel
    from orchestration.workspace import folder_of

    def unpinned(path: Path) -> str | None:
        engine = read_model(path, JudgeSpec).engine
        return engine.model if isinstance(engine, LocalModel) and engine.revision is None else None

    _pin(folder_of(workspace, "judges"), names or (), "model", unpinned)


def pin_testsets(
    names: Annotated[list[str] | None, typer.Argument(help="Test sets to pin; default: all unpinned ones.")] = None,
    workspace: Root = Path(),
) -> None:
    """Get the current commit of each test set's data set from Hugging Face, and write it into the test set's file."""
    from judges.settings_files import read_model
    from orchestration.workspace import folder_of
    from warehouse.testsets import HuggingFaceSource, TestsetSpec, resolve

    def unpinned(path: Path) -> str | None:
        source = read_model(path, TestsetSpec).source
        if not isinstance(source, HuggingFaceSource) or source.revision is not None:
            return None
        return None if resolve(source.dataset, workspace).is_dir() else source.dataset

    _pin(folder_of(workspace, "testsets"), names or (), "dataset", unpinned)


def _pin(
    folder: Path, names: Sequence[str], kind: Literal["model", "dataset"], unpinned: Callable[[Path], str | None]
) -> None:
    from judges.hub import look_up

    failed = pinned = 0
    for path in sorted(folder.glob("*.yaml")):
        repository = unpinned(path) if not names or path.stem in names else None
        if repository is None or Path(repository).is_dir():
            continue
        try:
            revision, gated = look_up(repository, kind)
        except CareError as error:
            errors.print(f"{path.stem}: {error}", style="red")
            failed += 1
            continue
        path.write_text(with_revision(path.read_text(encoding="utf-8"), revision, kind), encoding="utf-8")
        unpinned(path)
        pinned += 1
        console.print(f"{path.stem}: {repository} at {revision}")
        if gated:
            console.print(
                f"  the terms of the {kind} must be accepted before use: log in to the hub, accept them on the "
                f"page of {repository}, and set HF_TOKEN to a token of the same account"
            )
    unknown = sorted(set(names) - {path.stem for path in folder.glob("*.yaml")})
    if unknown:
        raise InputError(f"no {_OF[kind]} {', '.join(map(repr, unknown))} in {folder}; correct the name")
    console.print(f"{counted(pinned, _OF[kind])} pinned")
    if failed:
        raise typer.Exit(1)


def with_revision(text: str, revision: str, kind: Literal["model", "dataset"] = "model") -> str:
    """Return a YAML text with a ``revision`` inserted after the name of the model or data set."""
    found = re.search(
        rf"^(?P<before>[ \t]*(?:\w+:[ \t]*)?(?:\{{.*?)?)(?P<key>{kind}:[ \t]*[^,}}\s#]+)", text, re.MULTILINE
    )
    if found is None:
        raise ValueError(f"the YAML text has no line `{kind}: NAME`; write the key and its value on one line")
    flow = "{" in text[: found.start("key")].rpartition("\n")[2]
    indent = re.match(r"[ \t]*", found["before"])
    after = f", revision: {revision}" if flow else f"\n{indent[0] if indent else ''}revision: {revision}"
    return text[: found.end()] + after + text[found.end() :]
