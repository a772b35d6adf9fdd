"""``care init`` makes a workspace, also from a table of scores; ``care admin schema`` says what its files may hold."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestration.cli import tables
from orchestration.cli.output import console

_ENDPOINTS_YAML = """\
description: >-
  Simulated questions and answers to try the endpoints on; `care run --dry-run` says what that costs. Replace them by
  items of your own.
source:
  kind: demo
scale: [0, 10]
prompt: answer_rating
"""


From = Annotated[
    Path | None,
    typer.Option("--from", help="Table of scores that exist: its judges are recorded, nobody is asked."),
]


@tables.with_form
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to make the workspace in.")],
    template: Annotated[
        Literal["demo", "endpoints", "empty"],
        typer.Option(
            help="demo: programs judge simulated answers; endpoints: models of three vendors do; empty: none."
        ),
    ] = "demo",
    scores: From = None,
    items: Annotated[Path | None, typer.Option(help="With --from: the items' texts, gold, split_unit, system.")] = None,
    judges: tables.Judges = None,
    system: tables.System = None,
    scale: tables.Scale = None,
    *,
    form: tables.Form,
) -> None:
    """Make a workspace: care.yaml, judges and a test set, simulated; or from a table of scores that you have."""
    from care_ops.errors import InputError
    from judges.panels import find, judge_files
    from orchestration import story
    from orchestration.template import template as care_yaml

    if (folder / "care.yaml").exists():
        raise InputError(f"{folder / 'care.yaml'}: there is a workspace already; delete it or choose another folder")
    if scores is not None:
        _from_table(folder, scores, items, judges, system or (), scale or (), form)
        return
    _folders(folder)
    if template == "demo":
        testsets, judging = story.testset_files(), story.judge_files()
    elif template == "empty":
        testsets, judging = dict[str, str](), dict[str, str]()
    else:
        testsets = {"demo": _ENDPOINTS_YAML}
        judging = {f"{name}.yaml": text for name, text in judge_files(find(template)).items()}
    for file, text in judging.items():
        (folder / "judges" / file).write_text(text, encoding="utf-8")
    for name, text in testsets.items():
        (folder / "testsets" / f"{name}.yaml").write_text(text, encoding="utf-8")
    (folder / "care.yaml").write_text(care_yaml(), encoding="utf-8")
    following = {
        "demo": f"care run --workspace {folder}",
        "endpoints": "set the keys that judges/*.yaml name, check the models there; then "
        f"care doctor --workspace {folder} and care run --dry-run --workspace {folder}",
        "empty": f"test sets into {folder / 'testsets'} (care testsets add), and judges (care judges new)",
    }
    console.print(f"made {folder}; next: {following[template]}")


def _folders(folder: Path) -> None:
    for name in ("judges", "testsets"):
        (folder / name).mkdir(parents=True, exist_ok=True)


def _from_table(
    folder: Path,
    scores: Path,
    items: Path | None,
    judges: Path | None,
    system: Sequence[str],
    scale: Sequence[str],
    form: tables.Form,
) -> None:
    """A workspace of one test set, whose judges are the columns of a table."""
    from assets.table.as_testset import Declared, care_yaml, testset_name, testset_yaml
    from care_ops.admission import means_not_asked
    from care_ops.config import AdmissionRule

    name, of_scales = testset_name(scores), tables.declared_scales(scale)
    table = tables.read_table(scores, items, judges, None, form, of_scales)
    _folders(folder)
    not_asked = means_not_asked(AdmissionRule(), table.scores.values)
    declared = Declared(*of_scales, system, form.columns, form.reading)
    written = testset_yaml(folder, table, scores, items, declared)
    (folder / "testsets" / f"{name}.yaml").write_text(written, encoding="utf-8")
    (folder / "care.yaml").write_text(care_yaml(name, not_asked=not_asked), encoding="utf-8")
    m, p = table.scores.shape
    told = f"made {folder}: test set {name}, {m} items, {p} recorded judges; nobody will be asked. "
    if not table.scores.families:
        file = folder / "testsets" / f"{name}.yaml"
        told += f"Which judges share a base model? Say it in the block `families` at the end of {file}. "
    console.print(f"{told}Next: care run --workspace {folder}")


def schema(
    file: Annotated[
        Literal["care", "judge", "testset"], typer.Argument(help="care.yaml, a judge's file or a test set's.")
    ] = "care",
) -> None:
    """Print the JSON schema of a workspace's file, by which an editor completes and checks it."""
    from judges.spec import JudgeSpec
    from orchestration.template import schema as schema_of_care_yaml
    from warehouse.testsets import TestsetSpec

    kinds = {"judge": JudgeSpec.model_json_schema, "testset": TestsetSpec.model_json_schema}
    sys.stdout.write(json.dumps(kinds.get(file, schema_of_care_yaml)(), indent=1) + "\n")
