"""Command ``care init``, which creates a workspace."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from care_ops.errors import InputError
from orchestration.cli import tables
from orchestration.cli.output import console

_RECORDED_YAML = """\
# Every setting has a default. `care init example --template empty` writes a file that explains each setting.
data: data
"""

From = Annotated[Path | None, typer.Option("--from", help="Table of recorded scores; CARE runs no judge.")]
ONLY_FROM = "applies to a table of scores; name the table with --from"
Items = Annotated[Path | None, typer.Option(help="With --from: table of items (texts, gold, split_unit, system).")]


@tables.with_form
def init(
    folder: Annotated[Path, typer.Argument(help="Folder of the new workspace.")],
    template: Annotated[
        Literal["demo", "empty"] | None,
        typer.Option(
            show_default=False, help="demo (default): simulated judges and answers; empty: no judge and no test set."
        ),
    ] = None,
    scores: From = None,
    items: Items = None,
    judges: tables.Judges = None,
    system: tables.System = None,
    scale: tables.Scale = None,
    *,
    form: tables.Form,
) -> None:
    """Create a workspace with care.yaml, judges and test sets, from simulated scores or a table of scores."""
    from orchestration import demo_workspace
    from orchestration.template import template as care_yaml

    quoted = shlex.quote(str(folder))
    if (folder / "care.yaml").exists():
        add = f"; `care testsets add --from {scores} --workspace {quoted}` adds a test set to it" if scores else ""
        raise InputError(f"{folder / 'care.yaml'} exists already{add or '; choose another folder'}")
    if scores is not None and template is not None:
        raise InputError("--from and --template cannot be combined; leave out one of them")
    if scores is not None:
        testset_of(folder, scores, items, judges, system or (), scale or (), form, None)
        _folders(folder)
        (folder / "care.yaml").write_text(_RECORDED_YAML, encoding="utf-8")
        console.print(f"Next: care run --workspace {quoted}")
        return
    tables.refuse_given(ONLY_FROM, form, items=items, judges=judges, system=system, scale=scale)
    _folders(folder)
    following = f"add test sets to {folder / 'testsets'} (care testsets add), and judges (care judges new)"
    if template != "empty":
        for file, text in demo_workspace.judge_files().items():
            (folder / "judges" / file).write_text(text, encoding="utf-8")
        for name, text in demo_workspace.testset_files().items():
            (folder / "testsets" / f"{name}.yaml").write_text(text, encoding="utf-8")
        following = f"care run --workspace {quoted}"
    (folder / "care.yaml").write_text(care_yaml(), encoding="utf-8")
    console.print(f"created {folder}; next: {following}")


def _folders(folder: Path) -> None:
    for name in ("judges", "testsets"):
        (folder / name).mkdir(parents=True, exist_ok=True)


def testset_of(
    folder: Path,
    scores: Path,
    items: Path | None,
    judges: Path | None,
    system: Sequence[str],
    scale: Sequence[str],
    form: tables.Form,
    name: str | None,
) -> None:
    """Write the YAML file of a test set whose scores are recorded in a table."""
    from assets.table.as_testset import testset_name, testset_yaml

    name, of_scales = testset_name(scores, name), tables.declared_scales(scale)
    file = folder / "testsets" / f"{name}.yaml"
    if file.exists():
        raise InputError(f"{file} exists already; delete it, or give the new test set another name")
    table = tables.read_table(tables.TableInputs(scores, items, judges, None, *of_scales), form)
    file.parent.mkdir(parents=True, exist_ok=True)
    written = testset_yaml(folder, name, table, scores, items, of_scales, system, form.columns, form.reading)
    file.write_text(written, encoding="utf-8")
    m, p = table.scores.shape
    console.print(f"wrote {file}: test set {name}, {m} items, {p} judges with recorded scores, which `care run` reads.")
    if not table.scores.families:
        console.print(f"Which judges share a base model? Name the families under `source.scores.families` in {file}.")
